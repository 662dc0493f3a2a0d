//! The fields that Mullion may write, for each request category.

use mullion_engine::admission::RequestCategory;
use mullion_engine::model::WorkloadKind;
use mullion_engine::rules::linux_only::FIELDS;

const DECISION: &str = "/metadata/annotations/mullion.dev~1decision";
const FINDINGS: &str = "/metadata/labels/mullion.dev~1findings";
const BUILD: &str = "/metadata/labels/mullion.dev~1windows-build";
const APP_ARMOR: &str = "/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1";
const TERMS: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

/// Whether an operation of a patch may have this path: a pointer into the whole object.
pub(crate) fn declared(category: RequestCategory, path: &str) -> bool {
    let template = path.strip_prefix("/spec/template");
    match category {
        RequestCategory::Skipped(_) | RequestCategory::OtherUpdate | RequestCategory::Resize => false,
        RequestCategory::Pod => placed(path) || whole_pod(path) || repaired(path),
        // Its controller has chosen the nodes of its pods from the template.
        RequestCategory::OwnedPod { by: WorkloadKind::DaemonSet } => {
            placed(path) || labelled(path) || path == "/spec/os" || repaired(path)
        }
        RequestCategory::OwnedPod { .. } => placed(path) || labelled(path) || whole_pod(path) || repaired(path),
        RequestCategory::EphemeralContainers => path.starts_with("/spec/ephemeralContainers/") && repaired(path),
        RequestCategory::Template { of: WorkloadKind::DaemonSet, .. } | RequestCategory::Rewrite => {
            is_decision_annotation(path)
                || template.is_some_and(|path| {
                    (placed(path) && !is_decision_annotation(path))
                        || excluded_builds(path)
                        || changed_exclusion(path)
                        || repaired(path)
                })
        }
        RequestCategory::Template { of: WorkloadKind::CronJob, .. } => {
            path.strip_prefix("/spec/jobTemplate/spec/template").is_some_and(repaired)
        }
        RequestCategory::Template { .. } => template.is_some_and(repaired),
    }
}

/// Placement by operating system, and its record.
fn placed(path: &str) -> bool {
    ["/spec/nodeSelector", "/spec/nodeSelector/kubernetes.io~1os", "/spec/tolerations", "/spec/tolerations/-"].contains(&path)
        // Only for DaemonSets: the tolerations of an operating system that is no longer decided.
        || path.strip_prefix("/spec/tolerations/").is_some_and(|index| index.parse::<usize>().is_ok())
        || is_decision_annotation(path)
}

fn is_decision_annotation(path: &str) -> bool {
    [DECISION, "/metadata/annotations"].contains(&path)
}

fn labelled(path: &str) -> bool {
    [FINDINGS, "/metadata/labels"].contains(&path)
}

/// Fields of a pod that no template has: builds, RuntimeClass, the OS field.
fn whole_pod(path: &str) -> bool {
    [
        "/spec/nodeSelector/node.kubernetes.io~1windows-build",
        "/spec/runtimeClassName",
        "/spec/os",
        BUILD,
        "/metadata/labels",
    ]
    .contains(&path)
        || excluded_builds(path)
}

/// The node affinity that excludes builds, and its parents.
fn excluded_builds(path: &str) -> bool {
    (path.len() >= "/spec/affinity".len() && TERMS.starts_with(path))
        || path
            .strip_prefix(TERMS)
            .is_some_and(|below| below.ends_with("/matchExpressions") || below.ends_with("/matchExpressions/-"))
}

/// Only for DaemonSets: an exclusion that an earlier request wrote and that no longer applies. Its values change, or it is
/// removed, with its term if that contains nothing else.
fn changed_exclusion(path: &str) -> bool {
    let is_index = |token: &str| token.parse::<usize>().is_ok();
    let tokens: Vec<&str> = path.strip_prefix(TERMS).unwrap_or_default().split('/').skip(1).collect();
    match tokens[..] {
        [term] => is_index(term),
        [term, "matchExpressions", item] | [term, "matchExpressions", item, "values"] => {
            is_index(term) && is_index(item)
        }
        _ => false,
    }
}

/// Fields that rules remove or replace.
fn repaired(path: &str) -> bool {
    path.starts_with(APP_ARMOR)
        || FIELDS.iter().any(|field| field.pod == Some(path))
        || in_container(path).is_some_and(|below| {
            FIELDS.iter().any(|field| field.container == Some(below.as_str()))
                || below == "/volumeMounts/*/mountPropagation"
        })
}

/// The part of a pointer after a container, with `*` for each number.
fn in_container(path: &str) -> Option<String> {
    let lists = ["/spec/initContainers/", "/spec/containers/", "/spec/ephemeralContainers/"];
    let (index, below) = lists.iter().find_map(|list| path.strip_prefix(list))?.split_once('/')?;
    index.parse::<usize>().ok()?;
    let tokens = below.split('/').map(|token| if token.parse::<usize>().is_ok() { "*" } else { token });
    Some(tokens.fold(String::new(), |all, token| all + "/" + token))
}
