//! Two controllers, of which one works: killed, stopped and continued, and asked to go, while nodes change all the time.
//!
//! The witness is the API server's audit log. Every process has a user of its own, so the log says who wrote what and
//! when, and who held the lease at that time.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use mullion_cluster::{ControlPlane, MullionProcess, NodeSpec, Seen, free_port, wait_for};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::audit::AuditLog;
use crate::rights::{self, Subject};
use crate::shared::DEADLINE;

const ROUNDS: usize = 50;
/// How many requests may be cut off between the last look at the clock and the wire, without their body: one was seen in
/// 75 stops, on a machine with more work than it had cores for.
const MOST_LATE: usize = 2;
/// How often the leader is asked to go, besides.
const HANDOVERS: usize = 4;
/// The shortest lease that there is, in seconds: most of a round is a wait for its end.
const LEASE: &str = "1";
const NAMESPACE: &str = "leaders";
const GROUP: &str = "controllers-under-test";
const USER: &str = "controller-under-test-";
const REVISION: &str = "mullion.dev/windows-revision";
/// Nodes that stay; others come and go.
const STAYING: usize = 12;

/// A control plane that writes down what the controllers change, with the answers where the lease is concerned.
pub struct Audited {
    plane: ControlPlane,
    log: AuditLog,
}

/// Started by the trial that asks.
#[derive(Default)]
pub struct Lazily;

impl Lazily {
    pub async fn get(&self) -> Box<Audited> {
        Box::new(Audited::start().await.expect("the audited control plane starts"))
    }
}

impl Audited {
    async fn start() -> Result<Self> {
        let writes = ["create", "update", "patch", "delete", "deletecollection"];
        let log = AuditLog::of(&json!([
            {"level": "RequestResponse", "userGroups": [GROUP], "verbs": writes,
                "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
            {"level": "Request", "userGroups": [GROUP], "verbs": writes},
            {"level": "None"},
        ]))?;
        let plane = log.written_by(ControlPlane::builder()).scheduler(false).start().await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        plane.kubectl_with_input(&["create", "-f", "-"], &namespace.to_string()).await?;
        // The same rights for every process.
        rights::of_controller(&plane, NAMESPACE, "default", Subject::Group(GROUP)).await?;
        Ok(Self { plane, log })
    }

    /// Waits until one of the processes holds the lease and has written something else from now on: it is in the middle
    /// of its work. Which one.
    async fn wait_for_work(&self, among: &[Controller]) -> Result<usize> {
        let from = usize::try_from(std::fs::metadata(self.log.path())?.len())?;
        wait_for("the leader to write", DEADLINE, async || {
            // Anew each time: on a busy machine a lease this short is lost now and then.
            let (which, _) = wait_for_holder(&self.plane, among).await.map_err(|error| format!("{error:#}"))?;
            let user = among.get(which).map_or_else(String::new, |one| format!("\"username\":\"{}\"", one.user));
            let log = std::fs::read(self.log.path()).map_err(|error| error.to_string())?;
            let new = String::from_utf8_lossy(log.get(from..).unwrap_or_default()).into_owned();
            let works = new.lines().any(|line| line.contains(&user) && !line.contains("\"leases\""));
            if works { Ok(which) } else { Err(format!("{} bytes of the log", new.len())) }
        })
        .await
    }
}

/// One process.
struct Controller {
    process: MullionProcess,
    user: String,
    identity: String,
}

impl Controller {
    async fn start(plane: &ControlPlane) -> Result<Self> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let user = format!("{USER}{}", STARTED.fetch_add(1, Ordering::Relaxed));
        let (kubeconfig, admin) = (plane.kubeconfig_for(&user, &[GROUP])?, free_port()?);
        let process = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
            .args(["controller", "--lease-duration", LEASE, "--lease-namespace", NAMESPACE])
            .args(["--admin-bind", &format!("127.0.0.1:{admin}"), "--kubeconfig", &kubeconfig.to_string_lossy()])
            .env("NO_COLOR", "1")
            .admin(([127, 0, 0, 1], admin).into())
            .start()
            .await?;
        let log = process.log()?;
        let identity = log
            .split_once("identity")
            .and_then(|(_, rest)| rest.split(['=', '"', ':', ' ', ',', '\n']).find(|word| !word.is_empty()))
            .with_context(|| format!("no identity in the log: {log}"))?;
        Ok(Self { user, identity: identity.to_owned(), process })
    }

