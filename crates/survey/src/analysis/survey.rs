//! The survey: reviews each workload once, and puts the report together.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use mullion_engine::model::image::ImageOs;
use mullion_engine::model::windows::Build;
use mullion_engine::model::{DetectedOs, Os};
use mullion_engine::place::find_unlearned_taints;
use mullion_policy::PolicySet;

use crate::analysis::agents::AgentPools;
use crate::analysis::declared_pools::DeclaredPools;
use crate::analysis::findings::Findings;
use crate::analysis::fleet::{Fleet, FleetNode, FleetPool, PoolPods};
use crate::analysis::fleet_findings::{self, WindowsImages};
use crate::analysis::images::RunningImages;
use crate::analysis::network_policies::NetworkPolicies;
use crate::analysis::node_classes::NodeClasses;
use crate::analysis::owners::group;
use crate::analysis::storage_drivers::PoolDrivers;
use crate::analysis::stuck::{self, StuckContext};
use crate::analysis::summary::{coverage, summary};
use crate::analysis::unread::{unread_changes, unread_pods, virtual_nodes};
use crate::analysis::workload_view::{FleetRules, ViewContext, WorkloadView};
use crate::analysis::{ambient_mode, daemon_sets, fragile};
use crate::evidence::{ListEvidence, Statement};
use crate::facts::{Facts, SURVEY_TABLES};
use crate::inventory::{Inventory, PodRecord};
use crate::report::{
    Coverage, DaemonSetPools, FirstObjects, Header, ImageBuild, NamespaceChanges, ObjectRef, PodPlacement, RuleCount,
    SCHEMA, Source, SurveyReport, Unknown, Workload,
};

/// The input of a survey besides the objects.
#[derive(Debug, Clone, Copy)]
pub struct SurveyContext<'a> {
    /// The context of the kubeconfig, or the names of the files.
    pub cluster: &'a str,
    /// The source of the objects.
    pub source: Source,
    /// The day on which dates count as passed.
    pub today: Date,
    /// The version of Mullion.
    pub mullion: &'a str,
    /// The policies that Mullion would use.
    pub policies: &'a PolicySet,
    /// The tables; a survey reads the dates.
    pub facts: &'a Facts,
}

impl SurveyContext<'_> {
    /// The head of a report about an inventory.
    pub fn header(self, inventory: &Inventory) -> Header {
        Header {
            cluster: self.cluster.to_owned(),
            source: self.source,
            taken_at: inventory.taken_at().map(str::to_owned),
            mullion: self.mullion.to_owned(),
            kubernetes: inventory.kubernetes.clone(),
            today: self.today,
            dates_as_of: self.facts.checked(),
            redacted: false,
        }
    }
}

