//! Runs the checks in their order, and decides which do not run: because of the arguments, missing rights, the policies in
//! force, or a check that they need. A check that panics fails, and the others go on.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;
use mullion_engine::model::text::list;
use mullion_engine::model::windows::Build;
use tokio::time::{Instant, sleep};

use crate::cli::verify::checks::{CheckContext, CheckOutcome, admission, audit, before, nodes, pods, reported};
use crate::cli::verify::namespace::RunNamespaces;
use crate::cli::verify::requests::{RefusedBy, create};
use crate::cli::verify::scenarios::explicit_linux_pod;
use crate::cli::verify::table::{CHECKS, CheckId, Effect, Right, VerifyCheck};
use crate::cluster::reading::PODS;
use crate::report::verify::{VerifyResult, VerifyStatus};

/// The number of checks with pods at the same time.
const AT_ONCE: usize = 4;
/// The most builds with a pod of their own.
const MOST_BUILDS: usize = 8;
/// How long a new namespace may take to accept pods: its service account comes later.
const READY: Duration = Duration::from_secs(30);
/// How often that is tried.
const INTERVAL: Duration = Duration::from_millis(250);

/// A run of the checks.
pub(super) struct Runner<'a> {
    pub(super) cx: CheckContext<'a>,
    pub(super) namespaces: &'a RunNamespaces<'a>,
    /// The names of `--check` with those that they need; empty: all.
    pub(super) selected: Vec<String>,
    /// The rights that the user does not have.
    pub(super) missing: Vec<Right>,
    /// Those of [`INSTALLATION`](crate::cli::verify::table::INSTALLATION).
    pub(super) missing_for_installation: Vec<Right>,
}

