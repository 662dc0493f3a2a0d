//! Reads and writes the ConfigMap.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Client;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::cluster::client::await_answer;
use crate::cluster::owner_references;
use crate::cluster::owner_references::Owner;
use crate::cluster::reading::{CONFIG_MAPS, Item, KindApi};
use crate::cluster::slim_objects::slim_metadata;
use crate::cluster::state::document::{MullionState, NAME, StoredPolicies};

/// How often an update is repeated because another client wrote first.
const ATTEMPTS: usize = 5;

/// The ConfigMap as it is read.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StateMap {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    data: Option<BTreeMap<String, String>>,
}

/// The ConfigMap of one namespace. Requires `get` and `patch` on it, and `create` on configmaps of the namespace.
#[derive(Debug, Clone)]
pub(crate) struct StateStore {
    api: KindApi,
    namespace: String,
    owner: Owner,
}

impl StateStore {
    /// The store of the ConfigMap in `namespace`. If this store creates the ConfigMap, it has no owner.
    pub(crate) fn new(client: Client, namespace: &str) -> Self {
        let owner = Owner::none();
        Self { api: KindApi::namespaced(client, &CONFIG_MAPS, namespace), namespace: namespace.to_owned(), owner }
    }

    /// The same store; if it creates the ConfigMap, it sets `owner`.
    #[must_use]
    pub(crate) fn owned_by(self, owner: Owner) -> Self {
        Self { owner, ..self }
    }

    /// The stored state; empty if there is no ConfigMap.
    pub(crate) async fn load(&self) -> anyhow::Result<MullionState> {
        Ok(self.get().await?.map_or_else(MullionState::default, |map| state_of(&map)))
    }

    /// The stored state as that of the owner: see [`MullionState::belong_to`]. Does not create a ConfigMap.
    pub(crate) async fn claim(&self) -> anyhow::Result<MullionState> {
        let standing = self.load().await?;
        if !standing.found {
            return Ok(standing);
        }
        let ours = await_answer(self.owner.reference()).await.context("cannot read which service account this is")?;
        match ours {
            Some(ours) if standing.service_account.as_deref() != Some(&ours.uid) => {
                self.write(Some(&ours), |state| state.belong_to(&ours.uid)).await
            }
            _ => Ok(standing),
        }
    }

    /// Writes the newest state after `change`, which runs again if another client wrote meanwhile, and returns the
    /// stored state. Sends no request besides the read if nothing changes. The error describes what failed, and
    /// contains the [`kube::Error`].
    pub(crate) async fn update(&self, change: impl FnMut(&mut MullionState)) -> anyhow::Result<MullionState> {
        self.write(None, change).await
    }

