//! The Linux default: what an undecided subject gets in a cluster that has Windows nodes too.
//!
//! Most charts say nothing about operating systems because they never met a cluster with two. They mean Linux. The
//! default gives them that, unless anything at all hints at something else.

use super::constraint;
use super::image::ImageOs;
use super::toleration::marks;
use super::verdict::{Asked, Decision, Says, Verdict, node_constraints};
use super::world::Os;
use crate::policy::{LinuxDefault, NodePolicy};

/// How containerd names its handlers on Windows: `runhcs-wcow-process`, `runhcs-wcow-hypervisor` and its kin.
const WINDOWS_HANDLERS: &str = "runhcs-";

/// Who asks for the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// A pod, or a template that is no DaemonSet's.
    Ordinary,
    /// A DaemonSet that is created.
    NewDaemonSet,
    /// A DaemonSet that is updated, or a DaemonSet's pod: its nodes are chosen already.
    SettledDaemonSet,
}

/// Whether an undecided subject gets Linux; if not, why, as a clause.
pub fn linux_by_default(
    asked: &Asked<'_>,
    decision: &Decision,
    nodes: &NodePolicy,
    whose: Asker,
) -> Result<(), &'static str> {
    let Asked { pod, world, .. } = asked;
    if decision.verdict != Verdict::Undecided || !decision.placement {
        return Err("something else decided");
    }
    match asked.settings.default {
        LinuxDefault::Nothing => return Err("the policy gives no default"),
        LinuxDefault::LinuxWhenMixed if !world.mixed() => return Err("the cluster has no Windows nodes"),
        LinuxDefault::LinuxWhenMixed | LinuxDefault::Linux => {}
    }
    if decision.evidence.iter().any(|evidence| evidence.says == Says::LooksWindows) {
        return Err("something in it looks like Windows");
    }
    match whose {
        Asker::SettledDaemonSet => return Err("a DaemonSet's nodes are chosen already"),
        Asker::NewDaemonSet if asked.images.iter().any(|image| image.facts.os == ImageOs::Multi) => {
            return Err("its images exist for Windows too, and a DaemonSet may mean every node");
        }
        Asker::NewDaemonSet | Asker::Ordinary => {}
    }
    if pod.text("/spec/nodeName").is_some() || constraint::affinity_node_name(pod).is_some() {
        return Err("its node is chosen already");
    }
    if let Some(name) = pod.text("/spec/runtimeClassName") {
        match world.runtime_classes.get(name) {
            None => return Err("its RuntimeClass is not known"),
            Some(class) if class.handler.starts_with(WINDOWS_HANDLERS) => {
                return Err("the handler of its RuntimeClass is for Windows");
            }
            Some(_) => {}
        }
    }
    let constraints = node_constraints(asked);
    let Some(known) = &world.nodes else {
        return if constraints.is_empty() { Ok(()) } else { Err("its node constraints cannot be checked") };
    };
    let linux = || known.iter().filter(|node| node.os == Some(Os::Linux));
    let fits = |node: &super::world::Node| node.os == Some(Os::Linux) && constraints.fit(node);
    if !constraints.is_empty() && !known.samples(constraints.keys()).any(fits) {
        return Err("no Linux node satisfies its node constraints");
    }
    let marked = |node: &super::world::Node| node.taints.iter().any(|taint| marks(&nodes.linux_taints, taint));
    if linux().next().is_some() && linux().all(marked) {
        return Err("every Linux node is tainted as one, so no selector means Windows");
    }
    if known.has_unknown_os() {
        return Err("a node does not say its operating system");
    }
    Ok(())
}
