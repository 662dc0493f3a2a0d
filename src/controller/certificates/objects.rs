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
use kube::api::{GetParams, ObjectMeta, Patch};
use kube::core::Request;
use kube::{Client, Error, Resource as _, Result};
use serde::Deserialize;
use serde_json::json;

use crate::cluster::call::await_answer;
use crate::cluster::owner_references::Owner;
use crate::cluster::write_params::{delete_params, patch_params, post_params};
use crate::controller::certificates::plan::Content;
use crate::controller::certificates::{CA_SECRET, TLS_SECRET};
use crate::controller::names::CONFIGURATION;
use crate::telemetry::error_text::in_words;
use crate::value_hash::hash_of;

/// The type that a Secret has.
fn type_of(name: &str) -> &'static str {
    if name == TLS_SECRET { "kubernetes.io/tls" } else { "Opaque" }
}

/// Annotations by which other tools are told to fill in `caBundle`: cert-manager's cainjector (`pkg/cainjector` there)
/// and OpenShift's service CA. Two who fill it in would undo each other's work for ever.
const INJECTORS: [&str; 5] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
    "service.beta.openshift.io/inject-cabundle",
    "service.alpha.openshift.io/inject-cabundle",
];

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

impl Which {
    fn url(self) -> String {
        match self {
            Self::Mutating => MutatingWebhookConfiguration::url_path(&(), None),
            Self::Validating => ValidatingWebhookConfiguration::url_path(&(), None),
        }
    }
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
        let named = |what: &str, error: Error| format!("cannot read {what}: {}", in_words(&error));
        let secret = async |name: &str| {
            let found = await_answer(self.secret(name)).await;
            found.map_err(|error| named(&format!("Secret {}/{name}", self.namespace), error))
        };
        let (ca, tls) = (secret(CA_SECRET).await?, secret(TLS_SECRET).await?);
        let mut all = Found { ca, tls, configurations: Vec::new(), bundles: Vec::new(), problem: None };
        for which in [Which::Mutating, Which::Validating] {
            match await_answer(self.configuration(which)).await {
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

    fn secrets(&self) -> Request {
        Request::new(Secret::url_path(&(), Some(&self.namespace)))
    }

    async fn secret(&self, name: &str) -> Result<Option<Stored>> {
        let request = self.secrets().get(name, &GetParams::default()).map_err(Error::BuildRequest)?;
        let Some(text) = unless_missing(self.client.request_text(request).await)? else { return Ok(None) };
        // The position is all that may be said of it.
        let secret: Secret = serde_json::from_str(&text)
            .map_err(|error| Error::Service(format!("not a Secret, at column {}", error.column()).into()))?;
        let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect();
        let content = Content { data, right_type: secret.type_.as_deref() == Some(type_of(name)) };
        Ok(Some(Stored { content, metadata: secret.metadata, immutable: secret.immutable == Some(true) }))
    }

    async fn configuration(&self, which: Which) -> Result<Option<(Configuration, Vec<Vec<u8>>)>> {
        let request = Request::new(which.url()).get(CONFIGURATION, &GetParams::default());
        let answer = self.client.request::<Registration>(request.map_err(Error::BuildRequest)?).await;
        let Some(Registration { metadata, webhooks }) = unless_missing(answer)? else { return Ok(None) };
        let annotations = metadata.annotations.unwrap_or_default();
        let injector = INJECTORS.into_iter().find(|annotation| annotations.contains_key(*annotation));
        let webhooks = webhooks.into_iter().flatten();
        let bundle = |webhook: Webhook| (webhook.name, webhook.client_config.ca_bundle.unwrap_or_default().0);
        let (webhooks, bundles) = webhooks.map(bundle).unzip();
        let resource_version = metadata.resource_version;
        Ok(Some((Configuration { which, resource_version, webhooks, injector }, bundles)))
    }

    /// Writes a Secret over what was read. Keys with `None` are taken away; others that somebody put there stay.
    pub(crate) async fn write_secret(
        &self,
        name: &str,
        standing: Option<&Stored>,
        data: BTreeMap<&'static str, Option<String>>,
    ) -> Result<()> {
        await_answer(self.send_secret(name, standing, data)).await
    }

    async fn send_secret(
        &self,
        name: &str,
        standing: Option<&Stored>,
        data: BTreeMap<&'static str, Option<String>>,
    ) -> Result<()> {
        let data: BTreeMap<_, _> =
            data.into_iter().map(|(key, text)| (key, text.map(|text| ByteString(text.into_bytes())))).collect();
        let request = match standing {
            Some(standing) if standing.content.right_type && !standing.immutable => {
                let version = &standing.metadata.resource_version;
                let body = json!({ "metadata": { "resourceVersion": version }, "data": data });
                self.secrets().patch(name, &patch_params(), &Patch::Merge(body))
            }
            standing => {
                if let Some(Stored { metadata, .. }) = standing {
                    let request = self.secrets().delete(name, &delete_params(metadata));
                    self.client.request_text(request.map_err(Error::BuildRequest)?).await?;
                }
                let metadata = self.owner.metadata(name).await?;
                let data: BTreeMap<_, _> = data.into_iter().filter(|(_, value)| value.is_some()).collect();
                let body = json!({ "metadata": metadata, "type": type_of(name), "data": data });
                self.secrets().create(&post_params(), body.to_string().into_bytes())
            }
        };
        self.client.request_text(request.map_err(Error::BuildRequest)?).await.map(drop)
    }

    /// Gives a Secret its owner; whether that was to be done.
    pub(crate) async fn adopt(&self, name: &str, standing: &Stored) -> Result<bool> {
        await_answer(async {
            let metadata = &standing.metadata;
            let owners = self.owner.corrected(metadata.owner_references.as_deref().unwrap_or_default()).await?;
            let Some(owners) = owners else { return Ok(false) };
            let body =
                json!({ "metadata": { "resourceVersion": metadata.resource_version, "ownerReferences": owners } });
            let request = self.secrets().patch(name, &patch_params(), &Patch::Merge(body));
            self.client.request_text(request.map_err(Error::BuildRequest)?).await?;
            Ok(true)
        })
        .await
    }

    /// Writes the bundle into every webhook of a configuration; everything else in it stays as it is.
    pub(crate) async fn write_bundle(&self, configuration: &Configuration, bundle: &str) -> Result<()> {
        let bundle = ByteString(bundle.as_bytes().to_vec());
        // Lists of webhooks are merged by name (`patchMergeKey` in k8s.io/api admissionregistration/v1).
        let webhooks: Vec<_> = configuration
            .webhooks
            .iter()
            .map(|name| json!({ "name": name, "clientConfig": { "caBundle": bundle } }))
            .collect();
        let version = &configuration.resource_version;
        let body = json!({ "metadata": { "resourceVersion": version }, "webhooks": webhooks });
        let request = Request::new(configuration.which.url());
        let request = request.patch(CONFIGURATION, &patch_params(), &Patch::Strategic(body));
        let request = request.map_err(Error::BuildRequest)?;
        await_answer(self.client.request_text(request)).await.map(drop)
    }
}

/// A webhook configuration of either kind as it comes.
#[derive(Deserialize)]
struct Registration {
    metadata: ObjectMeta,
    webhooks: Option<Vec<Webhook>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Webhook {
    name: String,
    client_config: WebhookClientConfig,
}

/// Nothing, where the API server has no such object.
fn unless_missing<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Err(Error::Api(status)) if status.code == 404 => Ok(None),
        other => other.map(Some),
    }
}
