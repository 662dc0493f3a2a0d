//! The work: read, plan, write, until nothing is left to do; then wait for a change or for the clock.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, select_all};
use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Api, Client, Error, Resource, Result};
use tokio::time::{Instant, sleep};

use crate::cluster::backoff::Backoff;
use crate::cluster::owner_references::warn_not_adopted;
use crate::cluster::watch::changes;
use crate::controller::certificates::objects::{Found, Objects, Which};
use crate::controller::certificates::plan::{Plan, Seen, Step, plan};
use crate::controller::certificates::read::CaCertificate;
use crate::controller::certificates::{CA_SECRET, Settings, TLS_SECRET, issue, read};
use crate::controller::leader::Leading;
use crate::controller::metrics::{CertificateObject, Metrics, Outcome};
use crate::controller::names::CONFIGURATION;
use crate::telemetry::error_text::in_words;

const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// Most rounds of writing within [`WINDOW`] before each waits for [`PATIENCE`]: somebody else writes as well, or the
/// clock is beyond the last year that certificates know.
const MOST_WRITES: usize = 40;
const WINDOW: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(10);

/// Keeps certificates as the settings of `leading` want them, until it is told to stop; without settings, it only
/// waits for that.
pub async fn run(leading: Leading) {
    let Some(settings) = leading.certificates.clone() else { return leading.stop.cancelled().await };
    leading.stop.run_until_cancelled(work(&leading, settings)).await;
}

async fn work(leading: &Leading, settings: Arc<Settings>) {
    let mut wakes = wakes(leading);
    let objects = Objects::new(leading.client.clone(), &leading.namespace, leading.owner.clone());
    let mut duty = Duty {
        objects,
        settings,
        metrics: leading.metrics.clone(),
        trust: None,
        pair: None,
        writes: VecDeque::new(),
        left_alone: Vec::new(),
        not_adopted: Vec::new(),
    };
    let mut failures = 0;
    loop {
        match duty.pass().await {
            Pass::Wrote => {
                failures = 0;
                if duty.too_many_writes() {
                    tracing::warn!(
                        "what is written for certificates does not last; see managedFields of the webhook \
                         configurations {CONFIGURATION} and of the Secrets {CA_SECRET} and {TLS_SECRET} for who else \
                         writes them"
                    );
                    sleep(PATIENCE).await;
                }
                continue;
            }
            Pass::Failed => {
                sleep(BACKOFF.delay(failures)).await;
                failures += 1;
                continue;
            }
            Pass::Nothing { check_after } => {
                failures = 0;
                tokio::select! {
                    _ = wakes.next() => {}
                    () = sleep(check_after) => {}
                }
            }
        }
        // Whatever else has come meanwhile is seen by the next pass too.
        while wakes.next().now_or_never().flatten().is_some() {}
    }
}

/// Something about one of the four objects may have changed.
fn wakes(leading: &Leading) -> impl futures::Stream<Item = ()> + Unpin + use<> {
    let Leading { client, namespace, streaming, .. } = leading;
    let secrets = || Api::<PartialObjectMeta<Secret>>::namespaced(client.clone(), namespace);
    select_all([
        wakes_of(secrets(), CA_SECRET, *streaming),
        wakes_of(secrets(), TLS_SECRET, *streaming),
        wakes_of(configurations::<MutatingWebhookConfiguration>(client), CONFIGURATION, *streaming),
        wakes_of(configurations::<ValidatingWebhookConfiguration>(client), CONFIGURATION, *streaming),
    ])
}

fn configurations<K>(client: &Client) -> Api<PartialObjectMeta<K>>
where
    K: Resource<DynamicType = ()>,
{
    Api::all(client.clone())
}

/// Only metadata crosses the network: what is in the objects is read when it is needed.
fn wakes_of<K>(api: Api<PartialObjectMeta<K>>, name: &str, streaming: bool) -> BoxStream<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
{
    changes(api, Config::default().fields(&format!("metadata.name={name}")), streaming).map(drop).boxed()
}