    fn signal(&self, name: &str) -> Result<()> {
        let pid = self.process.pid().context("no process")?.to_string();
        ensure!(Command::new("kill").args(["-s", name, &pid]).status()?.success(), "kill -s {name} {pid}");
        Ok(())
    }
}

async fn lease(plane: &ControlPlane) -> Result<LeaseSpec> {
    let api: Api<Lease> = Api::namespaced(plane.client(), NAMESPACE);
    api.get("mullion-controller").await?.spec.context("a lease without a spec")
}

/// Waits until one of the processes holds the lease; which one, and what the Lease says.
async fn wait_for_holder(plane: &ControlPlane, among: &[Controller]) -> Result<(usize, LeaseSpec)> {
    wait_for("one of the controllers to hold the lease", DEADLINE, async || {
        for one in among {
            if let Ok(Some(ended)) = one.process.ended() {
                let log = one.process.log().unwrap_or_default();
                return Seen::Hopeless(anyhow::anyhow!("{} ended ({ended}):\n{log}", one.identity));
            }
        }
        match lease(plane).await {
            Ok(spec) => match among.iter().position(|one| Some(&one.identity) == spec.holder_identity.as_ref()) {
                Some(which) => Seen::Done((which, spec)),
                None => Seen::NotYet(format!("{spec:?}")),
            },
            Err(error) => Seen::NotYet(format!("{error:#}")),
        }
    })
    .await
}

/// People and other tools at work on nodes, until `stop`; gives how often they changed something.
struct Churn {
    stop: CancellationToken,
    tasks: Vec<JoinHandle<Result<usize>>>,
    versions: Versions,
}

/// Which versions nodes had, and when at the latest: name, `resourceVersion`, time as in the audit log.
type Versions = Arc<Mutex<Vec<(String, u64, String)>>>;

fn note(versions: &Versions, node: &Node) -> Result<()> {
    let version = node.metadata.resource_version.as_deref().unwrap_or_default().parse()?;
    let entry = (node.metadata.name.clone().unwrap_or_default(), version, format!("{:.6}", jiff::Timestamp::now()));
    versions.lock().unwrap().push(entry);
    Ok(())
}

fn staying(number: usize) -> String {
    format!("stays-{number}")
}

impl Churn {
    fn start(plane: &ControlPlane) -> Self {
        let (api, stop): (Api<Node>, _) = (Api::all(plane.client()), CancellationToken::new());
        let versions = Versions::default();
        let mut tasks = vec![tokio::spawn(come_and_go(api.clone(), stop.clone()))];
        for worker in 0..2 {
            let (api, stop, versions) = (api.clone(), stop.clone(), Arc::clone(&versions));
            tasks.push(tokio::spawn(async move {
                let mut edits = 0;
                while !stop.is_cancelled() {
                    let name = staying((edits * 2 + worker) % STAYING);
                    edit(&api, &name, edits, &versions).await.with_context(|| format!("edit {edits} of {name}"))?;
                    edits += 1;
                }
                Ok(edits)
            }));
        }
        Self { stop, tasks, versions }
    }

    async fn stop(self) -> Result<usize> {
        self.stop.cancel();
        let mut edits = 0;
        for task in self.tasks {
            edits += task.await??;
        }
        Ok(edits)
    }
}

