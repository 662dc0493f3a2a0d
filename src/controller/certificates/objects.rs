//! The four objects: reading them, and writing into them what was planned, on top of what was read.
//!
//! Answers that hold a Secret are taken as text: kube logs the text of an answer that it cannot make an object of.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, GetParams, ObjectMeta, Patch, Preconditions};
use kube::core::Request;
use kube::{Api, Client, Resource};
use mullion_snapshot::objects::MANAGED_BY;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::timeout;

use crate::cluster::owner_references::Owner;
use crate::cluster::watch::CALL;
use crate::cluster::write_params::{patch_params, post_params};
use crate::controller::certificates::plan::Content;
use crate::controller::certificates::{CA_SECRET, TLS_SECRET};
use crate::controller::metrics::Outcome;
use crate::controller::names::CONFIGURATION;
use crate::telemetry::error_text::status_text;
use crate::value_hash::hash_of;

/// The types that the Secrets have.
const CA_TYPE: &str = "Opaque";
const TLS_TYPE: &str = "kubernetes.io/tls";

/// Annotations by which other tools are told to fill in `caBundle`: cert-manager's cainjector (`pkg/cainjector` there)
/// and OpenShift's service CA. Two who fill it in would undo each other's work for ever.
const INJECTORS: [&str; 5] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
    "service.beta.openshift.io/inject-cabundle",
    "service.alpha.openshift.io/inject-cabundle",
];

/// Why a call brought nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("{}", status_text(.0))]
    Refused(Box<kube::core::Status>),
    #[error("{0}")]
    Broken(String),
    #[error("no answer within {} s", CALL.as_secs())]
    Late,
}

impl From<kube::Error> for CallError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            other => Self::Broken(other.to_string()),
        }
    }
}

impl CallError {
    /// For the metric.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Refused(status) if status.code == 409 => Outcome::Conflict,
            Self::Refused(status) if status.code == 404 => Outcome::Gone,
            _ => Outcome::Failed,
        }
    }
}

/// A Secret as it stands.
pub(crate) struct Stored {
    pub(crate) content: Content,
    metadata: ObjectMeta,
    immutable: bool,
}

/// Which of the two configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Mutating,
    Validating,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
        };
        write!(f, "{kind} {CONFIGURATION}")
    }
}

/// A configuration as it stands.
pub(crate) struct Configuration {
    pub(crate) which: Which,
    resource_version: Option<String>,
    webhooks: Vec<String>,
    /// The annotation by which another tool fills in the bundles.
    pub(crate) injector: Option<&'static str>,
}

/// Everything that is read at once.
pub(crate) struct Found {
    pub(crate) ca: Option<Stored>,
    pub(crate) tls: Option<Stored>,
    /// Those that exist.
    pub(crate) configurations: Vec<Configuration>,
    /// Of each configuration, those of its webhooks.
    pub(crate) bundles: Vec<Vec<Vec<u8>>>,
    /// Why a configuration could not be read.
    pub(crate) problem: Option<String>,
}

impl Found {
    /// Changes when the CA or a bundle does.
    pub(crate) fn trust(&self) -> u64 {
        hash_of(&(self.ca.as_ref().map(|ca| &ca.content), &self.bundles))
    }

    /// Changes when the pair does.
    pub(crate) fn pair(&self) -> u64 {
        hash_of(&self.tls.as_ref().map(|tls| &tls.content))
    }
}

/// The objects of one Mullion.
#[derive(Clone)]
pub(crate) struct Objects {
    client: Client,
    pub(crate) namespace: String,
    owner: Owner,
}

impl Objects {
    /// The Secrets are `owner`'s.
    pub(crate) fn new(client: Client, namespace: &str, owner: Owner) -> Self {
        Self { client, namespace: namespace.to_owned(), owner }
    }

