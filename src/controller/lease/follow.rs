//! The shell around the election: reads and writes the Lease, and says what came of it.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client};
use tokio::sync::watch as channel;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::cluster::owner_references;
use crate::cluster::owner_references::Owner;
use crate::cluster::write_params::post_params;
use crate::controller::lease::election::{Election, Step, Written};
use crate::controller::lease::fence::{Fence, Hold};
use crate::controller::lease::record::{Claim, Record};
use crate::controller::lease::{NAME, Timing};

/// How long giving the lease up may take at the end: longer than a busy API server takes, and a pod's grace is 30 s.
const VACATE: Duration = Duration::from_secs(3);

/// The lease as this process sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Who holds it; nobody, until it has been read once.
    pub holder: Option<String>,
    /// Why it is not known or not to be had; for people.
    pub problem: Option<String>,
    /// Whether it has been read once.
    pub read: bool,
}

/// Takes the lease when it is free, renews it while it is held, and gives it up at the end.
#[derive(Debug)]
pub struct Follower {
    /// How it stands.
    pub standing: channel::Receiver<Standing>,
    hold: channel::Receiver<Option<Hold>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Follows the Lease of `namespace` (`get`, `create`, `update` on it) for as long as the process lives; who makes it, or
/// takes it over, makes it `owner`'s. `client` must not retry by itself: a write that is sent again later than it seems
/// would prolong nothing.
pub fn follow(client: Client, namespace: &str, timing: Timing, identity: String, owner: Owner) -> Follower {
    let (say_standing, standing) = channel::channel(Standing::default());
    let (say_hold, hold) = channel::channel(None);
    let stop = CancellationToken::new();
    let seat = Seat {
        api: Api::namespaced(client, namespace),
        namespace: namespace.to_owned(),
        timing,
        election: Election::new(identity.clone(), timing),
        identity,
        owner,
        last: None,
        say_standing,
        say_hold,
    };
    let task = tokio::spawn(seat.run(stop.clone()));
    Follower { standing, hold, stop, task }
}

impl Follower {
    /// Waits until this process leads, and fences the term in.
    pub async fn gained(&self) -> Fence {
        let mut hold = self.hold.clone();
        loop {
            hold.mark_unchanged();
            if let Some(fence) = Fence::around(self.hold.clone()) {
                return fence;
            }
            if hold.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until the lease is followed no more, which only a defect can cause.
    pub async fn ended(&self) {
        let mut hold = self.hold.clone();
        // The task owns the sender.
        while hold.changed().await.is_ok() {}
    }

    /// Leads no more, and gives the lease up if it is held, so that others need not wait for its end. Takes 3 s at
    /// most. To be called when nothing is written any more.
    pub async fn vacate(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "following the lease broke");
        }
    }
}

struct Seat {
    api: Api<Lease>,
    namespace: String,
    timing: Timing,
    identity: String,
    election: Election,
    owner: Owner,
    /// The Lease as last read or written, whose other content is kept.
    last: Option<Lease>,
    say_standing: channel::Sender<Standing>,
    say_hold: channel::Sender<Option<Hold>>,
}

impl Seat {
    async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.step() => self.say(),
            }
        }
        self.election.resign();
        self.say();
        if self.election.may_hold() && timeout(VACATE, self.vacate()).await.is_err() {
            tracing::warn!("the lease could not be given up in time; others wait until it ends");
        }
    }

    async fn step(&mut self) {
        match self.election.next(Instant::now()) {
            Step::Wait(wait) => tokio::time::sleep(wait).await,
            Step::Read => self.read().await,
            Step::Write => self.write().await,
        }
    }

    async fn read(&mut self) {
        let answer = timeout(self.timing.call(), self.api.get_opt(NAME)).await;
        let now = Instant::now();
        match answer.context("no answer in time").and_then(|answer| Ok(answer?)) {
            Ok(found) => {
                let record = found.as_ref().map(Record::of);
                self.last = found;
                self.election.read(now, record, fraction());
                // What is to be written next failed before, and may again: only a write ends that.
                let due = self.election.next(now) == Step::Write;
                let problem = self.say_standing.borrow().problem.clone().filter(|_| due);
                self.standing(problem);
            }
            Err(error) => {
                self.election.read_failed(now);
                self.standing(Some(self.told("read", &error)));
            }
        }
    }

    async fn write(&mut self) {
        let began = Instant::now();
        let (version, claim) = self.election.begin(began, Timestamp::now());
        let answer = timeout(self.timing.call(), self.send(version.as_deref(), &claim)).await;
        let now = Instant::now();
        let (outcome, problem) = match answer.context("no answer in time").and_then(|answer| Ok(answer?)) {
            Ok(lease) => {
                let record = Record::of(&lease);
                self.last = Some(lease);
                (Written::Done(record), None)
            }
            Err(error) => {
                let outcome = outcome(&error, version.is_some());
                let problem = (outcome != Written::Conflict).then(|| self.told("write", &error));
                (outcome, problem)
            }
        };
        self.election.written(began, claim.renew_time, now, outcome);
        self.standing(problem);
    }

    /// Creates the Lease, or updates the version that was read.
    async fn send(&self, version: Option<&str>, claim: &Claim) -> kube::Result<Lease> {
        let params = &post_params();
        let (Some(version), Some(last)) = (version, &self.last) else {
            let mut lease = Lease { metadata: self.owner.metadata(NAME).await?, ..Lease::default() };
            claim.put_into(&mut lease);
            return self.api.create(params, &lease).await;
        };
        let mut lease = last.clone();
        lease.metadata.resource_version = Some(version.to_owned());
        claim.put_into(&mut lease);
        let what = format!("Lease {}/{NAME}", self.namespace);
        owner_references::write_with_owners(&what, self.owners(last).await, |owners| {
            let mut lease = lease.clone();
            if owners.is_some() {
                lease.metadata.owner_references = owners;
            }
            async move { self.api.replace(NAME, params, &lease).await }
        })
        .await
    }

    /// The owners that a Lease should have that is about to be taken over; `None`: as they are. Whoever holds it already
    /// has seen to that.
    async fn owners(&self, last: &Lease) -> Option<Vec<OwnerReference>> {
        if last.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref()) == Some(&self.identity) {
            return None;
        }
        // Leading does not wait for it.
        self.owner.corrected(last.metadata.owner_references.as_deref().unwrap_or_default()).await.ok().flatten()
    }

    /// Until it is not ours any more, or the API server does not let us.
    async fn vacate(&mut self) {
        loop {
            let Ok(found) = self.api.get_opt(NAME).await else { break };
            let record = found.as_ref().map(Record::of).unwrap_or_default();
            if record.holder.as_deref() != Some(&self.identity) {
                return;
            }
            self.last = found;
            match self.send(Some(&record.version), &Claim::vacate(&record, Timestamp::now())).await {
                Ok(_) => {
                    tracing::info!(identity = self.identity, "lease given up");
                    return;
                }
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(_) => break,
            }
        }
        tracing::warn!("the lease could not be given up; others wait until it ends");
    }

    /// What went wrong, and what to do.
    fn told(&self, verb: &str, error: &anyhow::Error) -> String {
        let (code, why) = match error.downcast_ref() {
            Some(kube::Error::Api(status)) => (status.code, status.message.clone()),
            _ => (0, format!("{error:#}")),
        };
        let advice = match code {
            403 => "allow get, create and update on leases of coordination.k8s.io there",
            404 => "create the namespace, or name another with --lease-namespace",
            _ => "trying again",
        };
        format!("cannot {verb} Lease {}/{NAME}: {why}; {advice}", self.namespace)
    }

    /// Says how the lease stands; to people only what is new.
    fn standing(&self, problem: Option<String>) {
        let holder = self.election.holder().map(str::to_owned);
        self.say_standing.send_if_modified(|standing| {
            let read = standing.read || problem.is_none();
            let new = Standing { holder, problem, read };
            let changed = *standing != new;
            if changed {
                match &new.problem {
                    Some(problem) if standing.problem != new.problem => tracing::error!("{problem}"),
                    None if standing.problem.is_some() => tracing::info!("the lease can be read and written again"),
                    _ => {}
                }
                if standing.holder != new.holder {
                    if let Some(holder) = new.holder.as_deref() {
                        tracing::info!(holder, ours = holder == self.identity, "the lease is held");
                    } else {
                        tracing::info!("nobody holds the lease");
                    }
                }
                *standing = new;
            }
            changed
        });
    }

    fn say(&self) {
        let hold = self.election.hold().map(|(term, until)| Hold { term, until });
        self.say_hold.send_if_modified(|said| std::mem::replace(said, hold) != hold);
    }
}

/// Whether a write that brought this error happened.
fn outcome(error: &anyhow::Error, update: bool) -> Written {
    match error.downcast_ref() {
        Some(kube::Error::Api(status)) if status.code == 409 || (status.code == 404 && update) => Written::Conflict,
        Some(kube::Error::Api(status)) if (400..500).contains(&status.code) => Written::Refused,
        _ => Written::Unknown,
    }
}

/// A random number from 0 to 1.
fn fraction() -> f64 {
    let (most, number) = (f64::from(u32::MAX), RandomState::new().hash_one(()));
    f64::from(u32::try_from(number >> 32).unwrap_or(0)) / most
}
