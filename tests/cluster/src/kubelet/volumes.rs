//! A pod's volumes: their files, and updates of them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, Secret, ServiceAccount, ServiceAccountTokenProjection, Volume,
    VolumeProjection,
};
use kube::api::PostParams;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::environment::{Addresses, value_of};
use crate::mount::ConfigMapMount;

/// The mode of files that a kubelet sets by default.
const DEFAULT_MODE: i32 = 0o644;

/// File names and bytes.
type Files = BTreeMap<String, Vec<u8>>;

/// The name of a ConfigMap or Secret, its keys to use (all if none are listed), and whether it may be missing.
type Source<'a> = (&'a str, Option<&'a [KeyToPath]>, Option<bool>);

/// The volumes of one pod on this machine.
pub(super) struct Volumes {
    client: Client,
    folder: PathBuf,
    addresses: Addresses,
    mounted: BTreeMap<String, Mounted>,
    /// Tokens by audience: one for the lifetime of the pod, because a token is valid for at least an hour.
    tokens: BTreeMap<String, String>,
}

#[derive(Debug)]
enum Mounted {
    /// `emptyDir`.
    Scratch(PathBuf),
    /// Any other volume, with its content.
    Files(ConfigMapMount, Files),
}

impl Volumes {
    /// The volumes of a pod, below this folder.
    pub(super) fn new(client: Client, folder: &Path, addresses: Addresses) -> Self {
        let (folder, mounted, tokens) = (folder.join("volumes"), BTreeMap::new(), BTreeMap::new());
        Self { client, folder, addresses, mounted, tokens }
    }

    /// Writes missing files, and updates changed ones.
    pub(super) async fn refresh(&mut self, pod: &Pod) -> Result<()> {
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        for volume in volumes {
            self.bring(pod, volume).await.with_context(|| format!("volume {:?}", volume.name))?;
        }
        Ok(())
    }

    /// The path of a volume, and whether containers can only read it.
    pub(super) fn source(&self, volume: &str) -> Result<(&Path, bool)> {
        match self.mounted.get(volume).with_context(|| format!("no volume {volume:?}"))? {
            Mounted::Scratch(path) => Ok((path, false)),
            Mounted::Files(mount, _) => Ok((mount.path(), true)),
        }
    }

    async fn bring(&mut self, pod: &Pod, volume: &Volume) -> Result<()> {
        if volume.empty_dir.is_some() {
            let path = self.folder.join(&volume.name);
            fs::create_dir_all(&path)?;
            self.mounted.insert(volume.name.clone(), Mounted::Scratch(path));
            return Ok(());
        }
        let (files, mode) = self.read(pod, volume).await?;
        let mount = match self.mounted.remove(&volume.name) {
            Some(Mounted::Files(mount, held)) if held == files => Mounted::Files(mount, held),
            Some(Mounted::Files(mount, _)) => publish(mount, files, readable(pod, mode))?,
            _ => {
                fs::create_dir_all(&self.folder)?;
                let directory = tempfile::Builder::new().prefix(&volume.name).tempdir_in(&self.folder)?;
                fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
                publish(ConfigMapMount::empty(directory), files, readable(pod, mode))?
            }
        };
        self.mounted.insert(volume.name.clone(), mount);
        Ok(())
    }

    async fn read(&mut self, pod: &Pod, volume: &Volume) -> Result<(Files, i32)> {
        if let Some(source) = &volume.config_map {
            let files = self.config_map(pod, (&source.name, source.items.as_deref(), source.optional)).await?;
            Ok((files, source.default_mode.unwrap_or(DEFAULT_MODE)))
        } else if let Some(source) = &volume.secret {
            let name = source.secret_name.as_deref().unwrap_or_default();
            let files = self.secret(pod, (name, source.items.as_deref(), source.optional)).await?;
            Ok((files, source.default_mode.unwrap_or(DEFAULT_MODE)))
        } else if let Some(source) = &volume.projected {
            let mut files = Files::new();
            for part in source.sources.iter().flatten() {
                files.extend(self.projected(pod, part).await?);
            }
            Ok((files, source.default_mode.unwrap_or(DEFAULT_MODE)))
        } else if let Some(source) = &volume.downward_api {
            let files = self.downward(pod, source.items.as_deref().unwrap_or_default())?;
            Ok((files, source.default_mode.unwrap_or(DEFAULT_MODE)))
        } else {
            bail!("only emptyDir, configMap, secret, projected and downwardAPI are simulated");
        }
    }

    async fn projected(&mut self, pod: &Pod, part: &VolumeProjection) -> Result<Files> {
        if let Some(source) = &part.config_map {
            self.config_map(pod, (&source.name, source.items.as_deref(), source.optional)).await
        } else if let Some(source) = &part.secret {
            self.secret(pod, (&source.name, source.items.as_deref(), source.optional)).await
        } else if let Some(source) = &part.downward_api {
            self.downward(pod, source.items.as_deref().unwrap_or_default())
        } else if let Some(source) = &part.service_account_token {
            Ok(Files::from([(source.path.clone(), self.token(pod, source).await?.into_bytes())]))
        } else {
            bail!("only configMap, secret, downwardAPI and serviceAccountToken are simulated in a projected volume");
        }
    }

