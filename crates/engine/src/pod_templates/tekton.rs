//! Tekton: the pod of each task.
//!
//! The steps of a task are the containers of one pod, after `stepTemplate` is merged into each (`MergeStepsWithStepTemplate`).
//! The placement of the pod is the `podTemplate` of the run; a Task and a Pipeline have none. The fields of the template of
//! a single task come before those for all tasks (`MergePodTemplateWithDefault`, pkg/apis/pipeline/pod/template.go). The
//! init containers that the controller adds are not part of the pod here, because their images depend on the controller.

use std::collections::BTreeMap;

use crate::pod_templates::part::{Origins, PlacedValue, merge};
use crate::pod_templates::pod_builder::PodBuilder;
use crate::pod_templates::pod_collector::PodCollector;

/// Members of `podTemplate` that become members of the pod's spec; `volumes` are added to those of the task.
const POD_TEMPLATE: [&str; 15] = [
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

/// `Task` and `ClusterTask`.
pub(crate) fn task(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    match object.member("spec") {
        Some(spec) => TaskPod { object, pod_templates: &[] }.add(&spec, pods),
        None => pods.note_unread(object, "it has no spec"),
    }
}

/// `TaskRun`.
pub(crate) fn task_run(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    let pod_template = object.at("/spec/podTemplate");
    match (object.at("/spec/taskSpec"), object.at("/spec/taskRef")) {
        (Some(spec), _) => {
            let pod_templates: Vec<PlacedValue<'_>> = pod_template.into_iter().collect();
            TaskPod { object, pod_templates: &pod_templates }.add(&spec, pods);
        }
        (None, Some(reference)) => note_reference(&reference, "Task", pods),
        (None, None) => pods.note_unread(object, "it has no spec.taskSpec"),
    }
}

/// `Pipeline`.
pub(crate) fn pipeline(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    match object.member("spec") {
        Some(spec) => PipelinePods { object, all: &[], own: &BTreeMap::new() }.add(&spec, pods),
        None => pods.note_unread(object, "it has no spec"),
    }
}

/// `PipelineRun`. `v1beta1` has `podTemplate` and `taskPodTemplate`, where `v1` has `taskRunTemplate.podTemplate` and
/// `podTemplate`.
pub(crate) fn pipeline_run(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    let all = object.at("/spec/taskRunTemplate/podTemplate").or_else(|| object.at("/spec/podTemplate"));
    let all: Vec<PlacedValue<'_>> = all.into_iter().collect();
    let runs = object.at("/spec/taskRunSpecs").into_iter().flat_map(|runs| runs.items());
    let own = runs.filter_map(|run| {
        let template = run.member("podTemplate").or_else(|| run.member("taskPodTemplate"))?;
        Some((run.text("pipelineTaskName")?, template))
    });
    match (object.at("/spec/pipelineSpec"), object.at("/spec/pipelineRef")) {
        (Some(spec), _) => PipelinePods { object, all: &all, own: &own.collect() }.add(&spec, pods),
        (None, Some(reference)) => note_reference(&reference, "Pipeline", pods),
        (None, None) => pods.note_unread(object, "it has no spec.pipelineSpec"),
    }
}

fn note_reference(reference: &PlacedValue<'_>, kind: &str, pods: &mut PodCollector) {
    let name = reference.text("name").or_else(|| reference.text("resolver")).unwrap_or_default();
    pods.note_unread(reference, &format!("it is the {kind} {name} in the cluster"));
}

/// The pods of a pipeline.
struct PipelinePods<'p, 'a> {
    /// The object whose labels and annotations the pods get.
    object: &'p PlacedValue<'a>,
    /// The pod template for all tasks, if there is one.
    all: &'p [PlacedValue<'a>],
    /// Those of single tasks, by name.
    own: &'p BTreeMap<&'p str, PlacedValue<'a>>,
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
            let pod_templates: Vec<PlacedValue<'_>> = own.into_iter().chain(self.all).cloned().collect();
            return TaskPod { object: self.object, pod_templates: &pod_templates }.add(&spec, pods);
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
    /// The pod templates of the run: a field is that of the first that sets it.
    pod_templates: &'t [PlacedValue<'a>],
}

impl TaskPod<'_, '_> {
    fn add(&self, task: &PlacedValue<'_>, pods: &mut PodCollector) {
        let Some(steps) = task.member("steps").filter(|steps| steps.value.is_array() && !steps.is_empty()) else {
            return pods.note_unread(task, "it has no list of steps");
        };
        let mut pod = PodBuilder::default();
        pod.add_metadata(self.object.member("metadata").as_ref());
        pod.add_metadata(task.member("metadata").as_ref());
        let template = task.member("stepTemplate");
        for step in steps.items() {
            if let Some(reference) = step.member("ref") {
                note_reference(&reference, "StepAction", pods);
            }
            match &template {
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
        for name in POD_TEMPLATE {
            pod.set(name, self.pod_templates.iter().find_map(|template| template.member(name)).as_ref());
        }
        let volumes = self.pod_templates.iter().find_map(|template| template.member("volumes"));
        for list in task.member("volumes").into_iter().chain(volumes) {
            list.items().for_each(|volume| pod.push("volumes", &volume, &[]));
        }
        pods.add(task, pod);
    }
}

fn push(pod: &mut PodBuilder, step: &PlacedValue<'_>) {
    pod.push("containers", step, &BESIDE_CONTAINER);
    let at = pod.items("containers").len().saturating_sub(1);
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
