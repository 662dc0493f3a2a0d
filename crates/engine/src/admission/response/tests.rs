//! Responses to reviews with any number of findings and changes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::response::audit_annotations::AUDIT_LIMIT;
use crate::admission::response::counted_outcome::CountedOutcome;
use crate::admission::response::respond::{ReviewResponse, respond, respond_in_full};
use crate::admission::response::response_size::{FINDING_LIMIT, MOST_FINDINGS};
use crate::admission::response::warnings::WARNING_LIMIT;
use crate::admission::{RequestCategory, Review};
use crate::model::Endpoint;
use crate::model::settings::{Action, Denials, Mode, Settings, TemplateDenials};
use crate::model::{Basis, Cause, Change, Edit, Evidence, EvidenceOs, EvidenceSource, Os, OsDecision, WorkloadKind};
use crate::rules::{Finding, RejectedBy, Rule, find};

fn rule(code: &str) -> &'static Rule {
    find(code).unwrap()
}

fn finding(code: &str, action: Action, pointer: String) -> Finding {
    Finding::new(rule(code), action, pointer, format!("message of {code}"))
}

/// A review of a Windows pod.
fn review(mode: Mode, findings: Vec<Finding>, changes: Vec<Change>) -> Review {
    let source = EvidenceSource::Field("/spec/nodeSelector/kubernetes.io~1os".to_owned());
    let evidence = vec![Evidence { os: EvidenceOs::Os(Os::Windows), source }];
    Review {
        settings: Arc::new(Settings { mode, ..Settings::default() }),
        category: RequestCategory::Pod,
        decision: OsDecision::os(Os::Windows, Basis::Intent, evidence),
        no_default: None,
        findings,
        changes,
        wanted: Vec::new(),
        hint: None,
        left_out: None,
        namespace_unknown: false,
        unusable: Vec::new(),
    }
}

fn removal(pointer: &str) -> Change {
    Change { cause: Cause::Rule("MUL202"), edit: Edit::Remove { pointer: pointer.to_owned() } }
}

fn pod() -> Value {
    json!({"kind": "Pod", "metadata": {"name": "web"}, "spec": {}})
}

fn at(index: usize) -> String {
    format!("/spec/containers/{index}/securityContext/runAsUser")
}

/// Many findings of one rule, and one each of two others at the end.
fn many(count: usize, action: Action) -> Vec<Finding> {
    let findings = (0..count - 2).map(|index| finding("MUL201", action, at(index)));
    let others = ["MUL203", "MUL204"].map(|code| finding(code, action, "/spec/last".to_owned()));
    findings.chain(others).collect()
}

#[test]
fn a_denial_prints_fifty_findings_of_every_rule_and_counts_all() {
    let review = review(Mode::Enforce, many(8_000, Action::Deny), Vec::new());
    let response = respond(&review, &pod(), Endpoint::Validate);
    let denial = response.denial.unwrap();
    let lines: Vec<&str> = denial.message.lines().collect();
    assert_eq!(lines.len(), 1 + MOST_FINDINGS + 1);
    assert_eq!(lines[0], "Pod web must be changed to run on Windows (spec.nodeSelector[kubernetes.io/os]):");
    let codes: Vec<&str> = denial.causes.iter().map(|cause| cause.reason).collect();
    assert_eq!(codes[..4], ["MUL201", "MUL203", "MUL204", "MUL201"]);
    assert_eq!(codes.len(), MOST_FINDINGS);
    assert!(lines[4].contains("spec.containers[1].securityContext.runAsUser"), "{}", lines[4]);
    assert_eq!(lines[51], "- and 7,950 more findings; `mullion check` prints all of them");
    assert_eq!(response.outcomes.len(), 8_000);
    assert!(response.outcomes.iter().all(|(_, outcome)| *outcome == CountedOutcome::Denied));
    assert!(response.audit["findings"].len() <= AUDIT_LIMIT);
    assert!(response.audit["findings"].ends_with(" more"), "{}", response.audit["findings"]);

    let full = respond_in_full(&review, &pod(), Endpoint::Validate);
    let (message, causes) = full.denial.map(|denial| (denial.message, denial.causes)).unwrap();
    assert_eq!((message.lines().count(), causes.len()), (8_001, 8_000));
    assert_eq!((full.outcomes, full.audit), (response.outcomes, response.audit));
}