    async fn config_map(&self, pod: &Pod, source: Source<'_>) -> Result<Files> {
        self.keys("configmap", pod, source, |found: ConfigMap| {
            let texts = found.data.into_iter().flatten().map(|(key, text)| (key, text.into_bytes()));
            texts.chain(found.binary_data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0))).collect()
        })
        .await
    }

    async fn secret(&self, pod: &Pod, source: Source<'_>) -> Result<Files> {
        self.keys("secret", pod, source, |found: Secret| {
            found.data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0)).collect()
        })
        .await
    }

    async fn keys<K>(&self, kind: &str, pod: &Pod, source: Source<'_>, all: impl FnOnce(K) -> Files) -> Result<Files>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let (name, items, optional) = source;
        let api: Api<K> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        match api.get_opt(name).await? {
            Some(found) => chosen(all(found), items, optional),
            None => missing(&format!("{kind} {name:?}"), optional),
        }
    }

    fn downward(&self, pod: &Pod, items: &[DownwardAPIVolumeFile]) -> Result<Files> {
        let file = |item: &DownwardAPIVolumeFile| {
            let field = item.field_ref.as_ref().context("only fieldRef is simulated in a downwardAPI volume")?;
            Ok((item.path.clone(), value_of(pod, &field.field_path, self.addresses)?.into_bytes()))
        };
        items.iter().map(file).collect()
    }

    async fn token(&mut self, pod: &Pod, source: &ServiceAccountTokenProjection) -> Result<String> {
        let audience = source.audience.clone().unwrap_or_default();
        if let Some(token) = self.tokens.get(&audience) {
            return Ok(token.clone());
        }
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref()).unwrap_or("default");
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(Vec::from_iter((!audience.is_empty()).then(|| audience.clone()))),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: Some(pod.name_any()),
                    uid: pod.uid(),
                }),
                expiration_seconds: source.expiration_seconds,
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let made = api.create_token_request(account, &PostParams::default(), &request).await?;
        let token = made.status.and_then(|status| status.token).context("a token request without an answer")?;
        self.tokens.insert(audience, token.clone());
        Ok(token)
    }
}

fn missing(what: &str, optional: Option<bool>) -> Result<Files> {
    if optional == Some(true) { Ok(Files::new()) } else { bail!("{what} not found") }
}

/// The keys in the volume's list, under its names; all keys if the list is empty.
fn chosen(mut held: Files, items: Option<&[KeyToPath]>, optional: Option<bool>) -> Result<Files> {
    let Some(items) = items else { return Ok(held) };
    let mut files = Files::new();
    for item in items {
        match held.remove(&item.key) {
            Some(bytes) => drop(files.insert(item.path.clone(), bytes)),
            None if optional == Some(true) => {}
            None => bail!("references non-existent config key: {}", item.key),
        }
    }
    Ok(files)
}

/// Whether the container's user could read files of a volume. On a node they belong to root, and to the pod's
/// `fsGroup`, which may always read; here they belong to the only user.
fn readable(pod: &Pod, mode: i32) -> bool {
    let security = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    mode & 0o004 != 0 || security.is_some_and(|security| security.fs_group.is_some())
}

fn publish(mut mount: ConfigMapMount, files: Files, readable: bool) -> Result<Mounted> {
    let list: Vec<_> = files.iter().map(|(name, bytes)| (name.as_str(), bytes)).collect();
    if let Some((name, _)) = list.iter().find(|(name, _)| name.contains('/')) {
        bail!("{name}: files in folders of a volume are not simulated");
    }
    mount.publish(&list)?;
    if !readable {
        for name in files.keys() {
            fs::set_permissions(mount.path().join(name), fs::Permissions::from_mode(0o000))?;
        }
    }
    Ok(Mounted::Files(mount, files))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_chosen_and_renamed() {
        let held = || Files::from([("a".to_owned(), b"1".to_vec()), ("b".to_owned(), b"2".to_vec())]);
        let item = |key: &str| KeyToPath { key: key.to_owned(), path: "c".to_owned(), ..KeyToPath::default() };
        assert_eq!(chosen(held(), None, None).unwrap(), held());
        assert_eq!(chosen(held(), Some(&[item("b")]), None).unwrap(), Files::from([("c".to_owned(), b"2".to_vec())]));
        assert!(chosen(held(), Some(&[item("x")]), None).is_err());
        assert!(chosen(held(), Some(&[item("x")]), Some(true)).unwrap().is_empty());
    }

    #[test]
    fn files_for_root_alone_are_not_readable() {
        let pod = |security| -> Pod {
            serde_json::from_value(json!({"spec": {"containers": [], "securityContext": security}})).unwrap()
        };
        assert!(readable(&pod(json!({})), 0o644));
        assert!(!readable(&pod(json!({})), 0o400));
        assert!(readable(&pod(json!({"fsGroup": 65532})), 0o400));
    }
}
