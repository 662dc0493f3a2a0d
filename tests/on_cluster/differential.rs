//! The rule catalogue against the API server: thousands of generated pods, each reviewed by both.
//!
//! A disagreement is a rule that predicts a rejection that does not happen, a rejection for the operating system that
//! no rule predicted, a repair that does not help, a pod whose findings change with the API server's defaults, or a
//! Linux pod that is stored differently with Mullion.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context as _, Result, anyhow, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::core::Status;
use mullion_cluster::Release;
use mullion_engine::admission::{Endpoint, Review, ReviewResponse, respond, review};
use mullion_engine::model::cluster::ClusterSnapshot;
use mullion_engine::model::json_pointer::field_path;
use mullion_engine::model::{DetectedOs, Edit, ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_engine::rules::RejectedBy;
use mullion_policy::PolicySet;
use serde_json::{Value, json};

use crate::generator::{self, Generated};
use crate::shared::*;
use crate::stored_fields::stores;

/// The minimum number of pods: each piece of the generator alone, and in `make soak` as many mixtures again.
fn pods_at_least() -> usize {
    if mullion_cluster::soak() { 3_000 } else { 0 }
}

/// The number of requests at a time: more do not make two cores faster, fewer leave them idle.
const PARALLEL: usize = 12;
/// The number of pods of each kind of disagreement that are printed.
const SHOWN: usize = 4;

/// Why the API server rejects a pod because of its operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// `validateWindows`, `validatePodResources`: a field that `spec.os.name: windows` forbids.
    LinuxOnly,
    /// `validateLinux`: windowsOptions beside `spec.os.name: linux`.
    WindowsOptions,
    /// `validateOS`: neither `linux` nor `windows`.
    UnknownOs,
    /// `validateStopSignal`: a signal that Windows does not know.
    StopSignal,
    /// `validateWindowsSecurityContextOptions`: `runAsUserName`.
    UserName,
    /// The same: `gmsaCredentialSpecName` and `gmsaCredentialSpec`.
    Gmsa,
    /// `validateWindowsHostProcessPod`.
    HostProcess,
}

impl Reason {
    /// The reason behind a cause of a 422, if it is about the operating system.
    fn of(field: &str, message: &str) -> Option<Self> {
        let last = field.rsplit('.').next().unwrap_or_default();
        Some(match last {
            _ if message.ends_with("cannot be set for a windows pod") => Self::LinuxOnly,
            _ if message.ends_with("may not be set for a windows pod") => Self::LinuxOnly,
            _ if message.ends_with("windows options cannot be set for a linux pod") => Self::WindowsOptions,
            _ if field == "spec.os" || field == "spec.os.name" => Self::UnknownOs,
            // Without spec.os any signal is rejected, for every operating system.
            "stopSignal" if message.contains("empty `spec.os.name`") => return None,
            "stopSignal" => Self::StopSignal,
            "runAsUserName" => Self::UserName,
            "gmsaCredentialSpec" | "gmsaCredentialSpecName" => Self::Gmsa,
            _ if message.contains("hostProcess") => Self::HostProcess,
            _ => return None,
        })
    }
}

/// The result for a pod in the API server without Mullion.
struct Plain {
    stored: Option<Value>,
    /// Reason and field of each cause that is about the operating system.
    os: BTreeSet<(Reason, String)>,
    /// Fields of the other causes.
    other: BTreeSet<String>,
}

impl Plain {
    fn of(answer: std::result::Result<Value, Box<Status>>) -> Result<Self> {
        let mut plain = Self { stored: None, os: BTreeSet::new(), other: BTreeSet::new() };
        match answer {
            Ok(stored) => plain.stored = Some(stored),
            Err(status) => {
                ensure!(status.code == 422, "{status:?}");
                for cause in status.details.context("a 422 with details")?.causes {
                    match Reason::of(&cause.field, &cause.message) {
                        Some(reason) => plain.os.insert((reason, cause.field)),
                        None => plain.other.insert(cause.field),
                    };
                }
                ensure!(!(plain.os.is_empty() && plain.other.is_empty()), "a 422 without causes");
            }
        }
        Ok(plain)
    }

    /// Whether the API server, and not Mullion, may reject the pod: for a reason besides the operating system, or for
    /// an operating system that no rule may deny, because a later API server can know it (`PodOS` in core/v1/types.go);
    /// Mullion warns about it.
    fn server_may_reject(&self) -> bool {
        !self.other.is_empty() || self.os.iter().any(|(reason, _)| *reason == Reason::UnknownOs)
    }
}

