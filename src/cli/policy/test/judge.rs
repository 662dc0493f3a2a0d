//! What comes of an object: as the webhook's two doors would have it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::engine::pod::Pod;
use crate::engine::pods::nodes;
use crate::engine::world::World;
use crate::engine::{Answer, Door, Kind, Request, Subject, answer, review};
use crate::policy::{Origin, PolicySet, Setting};
use crate::report::decided::Decided;

/// Everything that can be expected of an object.
pub(super) struct Judged {
    pub(super) kind: Kind,
    pub(super) decided: Decided,
    /// Every key of the policies, with what holds for it.
    pub(super) settings: Vec<Setting>,
    /// The object as it was written.
    pub(super) written: Value,
    /// What its creation comes to.
    pub(super) creation: Creation,
    /// That of a pod that its controller makes; `None` for a pod, and where there is none.
    pub(super) pod: Option<Creation>,
    /// The nodes that could run it, or its pods; `None` where the world knows of none.
    pub(super) nodes: Option<Vec<String>>,
}

/// What an API server makes of a new object.
pub(super) struct Creation {
    /// Why it is not stored.
    pub(super) refusal: Option<Refused>,
    /// As it is stored.
    pub(super) stored: Value,
    /// What whoever creates it is told.
    pub(super) warnings: Vec<String>,
}

/// Words of a refusal.
pub(super) struct Refused {
    pub(super) message: String,
    /// `MUL201 spec.containers[0].securityContext.runAsUser`.
    pub(super) causes: Vec<String>,
}

impl Judged {
    /// What holds for a key of the policies, and who set it.
    pub(super) fn setting(&self, key: &str) -> (Value, Option<&Origin>) {
        let setting = self.settings.iter().find(|setting| setting.key == key);
        setting.map_or((Value::Null, None), |setting| (setting.value.clone(), setting.origin.as_ref()))
    }
}

/// Judges.
pub(super) fn judge(request: &Request<'_>, world: &World, policies: &PolicySet) -> Judged {
    let Subject { kind, namespace, object } = request.subject;
    let decided = Decided::new(request, world, policies);
    let mut creation = create(request, world, policies);
    if creation.refusal.is_none() && decided.is_refused() {
        // What the API server itself could not read.
        let message =
            decided.refused().map(|finding| format!("- {}", finding.sentence())).collect::<Vec<_>>().join("\n");
        let causes = decided.refused().map(|finding| format!("{} {}", finding.code, finding.path)).collect();
        creation.refusal = Some(Refused { message, causes });
    }
    let pod =
        creation.refusal.is_none().then(|| pod(kind, namespace, &creation.stored)).flatten().map(|pod| {
            create(&Request::creation(Subject { kind: Kind::Pod, namespace, object: &pod }), world, policies)
        });
    let nodes = nodes(request, world, policies).map(|names| names.into_iter().map(str::to_owned).collect());
    let labels = world.namespaces.get(namespace).map(|namespace| &namespace.labels);
    let settings = Pod::of(kind, object).map(|pod| policies.effective(namespace, labels, &pod)).unwrap_or_default();
    Judged { kind, decided, settings, written: object.clone(), creation, pod, nodes }
}

/// `/mutate` sees the object as it is written, `/validate` as it is patched.
fn create(request: &Request<'_>, world: &World, policies: &PolicySet) -> Creation {
    let object = request.subject.object;
    let before = review(request, world, policies);
    let first = answer(&before, object, Door::Mutate);
    let mut stored = object.clone();
    if first.refusal.is_none() {
        // What cannot be applied leaves the object as its author wrote it.
        let applied = json_patch::patch(&mut stored, &first.patch).is_ok();
        if !applied {
            stored = object.clone();
        }
    }
    let settled = Request { subject: Subject { object: &stored, ..request.subject }, settled: true, ..*request };
    let second = match first.refusal {
        Some(_) => Answer::default(),
        None => answer(&review(&settled, world, policies), &stored, Door::Validate),
    };
    let refusal = first.refusal.or(second.refusal).map(|refusal| Refused {
        causes: refusal.causes.iter().map(|cause| format!("{} {}", cause.reason, cause.field)).collect(),
        message: refusal.message,
    });
    // The API server says equal texts once.
    let mut said = BTreeSet::new();
    let warnings = first.warnings.into_iter().chain(second.warnings);
    let warnings = warnings.filter(|warning| said.insert(warning.clone())).collect();
    Creation { refusal, stored, warnings }
}

/// A pod as the controller of `object` makes it.
fn pod(kind: Kind, namespace: &str, object: &Value) -> Option<Value> {
    let template = object.pointer(kind.pod_pointer()).filter(|_| kind != Kind::Pod)?;
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("x");
    let mut metadata = template.get("metadata").cloned().unwrap_or_else(|| json!({}));
    let owner = match kind {
        Kind::Deployment | Kind::ReplicaSet => Some(("apps/v1", "ReplicaSet")),
        Kind::StatefulSet | Kind::DaemonSet => Some(("apps/v1", kind.name())),
        Kind::Job | Kind::CronJob => Some(("batch/v1", "Job")),
        Kind::ReplicationController => Some(("v1", kind.name())),
        Kind::PodTemplate | Kind::Pod => None,
    };
    let members = metadata.as_object_mut()?;
    members.insert("generateName".to_owned(), json!(format!("{name}-")));
    members.insert("namespace".to_owned(), json!(namespace));
    members.extend(owner.map(|(version, kind)| {
        let owner = json!([{"apiVersion": version, "kind": kind, "name": name, "uid": "0", "controller": true}]);
        ("ownerReferences".to_owned(), owner)
    }));
    Some(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec")?}))
}