    /// If `ours` is set, the state becomes that of the owner.
    async fn write(
        &self,
        ours: Option<&OwnerReference>,
        mut change: impl FnMut(&mut MullionState),
    ) -> anyhow::Result<MullionState> {
        for _ in 0..ATTEMPTS {
            let standing = self.get().await?;
            let before = standing.as_ref().map_or_else(MullionState::default, state_of);
            let mut state = before.clone();
            change(&mut state);
            if state == before && standing.is_some() {
                return Ok(state);
            }
            let written = match &standing {
                Some(map) => self.patch(map, ours, &difference(&before.data(), &state.data())).await,
                None => self.create(&mut state).await,
            };
            match written {
                Ok(_) => {
                    state.found = true;
                    return Ok(state);
                }
                // Changed, created or deleted meanwhile.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                    if status.code == 404 && standing.is_none() {
                        bail!("namespace {} does not exist: {status}", self.namespace);
                    }
                }
                Err(error) => return Err(error).with_context(|| format!("cannot write {}", self.what())),
            }
        }
        bail!("cannot write {}: others wrote it first, {ATTEMPTS} times", self.what())
    }

    /// The ConfigMap itself, for an Event about it; `None` if there is none.
    pub(crate) async fn reference(&self) -> anyhow::Result<Option<ObjectReference>> {
        Ok(self.get().await?.map(|map| CONFIG_MAPS.reference(&map.metadata)))
    }

    fn what(&self) -> String {
        format!("ConfigMap {}/{NAME}", self.namespace)
    }

    async fn get(&self) -> anyhow::Result<Option<StateMap>> {
        let failed = || format!("cannot read {}", self.what());
        let map = await_answer(self.api.get(NAME)).await.with_context(failed)?;
        map.transpose().with_context(failed)
    }

    async fn create(&self, state: &mut MullionState) -> kube::Result<Item<IgnoredAny>> {
        let metadata = await_answer(self.owner.metadata(NAME)).await?;
        // A new ConfigMap is not one of an earlier release.
        state.own_taints.get_or_insert_default();
        state.service_account = metadata.owner_references.iter().flatten().map(|owner| owner.uid.clone()).next();
        let map = ConfigMap { metadata, data: Some(state.data()), ..ConfigMap::default() };
        await_answer(self.api.create(&map)).await
    }

    async fn patch(
        &self,
        standing: &StateMap,
        ours: Option<&OwnerReference>,
        data: &Value,
    ) -> kube::Result<Item<IgnoredAny>> {
        let references = standing.metadata.owner_references.as_deref().unwrap_or_default();
        let owners = ours.and_then(|ours| owner_references::with_reference(references, ours));
        owner_references::write_with_owners(&self.what(), owners, |owners| {
            let mut body =
                json!({ "metadata": { "resourceVersion": standing.metadata.resource_version }, "data": data });
            if let (Some(owners), Some(metadata)) = (owners, body.get_mut("metadata").and_then(Value::as_object_mut)) {
                metadata.insert("ownerReferences".to_owned(), json!(owners));
            }
            async move { await_answer(self.api.merge_patch(NAME, &body)).await }
        })
        .await
    }
}

/// The last good policy files, and those of the release before, for a program that reads invalid files at its start;
/// an error after 10 s without a response.
pub(crate) async fn last_good(client: Client, namespace: &str) -> anyhow::Result<Vec<StoredPolicies>> {
    let found = StateStore::new(client, namespace).get().await?;
    let (state, problems) = found.as_ref().map(understood).unwrap_or_default();
    complain(namespace, &problems);
    Ok([state.policies, state.earlier_policies].into_iter().filter(|stored| !stored.files.is_empty()).collect())
}

/// The state in a ConfigMap that a command has read. The error is that its policy files cannot be parsed; other keys
/// that cannot be parsed are left out.
pub(crate) fn parse_state(map: Value) -> Result<MullionState, String> {
    let map: StateMap = serde_json::from_value(map).map_err(|error| error.to_string())?;
    let data = map.data.unwrap_or_default();
    MullionState::policy_files(&data)?;
    Ok(MullionState::parse(&data).0)
}

/// The state in the ConfigMap, and the keys that cannot be read.
pub(crate) fn understood(map: &StateMap) -> (MullionState, Vec<String>) {
    MullionState::parse(map.data.as_ref().unwrap_or(&BTreeMap::new()))
}

fn state_of(map: &StateMap) -> MullionState {
    understood(map).0
}

/// Logs the keys that cannot be read; the next write of a key replaces its value.
pub(crate) fn complain(namespace: &str, problems: &[String]) {
    for problem in problems {
        tracing::warn!(
            problem,
            "ConfigMap {NAME} has a key that cannot be read and is ignored; correct it with kubectl edit configmap {NAME} -n {namespace}"
        );
    }
}

/// The members of a merge patch from one to the other. Keys that this version of Mullion does not know stay, and so
/// does the text of a key with an unchanged meaning.
fn difference(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Value {
    let mut changes = serde_json::Map::new();
    for (key, text) in after {
        if before.get(key) != Some(text) {
            changes.insert(key.clone(), json!(text));
        }
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        changes.insert(key.clone(), Value::Null);
    }
    Value::Object(changes)
}

#[cfg(test)]
mod tests;