/// What came of one look.
enum Pass {
    /// Everything is as it should be for now.
    Nothing { check_after: Duration },
    /// Something was written, or somebody was faster: look again.
    Wrote,
    /// Nothing more can be done for now.
    Failed,
}

struct Duty {
    objects: Objects,
    settings: Arc<Settings>,
    metrics: Metrics,
    /// What CA and bundles were last, and since when.
    trust: Option<(u64, Instant)>,
    /// The same of the pair.
    pair: Option<(u64, Instant)>,
    writes: VecDeque<Instant>,
    /// Configurations that another tool fills in: said once.
    left_alone: Vec<Which>,
    /// Secrets that could not be given their owner: said once.
    not_adopted: Vec<&'static str>,
}

impl Duty {
    async fn pass(&mut self) -> Pass {
        let found = match self.objects.read().await {
            Ok(found) => found,
            Err(problem) => {
                tracing::error!(problem, "certificates cannot be looked after; trying again");
                return Pass::Failed;
            }
        };
        if let Some(problem) = &found.problem {
            tracing::error!(problem, "no CA is changed before this can be read; trying again");
        }
        self.say_left_alone(&found);
        if self.adopt(&found).await {
            self.writes.push_back(Instant::now());
            return Pass::Wrote;
        }
        let now = Timestamp::now().as_second();
        let seen = Seen {
            ca: found.ca.as_ref().map(|ca| &ca.content),
            tls: found.tls.as_ref().map(|tls| &tls.content),
            bundles: &found.bundles,
            all_bundles: found.problem.is_none(),
            now,
            trusted_for: since(&mut self.trust, found.trust()),
            served_for: since(&mut self.pair, found.pair()),
        };
        let plan = plan(&seen, &self.settings);
        self.metrics.certificates_valid(plan.ca_valid.as_ref(), plan.serving_valid.as_ref());
        if plan.steps.is_empty() && found.problem.is_none() {
            return Pass::Nothing { check_after: plan.check_after };
        }
        let (mut wrote, mut failed) = (false, found.problem.is_some());
        for step in &plan.steps {
            match self.take(step, &plan, &found, now).await {
                Ok(()) => wrote = true,
                // Somebody was faster: what is to be done now may be something else.
                Err(Error::Api(status)) if matches!(status.code, 404 | 409) => failed = true,
                Err(error) => {
                    failed = true;
                    let error = in_words(&error);
                    tracing::error!(object = self.object(step, &found), error, "not written; trying again");
                }
            }
        }
        if wrote {
            self.writes.push_back(Instant::now());
        }
        if failed && !wrote { Pass::Failed } else { Pass::Wrote }
    }

    /// Makes Secrets ours that are a former release's, and go with that, or nobody's. Whether anything has changed.
    async fn adopt(&mut self, found: &Found) -> bool {
        let mut changed = false;
        for (name, stored) in [(CA_SECRET, &found.ca), (TLS_SECRET, &found.tls)] {
            let Some(stored) = stored else { continue };
            match self.objects.adopt(name, stored).await {
                Ok(adopted) => changed |= adopted,
                Err(Error::Api(status)) if matches!(status.code, 404 | 409) => changed = true,
                Err(Error::Api(status)) if status.code == 403 && !self.not_adopted.contains(&name) => {
                    self.not_adopted.push(name);
                    warn_not_adopted(&format!("Secret {}/{name}", self.objects.namespace), &status.message);
                }
                // The next pass tries again.
                Err(_) => {}
            }
        }
        changed
    }