/// The engine, with the snapshot and policies of the webhook on that cluster.
struct Engine {
    snapshot: ClusterSnapshot,
    policies: PolicySet,
    namespace: String,
    release: Release,
}

/// The outcome for a pod that the engine predicts.
struct Prediction {
    review: Review,
    /// The review of the pod after Mullion's changes.
    after: Review,
    denied: bool,
    /// Whether the webhook, which receives the pod with the API server's defaults, leaves it unchanged.
    untouched: bool,
}

impl Engine {
    fn review(&self, object: &Value) -> Review {
        let workload = WorkloadObject { kind: WorkloadKind::Pod, namespace: &self.namespace, object };
        let request = ReviewRequest::creation(workload);
        review(&request, &self.snapshot, &self.policies.resolve(&request, &self.snapshot))
    }

    /// Code and path of every finding, except one: `supplementalGroups: []` is rejected with `spec.os.name: windows`,
    /// but no webhook receives it, because the API server omits it from the pod in its requests.
    fn findings(&self, object: &Value) -> BTreeSet<(&'static str, String)> {
        let unseen = |path: &str| {
            path == "spec.securityContext.supplementalGroups"
                && object["spec"]["securityContext"]["supplementalGroups"] == json!([])
        };
        let findings = self.review(object).findings.into_iter().filter(|finding| !unseen(&finding.path));
        findings.map(|finding| (finding.code, finding.path)).collect()
    }

    fn predict(&self, object: &Value) -> Result<Prediction> {
        let review = self.review(object);
        let mutate: ReviewResponse = respond(&review, object, Endpoint::Mutate);
        let mut stored = object.clone();
        json_patch::patch(&mut stored, &mutate.patch).context("the patch applies")?;
        let after = self.review(&stored);
        let validate = respond(&after, &stored, Endpoint::Validate);
        let denied = mutate.denial.is_some() || validate.denial.is_some();
        let untouched = self.review(&generator::defaulted(object)).changes.is_empty();
        Ok(Prediction { review, after, denied, untouched })
    }
}

impl Prediction {
    /// Paths of the findings for which the API server would reject the pod.
    fn rejected_by_server(&self) -> BTreeSet<String> {
        let findings = self.review.findings.iter().filter(|finding| finding.rejected_by == RejectedBy::ApiServer);
        findings.map(|finding| finding.path.clone()).collect()
    }

    /// Pointers of what the review removes.
    fn removed(&self) -> impl Iterator<Item = &str> {
        self.review.changes.iter().filter_map(|change| match &change.edit {
            Edit::Remove { pointer } => Some(pointer.as_str()),
            Edit::Set { .. } | Edit::Append { .. } => None,
        })
    }

    fn sets_os_field(&self) -> bool {
        self.review.changes.iter().any(|change| {
            matches!(&change.edit, Edit::Set { pointer, .. } if pointer == "/spec/os" || pointer == "/spec/os/name")
        })
    }
}

/// Disagreements by kind, each with the pods that have it.
#[derive(Default)]
struct Disagreements(BTreeMap<String, Vec<String>>);

impl Disagreements {
    fn add(&mut self, kind: impl Into<String>, pod: &Generated, detail: impl fmt::Display) {
        self.0.entry(kind.into()).or_default().push(format!("{} -> {detail}", pod.what));
    }
}

impl fmt::Display for Disagreements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, pods) in &self.0 {
            writeln!(f, "{} x {kind}", pods.len())?;
            for pod in pods.iter().take(SHOWN) {
                writeln!(f, "    {}", pod.chars().take(400).collect::<String>())?;
            }
        }
        Ok(())
    }
}

/// A field path without the text between brackets, for grouping.
fn shape(path: &str) -> String {
    let mut inside = false;
    path.chars()
        .filter(|c| {
            inside = (inside || *c == '[') && *c != ']';
            !inside && !c.is_ascii_digit()
        })
        .collect()
}

#[derive(Debug, Default)]
struct Counts {
    pods: usize,
    accepted_plain: usize,
    rejected_for_os: usize,
    causes_for_os: usize,
    prediction: usize,
    rejected_for_other_reasons: usize,
    accepted_ours: usize,
    os_field_set: usize,
    repaired: usize,
    rejected_ours: usize,
    linux: usize,
}

