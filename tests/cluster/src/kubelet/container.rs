//! One container of a pod: its process and its status.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use std::{fs, iter};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStatus, Pod, PodSecurityContext, Probe, SecurityContext,
};
use kube::ResourceExt as _;

use super::Image;
use super::environment::expand;
use super::probe::Prober;
use super::status::now;
use super::volumes::Volumes;
use crate::network::Sandbox;

/// Pauses between restarts: none before the first restart, then doubled each time. A run of ten minutes resets the
/// pauses.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));
const GOOD_RUN: Duration = Duration::from_secs(600);
/// The value that container runtimes set if the image does not set it.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The state of a container.
#[derive(Debug)]
pub(super) enum State {
    Waiting { reason: &'static str, message: String },
    Running(Box<Run>),
    Ended(End),
}

/// A process and its probes.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) since: String,
    started_at: Instant,
    startup: Option<Prober>,
    readiness: Option<Prober>,
    liveness: Option<Prober>,
    pub(super) started: bool,
    pub(super) ready: bool,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) since: String,
    pub(super) at: String,
    pub(super) code: i32,
    pub(super) reason: &'static str,
}

/// A container with its history.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) spec: Container,
    /// The name of its process in the kubelet's group of processes.
    pub(super) process: String,
    pub(super) state: State,
    pub(super) last: Option<End>,
    pub(super) restarts: i32,
    pause: Duration,
    not_before: Option<Instant>,
}

/// The data of the pod that the parts of a start need.
pub(super) struct Site<'a> {
    pub(super) pod: &'a Pod,
    pub(super) folder: &'a Path,
    pub(super) sandbox: &'a Sandbox,
    pub(super) volumes: &'a Volumes,
}

impl Played {
    pub(super) fn new(pod: &Pod, spec: Container) -> Self {
        let process = format!("{}.{}.{}", pod.namespace().unwrap_or_default(), pod.name_any(), spec.name);
        let state = State::Waiting { reason: "ContainerCreating", message: String::new() };
        Self { spec, process, state, last: None, restarts: 0, pause: Duration::ZERO, not_before: None }
    }

    /// Continues from the status that an earlier kubelet reported.
    pub(super) fn recall(&mut self, status: &ContainerStatus) {
        self.restarts = status.restart_count;
        let ran = |state: &ContainerState| state.running.is_some() || state.terminated.is_some();
        if status.state.as_ref().is_some_and(ran) {
            self.restarts += 1;
        }
    }

    /// Whether the pause before the next start is over.
    pub(super) fn due(&self) -> bool {
        matches!(self.state, State::Waiting { .. }) && self.not_before.is_none_or(|time| Instant::now() >= time)
    }

    /// The command that becomes the container, and its probes.
    pub(super) fn prepare(
        &self,
        site: &Site<'_>,
        image: &Image,
        variables: &BTreeMap<String, String>,
    ) -> Result<(Command, Run)> {
        let prober =
            |probe: &Option<Probe>| probe.as_ref().map(|probe| Prober::new(probe, &self.spec, site)).transpose();
        let run = Run {
            since: now(),
            started_at: Instant::now(),
            startup: prober(&self.spec.startup_probe)?,
            readiness: prober(&self.spec.readiness_probe)?,
            liveness: prober(&self.spec.liveness_probe)?,
            started: self.spec.startup_probe.is_none(),
            ready: false,
        };
        Ok((command(&self.spec, site, image, variables)?, run))
    }

    /// Evaluates the probes; true means that the container must be killed.
    pub(super) async fn probe(&mut self, address: std::net::Ipv4Addr) -> bool {
        let State::Running(run) = &mut self.state else { return false };
        if !run.started {
            match run.startup.as_mut() {
                None => run.started = true,
                Some(startup) => match startup.look(address).await {
                    Some(true) => run.started = true,
                    Some(false) => return true,
                    None => {}
                },
            }
            // The other probes wait for the first one.
            return false;
        }
        run.ready = match run.readiness.as_mut() {
            None => true,
            Some(readiness) => readiness.look(address).await == Some(true),
        };
        match run.liveness.as_mut() {
            None => false,
            Some(liveness) => liveness.look(address).await == Some(false),
        }
    }

