//! The follower of the Lease: reads and writes it as the election requires, and publishes the result.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use tokio::sync::watch as channel;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::cluster::reading::{Item, KindApi, LEASES};
use crate::cluster::{Owner, owner_references};
use crate::controller::lease::election::{Election, NextStep, WriteResult};
use crate::controller::lease::fence::{Fence, LeaseTerm};
use crate::controller::lease::record::{LEASE_NAME, LeaseClaim, LeaseRecord, ReadLease};
use crate::controller::lease::timing::LeaseTiming;

/// The timeout of the release at the end: longer than a busy API server takes, and a pod's grace period is 30 s.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);

/// The lease in the view of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LeaseStatus {
    /// The holder; `None` until the Lease has been read once.
    pub holder: Option<String>,
    /// Why it cannot be read or written.
    pub problem: Option<String>,
    /// Whether it has been read once.
    pub read: bool,
}

/// Acquires the lease when it is free, renews it while this process holds it, and releases it at the end.
#[derive(Debug)]
pub(crate) struct LeaseFollower {
    /// The lease in the view of this process.
    pub status: channel::Receiver<LeaseStatus>,
    hold: channel::Receiver<Option<LeaseTerm>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl LeaseFollower {
    /// Follows the Lease of `namespace` (`get`, `create`, `update` on it) until the follower is released, and sets its
    /// owner when this process creates it or takes it over. `client` must not retry, because a renewal counts from its
    /// beginning.
    pub(crate) fn start(client: Client, namespace: &str, timing: LeaseTiming, identity: String, owner: Owner) -> Self {
        let (status_sender, status) = channel::channel(LeaseStatus::default());
        let (hold_sender, hold) = channel::channel(None);
        let stop = CancellationToken::new();
        let task = LeaseTask {
            api: KindApi::namespaced(client, &LEASES, namespace),
            namespace: namespace.to_owned(),
            timing,
            election: Election::new(identity.clone(), timing),
            identity,
            owner,
            last: None,
            status_sender,
            hold_sender,
        };
        let task = tokio::spawn(task.run(stop.clone()));
        Self { status, hold, stop, task }
    }

    /// Waits until this process leads, and returns the fence of the term.
    pub(crate) async fn wait_for_term(&self) -> Fence {
        let mut hold = self.hold.clone();
        loop {
            hold.mark_unchanged();
            if let Some(fence) = Fence::new(self.hold.clone()) {
                return fence;
            }
            if hold.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until the follower has ended, which only a defect can cause.
    pub(crate) async fn wait_for_end(&self) {
        let mut hold = self.hold.clone();
        // The task owns the sender.
        while hold.changed().await.is_ok() {}
    }

    /// Stops leading, and releases the lease if this process holds it, so that others need not wait for its end. Takes
    /// at most 3 s. Call it after the last write.
    pub(crate) async fn release(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the follower of the lease panicked");
        }
    }
}

struct LeaseTask {
    api: KindApi,
    namespace: String,
    timing: LeaseTiming,
    identity: String,
    election: Election,
    owner: Owner,
    /// The Lease as last read or written, whose other fields are kept.
    last: Option<Lease>,
    status_sender: channel::Sender<LeaseStatus>,
    hold_sender: channel::Sender<Option<LeaseTerm>>,
}

impl LeaseTask {
    async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.step() => self.publish_hold(),
            }
        }
        self.election.resign();
        self.publish_hold();
        if self.election.may_hold() && !timeout(RELEASE_TIMEOUT, self.release()).await.unwrap_or(false) {
            tracing::warn!("the lease could not be released; other controllers wait until it ends");
        }
    }

    async fn get(&self) -> anyhow::Result<Option<Lease>> {
        let lease: Option<Item<ReadLease>> = self.api.get(LEASE_NAME).await?;
        Ok(lease.transpose()?.map(Lease::from))
    }

    async fn step(&mut self) {
        match self.election.next_step(Instant::now()) {
            NextStep::Wait(wait) => tokio::time::sleep(wait).await,
            NextStep::Read => self.read_lease().await,
            NextStep::Write => self.write_lease().await,
        }
    }

    async fn read_lease(&mut self) {
        let response = timeout(self.timing.request_timeout(), self.get()).await;
        let now = Instant::now();
        match response.context("no response in time").flatten() {
            Ok(lease) => {
                let record = lease.as_ref().map(LeaseRecord::of);
                self.last = lease;
                self.election.end_read(now, record, random_fraction());
                // The problem of a failed write stays until a write succeeds.
                let due = self.election.next_step(now) == NextStep::Write;
                let problem = self.status_sender.borrow().problem.clone().filter(|_| due);
                self.publish_status(problem);
            }
            Err(error) => {
                self.election.fail_read(now);
                self.publish_status(Some(self.problem("read", &error)));
            }
        }
    }

    async fn write_lease(&mut self) {
        let began = Instant::now();
        let (version, claim) = self.election.begin_write(began, Timestamp::now());
        let response = timeout(self.timing.request_timeout(), self.send(version.as_deref(), &claim)).await;
        let now = Instant::now();
        let (result, problem) = match response.context("no response in time").and_then(|response| Ok(response??)) {
            Ok(lease) => {
                let lease = Lease::from(lease);
                let record = LeaseRecord::of(&lease);
                self.last = Some(lease);
                (WriteResult::Done(record), None)
            }
            Err(error) => {
                let result = failed_write(&error, version.is_some());
                let problem = (result != WriteResult::Conflict).then(|| self.problem("write", &error));
                (result, problem)
            }
        };
        self.election.end_write(began, claim.renew_time, now, result);
        self.publish_status(problem);
    }

    /// Creates the Lease, or updates the version that was read.
    async fn send(&self, version: Option<&str>, claim: &LeaseClaim) -> kube::Result<Item<ReadLease>> {
        let (Some(version), Some(last)) = (version, &self.last) else {
            let mut lease = Lease { metadata: self.owner.metadata(LEASE_NAME).await?, ..Lease::default() };
            claim.set_in(&mut lease);
            return self.api.create(&lease).await;
        };
        let mut lease = last.clone();
        lease.metadata.resource_version = Some(version.to_owned());
        claim.set_in(&mut lease);
        let what = format!("Lease {}/{LEASE_NAME}", self.namespace);
        owner_references::write_with_owners(&what, self.owners(last).await, |owners| {
            let mut lease = lease.clone();
            if owners.is_some() {
                lease.metadata.owner_references = owners;
            }
            async move { self.api.replace(LEASE_NAME, &lease).await }
        })
        .await
    }

    /// The owners to set in a Lease that is about to be taken over; `None` if they stay. A holder set them when it took
    /// the Lease over.
    async fn owners(&self, last: &Lease) -> Option<Vec<OwnerReference>> {
        if last.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref()) == Some(&self.identity) {
            return None;
        }
        // An error does not prevent leading.
        self.owner.corrected(last.metadata.owner_references.as_deref().unwrap_or_default()).await.ok().flatten()
    }

    /// Retries until this process is no longer the holder; returns `false` after an error.
    async fn release(&mut self) -> bool {
        loop {
            let Ok(lease) = self.get().await else { return false };
            let record = lease.as_ref().map(LeaseRecord::of).unwrap_or_default();
            if record.holder.as_deref() != Some(&self.identity) {
                return true;
            }
            self.last = lease;
            match self.send(Some(&record.version), &LeaseClaim::release(&record, Timestamp::now())).await {
                Ok(_) => {
                    tracing::info!(identity = self.identity, "lease released");
                    return true;
                }
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(_) => return false,
            }
        }
    }

    /// The message about a failed request, with a remedy.
    fn problem(&self, verb: &str, error: &anyhow::Error) -> String {
        let (code, why) = match error.downcast_ref() {
            Some(kube::Error::Api(status)) => (status.code, status.message.clone()),
            _ => (0, format!("{error:#}")),
        };
        let remedy = match code {
            403 => "allow get, create and update on leases of coordination.k8s.io there",
            404 => "create the namespace, or choose another with --namespace",
            _ => "trying again",
        };
        format!("cannot {verb} Lease {}/{LEASE_NAME}: {why}; {remedy}", self.namespace)
    }

    /// Publishes the status, and logs what changed.
    fn publish_status(&self, problem: Option<String>) {
        let holder = self.election.holder().map(str::to_owned);
        self.status_sender.send_if_modified(|status| {
            let read = status.read || problem.is_none();
            let new = LeaseStatus { holder, problem, read };
            let changed = *status != new;
            if changed {
                match &new.problem {
                    Some(problem) if status.problem != new.problem => tracing::error!("{problem}"),
                    None if status.problem.is_some() => tracing::info!("the lease can be read and written again"),
                    _ => {}
                }
                if status.holder != new.holder {
                    if let Some(holder) = new.holder.as_deref() {
                        tracing::info!(holder, ours = holder == self.identity, "the lease is held");
                    } else {
                        tracing::info!("no controller holds the lease");
                    }
                }
                *status = new;
            }
            changed
        });
    }

    fn publish_hold(&self) {
        let hold = self.election.hold().map(|(term, until)| LeaseTerm { term, until });
        self.hold_sender.send_if_modified(|published| std::mem::replace(published, hold) != hold);
    }
}

/// The result of a write with this error.
fn failed_write(error: &anyhow::Error, update: bool) -> WriteResult {
    match error.downcast_ref() {
        Some(kube::Error::Api(status)) if status.code == 409 || (status.code == 404 && update) => WriteResult::Conflict,
        Some(kube::Error::Api(status)) if (400..500).contains(&status.code) => WriteResult::Rejected,
        _ => WriteResult::Unknown,
    }
}

/// A random number from 0 to 1.
fn random_fraction() -> f64 {
    let (most, number) = (f64::from(u32::MAX), RandomState::new().hash_one(()));
    f64::from(u32::try_from(number >> 32).unwrap_or(0)) / most
}
