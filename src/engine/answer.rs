//! From a review to what is said at a door, by the table of [`consequence`](super::consequence).

use std::collections::BTreeMap;

use json_patch::PatchOperation;
use serde_json::Value;

use super::change::{Cause, Change, Edit, compile};
use super::circumstance::Circumstance;
use super::consequence::{Consequence, consequence, refuses_pods};
use super::constraint::escape;
use super::finding::{Finding, RefusedBy, field_path};
use super::note::{Note, because};
use super::pod::member;
use super::review::Review;
use super::rules::os_intent::UNDONE;
use super::verdict::Verdict;
use super::world::Os;
use crate::policy::{Action, Denials, Mode};

/// The label on pods of controllers whose findings nobody was there to read; the controller turns it into an Event.
pub const FINDINGS_LABEL: &str = "mullion.dev/findings";

/// The API's advice for one warning (extensible-admission-controllers.md), in characters.
pub const WARNING_LIMIT: usize = 120;

/// How many codes of six characters, with dots between them, the 63 of a label's value hold.
const LABEL_CODES: usize = 9;

/// The longest value of an audit annotation, in bytes: it is stored with every request's event, and an object can have
/// as many findings as fit into it.
pub const AUDIT_LIMIT: usize = 2_048;

/// Where the question is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// `/mutate`.
    Mutate,
    /// `/validate`.
    Validate,
}

impl Door {
    /// `mutate` or `validate`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
        }
    }
}

/// What is said.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// `None`: allowed.
    pub refusal: Option<Refusal>,
    /// Most important first, at most [`WARNING_LIMIT`] characters each.
    pub warnings: Vec<String>,
    /// Empty: no patch. Never filled at `/validate`.
    pub patch: Vec<PatchOperation>,
    /// Audit annotations: plain key, value. Each value is at most [`AUDIT_LIMIT`] bytes long.
    pub audit: BTreeMap<&'static str, String>,
    /// What is counted of it, at this door: the code of each finding that came to something here.
    pub effects: Vec<(&'static str, Effect)>,
    /// What its placement is counted as, at this door.
    pub placement: Option<(Os, Effect)>,
}

/// A refusal with every denied finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// For people: every finding in full.
    pub message: String,
    /// For machines: `status.details.causes`.
    pub causes: Vec<RefusalCause>,
}

/// One entry of `status.details.causes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalCause {
    /// Rule code, [`REASON`](super::resize::REASON), or Kubernetes' own word: the cause's `reason`.
    pub reason: &'static str,
    /// API field path: the cause's `field`.
    pub field: String,
    /// The finding's message and help.
    pub message: String,
}

/// What came of a finding or a placement, for counting. Each is counted once in the course of a request, at the door where
/// it takes place: changes at `/mutate`, a refusal where it is made, all else at `/validate`, which sees the object once
/// and as it will be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "they are what they say; those with `Would` are of `mode: Audit`")]
pub enum Effect {
    Refused,
    Repaired,
    Labelled,
    Warned,
    Placed,
    WouldRefuse,
    WouldRepair,
    WouldLabel,
    WouldPlace,
}

impl Effect {
    /// `refused`, `would_refuse`, …
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Repaired => "repaired",
            Self::Labelled => "labelled",
            Self::Warned => "warned",
            Self::Placed => "placed",
            Self::WouldRefuse => "would_refuse",
            Self::WouldRepair => "would_repair",
            Self::WouldLabel => "would_label",
            Self::WouldPlace => "would_place",
        }
    }

    /// The same where nothing is done.
    const fn under_audit(self) -> Self {
        match self {
            Self::Refused => Self::WouldRefuse,
            Self::Repaired => Self::WouldRepair,
            Self::Labelled => Self::WouldLabel,
            Self::Placed => Self::WouldPlace,
            other => other,
        }
    }

    const fn door(self) -> Door {
        match self {
            Self::Repaired | Self::Placed => Door::Mutate,
            _ => Door::Validate,
        }
    }
}