pub async fn catalogue_and_server_agree(shared: &Shared) -> Result<()> {
    let (with, without) = (shared.namespace("judged").await?, shared.plane.namespace("judged-plain").await?);
    let shipped = include_str!("../../policies/default.yaml");
    let policies = PolicySet::from_files(&[("default.yaml", shipped)]).map_err(|why| anyhow!("{why:?}"))?;
    let release = Release::under_test()?;
    let engine = Engine { snapshot: shared.snapshot().await?, policies, namespace: with.name.clone(), release };
    let mut pods = generator::pods(generator::SEED, pods_at_least());
    pods.retain(|pod| stores(release, &pod.object));
    let objects: Vec<Value> = pods.iter().map(|pod| pod.object.clone()).collect();
    let answers: Vec<_> = futures::stream::iter(objects)
        .map(|object| {
            let (with, without) = (with.clone(), without.clone());
            async move { anyhow::Ok((ask(&without, &object).await?, ask(&with, &object).await?)) }
        })
        .buffered(PARALLEL)
        .try_collect()
        .await?;
    let (mut counts, mut wrong) = (Counts::default(), Disagreements::default());
    for (pod, (plain, ours)) in pods.iter().zip(answers) {
        match Plain::of(plain) {
            Ok(plain) => judge(&engine, pod, &plain, ours, &mut counts, &mut wrong)?,
            Err(why) => wrong.add("the server gives no causes", pod, why),
        }
    }
    eprintln!("differential: seed {:#x}, {counts:?}", generator::SEED);
    let total: usize = wrong.0.values().map(Vec::len).sum();
    ensure!(total == 0, "{total} disagreements\n{wrong}");
    // An older server does not store all fields of the pods, so it rejects fewer: Kubernetes 1.30 rejects 490.
    ensure!(
        counts.pods > 1_200 && counts.rejected_for_os > 450 && counts.os_field_set > 200 && counts.linux > 300,
        "{counts:?}"
    );
    Ok(())
}

fn judge(
    engine: &Engine,
    pod: &Generated,
    plain: &Plain,
    ours: std::result::Result<Value, Box<Status>>,
    counts: &mut Counts,
    wrong: &mut Disagreements,
) -> Result<()> {
    let prediction = engine.predict(&pod.object)?;
    counts.pods += 1;
    counts.accepted_plain += usize::from(plain.stored.is_some());
    counts.rejected_for_os += usize::from(!plain.os.is_empty());
    counts.causes_for_os += plain.os.len();
    counts.rejected_for_other_reasons += usize::from(!plain.other.is_empty());
    counts.linux += usize::from(matches!(prediction.review.decision.os, DetectedOs::Linux | DetectedOs::Undecided));
    field_by_field(pod, plain, &prediction, counts, wrong);
    defaults_change_nothing(engine, pod, plain, wrong);
    match ours {
        Ok(stored) => accepted(pod, plain, &prediction, &stored, counts, wrong),
        Err(status) => rejected(pod, plain, &prediction, &status, counts, wrong),
    }
    Ok(())
}

/// The fields for which the server rejects a pod, compared with those that the catalogue predicts.
fn field_by_field(
    pod: &Generated,
    plain: &Plain,
    prediction: &Prediction,
    counts: &mut Counts,
    wrong: &mut Disagreements,
) {
    let predicted = prediction.rejected_by_server();
    for (reason, field) in &plain.os {
        if predicted.contains(field) {
            counts.prediction += 1;
        } else {
            wrong.add(format!("rejected, and no rule predicted it ({reason:?}): {}", shape(field)), pod, field);
        }
    }
    for path in &predicted {
        let spelt = as_the_server_spells(path);
        let rejected = plain.os.iter().any(|(_, field)| *field == spelt) || plain.other.contains(&spelt);
        if !rejected && !needs_privileged(plain, path) {
            wrong.add(
                format!("a rule predicts a rejection, and the server accepts the pod: {}", shape(path)),
                pod,
                path,
            );
        }
    }
}

/// A field path of Mullion in the API server's form: causes about a mount contain the container, and no mount.
fn as_the_server_spells(path: &str) -> String {
    match path.split_once("volumeMounts[") {
        Some((start, rest)) => format!("{start}volumeMounts{}", rest.split_once(']').map_or("", |(_, end)| end)),
        None => path.to_owned(),
    }
}