/// The report about an inventory.
pub fn survey(inventory: &Inventory, context: SurveyContext<'_>) -> SurveyReport {
    let SurveyContext { policies, facts, today, .. } = context;
    let fleet = &Fleet::new(inventory);
    let running = &RunningImages::new(inventory, fleet);
    let classes = &NodeClasses::new(fleet, inventory);
    let coverage = coverage(inventory, false);
    let mut totals = Totals::new(&coverage);
    let mut pool_pods = vec![PoolPods::default(); fleet.pools.len()];
    let rules = FleetRules { inventory, releases: &policies.nodes.releases };
    let stuck_context = StuckContext { inventory, fleet, classes, rules };
    let view_context = ViewContext { inventory, fleet, running, policies };
    let mut agents = AgentPools::default();
    let mut network_policies = NetworkPolicies::new(inventory, fleet, &totals.findings);
    let pool_drivers = PoolDrivers::new(inventory, fleet, &totals.findings);
    for one in &group(inventory) {
        let view = WorkloadView::new(one, view_context);
        let misplaced = stuck::find(&view, one, &stuck_context, &mut totals.findings);
        fragile::find(&view, fleet, classes, &context.facts.images, &mut totals.findings);
        network_policies.find(&view, fleet, &mut totals.findings);
        pool_drivers.find(&view, fleet, classes, &mut totals.findings);
        ambient_mode::find(&view, inventory, &mut totals.findings);
        agents.add(&view, fleet);
        totals.daemon_sets.extend(daemon_sets::find(&view, fleet, inventory, &mut totals.findings));
        let placement = placement(&view, fleet, &misplaced);
        for placed in &placement {
            let Some(pods) = pool_pods.get_mut(placed.pool) else { continue };
            *(if view.is_windows() { &mut pods.windows } else { &mut pods.others }) += placed.pods;
            pods.misplaced += placed.misplaced_pods;
        }
        totals.add(view, fleet, running, placement);
    }
    let mut pools = fleet.report(Some(&pool_pods[..]).filter(|_| totals.pods_known));
    let deadlines = fleet_findings::find(fleet, &totals.images, facts, today, &mut pools, &mut totals.findings);
    agents.find(fleet, &mut totals.findings);
    let declared = DeclaredPools::compared(view_context, classes);
    declared.find(fleet, &mut totals.findings);
    let Totals { findings, mut workloads, daemon_sets, builds, changes, pods_known, unknown, .. } = totals;
    let mut unknown = unknown.report(fleet);
    unknown.extend(network_policies.unknown());
    unknown.extend(declared.unknown(fleet));
    unknown.extend(unusable_facts(inventory, policies));
    for workload in &mut workloads {
        workload.findings = findings.codes_of(&workload.object);
    }
    let findings = findings.finish();
    let is_waiting = |pod: &&PodRecord| pod.reported && !(pod.ended || pod.ready || pod.started);
    let waiting = inventory.pods.iter().filter(is_waiting).count();
    let changes_evidence = Statement::Changes.evidence(&coverage);
    let names = pools.iter().map(|pool| pool.name.as_str());
    unknown.extend(unread_pods(&coverage, names));
    unknown.extend(virtual_nodes(inventory));
    unknown.extend(unread_changes(&changes_evidence));
    let mut summary = summary(&coverage, &pools, &workloads, &findings, &deadlines, today, waiting);
    summary.extend(facts.age(&SURVEY_TABLES, today).map(|age| age.sentence()));
    let (pools_without_nodes, unserved) = declared.report(pods_known);
    SurveyReport {
        schema: SCHEMA.to_owned(),
        header: context.header(inventory),
        summary,
        coverage: coverage.clone(),
        pools,
        pools_without_nodes,
        unserved,
        image_builds: image_builds(builds),
        workloads,
        findings,
        daemon_sets,
        changes: if matches!(changes_evidence, ListEvidence::Missing(_)) {
            Vec::new()
        } else {
            namespace_changes(changes)
        },
        deadlines,
        unknown,
    }
}

/// The objects with values that are not used.
fn unusable_facts(inventory: &Inventory, policies: &PolicySet) -> Option<Unknown> {
    let snapshot = &inventory.snapshot;
    let marks =
        [Os::Linux, Os::Windows].into_iter().filter_map(|os| find_unlearned_taints(os, snapshot, &policies.nodes));
    let objects = snapshot.unusable_facts().chain(marks).map(|fact| {
        // Taints of all nodes have no object of their own.
        let name = if fact.name.is_empty() { "all nodes" } else { &*fact.name };
        ObjectRef::cluster_wide(fact.kind, name)
    });
    Unknown::of(
        "What these objects require of pods is not known: an annotation, or a list of taints or tolerations, cannot be read or is too large to use.",
        "Run mullion status, which names the values and the limits; shorten or correct them.",
        objects.collect(),
    )
}

