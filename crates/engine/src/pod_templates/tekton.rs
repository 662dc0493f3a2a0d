//! Tekton: the pod of each task.
//!
//! The steps of a task are the containers of one pod, after `stepTemplate` is merged into each (`MergeStepsWithStepTemplate`).
//! The placement of the pod is the `podTemplate` of the run; a Task and a Pipeline have none. The fields of the template of
//! a single task come before those for all tasks (`MergePodTemplateWithDefault`, pkg/apis/pipeline/pod/template.go). The
//! init containers that the controller adds are not part of the pod here, because their images depend on the controller.
//! Labels and annotations of a single task come before those of the run, and these before those of the task
//! (pkg/reconciler/pipelinerun/pipelinerun.go).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::pod_templates::part::{Origins, PlacedValue, merge};
use crate::pod_templates::pod_builder::PodBuilder;
use crate::pod_templates::pod_collector::PodCollector;

/// Members of `podTemplate` that become members of the pod's spec; `volumes` are added to those of the task.
const POD_TEMPLATE: [&str; 16] = [
    "nodeSelector",
    "tolerations",
    "affinity",
    "securityContext",
    "runtimeClassName",
    "automountServiceAccountToken",
    "dnsPolicy",
    "dnsConfig",
    "enableServiceLinks",
    "priorityClassName",
    "schedulerName",
    "imagePullSecrets",
    "hostAliases",
    "hostNetwork",
    "hostUsers",
    "topologySpreadConstraints",
];

/// Members of steps and sidecars that containers do not have. `computeResources` is called `resources` there.
const BESIDE_CONTAINER: [&str; 13] = [
    "script",
    "timeout",
    "onError",
    "stdoutConfig",
    "stderrConfig",
    "workspaces",
    "computeResources",
    "ref",
    "params",
    "results",
    "when",
    "displayName",
    "restartPolicy",
];

/// Why the pod of a task without its run is known in part only.
const PLACED_BY_RUN: &str = "its placement is that of the run";

/// How the script of a step for Windows begins (`convertScripts`, pkg/pod/script.go); the interpreter follows.
const WINDOWS_SCRIPT: &str = "#!win";

/// The image of the container that writes such scripts (`shell-image-win`, config/controller.yaml).
const WINDOWS_SCRIPT_IMAGE: &str = "mcr.microsoft.com/powershell:nanoserver";

/// `Task` and `ClusterTask`.
pub(crate) fn task(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    match object.member("spec") {
        Some(spec) => TaskPod { object, run: None, own: None }.add(&spec, pods),
        None => pods.note_unread(object, "it has no spec"),
    }
}

/// `TaskRun`.
pub(crate) fn task_run(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    match (object.at("/spec/taskSpec"), object.at("/spec/taskRef")) {
        (Some(spec), _) => {
            TaskPod { object, run: Some(&TaskPlacement::of(object.at("/spec/podTemplate"))), own: None }
                .add(&spec, pods);
        }
        (None, Some(reference)) => note_reference(&reference, "Task", pods),
        (None, None) => pods.note_unread(object, "it has no spec.taskSpec"),
    }
}

/// `Pipeline`.
pub(crate) fn pipeline(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    match object.member("spec") {
        Some(spec) => PipelinePods { object, run: None, own: &BTreeMap::new() }.add(&spec, pods),
        None => pods.note_unread(object, "it has no spec"),
    }
}

/// `PipelineRun`. `v1beta1` has `podTemplate` and `taskPodTemplate`, where `v1` has `taskRunTemplate.podTemplate` and
/// `podTemplate`.
pub(crate) fn pipeline_run(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    let all = object.at("/spec/taskRunTemplate/podTemplate").or_else(|| object.at("/spec/podTemplate"));
    let runs = object.at("/spec/taskRunSpecs").into_iter().flat_map(|runs| runs.items());
    let own = runs.filter_map(|run| {
        let pod_template = run.member("podTemplate").or_else(|| run.member("taskPodTemplate"));
        Some((run.text("pipelineTaskName")?, TaskPlacement { pod_template, metadata: run.member("metadata") }))
    });
    match (object.at("/spec/pipelineSpec"), object.at("/spec/pipelineRef")) {
        (Some(spec), _) => {
            PipelinePods { object, run: Some(&TaskPlacement::of(all)), own: &own.collect() }.add(&spec, pods);
        }
        (None, Some(reference)) => note_reference(&reference, "Pipeline", pods),
        (None, None) => pods.note_unread(object, "it has no spec.pipelineSpec"),
    }
}

fn note_reference(reference: &PlacedValue<'_>, kind: &str, pods: &mut PodCollector) {
    let name = reference.text("name").or_else(|| reference.text("resolver")).unwrap_or_default();
    pods.note_unread(reference, &format!("it is the {kind} {name} in the cluster"));
}

/// What a run sets for all tasks, or for one.
#[derive(Debug)]
struct TaskPlacement<'a> {
    pod_template: Option<PlacedValue<'a>>,
    metadata: Option<PlacedValue<'a>>,
}

impl<'a> TaskPlacement<'a> {
    fn of(pod_template: Option<PlacedValue<'a>>) -> Self {
        Self { pod_template, metadata: None }
    }
}

/// The pods of a pipeline.
struct PipelinePods<'p, 'a> {
    /// The object whose labels and annotations the pods get.
    object: &'p PlacedValue<'a>,
    /// What the run sets for all tasks; `None` without a run.
    run: Option<&'p TaskPlacement<'a>>,
    /// What it sets for single tasks, by name.
    own: &'p BTreeMap<&'p str, TaskPlacement<'a>>,
}

