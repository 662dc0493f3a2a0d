//! The page `docs/reference/kinds.md`, which is generated from the tables. `UPDATE_DOCS=1` writes it.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use mullion_engine::pod_templates::{PATTERN_GROUPS, PatternGroup, TEMPLATE_KINDS, TemplateKind, TemplateWrites};

const START: &str = "\
# Kinds with pod templates

This page is for people who check manifests of operators: workflows, pipelines, runners, game servers. After reading it you know which kinds `mullion check`, `explain` and `mutate` read besides those of Kubernetes, how a pod comes from each
of them, and what is not read. The page is generated from `crates/engine/src/pod_templates/`.

## Kinds of Kubernetes

Pod, PodTemplate, ReplicationController, ReplicaSet, Deployment, StatefulSet, DaemonSet, Job and CronJob. The webhook reviews them, and the commands print what it does. See [Behavior by resource](requests.md).

## Kinds of operators

The webhook does not see these objects. It sees the pods that their controllers create, and reviews them as bare pods. Some controllers create a workload of Kubernetes instead (Rollout, ScaledJob, JobSet, DeploymentConfig, UnitedDeployment, the kinds of Knative), whose pod template the webhook reviews too. For a file, the commands make the same pods from the object and review them the same way. Findings are at the lines of the object. A field that several pods of an object get from
one place is reported once.

- `check` counts each pod as one workload.
- `explain` prints each pod.
- `mutate` changes nothing in these objects. `mutate --templates` writes into the pod templates of the kinds with `yes` in its column, and prints a line on stderr for each object that stays as it is.
- `survey` and `plan` read pods and their owners from a cluster, and not these objects.

";

const UNKNOWN: &str = "
## What is unknown

A value that the controller replaces is unknown: `{{inputs.parameters.image}}` of Argo, `$(params.image)` of Tekton, `${IMAGE}` of an OpenShift template, a `podSpecPatch`, an image that an image change trigger sets. It is no evidence, and a pod with an unknown image or an unknown placement does not get the Linux default.

Containers that a controller adds are not reviewed, except where the table names them, because their images are settings of the controller.

## What is not read

An object is not read if its pods are only in the cluster (`workflowTemplateRef`, `templateRef`, `taskRef`, `pipelineRef`, `workloadRef`), or if it has not the expected form. `check` prints a line on stderr for each such object:

```text
mullion: not read: build.yaml:1: Workflow dev/build: spec.workflowTemplateRef: its templates are those of the WorkflowTemplate base in the cluster
```

The summary counts these objects, JSON has a record of the type `unread`, and `check --fail-on unread` exits with 1.

## Other kinds

In an object of any other kind, the commands search for pod templates by their shape: a map with `spec.containers`, in which a container has an image. What the controller of the kind does with them is not known, so all findings only warn, and nothing is written. Up to 100 pod templates of an object are
read, to a depth of 32.

Objects of these groups contain patterns, patches or tests, and are not searched:

";

const VERSIONS: &str = "
## Kinds and `rules.version`

Under policies with a [`rules.version`](pod-policy.md#specrulesversion) before the version in the column Since, findings in objects of the kind only warn, and `check` prints one line with the reason. Objects of other kinds are read since 0.1.
";

fn kind(row: &TemplateKind) -> String {
    let TemplateKind { groups, kind, pods, placement, writes, since, sources, .. } = row;
    let group = groups.first().unwrap();
    let writes = match writes {
        TemplateWrites::Templates => "yes".to_owned(),
        TemplateWrites::Never(why) => format!("never: {why}"),
    };
    let sources: Vec<String> =
        sources.iter().zip(1..).map(|(source, number)| format!("[{number}]({source})")).collect();
    format!("| `{kind}` ({group}) | {pods} | {placement} | {writes} | {since} | {} |", sources.join(", "))
}

fn group(row: &PatternGroup) -> String {
    let PatternGroup { group, kinds, contents, source } = row;
    let kinds = if kinds.is_empty() { "all".to_owned() } else { format!("`{}`", kinds.join("`, `")) };
    format!("| `{group}` | {kinds} | {contents} | [source]({source}) |")
}

#[test]
fn the_page_has_each_row_of_the_tables() {
    let mut page = START.to_owned();
    page.push_str(
        "| kind | pods | placement of the pods | `mutate --templates` | since | sources |\n|---|---|---|---|---|---|\n",
    );
    for row in TEMPLATE_KINDS {
        writeln!(page, "{}", kind(row)).unwrap();
    }
    page.push_str(UNKNOWN);
    page.push_str("| group | kinds | contents | |\n|---|---|---|---|\n");
    for row in PATTERN_GROUPS {
        writeln!(page, "{}", group(row)).unwrap();
    }
    page.push_str(VERSIONS);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/kinds.md");
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), page, "make rules writes it");
}