#[test]
fn fifty_findings_are_printed_in_their_order() {
    for (count, printed) in [(3, 3), (50, 50), (51, 50)] {
        let review = review(Mode::Enforce, many(count, Action::Deny), Vec::new());
        let denial = respond(&review, &pod(), Endpoint::Validate).denial.unwrap();
        assert_eq!(denial.causes.len(), printed, "{count}");
        let full = respond_in_full(&review, &pod(), Endpoint::Validate).denial.unwrap();
        assert_eq!(denial == full, count <= MOST_FINDINGS, "{count}");
    }
}

/// The exemption hint is present only if the name of an image decides, also at the endpoint that receives what Mullion
/// added.
#[test]
fn a_denial_ends_with_the_way_out_and_the_line_of_the_admin() {
    let image =
        |how| EvidenceSource::Image { pointer: "/spec/containers/0/image".to_owned(), image: "a:win".to_owned(), how };
    let field = || EvidenceSource::Field("/spec/os/name".to_owned());
    let way_out = "If this is a Linux image: set the annotation mullion.dev/os: linux in metadata.annotations";
    let annotation = |because: &str| {
        let text = json!({"os": "windows", "basis": "intent", "because": because, "placed": ["os"]}).to_string();
        json!({"kind": "Pod", "metadata": {"name": "web", "annotations": {"mullion.dev/decision": text}}, "spec": {}})
    };
    let of_kind = |kind: &str| json!({"kind": kind, "metadata": {"name": "web"}, "spec": {}});
    let template =
        "If this is a Linux image: set the annotation mullion.dev/os: linux in spec.template.metadata.annotations";
    for (sources, object, expected) in [
        (vec![image("tag")], pod(), Some(way_out)),
        (vec![image("repository")], pod(), Some(way_out)),
        (vec![image("tag")], of_kind("Deployment"), Some(template)),
        (vec![image("registry")], pod(), None),
        (vec![image("policy")], pod(), None),
        (vec![field()], pod(), None),
        (vec![field(), image("tag")], pod(), None),
        (vec![field(), image("tag")], annotation("image a:win, by tag"), Some(way_out)),
        (vec![field(), image("tag")], annotation("spec.nodeSelector[kubernetes.io/os]"), None),
    ] {
        let evidence = sources.into_iter().map(|source| Evidence { os: EvidenceOs::Os(Os::Windows), source });
        let mut review = review(Mode::Enforce, many(3, Action::Deny), Vec::new());
        review.decision.evidence = evidence.collect();
        let lines = |review: &Review| -> Vec<String> {
            let message = respond(review, &object, Endpoint::Validate).denial.unwrap().message;
            message.lines().skip(4).map(str::to_owned).collect()
        };
        let expected: Vec<&str> = expected.into_iter().collect();
        assert_eq!(lines(&review), expected, "{object}");
        review.settings = Arc::new(Settings { message: Some("Ask us".to_owned()), ..Settings::default() });
        assert_eq!(lines(&review), [expected.as_slice(), &["Ask us"]].concat(), "{object}");
        let later = Review { category: RequestCategory::EphemeralContainers, ..review };
        assert_eq!(lines(&later), ["Ask us"], "the pod exists already");
    }
    let of_controller = |by| {
        let mut review = review(Mode::Enforce, many(3, Action::Deny), Vec::new());
        for finding in &mut review.findings {
            finding.rejected_by = RejectedBy::Kubelet;
        }
        review.decision.evidence = vec![Evidence { os: EvidenceOs::Os(Os::Windows), source: image("tag") }];
        let review = Review { category: RequestCategory::OwnedPod { by }, ..review };
        respond(&review, &pod(), Endpoint::Validate).denial.unwrap().message.lines().last().unwrap().to_owned()
    };
    assert_eq!(of_controller(WorkloadKind::ReplicaSet), template, "where its author writes it");
}

#[test]
fn warnings_are_fifty_and_the_rest_is_counted() {
    let review = review(Mode::Enforce, many(8_000, Action::Warn), Vec::new());
    let response = respond(&review, &pod(), Endpoint::Validate);
    assert_eq!(response.warnings.len(), MOST_FINDINGS + 1);
    assert!(response.warnings[1].starts_with("MUL203") && response.warnings[2].starts_with("MUL204"));
    assert_eq!(response.warnings[50], "and 7,950 more findings; `mullion check` prints all of them");
    assert!(response.warnings.iter().all(|warning| warning.chars().count() <= WARNING_LIMIT));
    assert_eq!(
        response.outcomes,
        vec![response.outcomes[0]; 7_998]
            .into_iter()
            .chain([("MUL203", CountedOutcome::Warned), ("MUL204", CountedOutcome::Warned),])
            .collect::<Vec<_>>()
    );
    assert_eq!(respond_in_full(&review, &pod(), Endpoint::Validate).warnings.len(), 8_000);
}