/// Whether the path is a mount's propagation in a container that the server already rejects for `privileged: true`:
/// without that field it would reject `Bidirectional`.
fn needs_privileged(plain: &Plain, path: &str) -> bool {
    path.ends_with(".mountPropagation")
        && path.split_once(".volumeMounts").is_some_and(|(container, _)| {
            plain.os.iter().any(|(_, field)| *field == format!("{container}.securityContext.privileged"))
        })
}

/// Findings are the same for the authored pod, with Mullion's defaults, and with the API server's defaults.
fn defaults_change_nothing(engine: &Engine, pod: &Generated, plain: &Plain, wrong: &mut Disagreements) {
    let sent = engine.findings(&pod.object);
    let defaulted = generator::defaulted(&pod.object);
    let mut others = vec![("our defaults", engine.findings(&defaulted))];
    // Legacy AppArmor annotations become fields after every webhook: these are not defaults, and Mullion cannot detect
    // them. Up to 1.33, fields also become annotations (`applyAppArmorVersionSkew` in pkg/registry/core/pod/strategy.go).
    let app_armor = |stored: &Value| {
        has_apparmor_annotation(&pod.object) || (engine.release < Release::v1(34) && has_apparmor_annotation(stored))
    };
    if let Some(stored) = plain.stored.as_ref().filter(|stored| !app_armor(stored)) {
        others.push(("the server's defaults", engine.findings(stored)));
        let differ = differences(&defaulted["spec"], &stored["spec"], "");
        for place in differ.iter().filter(|place| !admitted(place) && !null_time(engine.release, place)) {
            let (ours, theirs) = (defaulted["spec"].pointer(place), stored["spec"].pointer(place));
            wrong.add(
                format!("our defaults are not the server's: {}", shape(place)),
                pod,
                format!("{place}: {ours:?} / {theirs:?}"),
            );
        }
    }
    for (defaults, found) in others {
        for (code, path) in sent.symmetric_difference(&found) {
            let had = if sent.contains(&(*code, path.clone())) { "lost" } else { "new" };
            wrong.add(format!("{code} is {had} with {defaults}: {}", shape(path)), pod, path);
        }
    }
}

fn has_apparmor_annotation(object: &Value) -> bool {
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    annotations.into_iter().flatten().any(|(key, _)| key.contains("apparmor"))
}

/// Fields that admission plugins fill, not defaults.
fn admitted(place: &str) -> bool {
    let plugins = ["/tolerations", "/serviceAccount", "/serviceAccountName", "/priority", "/preemptionPolicy"];
    plugins.contains(&place)
}

/// Whether it is the time of creation of a template, which was `null` up to 1.33 (`omitzero` in
/// apimachinery/pkg/apis/meta/v1/types.go).
fn null_time(release: Release, place: &str) -> bool {
    release < Release::v1(34) && place.ends_with("/volumeClaimTemplate/metadata/creationTimestamp")
}

/// A pod that was accepted in Mullion's namespace.
fn accepted(
    pod: &Generated,
    plain: &Plain,
    prediction: &Prediction,
    stored: &Value,
    counts: &mut Counts,
    wrong: &mut Disagreements,
) {
    counts.accepted_ours += 1;
    counts.repaired += usize::from(plain.stored.is_none());
    if prediction.denied {
        wrong.add("Mullion predicts a denial, and accepts the pod", pod, denied(prediction));
    }
    let removed: Vec<&str> = prediction.removed().collect();
    // Signals need the OS field.
    let gone = |field: &String| {
        (prediction.sets_os_field() && field.ends_with(".stopSignal"))
            || removed.iter().any(|pointer| field.starts_with(&as_the_server_spells(&field_path(pointer))))
    };
    if !plain.other.iter().all(gone) {
        wrong.add("the server rejects it for another reason, but not with Mullion", pod, format!("{:?}", plain.other));
    }
    counts.os_field_set += usize::from(prediction.sets_os_field());
    if prediction.sets_os_field() && stored["spec"]["os"]["name"] != "windows" {
        wrong.add("the OS field was predicted, and is not set", pod, &stored["spec"]["os"]);
    }
    for pointer in &removed {
        if stored.pointer(pointer).is_some() {
            wrong.add("the removal was predicted, and the field is still set", pod, pointer);
        }
    }
    let Some(alone) = &plain.stored else { return };
    let linux = matches!(prediction.review.decision.os, DetectedOs::Linux | DetectedOs::Undecided);
    if linux {
        let (ours, alone) = (without_ours(stored), without_ours(alone));
        for place in differences(&alone, &ours, "") {
            wrong.add("a Linux pod is stored differently", pod, place);
        }
        return;
    }
    // Without the OS field the API server turns a legacy annotation into a field, and a kubelet on Windows rejects the
    // pod for it.
    let from_annotation = |place: &str| {
        prediction.sets_os_field()
            && has_apparmor_annotation(&pod.object)
            && ["/securityContext", "/securityContext/appArmorProfile"].iter().any(|end| place.ends_with(end))
    };
    for place in differences(&alone["spec"], &stored["spec"], "/spec") {
        let ruled = removed.iter().any(|pointer| place.starts_with(*pointer));
        if !declared(&place) && !ruled && !from_annotation(&place) {
            wrong.add(format!("an undeclared change: {}", shape(&place)), pod, place);
        }
    }
}