/// The answer at `door` for a review of `object`.
pub fn answer(review: &Review, object: &Value, door: Door) -> Answer {
    let mut answer = Answer::default();
    let audit_only = review.settings.mode == Mode::Audit;
    match review.circumstance {
        Circumstance::NotOurs | Circumstance::OtherUpdate => return answer,
        Circumstance::Rewrite => {
            if door == Door::Mutate && !audit_only {
                answer.patch = compile(object, &review.changes);
            }
            return answer;
        }
        Circumstance::Resize => {
            resize(review, object, &mut answer);
            return answer;
        }
        _ => {}
    }
    let weighed: Vec<(&Finding, Consequence)> = review
        .findings
        .iter()
        // At /mutate it is put there again.
        .filter(|finding| door == Door::Validate || finding.code != UNDONE)
        .map(|finding| (finding, consequence(finding, review.circumstance, review.settings.workloads)))
        .collect();
    annotate(review, &weighed, &mut answer);
    let with = |wanted: Consequence| weighed.iter().filter(move |(_, c)| *c == wanted).map(|(finding, _)| *finding);
    let refused: Vec<&Finding> = with(Consequence::Refused).collect();
    // The server validates between the two doors: what it would refuse must be said before, in words that help.
    let server_first = refused.iter().any(|finding| finding.refused_by == RefusedBy::ApiServer);
    let speaks_up = !refused.is_empty() && (door == Door::Validate || server_first);
    if speaks_up && !audit_only {
        answer.refusal = Some(refusal(review, object, &refused));
        answer.effects = refused.iter().map(|finding| (finding.code, Effect::Refused)).collect();
        return answer;
    }
    if door == Door::Mutate && !audit_only {
        answer.patch = compile(object, &with_label(review, object, with(Consequence::Labelled)));
    }
    count(review, &weighed, door, &mut answer);
    // Both doors speak: /validate alone sees kinds that are not mutated, and the server says equal texts once.
    warn(review, &weighed, &mut answer);
    answer
}

fn refusal(review: &Review, object: &Value, refused: &[&Finding]) -> Refusal {
    // At /validate the decisive field may be one that Mullion wrote at /mutate; the note has what decided then.
    let note = || Note::of(object).filter(|note| Os::from_name(&note.os) == review.decision.decided());
    let reason = || note().map_or_else(|| because(&review.decision), |note| note.because);
    let mut message = match review.decision.verdict {
        Verdict::Windows => format!("{} must be changed to run on Windows ({}):", called(review, object), reason()),
        Verdict::Linux | Verdict::Undecided | Verdict::Conflict => {
            format!("{} must be changed to run:", called(review, object))
        }
    };
    for finding in refused {
        message.push_str("\n- ");
        message.push_str(&finding.sentence());
    }
    let causes = refused.iter().map(|finding| RefusalCause {
        reason: finding.code,
        field: finding.path.clone(),
        message: finding.advice(),
    });
    Refusal { message, causes: causes.collect() }
}

