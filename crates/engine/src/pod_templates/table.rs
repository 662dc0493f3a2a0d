//! The table of kinds with pod templates that are not those of Kubernetes.

use crate::pod_templates::expressions::Expressions;
use crate::pod_templates::part::PlacedValue;
use crate::pod_templates::pod_collector::PodCollector;
use crate::pod_templates::template_kind::{TemplateKind, TemplateWrites, Templates};
use crate::pod_templates::{argo, knative, kruise, openshift, runners, tekton};

/// What most rows share: one complete pod template in `spec.template`, into which may be written.
const TEMPLATE: TemplateKind = TemplateKind {
    groups: &[],
    kind: "",
    pods: "`spec.template`",
    placement: "that of the template",
    writes: TemplateWrites::Templates,
    since: "0.1",
    sources: &[],
    templates: Templates::At(&["/spec/template"]),
    expressions: Expressions::None,
};

const ARGO_PLACEMENT: &str = "`nodeSelector`, `affinity` and `tolerations` of the template, else of the steps or the DAG that calls it, else of \
    the workflow, each as a whole; `templateDefaults` first";
const ARGO_PODS: &str = "each of `templates` with `container`, `script`, `containerSet`, `resource` or `data`, with its `initContainers` \
    and `sidecars`, also `inline` ones; one for all `http` and `plugin` templates";

/// What the kinds of Argo Workflows share.
const WORKFLOW: TemplateKind = TemplateKind {
    groups: &["argoproj.io"],
    pods: ARGO_PODS,
    placement: ARGO_PLACEMENT,
    writes: TemplateWrites::Never(
        "a field of a template replaces the same field of the workflow and of the defaults in the cluster",
    ),
    sources: &[
        "https://argo-workflows.readthedocs.io/en/latest/fields/",
        "https://github.com/argoproj/argo-workflows/blob/main/workflow/controller/workflowpod.go",
    ],
    templates: Templates::Assembled(argo::workflow),
    expressions: Expressions::Argo,
    ..TEMPLATE
};

/// What templates of workflows share.
const WORKFLOW_TEMPLATE: TemplateKind = TemplateKind {
    placement: "as for a Workflow, whose own placement comes before that of the template; called by `templateRef`, only that of the template itself",
    sources: &[
        "https://argo-workflows.readthedocs.io/en/latest/workflow-templates/",
        "https://github.com/argoproj/argo-workflows/blob/main/workflow/util/merge.go",
    ],
    templates: Templates::Assembled(argo::workflow_template),
    ..WORKFLOW
};

/// What the kinds of Tekton share.
const TEKTON: TemplateKind = TemplateKind {
    groups: &["tekton.dev"],
    pods: "the `steps` and `sidecars` of the task, with `stepTemplate`",
    placement: "none; it is that of the run",
    writes: TemplateWrites::Never("a task has no placement"),
    sources: &[
        "https://tekton.dev/docs/pipelines/tasks/",
        "https://github.com/tektoncd/pipeline/blob/main/pkg/pod/pod.go",
    ],
    expressions: Expressions::Tekton,
    ..TEMPLATE
};

const RUN_WRITES: TemplateWrites = TemplateWrites::Never(
    "a field of a podTemplate replaces the same field of the default pod template in the cluster",
);

/// What the kinds of Knative Serving share.
const KNATIVE: TemplateKind = TemplateKind {
    groups: &["serving.knative.dev"],
    placement: "that of the template; Knative rejects `nodeSelector`, `affinity` and `tolerations` unless their feature flags are enabled, and `os` and `windowsOptions` always",
    writes: TemplateWrites::Never("Knative rejects placement unless its feature flags are enabled in the cluster"),
    sources: &[
        "https://knative.dev/docs/serving/configuration/feature-flags/",
        "https://github.com/knative/serving/blob/main/pkg/apis/serving/fieldmask.go",
    ],
    templates: Templates::Assembled(knative::service),
    ..TEMPLATE
};

const SCALE_SETS: &[&str] = &[
    "https://docs.github.com/en/actions/reference/runners/actions-runner-controller",
    "https://github.com/actions/actions-runner-controller/blob/master/controllers/actions.github.com/resourcebuilder.go",
];

/// What the older kinds of Actions Runner Controller share.
const RUNNER: TemplateKind = TemplateKind {
    groups: &["actions.summerwind.dev"],
    pods: "the runner of `spec.template`, with a privileged container `docker` unless `dockerEnabled` is false; with `dockerdWithinRunnerContainer` the runner is privileged",
    placement: "that of the runner's spec",
    writes: TemplateWrites::Never("the controller puts the pod together from a runner's spec"),
    sources: &[
        "https://github.com/actions/actions-runner-controller/blob/master/docs/deploying-alternative-runners.md",
        "https://github.com/actions/actions-runner-controller/blob/master/controllers/actions.summerwind.net/runner_controller.go",
    ],
    templates: Templates::Assembled(runners::runner_template),
    ..TEMPLATE
};