/// A pod without what Mullion may add to a Linux pod, and without what is new in every pod.
fn without_ours(stored: &Value) -> Value {
    let mut pod = stored.clone();
    for field in ["uid", "creationTimestamp", "namespace", "managedFields"] {
        remove(&mut pod["metadata"], field);
    }
    // A gated pod already has a condition with the time of its creation in seconds.
    for condition in pod["status"]["conditions"].as_array_mut().into_iter().flatten() {
        remove(condition, "lastTransitionTime");
    }
    for map in ["annotations", "labels"] {
        if let Some(members) = pod["metadata"][map].as_object_mut() {
            members.retain(|key, _| key == "mullion.dev/os" || !key.starts_with("mullion.dev/"));
        }
        remove_empty(&mut pod["metadata"], map);
    }
    remove(&mut pod["spec"]["nodeSelector"], "kubernetes.io/os");
    remove_empty(&mut pod["spec"], "nodeSelector");
    if let Some(tolerations) = pod["spec"]["tolerations"].as_array_mut() {
        tolerations.retain(|toleration| toleration["key"] != "cattle.io/os");
    }
    pod
}

fn remove(object: &mut Value, field: &str) {
    if let Some(members) = object.as_object_mut() {
        members.remove(field);
    }
}

fn remove_empty(object: &mut Value, field: &str) {
    if object[field] == json!({}) || object[field].is_null() {
        remove(object, field);
    }
}

/// A pod that was rejected in Mullion's namespace.
fn rejected(
    pod: &Generated,
    plain: &Plain,
    prediction: &Prediction,
    status: &Status,
    counts: &mut Counts,
    wrong: &mut Disagreements,
) {
    counts.rejected_ours += 1;
    let by_mullion = status.message.contains("mullion.dev\" denied the request");
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let fields: BTreeSet<&str> = causes.map(|cause| cause.field.as_str()).collect();
    if by_mullion {
        if !prediction.denied {
            wrong.add("Mullion denies without a prediction", pod, &status.message);
        }
        for path in denied(prediction).split(' ').filter(|path| !path.is_empty()) {
            if !fields.contains(path) || !status.message.contains(path) {
                wrong.add(format!("a denial without the field {}", shape(path)), pod, &status.message);
            }
        }
        return;
    }
    if unseen_groups(plain, prediction) {
        return;
    }
    if !plain.server_may_reject() {
        let kind = if plain.stored.is_some() { "accepted without Mullion" } else { "rejected for its OS" };
        wrong.add(format!("{kind}, and with Mullion the server rejects it, not Mullion"), pod, &status.message);
    }
}

/// Whether the API server rejects only `supplementalGroups: []`, and Mullion changes nothing else: no webhook receives
/// that empty list (the API server omits it in its requests), and without a patch the API server does not decode the
/// pod again without it.
fn unseen_groups(plain: &Plain, prediction: &Prediction) -> bool {
    prediction.untouched
        && !plain.os.is_empty()
        && plain.os.iter().all(|(_, field)| field == "spec.securityContext.supplementalGroups")
}

/// Paths of the findings for which Mullion denies the pod.
fn denied(prediction: &Prediction) -> String {
    let found = prediction
        .after
        .findings
        .iter()
        .filter(|finding| finding.action == mullion_engine::model::settings::Action::Deny);
    found.map(|finding| finding.path.as_str()).collect::<Vec<_>>().join(" ")
}