/// `Deployment web`: who applies a file with many objects is told by nobody else which it was. A generated name is
/// `web-…`: it means nothing to anybody, and Events of equal text are counted and not repeated.
fn called(review: &Review, object: &Value) -> String {
    let text = |pointer| member(object, pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let new = review.circumstance != Circumstance::EphemeralContainers;
    let name = match text("/metadata/generateName").filter(|_| new) {
        Some(start) => format!("{start}…"),
        None => text("/metadata/name").unwrap_or("without a name").to_owned(),
    };
    format!("{} {name}", text("/kind").unwrap_or("Pod"))
}

/// A resize that cannot be done is refused, as API servers of 1.36 do by themselves: Infeasible, which the kubelet would
/// make of it, nobody sees who does not look. Vertical Pod Autoscalers evict the pod then (kubernetes/autoscaler#8303).
fn resize(review: &Review, object: &Value, answer: &mut Answer) {
    let Some(why) = &review.advice else { return };
    if review.settings.mode == Mode::Audit {
        answer.warnings.push(shorten(&format!("would refuse: {why}")));
    } else if review.settings.denials == Denials::Warn {
        answer.warnings.push(shorten(why));
    } else {
        let cause =
            RefusalCause { reason: super::resize::REASON, field: "spec.containers".to_owned(), message: why.clone() };
        let name = member(object, "/metadata/name").and_then(Value::as_str).unwrap_or_default();
        answer.refusal = Some(Refusal { message: format!("pod {name} cannot be resized: {why}"), causes: vec![cause] });
    }
}

/// The review's changes, and the label where somebody must be told by it.
fn with_label<'f>(review: &Review, object: &Value, labelled: impl Iterator<Item = &'f Finding>) -> Vec<Change> {
    let mut changes = review.changes.clone();
    let mut codes: Vec<&str> = labelled.map(|finding| finding.code).collect();
    codes.sort_unstable();
    codes.dedup();
    codes.truncate(LABEL_CODES);
    let pointer = format!("/metadata/labels/{}", escape(FINDINGS_LABEL));
    let present = member(object, &pointer).and_then(Value::as_str).unwrap_or_default();
    // A second call sees the pod as the first changed it: what ended a finding there takes no word about it back.
    if codes.iter().any(|code| !present.split('.').any(|said| said == *code)) {
        let edit = Edit::Set { pointer, value: Value::from(codes.join(".")) };
        changes.push(Change { cause: Cause::Placement("its findings are for whoever owns it"), edit });
    }
    changes
}

fn warn(review: &Review, weighed: &[(&Finding, Consequence)], answer: &mut Answer) {
    let audit_only = review.settings.mode == Mode::Audit;
    let mut said: Vec<(&Finding, Consequence)> = weighed.to_vec();
    said.sort_by_key(|(_, consequence)| std::cmp::Reverse(*consequence));
    for (finding, consequence) in said {
        let text = match consequence {
            Consequence::Refused if audit_only => finding.line("would refuse: ", "", WARNING_LIMIT),
            Consequence::Refused | Consequence::Nothing | Consequence::Labelled => continue,
            Consequence::Repaired if finding.quiet || matches!(review.circumstance, Circumstance::OwnedPod { .. }) => {
                continue;
            }
            Consequence::Repaired if removes(review, finding) => {
                let (would, done) = match finding.replacement {
                    None => ("would remove: ", " removed"),
                    Some(_) => ("would replace: ", " replaced"),
                };
                if audit_only { finding.line(would, "", WARNING_LIMIT) } else { finding.line("", done, WARNING_LIMIT) }
            }
            // Stored all the same, and then no pod comes of it.
            Consequence::Warned if costs_its_pods(review, finding) => finding.line("pods refused: ", "", WARNING_LIMIT),
            Consequence::Repaired | Consequence::Warned => finding.line("", "", WARNING_LIMIT),
        };
        answer.warnings.push(shorten(&text));
    }
    if !audit_only {
        answer.warnings.extend(review.advice.as_deref().map(shorten));
    } else if let Some(os) = review.decision.decided().filter(|_| places(review)) {
        answer.warnings.push(format!("Mullion (audit) would place this on {} nodes", os.title()));
    }
}

/// Whether the pods of a template are refused for a finding, though it is not.
pub fn costs_its_pods(review: &Review, finding: &Finding) -> bool {
    match review.circumstance {
        // What the API server refuses is not stored either.
        Circumstance::Template { of, .. } if finding.refused_by != RefusedBy::ApiServer => {
            finding.action == Action::Deny && review.settings.mode == Mode::Enforce && refuses_pods(finding, of)
        }
        _ => false,
    }
}

