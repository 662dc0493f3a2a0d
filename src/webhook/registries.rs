//! The registries as a source of platforms, with the pull secrets of the pods under review.
//!
//! Secrets are read from the API server when an image is looked up, never while a review uses known results. They are
//! kept, so that a review in background mode can immediately decide which results its pod may use.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use moka::sync::Cache;
use mullion_engine::model::image::{ImageRef, Platforms};
use mullion_policy::{PullSecretsMode, RegistryPolicy};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::cluster::SlimSecret;
use crate::cluster::reading::{KindApi, SECRETS};
use crate::registry::{AddressRule, Credentials, RegistryClient, RegistryOutcome, RegistrySettings};
use crate::webhook::images::{PlatformFuture, PlatformSource, PullSecrets};
use crate::webhook::policies_in_force::SourceFactory;

/// How long credentials are used before they are read again; they stay in use meanwhile. Those of a registry in a cloud
/// are valid for hours.
const KEPT: Duration = Duration::from_secs(5 * 60);
/// The maximum length of all names in the sets of pull secrets with stored credentials, in bytes: any client can name 16
/// Secrets of 253 bytes that do not exist.
const MOST_NAMES: u64 = 256 << 10;
/// Shorter names of one set count as this many bytes, so that at most 2,000 sets are stored. A namespace has few, and a set
/// has some hundred bytes.
const LEAST_NAMES: usize = 131;
/// The time limit for reading a Secret from the API server.
const READ: Duration = Duration::from_secs(5);
/// The number of images that can wait for their Secrets at one time; the next pod requests further images again.
const WAITING: usize = 64;

/// Creates sources that query registries; without a client for the API server they send no pull secrets. `addresses` is
/// [`AddressRule::of`], except in tests with registries on loopback. `answers` counts their responses.
pub fn source_factory(
    client: Option<Client>,
    addresses: fn(&RegistryPolicy) -> AddressRule,
    answers: Family<RegistryOutcome, Counter>,
) -> SourceFactory {
    Box::new(move |policy| {
        let settings = RegistrySettings { addresses: addresses(policy), ..RegistrySettings::from(policy) };
        let registries = RegistryClient::counted_in(settings, answers.clone())?;
        let keyring = match (policy.pull_secrets, &client) {
            (PullSecretsMode::Never, _) => None,
            (PullSecretsMode::Pods, Some(client)) => Some(Keyring::new(client.clone())),
            (PullSecretsMode::Pods, None) => {
                anyhow::bail!("spec.pullSecrets is Pods, but there is no cluster to read Secrets from; set it to Never")
            }
        };
        Ok(Arc::new(RegistrySource(Arc::new(Shared { registries, keyring, waiting: Semaphore::new(WAITING) }))))
    })
}

#[derive(Debug)]
struct RegistrySource(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    registries: RegistryClient,
    /// `None`: no credentials are sent.
    keyring: Option<Keyring>,
    waiting: Semaphore,
}

impl PlatformSource for RegistrySource {
    fn known(&self, image: &ImageRef<'_>, secrets: &PullSecrets) -> Option<Arc<Platforms>> {
        self.0.registries.known(image, &self.0.credentials(secrets)?)
    }

    fn last_known(&self, image: &ImageRef<'_>, secrets: &PullSecrets) -> Option<Arc<Platforms>> {
        self.0.registries.last_known(image, &self.0.credentials(secrets)?)
    }

    fn want(&self, image: &ImageRef<'_>, secrets: &PullSecrets) {
        if let Some(credentials) = self.0.credentials(secrets) {
            self.0.registries.want(*image, credentials);
            return;
        }
        let image = image.normalized().to_string();
        self.0.read_aside(secrets, move |shared, credentials| {
            if let Ok(image) = ImageRef::parse(&image) {
                shared.registries.want(image, credentials);
            }
        });
    }

    fn resolve<'a>(
        &'a self,
        image: &'a ImageRef<'a>,
        secrets: &'a PullSecrets,
        deadline: Instant,
    ) -> PlatformFuture<'a> {
        Box::pin(async move {
            let credentials = match self.0.credentials(secrets) {
                Some(credentials) => credentials,
                None => timeout_at(deadline, self.0.read_secrets(secrets)).await.ok().flatten()?,
            };
            let answer = self.0.registries.resolve(image, &credentials, deadline).await;
            answer.inspect_err(|error| tracing::debug!(image = %image.normalized(), %error, "image unknown")).ok()
        })
    }
}