/// Numbers of workloads by code, name and action of a rule.
type RuleCounts = BTreeMap<(&'static str, &'static str, &'static str), usize>;

/// The pods of a workload by pool. `misplaced`: the pool of each misplaced pod.
fn placement(view: &WorkloadView<'_>, fleet: &Fleet<'_>, misplaced: &[usize]) -> Vec<PodPlacement> {
    let mut pools: BTreeMap<usize, PodPlacement> = BTreeMap::new();
    for pod in view.pods.iter().filter(|pod| !pod.ended) {
        let Some(node) = pod.node.as_deref().and_then(|name| fleet.node(name)) else { continue };
        let placed = PodPlacement { pool: node.pool, pods: 0, misplaced_pods: 0 };
        pools.entry(node.pool).or_insert(placed).pods += 1;
    }
    for pool in misplaced {
        if let Some(placed) = pools.get_mut(pool) {
            placed.misplaced_pods += 1;
        }
    }
    pools.into_values().collect()
}

/// Sums over all workloads.
struct Totals<'c> {
    pods_known: bool,
    findings: Findings<'c>,
    workloads: Vec<Workload>,
    daemon_sets: Vec<DaemonSetPools>,
    /// By builds; the second is the images.
    builds: BTreeMap<Vec<Build>, (ImageBuild, BTreeSet<String>)>,
    changes: BTreeMap<String, (NamespaceChanges, RuleCounts)>,
    images: WindowsImages,
    unknown: UnknownWorkloads,
}

/// Workloads of which something is not known.
#[derive(Default)]
struct UnknownWorkloads {
    without_build: FirstObjects,
    moved_tags: FirstObjects,
    newer_hosts: FirstObjects,
    undecided: FirstObjects,
}

impl<'c> Totals<'c> {
    fn new(coverage: &'c Coverage) -> Self {
        Self {
            pods_known: !matches!(Statement::Pods.evidence(coverage), ListEvidence::Missing(_)),
            findings: Findings::new(coverage),
            workloads: Vec::new(),
            daemon_sets: Vec::new(),
            builds: BTreeMap::new(),
            changes: BTreeMap::new(),
            images: WindowsImages::default(),
            unknown: UnknownWorkloads::default(),
        }
    }

    fn add(
        &mut self,
        view: WorkloadView<'_>,
        fleet: &Fleet<'_>,
        running: &RunningImages,
        placement: Vec<PodPlacement>,
    ) {
        let names = placement.iter().filter_map(|placed| fleet.pools.get(placed.pool)).map(|pool| pool.name.clone());
        let pools: BTreeSet<String> = names.collect();
        if view.is_windows() {
            self.add_images(&view, running);
        }
        if view.judged && !view.has_unread_class {
            let namespace = view.object.namespace.clone();
            let (changes, rules) = self.changes.entry(namespace.clone()).or_insert_with(|| {
                (NamespaceChanges { namespace, workloads: 0, placed: 0, rules: Vec::new() }, BTreeMap::new())
            });
            changes.workloads += 1;
            changes.placed += usize::from(view.placed);
            for rule in &view.rules {
                *rules.entry(*rule).or_default() += 1;
            }
        }
        if matches!(view.os, DetectedOs::Undecided) {
            self.unknown.undecided.add(&view.object);
        }
        self.workloads.push(Workload {
            os: view.os.name().to_owned(),
            because: view.because,
            containers: view.containers.into_iter().map(|container| container.report).collect(),
            image_volumes: view.image_volumes.into_iter().map(|volume| volume.report).collect(),
            pods: self.pods_known.then(|| view.pods.iter().filter(|pod| !pod.ended).count()),
            ready: self.pods_known.then(|| view.pods.iter().filter(|pod| pod.ready && !pod.ended).count()),
            pools: pools.into_iter().collect(),
            placement,
            managed_by: view.managed_by.map(|manager| manager.name),
            findings: Vec::new(),
            object: view.object,
        });
    }