/// Whether the review's changes remove the finding's field.
fn removes(review: &Review, finding: &Finding) -> bool {
    review.changes.iter().any(|change| matches!(&change.edit, Edit::Remove { pointer } if *pointer == finding.pointer))
}

/// Whether the review's changes say where the subject may run.
fn places(review: &Review) -> bool {
    review.changes.iter().any(|change| matches!(change.cause, Cause::Placement(_)))
}

/// What is counted at `door` of an answer that refuses nothing.
fn count(review: &Review, weighed: &[(&Finding, Consequence)], door: Door, answer: &mut Answer) {
    let audit_only = review.settings.mode == Mode::Audit;
    let here = |effect: Effect| {
        let effect = if audit_only { effect.under_audit() } else { effect };
        (effect.door() == door).then_some(effect)
    };
    let of = |finding: &Finding, consequence| match consequence {
        Consequence::Nothing => None,
        // Said at the other door.
        Consequence::Refused if !audit_only => None,
        Consequence::Refused => here(Effect::Refused),
        Consequence::Labelled => here(Effect::Labelled),
        Consequence::Repaired if removes(review, finding) => here(Effect::Repaired),
        Consequence::Repaired if finding.quiet => None,
        Consequence::Repaired | Consequence::Warned => here(Effect::Warned),
    };
    answer.effects =
        weighed.iter().filter_map(|(finding, consequence)| Some((finding.code, of(finding, *consequence)?))).collect();
    answer.placement =
        review.decision.decided().filter(|_| places(review)).and_then(|os| Some((os, here(Effect::Placed)?)));
}

fn annotate(review: &Review, weighed: &[(&Finding, Consequence)], answer: &mut Answer) {
    if let Some(os) = review.decision.decided() {
        answer.audit.insert("decision", listed([format!("{} by {}", os.name(), because(&review.decision))]));
    }
    let place = |finding: &Finding| format!("{} {}", finding.code, finding.path);
    let mut insert = |key, value: String| {
        if !value.is_empty() {
            answer.audit.insert(key, value);
        }
    };
    insert("findings", listed(weighed.iter().map(|(finding, _)| place(finding))));
    if review.settings.mode == Mode::Audit {
        let refused = weighed.iter().filter(|(_, consequence)| *consequence == Consequence::Refused);
        insert("would-refuse", listed(refused.map(|(finding, _)| place(finding))));
        insert("would-change", listed(would_change(review)));
    }
}

/// The place of each change with its reason, each place once. No values: they may be secret, and they are in the object.
fn would_change(review: &Review) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for Change { cause, edit } in &review.changes {
        let (Edit::Set { pointer, .. } | Edit::Remove { pointer } | Edit::Append { pointer, .. }) = edit;
        let place = match cause {
            Cause::Placement(reason) => format!("{} ({reason})", field_path(pointer)),
            Cause::Rule(code) => format!("{} ({code})", field_path(pointer)),
        };
        if !all.contains(&place) {
            all.push(place);
        }
    }
    all
}

/// The items with commas between them, as many as [`AUDIT_LIMIT`] bytes hold, and how many more there are.
pub(crate) fn listed(items: impl IntoIterator<Item = String>) -> String {
    // For what is said of those that are left out.
    const REST: usize = 32;
    let mut text = String::new();
    let mut left_out = 0_usize;
    for item in items {
        if left_out > 0 || text.len() + item.len() + 2 > AUDIT_LIMIT - REST {
            left_out += 1;
            continue;
        }
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&item);
    }
    match left_out {
        0 => text,
        number if text.is_empty() => format!("{number} too long to be listed"),
        number => format!("{text}, and {number} more"),
    }
}

/// At most [`WARNING_LIMIT`] characters, without control characters: the server drops a warning that cannot be a
/// header.
fn shorten(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.chars().count() <= WARNING_LIMIT {
        return clean;
    }
    let mut short: String = clean.chars().take(WARNING_LIMIT - 1).collect();
    short.push('…');
    short
}
