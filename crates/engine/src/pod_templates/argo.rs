//! Argo Workflows: the pod of each template of a workflow.
//!
//! A template has one of several types; those with containers become pods (`createWorkflowPod`,
//! workflow/controller/workflowpod.go). `templateDefaults` is merged into each template first. The placement of a pod is
//! that of its template, else that of the steps or the DAG that calls the template, else that of the workflow, each
//! field as a whole (`addSchedulingConstraints`, since Argo 3.6; earlier versions left out the caller). The containers
//! `init` and `wait` that the controller adds are not part of the pod here, because their image depends on the controller.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::model::json_pointer::field_path;
use crate::pod_templates::part::{Origins, PlacedValue, merge};
use crate::pod_templates::pod_builder::PodBuilder;
use crate::pod_templates::pod_collector::PodCollector;

/// The fields of a template that place its pod.
const PLACEMENT: [&str; 3] = ["nodeSelector", "affinity", "tolerations"];

/// Members of Argo's containers that those of a pod do not have.
const BESIDE_CONTAINER: [&str; 3] = ["source", "dependencies", "mirrorVolumeMounts"];

/// The image of the containers that the controller adds.
const EXECUTOR_IMAGE: &str = "quay.io/argoproj/argoexec";

/// Their user (`MinimalCtrSC`, `workflow/common/security_context.go`).
const EXECUTOR_USER: u64 = 8737;

/// `Workflow`.
pub(crate) fn workflow(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    match object.member("spec") {
        Some(spec) => collect(&spec, None, pods),
        None => pods.note_unread(object, "it has no spec"),
    }
}

/// `WorkflowTemplate` and `ClusterWorkflowTemplate`. A workflow that refers to all of it replaces its placement, and one that
/// refers to a single template does not use the placement outside of that template (`JoinWorkflowSpec`,
/// workflow/util/merge.go).
pub(crate) fn workflow_template(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    match object.member("spec") {
        Some(spec) => collect(&spec, Some("the workflow that runs it may place it"), pods),
        None => pods.note_unread(object, "it has no spec"),
    }
}

/// `CronWorkflow`.
pub(crate) fn cron_workflow(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    match object.at("/spec/workflowSpec") {
        Some(spec) => collect(&spec, None, pods),
        None => pods.note_unread(object, "it has no spec.workflowSpec"),
    }
}

/// `unknown`: what else may place pods of templates without a placement of their own, as a clause.
fn collect(spec: &PlacedValue<'_>, unknown: Option<&'static str>, pods: &mut PodCollector) {
    let reference = spec.member("workflowTemplateRef");
    if let Some(reference) = &reference {
        let name = reference.text("name").unwrap_or_default();
        pods.note_unread(reference, &format!("its templates are those of the WorkflowTemplate {name} in the cluster"));
    }
    let templates: Vec<PlacedValue<'_>> = match spec.member("templates") {
        Some(list) if list.value.is_array() => list.items().collect(),
        Some(other) => return pods.note_unread(&other, "it is not a list"),
        None if reference.is_some() => return,
        None => return pods.note_unread(spec, "it has no templates"),
    };
    let defaults = spec.member("templateDefaults");
    let callers = Callers::new(spec, &templates, pods);
    let volumes = by_name(spec.member("volumes"));
    for template in &templates {
        if !template.value.is_object() {
            pods.note_unread(template, "it is not a map");
            continue;
        }
        let name = template.text("name").unwrap_or_default();
        for caller in callers.of(name) {
            if pods.is_full() {
                return;
            }
            WorkflowPod { spec, defaults: defaults.as_ref(), volumes: &volumes, caller, unknown }.add(template, pods);
        }
        for inline in inline_templates(template) {
            if pods.is_full() {
                return;
            }
            let caller = has_placement(template).then_some(template);
            WorkflowPod { spec, defaults: defaults.as_ref(), volumes: &volumes, caller, unknown }.add(&inline, pods);
        }
    }
    let is_for_agent =
        |template: &PlacedValue<'_>| ["http", "plugin"].iter().any(|kind| template.member(kind).is_some());
    if templates.iter().any(|template| is_for_agent(template) || inline_templates(template).iter().any(is_for_agent)) {
        add_agent(spec, unknown, pods);
    }
}

/// Adds the pod that runs all `http` and `plugin` templates, with the placement of the workflow (`createAgentPod`,
/// workflow/controller/agent.go).
fn add_agent(spec: &PlacedValue<'_>, unknown: Option<&'static str>, pods: &mut PodCollector) {
    let mut pod = PodBuilder::default();
    pod.push_made("containers", executor_container());
    pod.add_metadata(spec.member("podMetadata").as_ref());
    for name in PLACEMENT {
        pod.set(name, spec.member(name).as_ref());
    }
    pod.set_made("securityContext", json!({"runAsNonRoot": true, "runAsUser": EXECUTOR_USER}));
    if let Some(unknown) = unknown {
        pod.note_unknown(unknown.to_owned());
    }
    pods.add(spec, pod);
}

