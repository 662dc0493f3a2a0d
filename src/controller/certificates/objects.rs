//! The four objects that contain certificates: reads them, and writes to them on top of what was read.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::ObjectMeta;
use kube::{Client, Error, Result};
use mullion_engine::admission::Endpoint;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::cluster::reading::{KindApi, SECRETS, describe};
use crate::cluster::{Owner, SlimSecret, await_answer, delete_params};
use crate::controller::certificates::plan::SecretContent;
use crate::controller::webhook_configuration::{CONFIGURATION, ENDPOINTS, WebhookConfiguration, configuration_kind};
use crate::telemetry::in_words;
use crate::value_hash::hash_of;

/// The Secret with the CA.
pub(crate) const CA_SECRET: &str = "mullion-ca";
/// The Secret that the webhooks follow.
pub(crate) const TLS_SECRET: &str = "mullion-tls";

/// The type that a Secret must have.
fn type_of(name: &str) -> &'static str {
    if name == TLS_SECRET { "kubernetes.io/tls" } else { "Opaque" }
}

/// Annotations that request that another tool sets `caBundle`: cert-manager's cainjector (`pkg/cainjector` there) and
/// OpenShift's service CA. Two tools that set it would undo each other's writes forever.
const INJECTORS: [&str; 5] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
    "service.beta.openshift.io/inject-cabundle",
    "service.alpha.openshift.io/inject-cabundle",
];

/// A Secret as read.
pub(crate) struct StoredSecret {
    pub(crate) content: SecretContent,
    metadata: ObjectMeta,
    immutable: bool,
}

/// A webhook configuration as read.
pub(crate) struct StoredConfiguration {
    pub(crate) endpoint: Endpoint,
    resource_version: Option<String>,
    webhooks: Vec<String>,
    /// The annotation that requests that another tool sets the bundles.
    pub(crate) injector: Option<&'static str>,
}

impl StoredConfiguration {
    pub(crate) fn reference(&self) -> ObjectReference {
        let metadata = ObjectMeta { name: Some(CONFIGURATION.to_owned()), ..ObjectMeta::default() };
        configuration_kind(self.endpoint).reference(&metadata)
    }
}

/// The four objects as read, as far as they exist.
pub(crate) struct StoredObjects {
    pub(crate) ca: Option<StoredSecret>,
    pub(crate) tls: Option<StoredSecret>,
    pub(crate) configurations: Vec<StoredConfiguration>,
    /// The bundles of the webhooks of each configuration.
    pub(crate) bundles: Vec<Vec<Vec<u8>>>,
    /// Why a configuration could not be read.
    pub(crate) problem: Option<String>,
}

impl StoredObjects {
    /// A hash that changes when the CA or a bundle changes.
    pub(crate) fn trust_hash(&self) -> u64 {
        hash_of(&(self.ca.as_ref().map(|ca| &ca.content), &self.bundles))
    }

    /// A hash that changes when the pair changes.
    pub(crate) fn pair_hash(&self) -> u64 {
        hash_of(&self.tls.as_ref().map(|tls| &tls.content))
    }
}

/// Reads and writes the objects.
#[derive(Clone)]
pub(crate) struct CertificateStore {
    client: Client,
    namespace: String,
    /// The owner of the Secrets.
    owner: Owner,
}

impl CertificateStore {
    pub(crate) fn new(client: Client, namespace: &str, owner: Owner) -> Self {
        Self { client, namespace: namespace.to_owned(), owner }
    }

    /// A reference to a Secret.
    pub(crate) fn reference(&self, secret: &str) -> ObjectReference {
        let (name, namespace) = (Some(secret.to_owned()), Some(self.namespace.clone()));
        SECRETS.reference(&ObjectMeta { name, namespace, ..ObjectMeta::default() })
    }

    /// Reads all four. An error names the Secret that cannot be read.
    pub(crate) async fn read_objects(&self) -> Result<StoredObjects, String> {
        let secret = async |name: &str| {
            let stored = await_answer(self.secret(name)).await;
            stored.map_err(|error| format!("cannot read {}: {}", describe(&self.reference(name)), in_words(&error)))
        };
        let (ca, tls) = (secret(CA_SECRET).await?, secret(TLS_SECRET).await?);
        let mut all = StoredObjects { ca, tls, configurations: Vec::new(), bundles: Vec::new(), problem: None };
        for endpoint in ENDPOINTS {
            match await_answer(self.configuration(endpoint)).await {
                Ok(Some((configuration, bundles))) => {
                    // What another tool sets is independent of Mullion's CA.
                    let bundles = if configuration.injector.is_some() { Vec::new() } else { bundles };
                    all.configurations.push(configuration);
                    all.bundles.push(bundles);
                }
                Ok(None) => {}
                Err(error) => {
                    let kind = configuration_kind(endpoint).name;
                    all.problem = Some(format!("cannot read {kind} {CONFIGURATION}: {}", in_words(&error)));
                }
            }
        }
        Ok(all)
    }