/// Nodes that are created and deleted again.
async fn come_and_go(api: Api<Node>, stop: CancellationToken) -> Result<usize> {
    let mut number = 0_usize;
    while !stop.is_cancelled() {
        let node = NodeSpec::windows(&format!("goes-{number}"), "10.0.20348.2655").build()?;
        api.create(&PostParams::default(), &node).await?;
        number += 1;
        if let Some(old) = number.checked_sub(6) {
            api.delete(&format!("goes-{old}"), &DeleteParams::default()).await?;
        }
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    Ok(number)
}

fn theirs(number: usize) -> Taint {
    Taint { key: format!("third.example/{}", number % 3), effect: "NoSchedule".to_owned(), ..Taint::default() }
}

/// Takes a label of Mullion's away, and adds a taint or takes an own one away, with the version that was read.
async fn edit(api: &Api<Node>, name: &str, edits: usize, versions: &Versions) -> Result<()> {
    let drift = json!({"metadata": {"labels": {REVISION: null}}});
    note(versions, &api.patch(name, &PatchParams::default(), &Patch::Merge(drift)).await?)?;
    let round = edits / (STAYING / 2);
    loop {
        let mut node = api.get(name).await?;
        let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
        // Three taints: each is there for two rounds of three, whoever else writes meanwhile.
        let (new, old) = (theirs(round), round.checked_sub(2).map(theirs));
        ensure!(!taints.iter().any(|taint| taint.key == new.key), "{} came by itself: {taints:?}", new.key);
        if let Some(old) = old {
            let before = taints.len();
            taints.retain(|taint| taint.key != old.key);
            ensure!(taints.len() + 1 == before, "somebody took {} away: {taints:?}", old.key);
        }
        taints.push(new);
        match api.replace(name, &PostParams::default(), &node).await {
            Ok(node) => return note(versions, &node),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Fifty times the leader is killed, or stopped and continued once the other leads; then it is asked to go a few times.
/// Never two write at the same time, nothing is missed, and nobody loses a taint.
pub(crate) async fn one_writes_at_a_time(audited: &Audited) -> Result<()> {
    let plane = &audited.plane;
    let specs: Vec<_> = (0..STAYING).map(|number| NodeSpec::windows(&staying(number), "10.0.20348.2655")).collect();
    plane.create_nodes(&specs).await?;
    let mut running = vec![Controller::start(plane).await?];
    wait_for_holder(plane, &running).await?;
    running.push(Controller::start(plane).await?);
    let churn = Churn::start(plane);
    let began = std::time::Instant::now();
    for round in 0..ROUNDS {
        let what = || format!("round {round}");
        if round % 2 == 0 {
            let (which, _) = wait_for_holder(plane, &running).await.with_context(what)?;
            running.remove(which).process.kill().with_context(what)?;
            // The next one starts while the other still waits for the lease to end.
            running.push(Controller::start(plane).await.with_context(what)?);
        } else {
            let leader = running.remove(audited.wait_for_work(&running).await.with_context(what)?);
            leader.signal("STOP").with_context(what)?;
            let taken = wait_for_holder(plane, &running).await.with_context(what);
            leader.signal("CONT").with_context(what)?;
            taken?;
            running.push(leader);
        }
    }
    eprintln!("{ROUNDS} rounds took {:.1} s", began.elapsed().as_secs_f64());
    let mut transitions = BTreeMap::new();
    for handover in 0..HANDOVERS {
        running.push(Controller::start(plane).await?);
        let (which, before) = wait_for_holder(plane, &running).await?;
        let leader = running.remove(which);
        let (status, log) = leader.process.stop().await?;
        ensure!(status.success(), "handover {handover}: {status}\n{log}");
        let (_, after) = wait_for_holder(plane, &running).await?;
        transitions.insert(leader.user, (before.lease_transitions, after.lease_transitions));
    }
    let versions = Arc::clone(&churn.versions);
    let edits = churn.stop().await?;
    nothing_is_missed(plane).await?;
    for one in running {
        let (status, log) = one.process.stop().await?;
        ensure!(status.success(), "{status}\n{log}");
    }

    let log = std::fs::read_to_string(audited.log.path())?;
    let writes = log.lines().map(Write::of).collect::<Result<Vec<_>>>()?;
    let story = Story::of(&writes, &versions.lock().unwrap())?;
    eprintln!(
        "{edits} edits of others, {} lease writes, {} terms, {} with work, {} other writes, {} of them late and cut off",
        story.lease_writes,
        story.terms.len(),
        story.working_terms.len(),
        story.writes,
        story.refused_late
    );
    ensure!(story.refused_late <= MOST_LATE, "{} requests were late", story.refused_late);
    ensure!(story.terms.len() > ROUNDS, "{} terms in {ROUNDS} rounds", story.terms.len());
    ensure!(story.working_terms.len() >= ROUNDS / 2, "work in {} terms only", story.working_terms.len());
    for (user, (before, after)) in transitions {
        // Vacated, and taken up with no write between: nobody waited for the lease to end.
        ensure!(story.vacated.contains(&user), "{user} did not give the lease up");
        ensure!(after == before.map(|before| before + 1), "{user}: {before:?} → {after:?} transitions");
    }
    Ok(())
}

/// Every Windows node that is there has its labels and its one taint.
async fn nothing_is_missed(plane: &ControlPlane) -> Result<()> {
    let api: Api<Node> = Api::all(plane.client());
    wait_for("labels and taints on all nodes", DEADLINE, async || {
        for node in api.list(&kube::api::ListParams::default()).await?.items {
            let name = node.metadata.name.unwrap_or_default();
            let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
            let (ours, others): (Vec<_>, Vec<_>) = taints
                .iter()
                .filter(|taint| !taint.key.starts_with("node.kubernetes.io/"))
                .partition(|taint| taint.key == "os");
            let labels = node.metadata.labels.unwrap_or_default();
            if ours.len() != 1 || labels.get(REVISION).is_none_or(|revision| revision != "2655") {
                bail!("{name}: {labels:?} {taints:?}");
            }
            if name.starts_with("stays-") && others.len() != 2 {
                bail!("{name} lost a taint of others: {taints:?}");
            }
        }
        Ok(())
    })
    .await
}

/// One write of the audit log.
struct Write {
    user: String,
    /// With microseconds, so that text sorts as time.
    received: String,
    code: i64,
    /// Whether a body came with it: nothing is written without.
    body: bool,
    what: String,
    /// Of a node: its name, and the version that the write was made from.
    node: Option<(String, u64)>,
    /// What the Lease says after a write of it.
    lease: Option<LeaseSpec>,
}

impl Write {
    fn of(line: &str) -> Result<Self> {
        let event: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let lease = event["objectRef"]["resource"] == "leases";
        let node = text("/objectRef/name").filter(|_| event["objectRef"]["resource"] == "nodes");
        let version = text("/requestObject/metadata/resourceVersion").and_then(|version| version.parse().ok());
        let spec = event.pointer("/responseObject/spec").cloned().filter(|_| lease);
        Ok(Self {
            user: text("/user/username").context("no user")?,
            received: text("/requestReceivedTimestamp").context("no time")?,
            code: event["responseStatus"]["code"].as_i64().unwrap_or(0),
            body: event.get("requestObject").is_some(),
            what: format!("{} {}", text("/verb").unwrap_or_default(), text("/requestURI").unwrap_or_default()),
            node: node.zip(version),
            lease: if lease { Some(spec.map(serde_json::from_value).transpose()?.unwrap_or_default()) } else { None },
        })
    }
}

/// What the log tells.
#[derive(Default)]
struct Story {
    /// Who led from when: in order, each until the next.
    terms: Vec<(String, Option<String>)>,
    lease_writes: usize,
    writes: usize,
    /// When those terms began in which something was done.
    working_terms: BTreeSet<String>,
    /// Requests that were cut off on their way.
    refused_late: usize,
    /// Who gave the lease up.
    vacated: BTreeSet<String>,
}

impl Story {
    /// Fails where somebody wrote who did not lead.
    fn of(writes: &[Write], versions: &[(String, u64, String)]) -> Result<Self> {
        let mut story = Self::default();
        let mut lease: Vec<_> = writes.iter().filter(|write| write.lease.is_some() && write.code < 300).collect();
        lease.sort_by_key(|write| &write.received);
        for write in &lease {
            story.lease_writes += 1;
            let held = write
                .lease
                .as_ref()
                .is_some_and(|spec| spec.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty()));
            if !held {
                story.vacated.insert(write.user.clone());
            }
            let holder = held.then(|| write.user.clone());
            if story.terms.last().is_none_or(|(_, before)| *before != holder) {
                story.terms.push((write.received.clone(), holder));
            }
        }
        for write in writes.iter().filter(|write| write.lease.is_none()) {
            story.writes += 1;
            let term = story.terms.iter().rfind(|(from, _)| *from <= write.received);
            if let Some((from, holder)) = term
                && holder.as_ref() == Some(&write.user)
            {
                story.working_terms.insert(from.clone());
                continue;
            }
            // Stopped between its last look at the clock and the system call that sends: microseconds, unless the
            // machine is busy. Continued, it hangs up at once, before the body: the server answers 504 to nobody, and
            // has nothing to write. With a body only what is refused for its resourceVersion does no harm, or would have
            // been, had the server not heard first that nobody waits for the answer.
            let overtaken = write.node.as_ref().is_some_and(|(name, from)| {
                versions.iter().any(|(node, version, at)| node == name && version > from && *at < write.received)
            });
            let renewed = lease.iter().rfind(|one| one.user == write.user && one.received <= write.received);
            ensure!(
                !write.body || write.code == 409 || (write.code == 504 && overtaken),
                "{} wrote at {} ({}, {}) in the term {term:?}; it last wrote the lease at {:?}",
                write.user,
                write.received,
                write.what,
                write.code,
                renewed.map(|one| &one.received)
            );
            eprintln!(
                "late: {} at {} ({}, {}), which last wrote the lease at {:?}; {term:?}",
                write.user,
                write.received,
                write.what,
                write.code,
                renewed.map(|one| &one.received)
            );
            story.refused_late += 1;
        }
        Ok(story)
    }
}