    async fn take(&mut self, step: &Step, plan: &Plan, found: &Found, now: i64) -> Result<()> {
        let (kind, why, written) = match step {
            Step::NewCa { previous, why } => {
                let made = issue::authority(now, self.settings.ca_lifetime).map_err(not_made)?;
                let data = BTreeMap::from([
                    ("ca.crt", Some(made.certificate)),
                    ("ca.key", Some(made.key)),
                    ("previous.crt", previous_text(previous)),
                ]);
                (CertificateObject::Ca, *why, self.objects.write_secret(CA_SECRET, found.ca.as_ref(), data).await)
            }
            Step::Previous { previous } => {
                let mut data = BTreeMap::from([("previous.crt", previous_text(previous))]);
                // For the case that the Secret is made anew, because it cannot be changed.
                for key in ["ca.crt", "ca.key"] {
                    let text = found.ca.as_ref().and_then(|ca| String::from_utf8(ca.content.get(key).to_vec()).ok());
                    data.insert(key, text);
                }
                let why = "the previous CAs in it are not those that are needed";
                (CertificateObject::Ca, why, self.objects.write_secret(CA_SECRET, found.ca.as_ref(), data).await)
            }
            Step::Bundle { configuration, bundle } => {
                let Some(configuration) = found.configurations.get(*configuration) else { return Ok(()) };
                let written = self.objects.write_bundle(configuration, bundle).await;
                (CertificateObject::Bundle, "its caBundle is not that of the CAs in use", written)
            }
            Step::Serving { why } => {
                let Some(ca) = &plan.authority else { return Ok(()) };
                let made = issue::serving(ca, &self.settings.names, now, self.settings.lifetime).map_err(not_made)?;
                let data = BTreeMap::from([
                    ("tls.crt", Some(made.certificate)),
                    ("tls.key", Some(made.key)),
                    ("ca.crt", Some(read::pem([&ca.certificate]))),
                ]);
                (
                    CertificateObject::Serving,
                    why.as_str(),
                    self.objects.write_secret(TLS_SECRET, found.tls.as_ref(), data).await,
                )
            }
        };
        self.metrics.certificate_written(kind, Outcome::of(&written));
        if written.is_ok() {
            tracing::info!(object = self.object(step, found), why, "certificates written");
        }
        written
    }

    fn object(&self, step: &Step, found: &Found) -> String {
        let secret = |name: &str| format!("Secret {}/{name}", self.objects.namespace);
        match step {
            Step::NewCa { .. } | Step::Previous { .. } => secret(CA_SECRET),
            Step::Serving { .. } => secret(TLS_SECRET),
            Step::Bundle { configuration, .. } => {
                found.configurations.get(*configuration).map(|found| found.which.to_string()).unwrap_or_default()
            }
        }
    }

    /// Whether somebody undoes what is written here.
    fn too_many_writes(&mut self) -> bool {
        while self.writes.front().is_some_and(|written| written.elapsed() > WINDOW) {
            self.writes.pop_front();
        }
        self.writes.len() > MOST_WRITES
    }

    fn say_left_alone(&mut self, found: &Found) {
        for configuration in &found.configurations {
            let known = self.left_alone.contains(&configuration.which);
            match configuration.injector {
                Some(annotation) if !known => {
                    self.left_alone.push(configuration.which);
                    tracing::warn!(
                        object = %configuration.which,
                        annotation,
                        "another tool fills in its caBundle; take the annotation away, or run the controller without \
                         --webhook-service and the webhook with that tool's certificate"
                    );
                }
                None if known => self.left_alone.retain(|which| *which != configuration.which),
                _ => {}
            }
        }
    }
}

/// How long it has been `now`, as far as was seen.
fn since(before: &mut Option<(u64, Instant)>, now: u64) -> Duration {
    match before {
        Some((same, since)) if *same == now => since.elapsed(),
        _ => {
            *before = Some((now, Instant::now()));
            Duration::ZERO
        }
    }
}

fn previous_text(previous: &[CaCertificate]) -> Option<String> {
    (!previous.is_empty()).then(|| read::pem(previous))
}

fn not_made(error: impl std::fmt::Display) -> Error {
    Error::Service(format!("cannot make a certificate: {error}").into())
}
