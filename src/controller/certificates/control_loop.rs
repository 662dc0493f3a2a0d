//! The control loop of certificates: reads, plans and writes until nothing is left to do, then waits for a change or
//! for the clock.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, select_all};
use futures::{FutureExt as _, Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Error, Result};
use mullion_engine::admission::Endpoint;
use serde::de::IgnoredAny;
use tokio::time::{Instant, sleep};

use crate::cluster::reading::{
    KindApi, MUTATING_CONFIGURATIONS, SECRETS, Selection, VALIDATING_CONFIGURATIONS, changes, describe,
};
use crate::cluster::state::{CertificateDates, CertificateReport, short_error, time_text};
use crate::cluster::{Backoff, warn_not_adopted};
use crate::controller::certificates::objects::{
    CA_SECRET, CertificateStore, StoredConfiguration, StoredObjects, TLS_SECRET,
};
use crate::controller::certificates::plan::{CertificatePlan, CertificateStep, Observation, plan};
use crate::controller::certificates::settings::CertificateSettings;
use crate::controller::certificates::x509::CaCertificate;
use crate::controller::certificates::{issuer, x509};
use crate::controller::denied_write::denied_write;
use crate::controller::leader_context::LeaderContext;
use crate::controller::metrics::{CertificateObject, WriteOutcome};
use crate::controller::webhook_configuration::CONFIGURATION;
use crate::telemetry::in_words;

const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// The number of rounds of writes within [`WINDOW`] after which each waits for [`DELAY`]: another writer undoes them,
/// or the clock is beyond the last year of certificates.
const MAX_WRITES: usize = 40;
const WINDOW: Duration = Duration::from_secs(60);
const DELAY: Duration = Duration::from_secs(10);

/// Maintains certificates as the settings of `leading` require, until `leading.stop`; without settings, it only waits.
pub(crate) async fn run(leading: LeaderContext) {
    let Some(settings) = leading.certificates.clone() else {
        // Another tool manages them.
        leading.report.update(|facts| facts.certificates = Some(CertificateReport::default()));
        return leading.stop.cancelled().await;
    };
    leading.stop.run_until_cancelled(Box::pin(work(&leading, settings))).await;
}

async fn work(leading: &LeaderContext, settings: Arc<CertificateSettings>) {
    let mut changes = all_changes(leading);
    let mut reconciler = Reconciler {
        store: CertificateStore::new(leading.client.clone(), &leading.namespace, leading.owner.clone()),
        settings,
        leading,
        trust: None,
        pair: None,
        writes: VecDeque::new(),
        reported_injectors: Vec::new(),
        not_adopted: Vec::new(),
    };
    let mut failures = 0;
    loop {
        let check_after = match reconciler.reconcile().await {
            Reconciled::Unchanged { check_after } => check_after,
            Reconciled::Wrote => {
                failures = 0;
                if reconciler.has_too_many_writes() {
                    tracing::warn!(
                        "another writer undoes the writes of certificates; see managedFields of the webhook \
                         configurations {CONFIGURATION} and of the Secrets {CA_SECRET} and {TLS_SECRET} for its name"
                    );
                    sleep(DELAY).await;
                }
                continue;
            }
            Reconciled::Failed => {
                sleep(BACKOFF.delay(failures)).await;
                failures += 1;
                continue;
            }
        };
        failures = 0;
        tokio::select! {
            _ = changes.next() => {}
            () = sleep(check_after) => {}
        }
        // The next round reads the objects, which contain all changes that arrived meanwhile.
        while changes.next().now_or_never().flatten().is_some() {}
    }
}

/// Yields an item whenever one of the four objects may have changed.
fn all_changes(leading: &LeaderContext) -> impl Stream<Item = ()> + Unpin + use<> {
    let LeaderContext { client, namespace, streaming, .. } = leading;
    let secrets = KindApi::namespaced(client.clone(), &SECRETS, namespace);
    let mutating = KindApi::all(client.clone(), &MUTATING_CONFIGURATIONS);
    let validating = KindApi::all(client.clone(), &VALIDATING_CONFIGURATIONS);
    select_all([
        changes_of(secrets.clone(), CA_SECRET, *streaming),
        changes_of(secrets, TLS_SECRET, *streaming),
        changes_of(mutating, CONFIGURATION, *streaming),
        changes_of(validating, CONFIGURATION, *streaming),
    ])
}

/// Reads nothing of the objects, because their content is read when it is needed.
fn changes_of(api: KindApi, name: &str, streaming: bool) -> BoxStream<'static, ()> {
    changes::<IgnoredAny>(api, Selection::name(name), streaming).map(drop).boxed()
}

/// The result of one round.
enum Reconciled {
    /// Everything is in the intended state for now.
    Unchanged { check_after: Duration },
    /// Something was written, or another writer was faster: the next round is due.
    Wrote,
    /// Nothing more can be done for now.
    Failed,
}