impl Shared {
    /// The credentials in these secrets, as last read; starts reading them again if that is due.
    fn credentials(self: &Arc<Self>, secrets: &PullSecrets) -> Option<Credentials> {
        let Some(keyring) = self.keyring.as_ref().filter(|_| secrets.names().is_some()) else {
            return Some(Credentials::anonymous());
        };
        let (credentials, due) = keyring.kept(secrets)?;
        if due {
            self.read_aside(secrets, |_, _| {});
        }
        Some(credentials)
    }

    /// Reads secrets in the background.
    fn read_aside(self: &Arc<Self>, secrets: &PullSecrets, then: impl FnOnce(&Self, Credentials) + Send + 'static) {
        let (shared, secrets) = (Arc::clone(self), secrets.clone());
        tokio::spawn(async move {
            let Ok(_slot) = shared.waiting.try_acquire() else { return };
            if let Some(credentials) = shared.read_secrets(&secrets).await {
                then(&shared, credentials);
            }
        });
    }

    async fn read_secrets(&self, secrets: &PullSecrets) -> Option<Credentials> {
        match &self.keyring {
            Some(keyring) => keyring.read_secrets(secrets).await,
            None => Some(Credentials::anonymous()),
        }
    }
}

/// Credentials of pull secrets that were read recently.
struct Keyring {
    client: Client,
    /// Each with the time from which on it is read again.
    kept: Cache<PullSecrets, (Credentials, Instant)>,
    /// Whether the warning that Secrets may not be read was logged: one warning is enough for all of them.
    warned: AtomicBool,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keyring")
    }
}

impl Keyring {
    fn new(client: Client) -> Self {
        let weight =
            |secrets: &PullSecrets, _: &_| u32::try_from(secrets.length().max(LEAST_NAMES)).unwrap_or(u32::MAX);
        let kept = Cache::builder().max_capacity(MOST_NAMES).weigher(weight).build();
        Self { client, kept, warned: AtomicBool::new(false) }
    }

    /// The credentials when they were last read, and whether this caller must read them again.
    fn kept(&self, secrets: &PullSecrets) -> Option<(Credentials, bool)> {
        let (credentials, until) = self.kept.get(secrets)?;
        let now = Instant::now();
        let due = until <= now;
        if due {
            // Other callers use the current credentials until the read has ended.
            self.kept.insert(secrets.clone(), (credentials.clone(), now + READ));
        }
        Some((credentials, due))
    }

    /// Reads the secrets that can be read, as the kubelet does: a missing secret is left out. `None` if the API server
    /// does not respond.
    async fn read_secrets(&self, secrets: &PullSecrets) -> Option<Credentials> {
        let Some((namespace, names)) = secrets.names() else { return Some(Credentials::anonymous()) };
        let api = KindApi::namespaced(self.client.clone(), &SECRETS, namespace);
        let answers = join_all(names.iter().map(|name| timeout(READ, api.get(name)))).await;
        let mut found = Vec::new();
        for answer in answers {
            match answer {
                // A Secret that cannot be read is no pull secret.
                Ok(Ok(secret)) => found.extend(secret.and_then(Result::ok).as_ref().and_then(of_secret)),
                Ok(Err(kube::Error::Api(denial))) if matches!(denial.code, 401 | 403) => {
                    if !self.warned.swap(true, Ordering::Relaxed) {
                        tracing::warn!(
                            namespace = &**namespace,
                            "not permitted to read pull secrets; allow the webhook's service account to get Secrets, \
                             or set pullSecrets: Never in the RegistryPolicy"
                        );
                    }
                }
                Ok(Err(_)) | Err(_) => return None,
            }
        }
        let credentials = Credentials::merged(&found);
        self.kept.insert(secrets.clone(), (credentials.clone(), Instant::now() + KEPT));
        Some(credentials)
    }
}

/// The credentials in a Secret; `None` if it is not a pull secret.
fn of_secret(secret: &SlimSecret) -> Option<Credentials> {
    let data = secret.data.as_ref()?;
    let credentials = match (data.get(".dockerconfigjson"), data.get(".dockercfg")) {
        (Some(document), _) => Credentials::from_dockerconfigjson(&document.0),
        (None, Some(document)) => Credentials::from_dockercfg(&document.0),
        (None, None) => return None,
    };
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
    credentials.inspect_err(|error| tracing::debug!(namespace, name, %error, "pull secret unusable")).ok()
}