/// The container of the controller in pods without a container of the author. Its resources are a setting of the controller.
fn executor_container() -> Value {
    json!({
        "name": "main",
        "image": EXECUTOR_IMAGE,
        "resources": {"limits": {"memory": "256Mi"}},
        "securityContext": {
            "runAsUser": EXECUTOR_USER,
            "runAsNonRoot": true,
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
        },
    })
}

/// The templates with a placement of their own that call each template.
struct Callers<'a> {
    placed: BTreeMap<&'a str, Vec<&'a PlacedValue<'a>>>,
    /// Templates that are called without such a placement.
    plain: BTreeSet<&'a str>,
}

impl<'a> Callers<'a> {
    fn new(spec: &PlacedValue<'a>, templates: &'a [PlacedValue<'a>], pods: &mut PodCollector) -> Self {
        let mut plain: BTreeSet<&str> =
            ["entrypoint", "onExit"].into_iter().filter_map(|name| spec.text(name)).collect();
        for hook in hooks(spec) {
            note_reference(&hook, pods);
            plain.extend(hook.text("template"));
        }
        let mut callers = Self { placed: BTreeMap::new(), plain };
        for template in templates {
            let mut called = BTreeSet::new();
            for call in calls(template) {
                // Hooks of a call are called by the same template (workflow/controller/hooks.go, exit_handler.go).
                called.extend(call.text("onExit"));
                for call in hooks(&call).into_iter().chain([call]) {
                    note_reference(&call, pods);
                    called.extend(call.text("template"));
                }
            }
            if !has_placement(template) {
                callers.plain.extend(called);
                continue;
            }
            for name in called {
                callers.placed.entry(name).or_default().push(template);
            }
        }
        callers
    }

    /// One entry for each placement that the pods of a template can get from a caller; `None`: that of no caller.
    fn of(&self, name: &str) -> Vec<Option<&'a PlacedValue<'a>>> {
        let placed = self.placed.get(name).into_iter().flatten().copied().map(Some);
        let mut all: Vec<Option<&'a PlacedValue<'a>>> = placed.collect();
        if all.is_empty() || self.plain.contains(name) {
            all.insert(0, None);
        }
        all
    }
}

/// The hooks of a workflow or of a call.
fn hooks<'a>(part: &PlacedValue<'a>) -> Vec<PlacedValue<'a>> {
    part.member("hooks").into_iter().flat_map(|hooks| hooks.members()).map(|(_, hook)| hook).collect()
}

/// Notes a call of a template of another object.
fn note_reference(call: &PlacedValue<'_>, pods: &mut PodCollector) {
    if let Some(reference) = call.member("templateRef") {
        let name = reference.text("name").unwrap_or_default();
        pods.note_unread(&reference, &format!("it is a template of {name} in the cluster"));
    }
}

/// The steps and the tasks of a template.
fn calls<'a>(template: &PlacedValue<'a>) -> Vec<PlacedValue<'a>> {
    let steps = template.member("steps").into_iter().flat_map(|steps| steps.items());
    // A group of steps is a list.
    let steps = steps.flat_map(|group| group.items());
    let tasks = template.at("/dag/tasks").into_iter().flat_map(|tasks| tasks.items());
    steps.chain(tasks).collect()
}

fn inline_templates<'a>(template: &PlacedValue<'a>) -> Vec<PlacedValue<'a>> {
    calls(template).into_iter().filter_map(|call| call.member("inline")).collect()
}

fn has_placement(template: &PlacedValue<'_>) -> bool {
    PLACEMENT.iter().any(|name| template.member(name).is_some_and(|field| is_set(name, &field)))
}

/// Whether a field of the placement counts. An empty affinity does, an empty selector or list does not
/// (`addSchedulingConstraints`).
fn is_set(name: &str, field: &PlacedValue<'_>) -> bool {
    name == "affinity" || !field.is_empty()
}