    /// Records the end of the process; `again` is whether it will be restarted.
    pub(super) fn ended(&mut self, status: ExitStatus, again: bool) {
        let State::Running(run) = &self.state else { return };
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
        let reason = if code == 0 { "Completed" } else { "Error" };
        let end = End { since: run.since.clone(), at: now(), code, reason };
        if !again {
            self.state = State::Ended(end);
            return;
        }
        if run.started_at.elapsed() > GOOD_RUN {
            self.pause = Duration::ZERO;
        }
        self.not_before = Some(Instant::now() + self.pause);
        let message = format!("back-off {}s restarting failed container", self.pause.as_secs());
        self.pause = (self.pause * 2).clamp(BACK_OFF.0, BACK_OFF.1);
        self.restarts += 1;
        self.last = Some(end);
        self.state = State::Waiting { reason: "CrashLoopBackOff", message };
    }
}

fn command(spec: &Container, site: &Site<'_>, image: &Image, variables: &BTreeMap<String, String>) -> Result<Command> {
    let pod = site.pod.spec.as_ref().context("a pod without a spec")?;
    let own = spec.security_context.clone().unwrap_or_default();
    let common = pod.security_context.clone().unwrap_or_default();
    let (user, group) = identity(&own, &common, image)?;

    let mut mounts: Vec<(String, PathBuf, bool)> = Vec::new();
    for mount in spec.volume_mounts.iter().flatten() {
        ensure!(
            mount.sub_path.is_none() && mount.sub_path_expr.is_none(),
            "{}: subPath is not simulated",
            mount.mount_path
        );
        let (source, read_only) = site.volumes.source(&mount.name)?;
        mounts.push((mount.mount_path.clone(), source.to_owned(), read_only || mount.read_only == Some(true)));
    }
    for folder in &image.folders {
        mounts.push((folder.display().to_string(), folder.clone(), true));
    }
    mounts.sort(); // a mount point comes after the mount that contains it
    let mut lines = String::new();
    for (target, source, read_only) in &mounts {
        let source = source.to_str().context("a path that is not UTF-8")?;
        ensure!(
            !target.contains(char::is_whitespace) && !source.contains(char::is_whitespace),
            "white space in {target}"
        );
        lines.extend([if *read_only { "ro " } else { "rw " }, source, " ", target, "\n"]);
    }

    let root = site.folder.join(format!("{}.root", spec.name));
    fs::create_dir_all(&root)?;
    let hostname = site.pod.name_any();
    let mut command = Command::new("nsenter");
    command.arg(site.sandbox.enter()).args(["--", "unshare", "--mount", "--uts", "--", "sh", "-c"]);
    command.args([include_str!("container.sh"), "container"]).arg(&root);
    command.args([&hostname, &user.to_string(), &group.to_string()]);
    command.arg(if own.read_only_root_filesystem == Some(true) { "yes" } else { "no" });
    command.arg(&image.program).arg(lines).arg(spec.working_dir.as_deref().unwrap_or("/"));
    let words = |list: &Option<Vec<String>>| -> Vec<String> {
        list.iter().flatten().map(|word| expand(word, variables)).collect()
    };
    match words(&spec.command) {
        entrypoint if entrypoint.is_empty() => command.args(iter::once(Image::ENTRYPOINT.to_owned())),
        entrypoint => command.args(entrypoint),
    };
    command.args(words(&spec.args));
    command.env_clear().env("PATH", PATH).env("HOSTNAME", &hostname).envs(variables);
    Ok(command)
}

/// The container's user and group ids.
fn identity(own: &SecurityContext, common: &PodSecurityContext, image: &Image) -> Result<(i64, i64)> {
    let user = own.run_as_user.or(common.run_as_user).unwrap_or(image.user);
    let group = own.run_as_group.or(common.run_as_group).unwrap_or(image.user);
    if user == 0 && own.run_as_non_root.or(common.run_as_non_root) == Some(true) {
        bail!("container has runAsNonRoot and image will run as root");
    }
    Ok((user, group))
}
