//! Two controllers, of which one leads: killed, stopped and continued, and terminated, while nodes change all the time.
//!
//! The evidence is the API server's audit log. Every process has a user of its own, so the log shows which process
//! wrote what and when, and which process held the lease at that time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use mullion_cluster::{ControlPlane, Fixture, MullionProcess, NodeSpec, Seen, free_port, wait_for};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::audit::{AuditLog, ensure_conditional};
use crate::rights::{self, Subject};
use crate::shared::DEADLINE;

/// How often the leader is killed or stopped, and how often it is terminated and releases the lease.
fn rounds_and_handovers() -> (usize, usize) {
    if mullion_cluster::soak() { (50, 4) } else { (8, 1) }
}

/// Leases in seconds. Most of a round is a wait for the end of a lease, so the shortest possible comes first. On a
/// machine that is too busy for it the result is [`Unclear`], and the test runs again with a longer one.
const LEASES: [&str; 2] = ["1", "9"];
const NAMESPACE: &str = "leaders";
const GROUP: &str = "controllers-under-test";
const USER: &str = "controller-under-test-";
const REVISION: &str = "mullion.dev/windows-revision";
/// The maximum number of pending requests of a controller: 16 about nodes, and one each about RuntimeClasses,
/// `mullion-state`, the policy files and the probe.
const UNDER_WAY: usize = 20;
/// The number of nodes that stay; others are created and deleted.
const STAYING: usize = 12;

/// A control plane with an audit log of the controllers' writes, with the responses about the lease.
pub struct Audited {
    plane: ControlPlane,
    log: AuditLog,
}

impl Fixture for Audited {
    fn keep_logs(&self) -> Vec<PathBuf> {
        vec![self.plane.keep_logs()]
    }
}

impl Audited {
    pub async fn start() -> Result<Self> {
        let writes = ["create", "update", "patch", "delete", "deletecollection"];
        let log = AuditLog::of(&json!([
            // A review: nothing is stored, whichever process leads.
            {"level": "None",
                "resources": [{"group": "authentication.k8s.io", "resources": ["selfsubjectreviews"]}]},
            {"level": "RequestResponse", "userGroups": [GROUP], "verbs": writes,
                "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
            {"level": "Request", "userGroups": [GROUP], "verbs": writes},
            {"level": "None"},
        ]))?;
        let plane = log.written_by(ControlPlane::builder()).scheduler(false).start().await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        plane.kubectl_with_input(&["create", "-f", "-"], &namespace.to_string()).await?;
        // Every process has the same permissions.
        rights::of_controller(&plane, NAMESPACE, "default", Subject::Group(GROUP)).await?;
        Ok(Self { plane, log })
    }

    /// Waits until one of the processes holds the lease and has written something else since, so that it is working.
    /// Returns its index.
    async fn wait_for_work(&self, among: &[Controller]) -> Result<usize> {
        let from = usize::try_from(std::fs::metadata(self.log.path())?.len())?;
        wait_for("the leader to write", DEADLINE, async || {
            // Read again each time, because on a busy machine a lease this short is lost occasionally.
            let (which, _) = wait_for_holder(&self.plane, among).await.map_err(|error| format!("{error:#}"))?;
            let user = among.get(which).map_or_else(String::new, |one| format!("\"username\":\"{}\"", one.user));
            let log = std::fs::read(self.log.path()).map_err(|error| error.to_string())?;
            let new = String::from_utf8_lossy(log.get(from..).unwrap_or_default()).into_owned();
            let works = new.lines().any(|line| line.contains(&user) && !line.contains("\"leases\""));
            if works { Ok(which) } else { Err(format!("{} bytes of the log", new.len())) }
        })
        .await
        .map_err(|error| Unclear(format!("{error:#}")).into())
    }
}

/// A running process lost the lease because the machine was busy: no process held it long enough to do anything, or to
/// release it.
#[derive(Debug)]
struct Unclear(String);

impl std::fmt::Display for Unclear {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        text.write_str(&self.0)
    }
}

impl std::error::Error for Unclear {}

/// One process.
struct Controller {
    process: MullionProcess,
    user: String,
    identity: String,
}