    /// Reads all four. An error names the Secret that cannot be read.
    pub(crate) async fn read(&self) -> Result<Found, String> {
        let named = |what: &str, error: CallError| format!("cannot read {what}: {error}");
        let secret = async |name: &str, r#type: &str| {
            let found = within(self.secret(name, r#type)).await;
            found.map_err(|error| named(&format!("Secret {}/{name}", self.namespace), error))
        };
        let (ca, tls) = (secret(CA_SECRET, CA_TYPE).await?, secret(TLS_SECRET, TLS_TYPE).await?);
        let mut all = Found { ca, tls, configurations: Vec::new(), bundles: Vec::new(), problem: None };
        for which in [Which::Mutating, Which::Validating] {
            match within(self.configuration(which)).await {
                Ok(Some((configuration, found))) => {
                    // What another tool fills in says nothing about our CA.
                    let filled = if configuration.injector.is_some() { Vec::new() } else { found };
                    all.configurations.push(configuration);
                    all.bundles.push(filled);
                }
                Ok(None) => {}
                Err(error) => all.problem = Some(named(&which.to_string(), error)),
            }
        }
        Ok(all)
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn request(&self) -> Request {
        Request::new(self.secrets().resource_url())
    }

    async fn secret(&self, name: &str, r#type: &str) -> Result<Option<Stored>, CallError> {
        let request = self.request().get(name, &GetParams::default()).map_err(broken)?;
        let text = match self.client.request_text(request).await {
            Ok(text) => text,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // The position is all that may be said of it.
        let secret: Secret = serde_json::from_str(&text)
            .map_err(|error| CallError::Broken(format!("not a Secret, at column {}", error.column())))?;
        let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect();
        let content = Content { data, right_type: secret.type_.as_deref() == Some(r#type) };
        Ok(Some(Stored { content, metadata: secret.metadata, immutable: secret.immutable == Some(true) }))
    }

    async fn configuration(&self, which: Which) -> Result<Option<(Configuration, Vec<Vec<u8>>)>, CallError> {
        let read = |metadata: ObjectMeta, webhooks: Vec<(String, WebhookClientConfig)>| {
            let annotations = metadata.annotations.unwrap_or_default();
            let injector = INJECTORS.into_iter().find(|annotation| annotations.contains_key(*annotation));
            let (names, bundles) =
                webhooks.into_iter().map(|(name, config)| (name, config.ca_bundle.unwrap_or_default().0)).unzip();
            let resource_version = metadata.resource_version;
            (Configuration { which, resource_version, webhooks: names, injector }, bundles)
        };
        Ok(match which {
            Which::Mutating => {
                let found =
                    Api::<MutatingWebhookConfiguration>::all(self.client.clone()).get_opt(CONFIGURATION).await?;
                found.map(|found| {
                    let webhooks = found.webhooks.into_iter().flatten();
                    read(found.metadata, webhooks.map(|webhook| (webhook.name, webhook.client_config)).collect())
                })
            }
            Which::Validating => {
                let all = Api::<ValidatingWebhookConfiguration>::all(self.client.clone());
                let found = all.get_opt(CONFIGURATION).await?;
                found.map(|found| {
                    let webhooks = found.webhooks.into_iter().flatten();
                    read(found.metadata, webhooks.map(|webhook| (webhook.name, webhook.client_config)).collect())
                })
            }
        })
    }

    /// Writes `mullion-ca` over what was read.
    pub(crate) async fn write_ca(
        &self,
        standing: Option<&Stored>,
        data: BTreeMap<&'static str, Option<String>>,
    ) -> Result<(), CallError> {
        within(self.write_secret(CA_SECRET, CA_TYPE, standing, data)).await
    }

    /// Writes `mullion-tls` over what was read.
    pub(crate) async fn write_tls(
        &self,
        standing: Option<&Stored>,
        data: BTreeMap<&'static str, Option<String>>,
    ) -> Result<(), CallError> {
        within(self.write_secret(TLS_SECRET, TLS_TYPE, standing, data)).await
    }

    /// Keys with `None` are taken away; others that somebody put there stay.
    async fn write_secret(
        &self,
        name: &str,
        r#type: &str,
        standing: Option<&Stored>,
        data: BTreeMap<&'static str, Option<String>>,
    ) -> Result<(), CallError> {
        let data: BTreeMap<_, _> =
            data.into_iter().map(|(key, text)| (key, text.map(|text| ByteString(text.into_bytes())))).collect();
        let request = match standing {
            Some(standing) if standing.content.right_type && !standing.immutable => {
                let version = &standing.metadata.resource_version;
                let body = json!({ "metadata": { "resourceVersion": version }, "data": data });
                self.request().patch(name, &patch_params(), &Patch::Merge(body)).map_err(broken)?
            }
            standing => {
                if let Some(Stored { metadata, .. }) = standing {
                    let preconditions = Some(Preconditions {
                        uid: metadata.uid.clone(),
                        resource_version: metadata.resource_version.clone(),
                    });
                    let params = DeleteParams { preconditions, ..DeleteParams::default() };
                    let request = self.request().delete(name, &params).map_err(broken)?;
                    self.client.request_text(request).await?;
                }
                let owners = self.owner.reference().await?.map(|owner| vec![owner]);
                let labels = json!({ (MANAGED_BY.0): MANAGED_BY.1 });
                let metadata = json!({ "name": name, "labels": labels, "ownerReferences": owners });
                let data: BTreeMap<_, _> = data.into_iter().filter(|(_, value)| value.is_some()).collect();
                let body = json!({ "metadata": metadata, "type": r#type, "data": data });
                let params = post_params();
                self.request().create(&params, body.to_string().into_bytes()).map_err(broken)?
            }
        };
        self.client.request_text(request).await?;
        Ok(())
    }

    /// Gives a Secret its owner; whether that was to be done.
    pub(crate) async fn adopt(&self, name: &str, standing: &Stored) -> Result<bool, CallError> {
        within(async {
            let metadata = &standing.metadata;
            let owners = self.owner.corrected(metadata.owner_references.as_deref().unwrap_or_default()).await?;
            let Some(owners) = owners else { return Ok(false) };
            let body =
                json!({ "metadata": { "resourceVersion": metadata.resource_version, "ownerReferences": owners } });
            let request = self.request().patch(name, &patch_params(), &Patch::Merge(body)).map_err(broken)?;
            self.client.request_text(request).await?;
            Ok(true)
        })
        .await
    }

    /// Writes the bundle into every webhook of a configuration; everything else in it stays as it is.
    pub(crate) async fn write_bundle(&self, configuration: &Configuration, bundle: &str) -> Result<(), CallError> {
        let bundle = ByteString(bundle.as_bytes().to_vec());
        // Lists of webhooks are merged by name (`patchMergeKey` in k8s.io/api admissionregistration/v1).
        let webhooks: Vec<_> = configuration
            .webhooks
            .iter()
            .map(|name| json!({ "name": name, "clientConfig": { "caBundle": bundle } }))
            .collect();
        let version = &configuration.resource_version;
        let body = json!({ "metadata": { "resourceVersion": version }, "webhooks": webhooks });
        match configuration.which {
            Which::Mutating => within(self.patch_configuration::<MutatingWebhookConfiguration>(body)).await,
            Which::Validating => within(self.patch_configuration::<ValidatingWebhookConfiguration>(body)).await,
        }
    }

    async fn patch_configuration<K>(&self, body: impl Serialize + fmt::Debug) -> Result<(), CallError>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        api.patch(CONFIGURATION, &patch_params(), &Patch::Strategic(body)).await?;
        Ok(())
    }
}

fn broken(error: impl fmt::Display) -> CallError {
    CallError::Broken(error.to_string())
}

async fn within<T>(call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
    timeout(CALL, call).await.unwrap_or(Err(CallError::Late))
}