impl PipelinePods<'_, '_> {
    fn add(&self, spec: &PlacedValue<'_>, pods: &mut PodCollector) {
        for list in ["tasks", "finally"] {
            let Some(tasks) = spec.member(list) else { continue };
            if !tasks.value.is_array() {
                pods.note_unread(&tasks, "it is not a list");
            }
            for task in tasks.items() {
                if pods.is_full() {
                    return;
                }
                self.add_task(&task, pods);
            }
        }
        if spec.member("tasks").is_none() {
            pods.note_unread(spec, "it has no tasks");
        }
    }

    fn add_task(&self, task: &PlacedValue<'_>, pods: &mut PodCollector) {
        if let Some(spec) = task.member("taskSpec") {
            let own = task.text("name").and_then(|name| self.own.get(name));
            return TaskPod { object: self.object, run: self.run, own }.add(&spec, pods);
        }
        let references = [("taskRef", "Task"), ("pipelineRef", "Pipeline")];
        let reference = references.into_iter().find_map(|(name, kind)| Some((task.member(name)?, kind)));
        match (reference, task.member("pipelineSpec")) {
            (Some((reference, kind)), _) => note_reference(&reference, kind, pods),
            (None, Some(nested)) => pods.note_unread(&nested, "it is a pipeline in a pipeline"),
            (None, None) => pods.note_unread(task, "it has no taskSpec"),
        }
    }
}

/// The pod of a task.
struct TaskPod<'t, 'a> {
    /// The object whose labels and annotations the pod gets.
    object: &'t PlacedValue<'a>,
    /// What the run sets for all tasks; `None` without a run.
    run: Option<&'t TaskPlacement<'a>>,
    /// What it sets for this task.
    own: Option<&'t TaskPlacement<'a>>,
}

impl TaskPod<'_, '_> {
    fn add(&self, task: &PlacedValue<'_>, pods: &mut PodCollector) {
        let Some(steps) = task.member("steps").filter(|steps| steps.value.is_array() && !steps.is_empty()) else {
            return pods.note_unread(task, "it has no list of steps");
        };
        let mut pod = PodBuilder::default();
        if self.run.is_none() {
            pod.note_unknown(PLACED_BY_RUN.to_owned());
        }
        pod.add_metadata(task.member("metadata").as_ref());
        pod.add_metadata(self.object.member("metadata").as_ref());
        pod.add_metadata(self.own.and_then(|own| own.metadata.as_ref()));
        let template = task.member("stepTemplate");
        for step in steps.items() {
            let reference = step.member("ref");
            if let Some(reference) = &reference {
                note_reference(reference, "StepAction", pods);
                pod.note_unknown("a step is that of a StepAction in the cluster".to_owned());
            }
            // A step of a StepAction is merged when its image is known.
            match template.as_ref().filter(|_| reference.is_none()) {
                None => push(&mut pod, &step),
                Some(template) => {
                    let mut origins = Origins::default();
                    let merged = merge(template, &step, "", &mut origins);
                    push(&mut pod, &PlacedValue::merged(&merged, &origins));
                }
            }
        }
        let sidecars = task.member("sidecars").into_iter().flat_map(|sidecars| sidecars.items());
        sidecars.for_each(|sidecar| push(&mut pod, &sidecar));
        let layers: Vec<&PlacedValue<'_>> =
            [self.own, self.run].into_iter().flatten().filter_map(|layer| layer.pod_template.as_ref()).collect();
        for name in POD_TEMPLATE {
            let mut fields = layers.iter().filter_map(|layer| layer.member(name));
            let field = match name {
                // The host network is used if any of them requires it.
                "hostNetwork" => fields.clone().find(|field| field.value == true).or_else(|| fields.next()),
                _ => fields.find(|field| field.value != ""),
            };
            pod.set(name, field.as_ref());
        }
        let lists = task.member("volumes").into_iter().chain(layers.iter().filter_map(|layer| layer.member("volumes")));
        let mut names = BTreeSet::new();
        for volume in lists.flat_map(|list| list.items()) {
            if volume.text("name").is_none_or(|name| names.insert(name)) {
                pod.push("volumes", &volume, &[]);
            }
        }
        pods.add(task, pod);
    }
}

fn push(pod: &mut PodBuilder, step: &PlacedValue<'_>) {
    pod.push("containers", step, &BESIDE_CONTAINER);
    let at = pod.items("containers").len().saturating_sub(1);
    if let Some(script) = step.member("script")
        && let Some(line) = script.value.as_str().and_then(|text| text.trim_start().strip_prefix(WINDOWS_SCRIPT))
    {
        let interpreter = line.lines().next().unwrap_or_default().split_whitespace().next().unwrap_or("cmd");
        pod.set_made_in_container(at, "command", json!([interpreter]));
        if pod.items("initContainers").is_empty() {
            // Its resources are a setting of the controller.
            let resources = json!({"limits": {"memory": "256Mi"}});
            let container = json!({"name": "place-scripts", "image": WINDOWS_SCRIPT_IMAGE, "resources": resources});
            pod.push_made("initContainers", container);
        }
    }
    match step.member("computeResources") {
        Some(resources) => pod.set_in_container(at, "resources", Some(&resources)),
        // `v1beta1` calls them `resources`.
        None if step.value.get("resources").is_none() => {
            if let Some(step) = step.origin() {
                pod.note_place(at, "resources", format!("{step}/computeResources"));
            }
        }
        None => {}
    }
}