    fn secrets(&self) -> KindApi {
        KindApi::namespaced(self.client.clone(), &SECRETS, &self.namespace)
    }

    async fn secret(&self, name: &str) -> Result<Option<StoredSecret>> {
        let Some(secret) = self.secrets().get::<SlimSecret>(name).await? else { return Ok(None) };
        let secret = secret.map_err(|unreadable| Error::Service(unreadable.into()))?;
        let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect();
        let content = SecretContent { data, right_type: secret.r#type.as_deref() == Some(type_of(name)) };
        Ok(Some(StoredSecret { content, metadata: secret.metadata, immutable: secret.immutable == Some(true) }))
    }

    fn configurations(&self, endpoint: Endpoint) -> KindApi {
        KindApi::all(self.client.clone(), configuration_kind(endpoint))
    }

    async fn configuration(&self, endpoint: Endpoint) -> Result<Option<(StoredConfiguration, Vec<Vec<u8>>)>> {
        let Some(found) = self.configurations(endpoint).get(CONFIGURATION).await? else { return Ok(None) };
        let WebhookConfiguration { metadata, webhooks } =
            found.map_err(|unreadable| Error::Service(unreadable.into()))?;
        let webhooks = webhooks.into_iter().map(|one| (one.name, one.client_config.ca_bundle.unwrap_or_default().0));
        let (webhooks, bundles) = webhooks.unzip();
        let ObjectMeta { annotations, resource_version, .. } = metadata;
        let annotations = annotations.unwrap_or_default();
        let injector = INJECTORS.into_iter().find(|annotation| annotations.contains_key(*annotation));
        Ok(Some((StoredConfiguration { endpoint, resource_version, webhooks, injector }, bundles)))
    }

    /// Writes a Secret over what was read. Keys with `None` are removed; other keys stay.
    pub(crate) async fn write_secret(
        &self,
        name: &str,
        stored: Option<&StoredSecret>,
        data: BTreeMap<&'static str, Option<String>>,
    ) -> Result<()> {
        let data: BTreeMap<_, _> =
            data.into_iter().map(|(key, text)| (key, text.map(|text| ByteString(text.into_bytes())))).collect();
        let secrets = self.secrets();
        await_answer(async {
            let written = match stored {
                Some(stored) if stored.content.right_type && !stored.immutable => {
                    let version = &stored.metadata.resource_version;
                    let body = json!({ "metadata": { "resourceVersion": version }, "data": data });
                    secrets.merge_patch::<IgnoredAny>(name, &body).await
                }
                stored => {
                    if let Some(StoredSecret { metadata, .. }) = stored {
                        secrets.delete(name, &delete_params(metadata)).await?;
                    }
                    let metadata = self.owner.metadata(name).await?;
                    let data: BTreeMap<_, _> = data.into_iter().filter(|(_, value)| value.is_some()).collect();
                    let body = json!({ "metadata": metadata, "type": type_of(name), "data": data });
                    secrets.create(&body).await
                }
            };
            written.map(drop)
        })
        .await
    }

    /// Sets the owner of a Secret, and returns whether that changed it.
    pub(crate) async fn adopt(&self, name: &str, stored: &StoredSecret) -> Result<bool> {
        await_answer(async {
            let metadata = &stored.metadata;
            let owners = self.owner.corrected(metadata.owner_references.as_deref().unwrap_or_default()).await?;
            let Some(owners) = owners else { return Ok(false) };
            let body =
                json!({ "metadata": { "resourceVersion": metadata.resource_version, "ownerReferences": owners } });
            self.secrets().merge_patch::<IgnoredAny>(name, &body).await?.ok();
            Ok(true)
        })
        .await
    }

    /// Writes the bundle into every webhook of a configuration; everything else in it stays unchanged.
    pub(crate) async fn write_bundle(&self, configuration: &StoredConfiguration, bundle: &str) -> Result<()> {
        let bundle = ByteString(bundle.as_bytes().to_vec());
        // Lists of webhooks are merged by name (`patchMergeKey` in k8s.io/api admissionregistration/v1).
        let webhooks: Vec<_> = configuration
            .webhooks
            .iter()
            .map(|name| json!({ "name": name, "clientConfig": { "caBundle": bundle } }))
            .collect();
        let version = &configuration.resource_version;
        let body = json!({ "metadata": { "resourceVersion": version }, "webhooks": webhooks });
        let api = self.configurations(configuration.endpoint);
        await_answer(api.strategic_patch::<IgnoredAny>(CONFIGURATION, &body)).await.map(drop)
    }
}