const CREATED: TemplateWrites = TemplateWrites::Never("its controller creates it from another object");

/// What the kinds of Agones share.
const AGONES: TemplateKind = TemplateKind {
    groups: &["agones.dev"],
    pods: "`spec.template.spec.template`",
    sources: &[
        "https://agones.dev/site/docs/reference/fleet/",
        "https://github.com/googleforgames/agones/blob/main/pkg/apis/agones/v1/gameserver.go",
    ],
    templates: Templates::At(&["/spec/template/spec/template"]),
    ..TEMPLATE
};

/// What the kinds of `OpenKruise` share.
const KRUISE: TemplateKind = TemplateKind {
    groups: &["apps.kruise.io"],
    sources: &["https://openkruise.io/docs/user-manuals/cloneset"],
    ..TEMPLATE
};

const EVERY_NODE: &str = "that of the template; the controller creates a pod for each node that fits, and binds it";

/// Every kind with pod templates that is not one of Kubernetes.
pub static TEMPLATE_KINDS: &[TemplateKind] = &[
    TemplateKind { kind: "Workflow", ..WORKFLOW },
    TemplateKind { kind: "WorkflowTemplate", ..WORKFLOW_TEMPLATE },
    TemplateKind { kind: "ClusterWorkflowTemplate", ..WORKFLOW_TEMPLATE },
    TemplateKind { kind: "CronWorkflow", templates: Templates::Assembled(argo::cron_workflow), ..WORKFLOW },
    TemplateKind {
        groups: &["argoproj.io"],
        kind: "Rollout",
        pods: "`spec.template`; with `workloadRef` it is that of another object",
        sources: &["https://argo-rollouts.readthedocs.io/en/stable/features/specification/"],
        templates: Templates::Assembled(rollout),
        ..TEMPLATE
    },
    TemplateKind { kind: "Task", templates: Templates::Assembled(tekton::task), ..TEKTON },
    TemplateKind { kind: "ClusterTask", templates: Templates::Assembled(tekton::task), ..TEKTON },
    TemplateKind {
        kind: "TaskRun",
        placement: "`spec.podTemplate`",
        writes: RUN_WRITES,
        sources: &[
            "https://tekton.dev/docs/pipelines/podtemplates/",
            "https://github.com/tektoncd/pipeline/blob/main/pkg/apis/pipeline/pod/template.go",
        ],
        templates: Templates::Assembled(tekton::task_run),
        ..TEKTON
    },
    TemplateKind {
        kind: "Pipeline",
        pods: "each `taskSpec` of `tasks` and `finally`",
        templates: Templates::Assembled(tekton::pipeline),
        ..TEKTON
    },
    TemplateKind {
        kind: "PipelineRun",
        pods: "each `taskSpec` of `tasks` and `finally` in `spec.pipelineSpec`",
        placement: "`podTemplate` of the task in `spec.taskRunSpecs`, else `spec.taskRunTemplate.podTemplate`, field by field",
        writes: RUN_WRITES,
        sources: &[
            "https://tekton.dev/docs/pipelines/pipelineruns/#specifying-a-pod-template",
            "https://github.com/tektoncd/pipeline/blob/main/pkg/apis/pipeline/v1/pipelinerun_types.go",
        ],
        templates: Templates::Assembled(tekton::pipeline_run),
        ..TEKTON
    },
    TemplateKind { kind: "Service", ..KNATIVE },
    TemplateKind { kind: "Configuration", ..KNATIVE },
    TemplateKind { kind: "Revision", pods: "`spec`", templates: Templates::Assembled(knative::revision), ..KNATIVE },
    TemplateKind {
        groups: &["keda.sh"],
        kind: "ScaledJob",
        pods: "`spec.jobTargetRef.template`",
        sources: &["https://keda.sh/docs/latest/reference/scaledjob-spec/"],
        templates: Templates::At(&["/spec/jobTargetRef/template"]),
        ..TEMPLATE
    },
    TemplateKind {
        groups: &["actions.github.com"],
        kind: "AutoscalingRunnerSet",
        pods: "`spec.template`; the listener with `spec.listenerTemplate`, which is a Linux pod",
        placement: "that of each template; a listener without `nodeSelector` gets Linux",
        sources: SCALE_SETS,
        templates: Templates::Assembled(runners::autoscaling_runner_set),
        ..TEMPLATE
    },
    TemplateKind {
        groups: &["actions.github.com"],
        kind: "EphemeralRunnerSet",
        pods: "`spec.ephemeralRunnerSpec`",
        writes: CREATED,
        sources: SCALE_SETS,
        templates: Templates::At(&["/spec/ephemeralRunnerSpec"]),
        ..TEMPLATE
    },
    TemplateKind {
        groups: &["actions.github.com"],
        kind: "EphemeralRunner",
        pods: "`spec`, which has `metadata` and `spec` of the pod",
        writes: CREATED,
        sources: SCALE_SETS,
        templates: Templates::At(&["/spec"]),
        ..TEMPLATE
    },
    TemplateKind { kind: "RunnerDeployment", ..RUNNER },
    TemplateKind { kind: "RunnerReplicaSet", ..RUNNER },
    TemplateKind { kind: "Runner", templates: Templates::Assembled(runners::runner), ..RUNNER },
    TemplateKind { kind: "Fleet", ..AGONES },
    TemplateKind { kind: "GameServerSet", ..AGONES },
    TemplateKind {
        kind: "GameServer",
        pods: "`spec.template`",
        templates: Templates::At(&["/spec/template"]),
        ..AGONES
    },
    TemplateKind { kind: "CloneSet", ..KRUISE },
    TemplateKind {
        kind: "StatefulSet",
        sources: &["https://openkruise.io/docs/user-manuals/advancedstatefulset"],
        ..KRUISE
    },
    TemplateKind {
        kind: "DaemonSet",
        placement: EVERY_NODE,
        sources: &[
            "https://openkruise.io/docs/user-manuals/advanceddaemonset",
            "https://github.com/openkruise/kruise/blob/master/pkg/controller/daemonset/daemonset_controller.go",
        ],
        templates: Templates::Assembled(kruise::pod_of_each_node),
        ..KRUISE
    },
    TemplateKind {
        kind: "BroadcastJob",
        placement: EVERY_NODE,
        sources: &[
            "https://openkruise.io/docs/user-manuals/broadcastjob",
            "https://github.com/openkruise/kruise/blob/master/pkg/controller/broadcastjob/broadcastjob_controller.go",
        ],
        templates: Templates::Assembled(kruise::pod_of_each_node),
        ..KRUISE
    },
    TemplateKind {
        kind: "UnitedDeployment",
        pods: "`spec.template.*.spec.template`, once for each of `spec.topology.subsets`",
        placement: "that of the template, and `nodeSelectorTerm` and `tolerations` of the subset",
        writes: TemplateWrites::Never("each subset adds a placement of its own"),
        sources: &[
            "https://openkruise.io/docs/user-manuals/uniteddeployment",
            "https://github.com/openkruise/kruise/blob/master/pkg/controller/uniteddeployment/adapter/adapter_util.go",
        ],
        templates: Templates::Assembled(kruise::united_deployment),
        ..KRUISE
    },
    TemplateKind {
        groups: &["apps.openshift.io", ""],
        kind: "DeploymentConfig",
        pods: "`spec.template`, and `execNewPod` of each hook of the strategy",
        placement: "that of the template; a hook has only its `nodeSelector`; the Linux pod that rolls out has its `nodeSelector` and `tolerations`; image change triggers set images in the cluster",
        sources: &[
            "https://docs.openshift.com/container-platform/latest/applications/deployments/what-deployments-are.html",
            "https://github.com/openshift/oc/blob/master/pkg/cli/deployer/strategy/support/lifecycle.go",
        ],
        templates: Templates::Assembled(openshift::deployment_config),
        ..TEMPLATE
    },
    TemplateKind {
        groups: &["template.openshift.io", ""],
        kind: "Template",
        pods: "those of each of `objects`",
        placement: "that of each object",
        writes: TemplateWrites::Never("its parameters are replaced in the cluster"),
        sources: &["https://docs.openshift.com/container-platform/latest/openshift_images/using-templates.html"],
        templates: Templates::Assembled(template),
        expressions: Expressions::OpenShift,
        ..TEMPLATE
    },
    TemplateKind {
        groups: &["jobset.x-k8s.io"],
        kind: "JobSet",
        pods: "`template.spec.template` of each of `spec.replicatedJobs`",
        sources: &["https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/"],
        templates: Templates::At(&["/spec/replicatedJobs/*/template/spec/template"]),
        ..TEMPLATE
    },
];

/// A Rollout has a template or names another object that has it.
fn rollout(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    match (object.at("/spec/workloadRef"), object.at("/spec/template")) {
        // Its own template is empty then.
        (Some(reference), _) => {
            let (kind, name) = (reference.text("kind").unwrap_or_default(), reference.text("name").unwrap_or_default());
            pods.note_unread(&reference, &format!("its pod template is that of {kind} {name}"));
        }
        (None, Some(template)) => pods.add_template(&template),
        (None, None) => pods.note_unread(object, "it has no spec.template"),
    }
}

fn template(object: &PlacedValue<'_>, pods: &mut PodCollector) {
    openshift::template(object, pods, TEMPLATE_KINDS);
}