#[test]
fn audit_mode_reports_each_change_once_within_its_limit() {
    let denied = many(8_000, Action::Deny);
    let changes: Vec<Change> = (0..8_000).flat_map(|index| [removal(&at(index)), removal(&at(index))]).collect();
    let all = review(Mode::Audit, denied, changes);
    let response = respond(&all, &pod(), Endpoint::Validate);
    assert!(response.denial.is_none() && response.patch.is_empty());
    assert_eq!(response.warnings.len(), MOST_FINDINGS + 1);
    for key in ["findings", "would-deny", "would-change"] {
        let value = &response.audit[key];
        assert!((AUDIT_LIMIT - 100..=AUDIT_LIMIT).contains(&value.len()), "{key}: {}", value.len());
        let (_, more) = value.rsplit_once("and ").unwrap();
        let printed = value.matches("runAsUser").count();
        assert_eq!(more, format!("{} more", 8_000 - printed), "{key}");
    }
    let one = review(Mode::Audit, Vec::new(), vec![removal("/spec/x"), removal("/spec/y"), removal("/spec/x")]);
    assert_eq!(respond(&one, &pod(), Endpoint::Mutate).audit["would-change"], "spec.x (MUL202), spec.y (MUL202)");
}

#[test]
fn repaired_findings_are_counted_where_a_change_removes_them() {
    let mut findings = many(2_002, Action::Repair);
    findings.truncate(2_000);
    let changes: Vec<Change> = (0..2_000).filter(|index| index % 2 == 0).map(|index| removal(&at(index))).collect();
    let containers: Vec<Value> = (0..2_000).map(|_| json!({"securityContext": {"runAsUser": 1}})).collect();
    let object = json!({"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": containers}});
    let review = review(Mode::Enforce, findings, changes);
    let response = respond(&review, &object, Endpoint::Mutate);
    assert_eq!(response.patch.len(), 1_000);
    assert_eq!(response.outcomes, vec![("MUL201", CountedOutcome::Repaired); 1_000]);
    assert!(response.warnings[0].contains(" removed"), "{}", response.warnings[0]);
    assert!(!response.warnings[1].contains(" removed"), "{}", response.warnings[1]);
}

/// Texts of the object that a response quotes are cut.
#[test]
fn long_names_and_values_are_cut() {
    let long = "é\"\n\u{1}".repeat(200_000);
    let mut odd = finding("MUL201", Action::Deny, format!("/metadata/annotations/{long}"));
    odd.help = long.clone().into();
    let mut review = review(Mode::Enforce, vec![odd; 60], Vec::new());
    review.decision.evidence[0].source = EvidenceSource::Node(long.clone());
    let annotation = json!({"os": "windows", "placed": [], "because": "y".repeat(60_000)}).to_string();
    for object in [
        json!({"kind": &long, "metadata": {"name": &long}}),
        json!({"kind": &long, "metadata": {"generateName": &long}}),
        json!({"kind": "Pod", "metadata": {"name": &long, "annotations": {"mullion.dev/decision": annotation}}}),
    ] {
        let ReviewResponse { denial, audit, .. } = respond(&review, &object, Endpoint::Validate);
        let denial = denial.unwrap();
        let lines: Vec<&str> = denial.message.lines().collect();
        assert_eq!(lines.len(), 1 + MOST_FINDINGS + 1);
        assert!(lines[0].len() < 4_000, "{}", lines[0].len());
        assert!(lines[1..].iter().all(|line| line.len() <= FINDING_LIMIT + "- ".len()));
        let texts = denial.causes.iter().flat_map(|cause| [&cause.field, &cause.message]);
        assert!(texts.into_iter().all(|text| text.len() <= FINDING_LIMIT && text.ends_with('…')));
        assert!(audit.values().all(|value| value.len() <= AUDIT_LIMIT));
    }
}

/// An object with `count` containers, each of which needs a change.
fn large(count: usize) -> (Review, Value) {
    let stop_signal = |index: usize| removal(&format!("/spec/containers/{index}/lifecycle/stopSignal"));
    let containers = vec![json!({"lifecycle": {"stopSignal": "SIGHUP"}}); count];
    let object = json!({"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": containers}});
    (review(Mode::Enforce, Vec::new(), (0..count).map(stop_signal).collect()), object)
}