fn by_name(list: Option<PlacedValue<'_>>) -> BTreeMap<String, PlacedValue<'_>> {
    let items = list.into_iter().flat_map(|list| list.items());
    items.filter_map(|item| Some((item.text("name")?.to_owned(), item))).collect()
}

/// What the pod of a template gets besides the template itself.
struct WorkflowPod<'w, 'a> {
    spec: &'w PlacedValue<'a>,
    defaults: Option<&'w PlacedValue<'a>>,
    /// The volumes of the workflow, by name.
    volumes: &'w BTreeMap<String, PlacedValue<'a>>,
    /// The template that calls it, if that has a placement.
    caller: Option<&'w PlacedValue<'a>>,
    /// What else may place it, if nothing here does.
    unknown: Option<&'static str>,
}

impl WorkflowPod<'_, '_> {
    /// Adds the pod of a template, if it has one.
    fn add(&self, template: &PlacedValue<'_>, pods: &mut PodCollector) {
        // The defaults do not change the type of a template.
        const TYPES: [&str; 5] = ["container", "script", "containerSet", "resource", "data"];
        let Some(kind) = TYPES.into_iter().find(|kind| template.member(kind).is_some()) else { return };
        let Some(defaults) = self.defaults else { return self.add_merged(template, kind, template, pods) };
        let mut origins = Origins::default();
        let merged = merge(defaults, template, "", &mut origins);
        self.add_merged(&PlacedValue::merged(&merged, &origins), kind, template, pods);
    }

    fn add_merged(&self, template: &PlacedValue<'_>, kind: &str, site: &PlacedValue<'_>, pods: &mut PodCollector) {
        let Self { spec, volumes, caller, unknown, .. } = *self;
        let mut pod = PodBuilder::default();
        match (kind, template.member(kind)) {
            ("containerSet", Some(set)) => {
                let containers = set.member("containers").filter(|containers| containers.value.is_array());
                let Some(containers) = containers else {
                    return pods.note_unread(&set, "it has no list of containers");
                };
                for container in containers.items() {
                    pod.push("containers", &container, &BESIDE_CONTAINER);
                    let at = pod.items("containers").len().saturating_sub(1);
                    // The set's mounts are those of each container (`GetContainers`).
                    let shared = set.member("volumeMounts").into_iter().flat_map(|mounts| mounts.items());
                    shared.for_each(|mount| pod.push_in_container(at, "volumeMounts", &mount));
                }
            }
            ("resource", _) => pod.push_made("containers", executor_container()),
            ("data", _) => pod.push_made("containers", json!({"name": "main"})),
            (_, Some(container)) if container.value.is_object() => {
                pod.push("containers", &container, &BESIDE_CONTAINER);
            }
            (_, other) => return pods.note_unread(&other.unwrap_or_else(|| template.clone()), "it is not a map"),
        }
        for (from, to) in [("initContainers", "initContainers"), ("sidecars", "containers")] {
            let list = template.member(from).into_iter().flat_map(|list| list.items());
            list.for_each(|container| pod.push(to, &container, &BESIDE_CONTAINER));
        }
        pod.add_metadata(spec.member("podMetadata").as_ref());
        pod.add_metadata(template.member("metadata").as_ref());
        for name in PLACEMENT {
            let layers = [Some(template), caller, Some(spec)];
            let field = layers.into_iter().flatten().filter_map(|layer| layer.member(name));
            pod.set(name, field.into_iter().find(|field| is_set(name, field)).as_ref());
        }
        if let Some(unknown) = unknown.filter(|_| !has_placement(template)) {
            pod.note_unknown(unknown.to_owned());
        }
        // Since Argo 4.1.
        for name in ["resources", "resourceClaims"] {
            let field = if name == "resources" { "podResources" } else { name };
            pod.set(name, template.member(field).or_else(|| spec.member(field)).as_ref());
        }
        for name in ["securityContext", "schedulerName", "serviceAccountName", "automountServiceAccountToken"] {
            pod.set(name, template.member(name).or_else(|| spec.member(name)).as_ref());
        }
        let priority = template.member("priorityClassName").or_else(|| spec.member("podPriorityClassName"));
        pod.set("priorityClassName", priority.as_ref());
        for name in ["hostNetwork", "dnsPolicy", "dnsConfig", "imagePullSecrets"] {
            pod.set(name, spec.member(name).as_ref());
        }
        // All volumes of the template get into the pod, and those of the workflow that a container mounts.
        let own = by_name(template.member("volumes"));
        let others = mounted(&pod).into_iter().filter(|name| !own.contains_key(name));
        let others: Vec<_> = others.filter_map(|name| volumes.get(&name)).collect();
        own.values().chain(others).for_each(|volume| pod.push("volumes", volume, &[]));
        for patch in [template.member("podSpecPatch"), spec.member("podSpecPatch")].into_iter().flatten() {
            let place = patch.origin().unwrap_or_default();
            pod.note_unknown(format!("{} is applied in the cluster", field_path(&place)));
        }
        pods.add(site, pod);
    }
}

/// The names of the volumes that the containers of a pod mount.
fn mounted(pod: &PodBuilder) -> BTreeSet<String> {
    let containers = ["containers", "initContainers"].into_iter().flat_map(|list| pod.items(list));
    let mounts = containers.filter_map(|container| container.get("volumeMounts")?.as_array()).flatten();
    mounts.filter_map(|mount| mount.get("name").and_then(Value::as_str)).map(str::to_owned).collect()
}
