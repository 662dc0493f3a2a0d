//! Comparison of the results of an object with the expected ones.

use std::collections::BTreeSet;

use mullion_engine::admission::DenialCause;
use mullion_engine::model::{DetectedOs, WorkloadKind};
use mullion_engine::rules::find;
use mullion_policy::test_cases::{Expectations, ExpectedDenial, ExpectedFinding};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::cli::policy::test::deciders::Deciders;
use crate::cli::policy::test::lines::{list, one_line, yaml};
use crate::cli::policy::test::review::TestedObject;
use crate::report::{Admission, FindingResult, action_name, differences, likeness, mismatches, unexpected};

/// One expectation that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ExpectationFailure {
    /// The key under `expect`.
    pub(crate) key: &'static str,
    /// The line of that key, or of `expect` if the key is absent.
    pub(crate) line: usize,
    /// The differences, one line each.
    pub(crate) messages: Vec<String>,
    /// The expected value as lines, comparable with `actual`.
    pub(crate) expected: String,
    /// The actual value as lines.
    #[serde(rename = "found")]
    pub(crate) actual: String,
    /// What decided it: evidence, policy keys with file and line.
    #[serde(rename = "decided")]
    pub(crate) deciders: Vec<String>,
}

/// All failures, in the order of the schema. `line` returns the line of a key under `expect`.
pub(crate) fn compare(
    expect: &Expectations,
    reviewed: &TestedObject,
    line: &dyn Fn(&str) -> usize,
) -> Vec<ExpectationFailure> {
    let mut comparison = Comparison { reviewed, deciders: Deciders(reviewed), line, failures: Vec::new() };
    comparison.os(expect.os.as_deref());
    comparison.denied(expect.denial());
    comparison.findings(expect);
    comparison.warned(expect.warned.as_deref(), expect.unwarned.as_deref());
    if reviewed.creation.denial.is_none() {
        comparison.stored("stored", expect.stored.as_ref(), &reviewed.creation);
        comparison.changes(expect.changes.as_deref());
        comparison.pod(expect.pod.as_ref());
        comparison.nodes(expect.nodes.as_deref());
    }
    comparison.settings(expect);
    comparison.failures
}

struct Comparison<'c> {
    reviewed: &'c TestedObject,
    deciders: Deciders<'c>,
    line: &'c dyn Fn(&str) -> usize,
    failures: Vec<ExpectationFailure>,
}