/// One change in each of so many containers that the patch alone would be larger than a response may be.
#[test]
fn an_object_that_needs_a_larger_patch_than_a_response_may_contain_is_denied() {
    let (fits, object) = large(8_000);
    let response = respond(&fits, &object, Endpoint::Mutate);
    assert_eq!((response.denial, response.patch.len()), (None, 8_000));

    let (mut large, object) = large(40_000);
    let created = |of| RequestCategory::Template { of, update: false, copied: false };
    for category in [RequestCategory::Pod, RequestCategory::EphemeralContainers, created(WorkloadKind::DaemonSet)] {
        large.category = category;
        let response = respond(&large, &object, Endpoint::Mutate);
        assert!(response.patch.is_empty() && response.warnings.is_empty());
        let denial = response.denial.unwrap();
        assert_eq!(
            denial.message,
            "Pod web cannot be changed: it needs 40,000 changes, more than one response may contain; use fewer containers, \
             volume mounts and node affinity terms"
        );
        assert_eq!(denial.causes[0].reason, "FieldValueTooMany");
        assert_eq!(respond(&large, &object, Endpoint::Validate).denial, None);
        assert_eq!(respond_in_full(&large, &object, Endpoint::Mutate).patch.len(), 40_000);
    }
}

/// What is never denied for a finding is not denied for its size either. It keeps all its fields, so no warning says
/// that one is removed.
#[test]
fn an_object_that_is_never_denied_gets_a_warning_instead_of_a_large_patch() {
    let (original, object) = large(40_000);
    let template = |of, update, copied| RequestCategory::Template { of, update, copied };
    let settings = |denials, templates| Settings { denials, templates, ..Settings::default() };
    let (deny, deny_templates) = (Denials::Deny, TemplateDenials::Deny);
    let mut cases: Vec<(RequestCategory, Settings, Basis)> = [
        RequestCategory::Rewrite,
        template(WorkloadKind::DaemonSet, true, false),
        template(WorkloadKind::Job, true, false),
        template(WorkloadKind::Job, false, true),
    ]
    .map(|category| (category, settings(deny, deny_templates), Basis::Intent))
    .into();
    for by in [WorkloadKind::DaemonSet, WorkloadKind::Job, WorkloadKind::ReplicaSet, WorkloadKind::StatefulSet] {
        cases.push((RequestCategory::OwnedPod { by }, settings(deny, deny_templates), Basis::Intent));
    }
    let created = template(WorkloadKind::Deployment, false, false);
    for category in [RequestCategory::Pod, RequestCategory::EphemeralContainers, created] {
        cases.push((category, settings(Denials::Warn, deny_templates), Basis::Intent));
    }
    cases.push((created, settings(deny, TemplateDenials::Warn), Basis::Intent));
    cases.push((RequestCategory::Pod, settings(deny, deny_templates), Basis::Place));
    for (category, settings, basis) in cases {
        let what = format!("{category:?} {settings:?} {basis:?}");
        let mut review = original.clone();
        review.findings = vec![finding("MUL202", Action::Repair, "/spec/containers/0/lifecycle/stopSignal".to_owned())];
        (review.category, review.settings, review.decision.basis) = (category, Arc::new(settings), basis);
        let warning = "Mullion changes nothing: 40,000 changes are more than one response may contain";
        for endpoint in [Endpoint::Mutate, Endpoint::Validate] {
            let response = respond(&review, &object, endpoint);
            assert_eq!((response.denial, response.patch.len(), response.outcomes), (None, 0, Vec::new()), "{what}");
            if endpoint == Endpoint::Mutate || category != RequestCategory::Rewrite {
                assert_eq!(response.warnings, [warning], "{what}");
            }
        }
        assert!(warning.chars().count() <= WARNING_LIMIT);
    }
}

/// A denial, its causes and the audit annotations contain the deciding evidence, whatever else there is.
#[test]
fn a_response_contains_one_piece_of_evidence() {
    let image = |at: usize| {
        let pointer = format!("/spec/containers/{at}/image");
        let source = EvidenceSource::Image { pointer, image: format!("a:win{at}"), how: "tag" };
        Evidence { os: EvidenceOs::Os(Os::Windows), source }
    };
    let with_evidence = |count: usize| {
        let mut review = review(Mode::Enforce, many(3, Action::Deny), Vec::new());
        review.decision.evidence = (0..count).map(image).collect();
        review
    };
    let (few, many) = (with_evidence(1), with_evidence(10_000));
    for endpoint in [Endpoint::Mutate, Endpoint::Validate] {
        let response = respond(&many, &pod(), endpoint);
        assert_eq!(response, respond(&few, &pod(), endpoint));
        assert_eq!(response.audit["decision"], "windows by image a:win0, by tag");
    }
}
