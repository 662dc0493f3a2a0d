//! The patch of a pod template in an object of a kind that is not one of Kubernetes (`mutate --templates`).

use json_patch::PatchOperation;
use mullion_engine::model::{ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_engine::pod_templates::TemplatePod;
use mullion_manifest::ManifestObject;
use serde_json::{Value, json};

use crate::cli::review_sources::ReviewSources;
use crate::report::Admission;

/// The pointer of the template in a `PodTemplate`.
const TEMPLATE: &str = "/template";

/// The operations on `object` that place and repair one of its pod templates: those for a `PodTemplate` of Kubernetes with
/// the same template. `request` creates the pod.
pub(crate) fn template_patch(
    object: &ManifestObject,
    pod: &TemplatePod,
    request: &ReviewRequest<'_>,
    sources: &ReviewSources,
) -> Vec<PatchOperation> {
    let Some(template) = object.value.pointer(&pod.site) else { return Vec::new() };
    let wrapped = json!({
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": object.name, "namespace": request.workload.namespace},
        "template": template,
    });
    let workload = WorkloadObject { kind: WorkloadKind::PodTemplate, object: &wrapped, ..request.workload };
    let request = ReviewRequest { workload, into_templates: true, ..*request };
    let patch = Admission::new(&request, &sources.snapshot, &sources.policies).patch;
    patch.iter().filter_map(|operation| moved(operation, &pod.site)).collect()
}

/// The operation on the template at `site`; `None` if it is not on the template.
fn moved(operation: &PatchOperation, site: &str) -> Option<PatchOperation> {
    let mut value = serde_json::to_value(operation).ok()?;
    let path = value.get("path").and_then(Value::as_str)?;
    let below = path.strip_prefix(TEMPLATE).filter(|below| below.starts_with('/'))?;
    let path = format!("{site}{below}");
    value.as_object_mut()?.insert("path".to_owned(), Value::from(path));
    serde_json::from_value(value).ok()
}