impl Controller {
    async fn start(plane: &ControlPlane, lease: &str) -> Result<Self> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let user = format!("{USER}{}", STARTED.fetch_add(1, Ordering::Relaxed));
        let (kubeconfig, admin) = (plane.kubeconfig_for(&user, &[GROUP])?, free_port()?);
        let process = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
            .args(["controller", "--lease-duration", lease, "--lease-namespace", NAMESPACE])
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

    /// Kills the process: it sends nothing from now on.
    fn kill(&self) -> Result<Absence> {
        self.process.kill()?;
        Ok(Absence { user: self.user.clone(), from: now(), until: None })
    }

    /// Stops the process: it sends nothing until it is continued.
    async fn stop_in_its_tracks(&self) -> Result<Absence> {
        self.signal("STOP")?;
        // Threads run until the signal reaches them.
        let tasks = format!("/proc/{}/task", self.process.pid().context("no process")?);
        wait_for("every thread to stand still", DEADLINE, async || {
            for task in std::fs::read_dir(&tasks)? {
                let status = std::fs::read_to_string(task?.path().join("stat"))?;
                ensure!(status.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')), "{status}");
            }
            Ok(())
        })
        .await?;
        Ok(Absence { user: self.user.clone(), from: now(), until: None })
    }

    fn go_on(&self, stopped: &mut Absence) -> Result<()> {
        stopped.until = Some(now());
        self.signal("CONT")
    }
}

/// When a process could send nothing: text that sorts as time, as in the audit log.
struct Absence {
    user: String,
    from: String,
    /// `None` if it still cannot.
    until: Option<String>,
}

fn now() -> String {
    format!("{:.6}", jiff::Timestamp::now())
}

async fn lease(plane: &ControlPlane) -> Result<LeaseSpec> {
    let api: Api<Lease> = Api::namespaced(plane.client(), NAMESPACE);
    api.get("mullion-controller").await?.spec.context("a lease without a spec")
}

/// Waits until one of the processes holds the lease; returns its index, and the Lease.
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

/// Changes of nodes by people and other tools, until `stop`, which returns the number of changes.
struct Churn {
    stop: CancellationToken,
    tasks: Vec<JoinHandle<Result<usize>>>,
}

fn staying(number: usize) -> String {
    format!("stays-{number}")
}

impl Churn {
    fn start(plane: &ControlPlane) -> Self {
        let (api, stop): (Api<Node>, _) = (Api::all(plane.client()), CancellationToken::new());
        let mut tasks = vec![tokio::spawn(come_and_go(api.clone(), stop.clone()))];
        for worker in 0..2 {
            let (api, stop) = (api.clone(), stop.clone());
            tasks.push(tokio::spawn(async move {
                let mut edits = 0;
                while !stop.is_cancelled() {
                    let name = staying((edits * 2 + worker) % STAYING);
                    edit(&api, &name, edits).await.with_context(|| format!("edit {edits} of {name}"))?;
                    edits += 1;
                }
                Ok(edits)
            }));
        }
        Self { stop, tasks }
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

/// Removes a label of Mullion, and adds or removes a taint of its own, with the version that was read.
async fn edit(api: &Api<Node>, name: &str, edits: usize) -> Result<()> {
    let drift = json!({"metadata": {"labels": {REVISION: null}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(drift)).await?;
    let round = edits / (STAYING / 2);
    loop {
        let mut node = api.get(name).await?;
        let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
        // Three taints: each exists for two of three rounds, even if other clients write meanwhile.
        let (new, old) = (theirs(round), round.checked_sub(2).map(theirs));
        ensure!(!taints.iter().any(|taint| taint.key == new.key), "{} came by itself: {taints:?}", new.key);
        if let Some(old) = old {
            let before = taints.len();
            taints.retain(|taint| taint.key != old.key);
            ensure!(taints.len() + 1 == before, "somebody took {} away: {taints:?}", old.key);
        }
        taints.push(new);
        match api.replace(name, &PostParams::default(), &node).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Repeatedly the leader is killed, or stopped and continued once the other leads; then it is terminated a few times.
/// Two processes never write at the same time, no node is missed, and no third-party taint is lost.
pub(crate) async fn one_writes_at_a_time(audited: &Audited) -> Result<()> {
    let [short, long] = LEASES;
    match play(audited, short).await {
        Err(error) if error.is::<Unclear>() => {
            eprintln!("too busy a machine for leases of {short} s: {error:#}");
            play(&Audited::start().await?, long).await
        }
        other => other,
    }
}

async fn play(audited: &Audited, duration: &str) -> Result<()> {
    let (rounds, handovers) = rounds_and_handovers();
    let plane = &audited.plane;
    let specs: Vec<_> = (0..STAYING).map(|number| NodeSpec::windows(&staying(number), "10.0.20348.2655")).collect();
    plane.create_nodes(&specs).await?;
    let mut running = vec![Controller::start(plane, duration).await?];
    wait_for_holder(plane, &running).await?;
    running.push(Controller::start(plane, duration).await?);
    let churn = Churn::start(plane);
    let mut absences = Vec::new();
    let began = std::time::Instant::now();
    for round in 0..rounds {
        let what = || format!("round {round}");
        if round % 2 == 0 {
            let (which, _) = wait_for_holder(plane, &running).await.with_context(what)?;
            absences.push(running.remove(which).kill().with_context(what)?);
            // The next one starts while the other still waits for the lease to end.
            running.push(Controller::start(plane, duration).await.with_context(what)?);
        } else {
            let leader = running.remove(audited.wait_for_work(&running).await.with_context(what)?);
            let mut stopped = leader.stop_in_its_tracks().await.with_context(what)?;
            let taken = wait_for_holder(plane, &running).await.with_context(what);
            leader.go_on(&mut stopped).with_context(what)?;
            taken?;
            absences.push(stopped);
            running.push(leader);
        }
    }
    eprintln!("leaders: {rounds} rounds took {:.1} s", began.elapsed().as_secs_f64());
    let mut handed_over = BTreeSet::new();
    for attempt in 0.. {
        running.push(Controller::start(plane, duration).await?);
        let (which, _) = wait_for_holder(plane, &running).await?;
        let leader = running.remove(which);
        let (status, log) = leader.process.stop().await?;
        ensure!(status.success(), "{status}\n{log}");
        // Not if it had already lost the lease, which is that short.
        if log.contains("lease released") {
            handed_over.insert(leader.user);
        }
        if handed_over.len() == handovers {
            break;
        }
        if attempt >= 5 * handovers {
            return Err(Unclear(format!("the lease was released {} times only:\n{log}", handed_over.len())).into());
        }
    }
    wait_for_holder(plane, &running).await?;
    let edits = churn.stop().await?;
    nothing_is_missed(plane).await?;
    for one in running {
        let (status, log) = one.process.stop().await?;
        ensure!(status.success(), "{status}\n{log}");
    }

    let log = std::fs::read_to_string(audited.log.path())?;
    let requests = log.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    requests.iter().try_for_each(ensure_conditional)?;
    let writes = requests.iter().map(Write::of).collect::<Result<Vec<_>>>()?;
    let story = Story::of(&writes, &absences);
    story.ensure_nobody_went_on()?;
    eprintln!(
        "leaders: {edits} edits of others, {} lease writes, {} terms, {} with work, {} other writes, {} of them late",
        story.lease_writes,
        story.terms.len(),
        story.working_terms.len(),
        story.writes,
        story.late.len()
    );
    ensure!(story.terms.len() > rounds, "{} terms in {rounds} rounds", story.terms.len());
    ensure!(story.working_terms.len() >= rounds / 2, "work in {} terms only", story.working_terms.len());
    for user in handed_over {
        let (before, after) = story.vacated.get(&user).with_context(|| format!("{user} did not give the lease up"))?;
        // Released, and acquired without a write in between: no process waited for the lease to end.
        ensure!(*after == before.map(|before| before + 1), "{user}: {before:?} → {after:?} transitions");
    }
    Ok(())
}

/// Every Windows node has its labels and its one taint.
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
    /// Whether it had a body: nothing is written without one.
    body: bool,
    what: String,
    /// The Lease after a write of it.
    lease: Option<LeaseSpec>,
}

impl Write {
    fn of(event: &Value) -> Result<Self> {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let lease = event["objectRef"]["resource"] == "leases";
        let spec = event.pointer("/responseObject/spec").cloned().filter(|_| lease);
        Ok(Self {
            user: text("/user/username").context("no user")?,
            received: text("/requestReceivedTimestamp").context("no time")?,
            code: event["responseStatus"]["code"].as_i64().unwrap_or(0),
            body: event.get("requestObject").is_some(),
            what: format!("{} {}", text("/verb").unwrap_or_default(), text("/requestURI").unwrap_or_default()),
            lease: if lease { Some(spec.map(serde_json::from_value).transpose()?.unwrap_or_default()) } else { None },
        })
    }
}

/// The leaders and their writes, by the log.
#[derive(Default)]
struct Story<'a> {
    /// The leaders with the start of their terms, in order; each term lasts until the next.
    terms: Vec<(String, Option<String>)>,
    lease_writes: usize,
    writes: usize,
    /// The starts of the terms with a write.
    working_terms: BTreeSet<String>,
    /// Writes that arrived after their writer's term, and may have been sent after it.
    late: Vec<Late<'a>>,
    /// Releases of the lease: its transitions then, and with the next write of it.
    vacated: BTreeMap<String, (Option<i32>, Option<i32>)>,
}

struct Late<'a> {
    write: &'a Write,
    /// When the next term began.
    lost: String,
    /// Whether its writer was stopped at that time.
    stood: bool,
}

impl<'a> Story<'a> {
    fn of(writes: &'a [Write], absences: &[Absence]) -> Self {
        let mut story = Self::default();
        let mut lease: Vec<_> = writes.iter().filter(|write| write.lease.is_some() && write.code < 300).collect();
        lease.sort_by_key(|write| &write.received);
        for (at, write) in lease.iter().enumerate() {
            story.lease_writes += 1;
            let transitions = |write: &Write| write.lease.as_ref().and_then(|spec| spec.lease_transitions);
            let held = write
                .lease
                .as_ref()
                .is_some_and(|spec| spec.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty()));
            if !held {
                let next = lease.get(at + 1).and_then(|next| transitions(next));
                story.vacated.insert(write.user.clone(), (transitions(write), next));
            }
            let holder = held.then(|| write.user.clone());
            if story.terms.last().is_none_or(|(_, before)| *before != holder) {
                story.terms.push((write.received.clone(), holder));
            }
        }
        for write in writes.iter().filter(|write| write.lease.is_none()) {
            story.writes += 1;
            let begun = story.terms.partition_point(|(from, _)| *from <= write.received);
            let led = story.terms.get(..begun).unwrap_or_default();
            let own = led.iter().rposition(|(_, holder)| holder.as_ref() == Some(&write.user));
            let next = led.get(own.map_or(0, |own| own + 1)).map(|(from, _)| from);
            if own.is_some() && next.is_none() {
                story.working_terms.extend(led.last().map(|(from, _)| from.clone()));
                continue;
            }
            let lost = next.cloned().unwrap_or_default();
            let mut stood = absences.iter().filter(|one| {
                one.user == write.user && one.from < lost && one.until.as_ref().is_none_or(|until| *until > lost)
            });
            match stood.next() {
                // A request can wait in the API server, longer if the machine is busy: a process that has sent nothing
                // since the next term began sent this one before.
                Some(still) if still.until.as_ref().is_none_or(|until| *until > write.received) => {}
                stood => story.late.push(Late { write, lost, stood: stood.is_some() }),
            }
        }
        story
    }

    /// Fails if a process continued after another led. Requests that were pending when its term ended may arrive late.
    fn ensure_nobody_went_on(&self) -> Result<()> {
        let mut requests: BTreeMap<_, usize> = BTreeMap::new();
        for Late { write, lost, stood } in &self.late {
            eprintln!(
                "late: {} at {} ({}, {}, body: {}); the next term began at {lost}, stopped: {stood}",
                write.user, write.received, write.what, write.code, write.body
            );
            let late = requests.entry((&write.user, lost)).or_default();
            // Usually it closes the connection immediately, before the body: then the server has nothing to write.
            *late += usize::from(write.body);
            ensure!(*late <= UNDER_WAY, "{} went on after {lost}, when another led", write.user);
        }
        Ok(())
    }
}