impl Comparison<'_> {
    /// Adds a failure; `sides` are the expected and the actual value, as lines.
    fn fail(&mut self, key: &'static str, messages: Vec<String>, sides: (String, String), deciders: Vec<String>) {
        let (expected, actual) = sides;
        self.failures.push(ExpectationFailure { key, line: (self.line)(key), messages, expected, actual, deciders });
    }

    fn os(&mut self, expected: Option<&str>) {
        let actual = self.reviewed.decided.os().map_or("none", DetectedOs::name);
        if let Some(expected) = expected.filter(|expected| *expected != actual) {
            let messages = vec![format!("expected {expected}, found {actual}")];
            self.fail("os", messages, (list(&[expected]), list(&[actual])), self.deciders.os());
        }
    }

    fn denied(&mut self, expected: Option<ExpectedDenial>) {
        match (expected, &self.reviewed.creation.denial) {
            (None, None) => {}
            (None, Some(denial)) => {
                let lines: Vec<&str> = denial.message.lines().collect();
                let messages = vec!["it is denied, which this case does not expect".to_owned()];
                self.fail("denied", messages, (String::new(), list(&lines)), self.deciders.denial(&[]));
            }
            (Some(ExpectedDenial { message, causes }), None) => {
                let rules: Vec<&str> = causes.iter().filter_map(|cause| cause.split_whitespace().next()).collect();
                let deciders = self.deciders.denial(&rules);
                let sides = (list(&[message, causes].concat()), String::new());
                self.fail("denied", vec!["it is not denied".to_owned()], sides, deciders);
            }
            (Some(mut missing), Some(denial)) => {
                let cause_text = |DenialCause { reason, field, .. }: &DenialCause| format!("{reason} {field}");
                let all_causes: Vec<String> = denial.causes.iter().map(cause_text).collect();
                let denial_message = one_line(&denial.message);
                missing.message.retain(|text| !denial_message.contains(&one_line(text)));
                missing.causes.retain(|cause| !all_causes.contains(cause));
                let ExpectedDenial { message, causes } = missing;
                if message.is_empty() && causes.is_empty() {
                    return;
                }
                let texts = message.iter().map(|text| format!("the message does not contain `{text}`"));
                let messages = texts.chain(causes.iter().map(|cause| format!("there is no cause `{cause}`"))).collect();
                let all: Vec<&str> = denial.message.lines().chain(all_causes.iter().map(String::as_str)).collect();
                let sides = (list(&[message, causes].concat()), list(&all));
                self.fail("denied", messages, sides, self.deciders.denial(&[]));
            }
        }
    }

    fn findings(&mut self, expect: &Expectations) {
        let findings: Vec<&FindingResult> = self.reviewed.decided.findings.iter().collect();
        let lines = |findings: &[&FindingResult]| findings.iter().map(|one| finding_line(one)).collect::<Vec<_>>();
        let expected_lines =
            |expected: &[&ExpectedFinding]| expected.iter().map(|one| expected_line(one)).collect::<Vec<_>>();
        let missing_message = |line: &String| format!("there is no finding {line}");
        let surplus_message = |line: &String| format!("not expected: {line}");
        if let Some(expected) = &expect.findings {
            let (missing, surplus) = pair(expected, &findings);
            if !missing.is_empty() || !surplus.is_empty() {
                let same: Vec<&FindingResult> = findings.iter().filter(|one| !surplus.contains(one)).copied().collect();
                let (same, lacking, more) = (lines(&same), expected_lines(&missing), lines(&surplus));
                let side = |more: &Vec<String>| {
                    let mut lines = [same.clone(), more.clone()].concat();
                    lines.sort();
                    list(&lines)
                };
                let messages = lacking.iter().map(missing_message).chain(more.iter().map(surplus_message)).collect();
                let deciders = self.deciders.findings(&missing, &surplus);
                self.fail("findings", messages, (side(&lacking), side(&more)), deciders);
            }
        }
        let missing = expect.some_findings.iter().flatten();
        let missing: Vec<_> = missing.filter(|one| !findings.iter().any(|finding| fits(one, finding))).collect();
        if !missing.is_empty() {
            let expected = expected_lines(&missing);
            let messages = expected.iter().map(missing_message).collect();
            let deciders = self.deciders.findings(&missing, &[]);
            self.fail("findings+", messages, (list(&expected), list(&lines(&findings))), deciders);
        }
        let unwanted = |finding: &&&FindingResult| expect.no_findings.iter().flatten().any(|one| fits(one, finding));
        let surplus: Vec<_> = findings.iter().filter(unwanted).copied().collect();
        if !surplus.is_empty() {
            let lines = lines(&surplus);
            let messages = lines.iter().map(surplus_message).collect();
            let deciders = self.deciders.findings(&[], &surplus);
            self.fail("findings-", messages, (String::new(), list(&lines)), deciders);
        }
    }

    fn warned(&mut self, warned: Option<&[String]>, unwarned: Option<&[String]>) {
        let warnings = &self.reviewed.creation.warnings;
        let in_some = |text: &&String| warnings.iter().any(|warning| warning.contains(text.as_str()));
        if let Some(warned) = warned {
            let missing: Vec<&String> = warned.iter().filter(|text| !in_some(text)).collect();
            let mut messages: Vec<String> =
                missing.iter().map(|text| format!("no warning contains `{text}`")).collect();
            if warned.is_empty() && !warnings.is_empty() {
                messages.push("there should be no warning".to_owned());
            }
            if !messages.is_empty() {
                self.fail("warned", messages, (list(&missing), list(warnings)), self.deciders.denial(&[]));
            }
        }
        let texts: Vec<&String> = unwarned.unwrap_or_default().iter().filter(in_some).collect();
        if !texts.is_empty() {
            let messages = texts.iter().map(|text| format!("a warning contains `{text}`")).collect();
            let surplus = warnings.iter().filter(|warning| texts.iter().any(|text| warning.contains(text.as_str())));
            let sides = (String::new(), list(&surplus.collect::<Vec<_>>()));
            self.fail("unwarned", messages, sides, self.deciders.denial(&[]));
        }
    }

    fn stored(&mut self, key: &'static str, expected: Option<&Value>, creation: &Admission) {
        let Some(expected) = expected else { return };
        let mismatches = mismatches(expected, Some(&creation.stored));
        if !mismatches.is_empty() {
            let messages = mismatches.iter().map(ToString::to_string).collect();
            let sides = (yaml(expected), yaml(&likeness(expected, &creation.stored)));
            let deciders = self.deciders.placement(|field| mismatches.iter().any(|one| one.concerns(field)));
            self.fail(key, messages, sides, deciders);
        }
    }

    fn changes(&mut self, expected: Option<&[String]>) {
        let Some(expected) = expected else { return };
        let differences = differences(&self.reviewed.authored, &self.reviewed.creation.stored);
        let unexpected = unexpected(&differences, expected);
        if !unexpected.is_empty() {
            let messages = unexpected.iter().map(ToString::to_string).collect();
            let mut named = expected.to_vec();
            named.sort();
            let actual: BTreeSet<String> = differences.iter().map(|one| one.named(expected)).collect();
            let sides = (list(&named), list(&Vec::from_iter(actual)));
            let deciders = self.deciders.placement(|field| unexpected.iter().any(|one| one.concerns(field)));
            self.fail("changes", messages, sides, deciders);
        }
    }

    fn pod(&mut self, expected: Option<&Value>) {
        let Some(expected) = expected else { return };
        match &self.reviewed.pod {
            None => {
                let why = if self.reviewed.kind == WorkloadKind::Pod {
                    "it is a Pod itself"
                } else {
                    "it has no pod template"
                };
                self.fail("pod", vec![why.to_owned()], (yaml(expected), String::new()), Vec::new());
            }
            Some(Admission { denial: Some(denial), .. }) => {
                let lines: Vec<&str> = denial.message.lines().collect();
                let messages = vec!["its pods are denied".to_owned()];
                self.fail("pod", messages, (yaml(expected), list(&lines)), self.deciders.denial(&[]));
            }
            Some(pod) => self.stored("pod", Some(expected), pod),
        }
    }

    fn nodes(&mut self, expected: Option<&[String]>) {
        let Some(expected) = expected else { return };
        let sorted = |nodes: &[String]| {
            let mut nodes = nodes.to_vec();
            nodes.sort();
            nodes
        };
        let nodes = &self.reviewed.decided.nodes;
        let (expected, actual) = (sorted(expected), sorted(nodes.as_deref().unwrap_or_default()));
        if expected != actual || nodes.is_none() {
            let names = |nodes: &[String]| if nodes.is_empty() { "none".to_owned() } else { nodes.join(", ") };
            let message = match nodes {
                Some(_) => format!("expected {}, found {}", names(&expected), names(&actual)),
                None => "the snapshot of this test contains no nodes".to_owned(),
            };
            let deciders =
                self.deciders.placement(|field| ["nodeSelector", "tolerations", "affinity"].contains(&field));
            self.fail("nodes", vec![message], (list(&expected), list(&actual)), deciders);
        }
    }

    fn settings(&mut self, expect: &Expectations) {
        let Some(expected) = &expect.settings else { return };
        let actual: Map<String, Value> =
            expected.keys().map(|key| (key.clone(), self.reviewed.setting(key).0)).collect();
        let wrong: Vec<_> =
            expected.iter().zip(actual.values()).filter(|((_, expected), actual)| expected != actual).collect();
        if wrong.is_empty() {
            return;
        }
        let messages =
            wrong.iter().map(|((key, expected), actual)| format!("{key}: expected {expected}, found {actual}"));
        let messages = messages.collect();
        let deciders = wrong.iter().map(|((key, _), _)| self.deciders.setting(key)).collect();
        let sides = (yaml(&Value::Object(expected.clone())), yaml(&Value::Object(actual.clone())));
        self.fail("settings", messages, sides, deciders);
    }
}