    fn add_images(&mut self, view: &WorkloadView<'_>, running: &RunningImages) {
        let common = view.common_builds();
        let (group, images) = self.builds.entry(common.clone()).or_insert_with(|| {
            let names: Vec<String> = common.iter().map(ToString::to_string).collect();
            let build = (!names.is_empty()).then(|| names.join(", "));
            (ImageBuild { build, workloads: 0, pods: self.pods_known.then_some(0), images: 0 }, BTreeSet::new())
        });
        group.workloads += 1;
        if let Some(pods) = &mut group.pods {
            *pods += view.pods.iter().filter(|pod| !pod.ended).count();
        }
        let windows = view.images().filter(|image| image.os != ImageOs::Linux);
        images.extend(windows.clone().map(|image| image.report.image.clone()));
        let distinct: BTreeSet<&str> = windows.clone().map(|image| image.report.image.as_str()).collect();
        for image in distinct {
            *self.images.images.entry(image.to_owned()).or_default() += 1;
        }
        let builds: BTreeSet<Build> = windows.clone().flat_map(|image| image.builds.iter().copied()).collect();
        for build in builds {
            *self.images.builds.entry(build).or_default() += 1;
        }
        let mut unknown = windows.filter(|image| image.builds.is_empty() && !view.host_process).peekable();
        if unknown.peek().is_some() {
            let images: Vec<&str> = unknown.map(|image| image.report.image.as_str()).collect();
            let list = if images.iter().any(|image| running.has_several(image)) {
                &mut self.unknown.moved_tags
            } else if images.iter().all(|image| running.hosts(image).next().is_some()) {
                &mut self.unknown.newer_hosts
            } else {
                &mut self.unknown.without_build
            };
            list.add(&view.object);
        }
    }
}

impl UnknownWorkloads {
    /// What is not known of them, and of the fleet.
    fn report(self, fleet: &Fleet<'_>) -> Vec<Unknown> {
        let without = fleet.nodes.iter().filter(|one| one.node.os == Some(Os::Windows) && one.node.build.is_none());
        let has_revision = |pool: &&FleetPool| {
            let revision = |node: &FleetNode<'_>| node.record.is_some_and(|record| record.revision.is_some());
            fleet.nodes_of(pool).any(revision)
        };
        let pools = fleet.windows_pools().filter(has_revision);
        let unknown = [
            Unknown::of(
                "The Windows build of images of these workloads is not known.",
                "Ask the registry with mullion image IMAGE --registry, or describe the images in a PodPolicy.",
                self.without_build,
            ),
            Unknown::of(
                "The images of these workloads run on Windows Server 2025 or newer nodes, so they are for a build from 10.0.20348 on; which one is not known.",
                "Ask the registry with mullion image IMAGE --registry.",
                self.newer_hosts,
            ),
            Unknown::of(
                "The Windows build of images of these workloads is not known, because their tags have had several images: containers of one tag run with different image IDs on different builds.",
                "Ask the registry for the present image with mullion image IMAGE --registry; use tags that are not moved, or digests.",
                self.moved_tags,
            ),
            Unknown::of(
                "The operating system of these workloads is not known: nothing states it, and no container shows it.",
                "Set nodeSelector kubernetes.io/os in the pod template, or describe the images in a PodPolicy.",
                self.undecided,
            ),
            Unknown::of(
                "The Windows build of these nodes is not known.",
                "Look at status.nodeInfo.kernelVersion and at the label node.kubernetes.io/windows-build.",
                without.map(|one| ObjectRef::cluster_wide("Node", &*one.node.name)).collect(),
            ),
            Unknown::of(
                "Whether Microsoft has a newer revision of Windows for these pools is not known: revisions are compared only within the fleet.",
                "Compare them with https://learn.microsoft.com/windows/release-health/windows-server-release-info.",
                pools.map(|pool| ObjectRef::cluster_wide("NodePool", &*pool.name)).collect(),
            ),
        ];
        unknown.into_iter().flatten().collect()
    }
}

/// By build, ascending; the unknown last.
fn image_builds(builds: BTreeMap<Vec<Build>, (ImageBuild, BTreeSet<String>)>) -> Vec<ImageBuild> {
    let mut all: Vec<ImageBuild> =
        builds.into_values().map(|(build, images)| ImageBuild { images: images.len(), ..build }).collect();
    all.sort_by_key(|build| build.build.is_none());
    all
}

fn namespace_changes(changes: BTreeMap<String, (NamespaceChanges, RuleCounts)>) -> Vec<NamespaceChanges> {
    let all = changes.into_values().map(|(changes, rules)| {
        let rules = rules.into_iter().map(|((code, rule, action), workloads)| RuleCount {
            code: code.to_owned(),
            rule: rule.to_owned(),
            action: action.to_owned(),
            workloads,
        });
        NamespaceChanges { rules: rules.collect(), ..changes }
    });
    all.filter(|changes| changes.placed > 0 || !changes.rules.is_empty()).collect()
}