struct Reconciler<'l> {
    store: CertificateStore,
    settings: Arc<CertificateSettings>,
    leading: &'l LeaderContext,
    /// The hash of CA and bundles, and since when it is unchanged.
    trust: Option<(u64, Instant)>,
    /// The hash of the pair, and since when it is unchanged.
    pair: Option<(u64, Instant)>,
    writes: VecDeque<Instant>,
    /// Configurations that another tool fills in, each logged once.
    reported_injectors: Vec<Endpoint>,
    /// Secrets whose owner could not be set, each logged once.
    not_adopted: Vec<&'static str>,
}

impl Reconciler<'_> {
    async fn reconcile(&mut self) -> Reconciled {
        let stored = match self.store.read_objects().await {
            Ok(stored) => stored,
            Err(problem) => {
                tracing::error!(problem, "cannot maintain the certificates; trying again");
                self.report_error(&problem);
                return Reconciled::Failed;
            }
        };
        if let Some(problem) = &stored.problem {
            tracing::error!(problem, "cannot replace a CA until all webhook configurations can be read; trying again");
        }
        self.report_injectors(&stored);
        if self.adopt(&stored).await {
            self.writes.push_back(Instant::now());
            return Reconciled::Wrote;
        }
        let now = Timestamp::now().as_second();
        let observation = Observation {
            ca: stored.ca.as_ref().map(|ca| &ca.content),
            tls: stored.tls.as_ref().map(|tls| &tls.content),
            bundles: &stored.bundles,
            all_bundles: stored.problem.is_none(),
            now,
            trusted_for: unchanged_for(&mut self.trust, stored.trust_hash()),
            served_for: unchanged_for(&mut self.pair, stored.pair_hash()),
        };
        let plan = plan(&observation, &self.settings);
        self.leading.metrics.certificates_valid(plan.ca_valid.as_ref(), plan.pair_valid.as_ref());
        self.report_dates(&plan, stored.problem.as_deref());
        if plan.steps.is_empty() && stored.problem.is_none() {
            return Reconciled::Unchanged { check_after: plan.check_after };
        }
        let (mut wrote, mut failed) = (false, stored.problem.is_some());
        for step in &plan.steps {
            let Some(object) = self.object(step, &stored) else { continue };
            match self.carry_out(step, &plan, &stored, now).await {
                Ok(why) => {
                    wrote = true;
                    tracing::info!(object = describe(&object), why, "certificates written");
                }
                // Another writer was faster: the next plan may differ.
                Err(Error::Api(status)) if matches!(status.code, 404 | 409) => failed = true,
                Err(error) => {
                    failed = true;
                    let (name, words) = (describe(&object), in_words(&error));
                    self.report_error(&format!("{name}: {words}"));
                    tracing::error!(object = name, error = words, "not written; trying again");
                    if let Some(event) = denied_write(&error) {
                        self.leading.events.publish(&object, &event).await;
                    }
                }
            }
        }
        if wrote {
            self.writes.push_back(Instant::now());
        }
        if failed && !wrote { Reconciled::Failed } else { Reconciled::Wrote }
    }

    /// Sets the owner of Secrets that have no owner, or that have the owner of an earlier release and would be deleted
    /// with it. Returns whether anything changed.
    async fn adopt(&mut self, stored: &StoredObjects) -> bool {
        let mut changed = false;
        for (name, secret) in [(CA_SECRET, &stored.ca), (TLS_SECRET, &stored.tls)] {
            let Some(secret) = secret else { continue };
            match self.store.adopt(name, secret).await {
                Ok(adopted) => changed |= adopted,
                Err(Error::Api(status)) if matches!(status.code, 404 | 409) => changed = true,
                Err(Error::Api(status)) if status.code == 403 && !self.not_adopted.contains(&name) => {
                    self.not_adopted.push(name);
                    warn_not_adopted(&describe(&self.store.reference(name)), &status.message);
                }
                // The next round retries.
                Err(_) => {}
            }
        }
        changed
    }

    /// Writes what a step requires; returns why.
    async fn carry_out<'s>(
        &self,
        step: &'s CertificateStep,
        plan: &CertificatePlan,
        stored: &StoredObjects,
        now: i64,
    ) -> Result<&'s str> {
        let write_ca = |data| self.store.write_secret(CA_SECRET, stored.ca.as_ref(), data);
        let (kind, why, written) = match step {
            CertificateStep::NewCa { previous, why } => {
                let issued = issuer::issue_ca(now, self.settings.ca_lifetime).map_err(issuing_error)?;
                let data = BTreeMap::from([
                    ("ca.crt", Some(issued.certificate)),
                    ("ca.key", Some(issued.key)),
                    ("previous.crt", previous_text(previous)),
                ]);
                (CertificateObject::Ca, *why, write_ca(data).await)
            }
            CertificateStep::PreviousCas { previous } => {
                let mut data = BTreeMap::from([("previous.crt", previous_text(previous))]);
                // If the Secret cannot be changed, it is created again and needs all keys.
                for key in ["ca.crt", "ca.key"] {
                    let text = stored.ca.as_ref().and_then(|ca| String::from_utf8(ca.content.get(key).to_vec()).ok());
                    data.insert(key, text);
                }
                let why = "its previous CAs are not those that are needed";
                (CertificateObject::Ca, why, write_ca(data).await)
            }
            CertificateStep::Bundle { configuration, bundle } => {
                let configuration = stored.configurations.get(*configuration);
                let configuration = configuration.ok_or_else(|| issuing_error("there is no such configuration"))?;
                let written = self.store.write_bundle(configuration, bundle).await;
                (CertificateObject::Bundle, "its caBundle does not contain exactly the CAs in use", written)
            }
            CertificateStep::NewPair { why } => {
                let ca = plan.signing_ca.as_ref().ok_or_else(|| issuing_error("there is no CA"))?;
                let issued = issuer::issue_pair(ca, &self.settings.names, now, self.settings.lifetime);
                let issued = issued.map_err(issuing_error)?;
                let data = BTreeMap::from([
                    ("tls.crt", Some(issued.certificate)),
                    ("tls.key", Some(issued.key)),
                    ("ca.crt", Some(x509::pem([&ca.certificate]))),
                ]);
                let written = self.store.write_secret(TLS_SECRET, stored.tls.as_ref(), data).await;
                (CertificateObject::Serving, why.as_str(), written)
            }
        };
        self.leading.metrics.certificate_written(kind, WriteOutcome::of(&written));
        written.map(|()| why)
    }

    /// The object that a step writes; `None` if there is no such configuration.
    fn object(&self, step: &CertificateStep, stored: &StoredObjects) -> Option<ObjectReference> {
        match step {
            CertificateStep::NewCa { .. } | CertificateStep::PreviousCas { .. } => {
                Some(self.store.reference(CA_SECRET))
            }
            CertificateStep::NewPair { .. } => Some(self.store.reference(TLS_SECRET)),
            CertificateStep::Bundle { configuration, .. } => {
                stored.configurations.get(*configuration).map(StoredConfiguration::reference)
            }
        }
    }

    fn report_dates(&self, plan: &CertificatePlan, problem: Option<&str>) {
        let dates = |valid: &Range<i64>| {
            let time = |seconds| Timestamp::from_second(seconds).map(time_text).unwrap_or_default();
            CertificateDates { not_before: time(valid.start), not_after: time(valid.end) }
        };
        let newest = CertificateReport {
            managed: true,
            ca: plan.ca_valid.as_ref().map(dates),
            serving: plan.pair_valid.as_ref().map(dates),
            last_error: problem.map(short_error),
        };
        self.leading.report.update(|facts| facts.certificates = Some(newest));
    }

    /// The dates stay unchanged.
    fn report_error(&self, error: &str) {
        self.leading.report.update(|facts| {
            let last_error = Some(short_error(error));
            let standing = facts.certificates.take().unwrap_or_default();
            facts.certificates = Some(CertificateReport { managed: true, last_error, ..standing });
        });
    }

    /// Whether another writer probably undoes the writes.
    fn has_too_many_writes(&mut self) -> bool {
        while self.writes.front().is_some_and(|written| written.elapsed() > WINDOW) {
            self.writes.pop_front();
        }
        self.writes.len() > MAX_WRITES
    }

    fn report_injectors(&mut self, stored: &StoredObjects) {
        for configuration in &stored.configurations {
            let reported = self.reported_injectors.contains(&configuration.endpoint);
            match configuration.injector {
                Some(annotation) if !reported => {
                    self.reported_injectors.push(configuration.endpoint);
                    tracing::warn!(
                        object = describe(&configuration.reference()),
                        annotation,
                        "another tool fills in its caBundle; remove the annotation, or run the controller without \
                         --webhook-service and the webhook with that tool's certificate"
                    );
                }
                None if reported => self.reported_injectors.retain(|endpoint| *endpoint != configuration.endpoint),
                _ => {}
            }
        }
    }
}

/// How long the hash has been unchanged, as far as this process observed it.
fn unchanged_for(last: &mut Option<(u64, Instant)>, hash: u64) -> Duration {
    match last {
        Some((same, since)) if *same == hash => since.elapsed(),
        _ => {
            *last = Some((hash, Instant::now()));
            Duration::ZERO
        }
    }
}

fn previous_text(previous: &[CaCertificate]) -> Option<String> {
    (!previous.is_empty()).then(|| x509::pem(previous))
}

fn issuing_error(error: impl Display) -> Error {
    Error::Service(format!("cannot issue a certificate: {error}").into())
}