/// A check, and the build that it is about.
type Task = (&'static VerifyCheck, Option<Build>);

impl Runner<'_> {
    /// Runs the checks, and calls `show` with each result. Returns why the checks could not run in this cluster; `None` if
    /// they could.
    pub(super) async fn run(&self, show: &mut dyn FnMut(VerifyResult)) -> Option<String> {
        let mut statuses: Vec<(CheckId, VerifyStatus)> = Vec::new();
        let (mut in_the_way, mut prepared) = (None, false);
        let mut with_pods: Vec<Task> = Vec::new();
        for task in self.tasks() {
            let (check, _) = task;
            let skipped = self.skipped(check, &statuses);
            if skipped.is_none() && check.effect > Effect::Reads && !prepared {
                prepared = true;
                in_the_way = self.prepare().await.err().map(|why| format!("the namespaces were not created: {why}"));
            }
            let blocked = in_the_way.as_ref().filter(|_| check.effect > Effect::Reads);
            let outcome = match skipped.or_else(|| blocked.map(|why| CheckOutcome::skipped(why.clone()))) {
                Some(outcome) => outcome,
                None if check.effect == Effect::Creates => {
                    with_pods.push(task);
                    continue;
                }
                None => self.outcome(task).await,
            };
            if check.id == CheckId::WebhookCalled && outcome.status == VerifyStatus::Skipped && in_the_way.is_none() {
                in_the_way = (!self.is_without_effect() && self.can(check)).then(|| outcome.seen.clone());
            }
            statuses.push((check.id, outcome.status));
            show(self.result(task, outcome));
        }
        let mut outcomes =
            stream::iter(with_pods).map(async |task| (task, self.outcome(task).await)).buffer_unordered(AT_ONCE);
        while let Some((task, outcome)) = outcomes.next().await {
            show(self.result(task, outcome));
        }
        in_the_way
    }

    /// The checks of the run, one for each build where that applies.
    pub(super) fn tasks(&self) -> Vec<Task> {
        let selected = CHECKS.iter().filter(|check| check.is_selected(self.cx.args.pre, &self.selected));
        let builds = self.cx.facts.fleet.as_ref().map(super::fleet::Fleet::builds).unwrap_or_default();
        let mut tasks = Vec::new();
        for check in selected.filter(|check| check.id != CheckId::Cleanup) {
            if check.id == CheckId::WindowsPod && !builds.is_empty() {
                // The newest ones, if there are more.
                tasks.extend(builds.iter().rev().take(MOST_BUILDS).map(|build| (check, Some(*build))));
            } else {
                tasks.push((check, None));
            }
        }
        tasks
    }

    /// The result with its name.
    pub(super) fn result(&self, (check, build): Task, outcome: CheckOutcome) -> VerifyResult {
        let subject = build.zip(self.cx.facts.fleet.as_ref().ok()).map(|(build, fleet)| fleet.release(build));
        result(check, subject, outcome)
    }

    fn is_without_effect(&self) -> bool {
        self.cx.without_effect().is_some()
    }

    fn can(&self, check: &VerifyCheck) -> bool {
        !check.all_rights().iter().any(|right| self.missing.contains(right))
    }

    /// The outcome of a check that does not run.
    fn skipped(&self, check: &VerifyCheck, statuses: &[(CheckId, VerifyStatus)]) -> Option<CheckOutcome> {
        if self.cx.args.dry_run && check.effect == Effect::Creates {
            return Some(CheckOutcome::not_tried("it creates objects, and --dry-run does not"));
        }
        // A dry run creates no namespace.
        let needed = |right: &Right| !(self.cx.args.dry_run && right.resource == "namespaces");
        let missing: Vec<String> = check
            .all_rights()
            .iter()
            .filter(|right| needed(right) && self.missing.contains(right))
            .map(Right::words)
            .collect();
        if !missing.is_empty() {
            return Some(CheckOutcome::skipped(format!("no right to {}", list(missing))));
        }
        let failed = check.needs.iter().find(|needed| statuses.contains(&(**needed, VerifyStatus::Failed)));
        if let Some(failed) = failed {
            return Some(CheckOutcome::skipped(format!("{} failed", failed.name())));
        }
        if !check.needs.is_empty()
            && let Some(why) = self.cx.without_effect()
        {
            return Some(audit(&why));
        }
        let is_open = |needed: &CheckId| {
            let is_good = statuses.contains(&(*needed, VerifyStatus::Ok));
            *needed == CheckId::WebhookCalled && !is_good
        };
        let open = check.needs.iter().find(|needed| is_open(needed))?;
        Some(CheckOutcome::skipped(format!("{} did not run", open.name())))
    }

    /// Creates the namespaces, and waits until the first accepts pods.
    async fn prepare(&self) -> Result<(), String> {
        if self.cx.args.dry_run {
            return Ok(());
        }
        self.namespaces.create().await?;
        let pod = explicit_linux_pod("ready", &self.cx.images.linux());
        let began = Instant::now();
        loop {
            match create(self.cx.client, &PODS, self.cx.namespace, &pod, true).await {
                Err(refused) if refused.by == RefusedBy::NotReadyYet => {
                    if began.elapsed() > READY {
                        return Err(refused.message());
                    }
                }
                // What else refuses a pod is the subject of the checks.
                Ok(_) | Err(_) => return Ok(()),
            }
            sleep(INTERVAL).await;
        }
    }

    /// Runs a check.
    async fn outcome(&self, task: Task) -> CheckOutcome {
        match AssertUnwindSafe(self.run_check(task)).catch_unwind().await {
            Ok(Ok(outcome) | Err(outcome)) => self.with_pod_security(outcome),
            Err(_) => {
                CheckOutcome::failed("the check ended with a panic, which is a defect of this program; report it")
            }
        }
    }

    /// The outcome with the reason for which the namespace lacks its label.
    fn with_pod_security(&self, mut outcome: CheckOutcome) -> CheckOutcome {
        if outcome.status == VerifyStatus::Skipped
            && outcome.seen.starts_with("Pod Security")
            && let Some(why) = self.namespaces.without_pod_security_label()
        {
            outcome.items.push(format!("the namespace did not get the label for privileged pods: {why}"));
        }
        outcome
    }

    async fn run_check(&self, (check, build): Task) -> Result<CheckOutcome, CheckOutcome> {
        let (cx, facts) = (&self.cx, self.cx.facts);
        let fleet = || facts.fleet.as_ref().map_err(|why| CheckOutcome::skipped(format!("nodes not known: {why}")));
        let policy = facts.node_settings();
        match check.id {
            CheckId::KubernetesVersion => Ok(before::kubernetes_version(&facts.kubernetes)),
            CheckId::Fleet => Ok(before::fleet(fleet()?)),
            CheckId::InstallRights => Ok(before::install_rights(&self.missing_for_installation)),
            CheckId::FreeNames => Ok(before::free_names(facts)),
            CheckId::WebhookCalled => Ok(admission::webhook_called(cx).await),
            CheckId::PoliciesLoaded => Ok(reported::policies_loaded(facts, Timestamp::now())),
            CheckId::NodeLabels => Ok(nodes::labels(fleet()?, &policy)),
            CheckId::NodeTaints => Ok(nodes::taints(fleet()?, &policy)),
            CheckId::RuntimeClasses => Ok(nodes::runtime_classes(facts, fleet()?)),
            CheckId::MissedPods => Ok(reported::missed_pods(facts, Timestamp::now())),
            CheckId::ChangesStored => Ok(admission::changes_stored(cx).await),
            CheckId::NoToleration => admission::no_toleration(cx).await,
            CheckId::DaemonSet => admission::daemon_set_stays_off(cx).await,
            CheckId::ExplicitLinux => admission::explicit_linux(cx).await,
            CheckId::Denials => Ok(admission::denials(cx).await),
            CheckId::NewestImage => admission::newest_image(cx).await,
            CheckId::ExemptNamespace => Ok(admission::exempt_namespace(cx).await),
            CheckId::LinuxPod => pods::linux(cx).await,
            CheckId::WindowsPod => match build {
                Some(build) => pods::windows(cx, build).await,
                None => Ok(CheckOutcome::skipped("there is no Windows node with a known build")),
            },
            CheckId::JobPod => pods::job_pod(cx).await,
            CheckId::StatefulSetPod => pods::stateful_set_pod(cx).await,
            CheckId::HostProcessPod => pods::host_process(cx).await,
            CheckId::Cleanup => Ok(CheckOutcome::not_tried("it is the last step of a run")),
        }
    }
}

/// A result with the name and the texts of its check.
pub(super) fn result(check: &VerifyCheck, subject: Option<String>, outcome: CheckOutcome) -> VerifyResult {
    let CheckOutcome { status, seen, items } = outcome;
    VerifyResult {
        name: check.name,
        subject,
        status,
        proves: check.proves,
        seen,
        items,
        means: (status == VerifyStatus::Failed).then_some(check.means),
        page: check.page(),
    }
}