/// The items of `expected` that are missing, and those of `findings` that are unexpected.
fn pair<'e, 'f>(
    expected: &'e [ExpectedFinding],
    findings: &[&'f FindingResult],
) -> (Vec<&'e ExpectedFinding>, Vec<&'f FindingResult>) {
    let mut left = findings.to_vec();
    let mut wanted: Vec<&ExpectedFinding> = expected.iter().collect();
    // The more specific ones come first: the others can match what is left.
    wanted.sort_by_key(|one| {
        let exact = usize::from(find(&one.rule).is_some());
        std::cmp::Reverse(exact + usize::from(one.action.is_some()) + 2 * usize::from(one.path.is_some()))
    });
    let missing = wanted.into_iter().filter(|one| match left.iter().position(|finding| fits(one, finding)) {
        Some(at) => {
            left.remove(at);
            false
        }
        None => true,
    });
    let missing = missing.collect();
    (missing, left)
}

/// Whether the finding has the expected rule, and the expected action and path if there are any.
fn fits(expected: &ExpectedFinding, result: &FindingResult) -> bool {
    let ExpectedFinding { rule, action, path } = expected;
    (result.finding.rule == rule || result.finding.code.starts_with(rule.as_str()))
        && action.is_none_or(|action| action == result.action)
        && path.as_ref().is_none_or(|path| *path == result.finding.path)
}

fn finding_line(result: &FindingResult) -> String {
    format!("{} {} {}", result.finding.rule, action_name(result.action), result.finding.path)
}

/// In the format of [`finding_line`], without what is not expected.
fn expected_line(expected: &ExpectedFinding) -> String {
    let rule = find(&expected.rule).map_or(expected.rule.as_str(), |rule| rule.name);
    let parts = [Some(rule), expected.action.map(action_name), expected.path.as_deref()];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
