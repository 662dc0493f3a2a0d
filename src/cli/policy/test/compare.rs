//! Whether what came of an object is what is expected.

use mullion_engine::model::workload::WorkloadKind;
use mullion_engine::rules::catalogue::find;
use mullion_policy::test_cases::types::{Expect, ExpectedFinding, ExpectedRefusal};
use serde_json::Value;

use crate::cli::policy::test::deciders::Deciders;
use crate::cli::policy::test::judge::{Creation, Judged};
use crate::cli::policy::test::lines::{list, one, yaml};
use crate::report::field_difference::{differences, unexpected};
use crate::report::field_match::{likeness, mismatches};
use crate::report::rule_page::action_name;
use crate::report::workload_result::DecidedFinding;

/// One expectation that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The key under `expect`.
    pub(crate) key: &'static str,
    /// Where that is written, or `expect` where it is not.
    pub(crate) line: usize,
    /// What is wrong, one line each.
    pub(crate) says: Vec<String>,
    /// As lines, to be laid beside `found`.
    pub(crate) expected: String,
    /// As lines.
    pub(crate) found: String,
    /// Who decided it: evidence, policy keys with file and line.
    pub(crate) decided: Vec<String>,
}

/// Everything that does not hold, in the order of the schema. `line` gives that of a key under `expect`.
pub(crate) fn compare(expect: &Expect, judged: &Judged, line: &dyn Fn(&str) -> usize) -> Vec<Failure> {
    let mut comparison = Comparison { judged, deciders: Deciders(judged), line, failures: Vec::new() };
    comparison.os(expect.os.as_deref());
    comparison.refused(expect.refusal());
    comparison.findings(expect);
    comparison.warned(expect.warned.as_deref(), expect.unwarned.as_deref());
    if judged.creation.refusal.is_none() {
        comparison.stored("stored", expect.stored.as_ref(), &judged.creation);
        comparison.changes(expect.changes.as_deref());
        comparison.pod(expect.pod.as_ref());
        comparison.nodes(expect.nodes.as_deref());
    }
    comparison.settings(expect);
    comparison.failures
}

struct Comparison<'c> {
    judged: &'c Judged,
    deciders: Deciders<'c>,
    line: &'c dyn Fn(&str) -> usize,
    failures: Vec<Failure>,
}

impl Comparison<'_> {
    fn fail(&mut self, key: &'static str, says: Vec<String>, lines: (String, String), decided: Vec<String>) {
        let (expected, found) = lines;
        self.failures.push(Failure { key, line: (self.line)(key), says, expected, found, decided });
    }

    fn os(&mut self, expected: Option<&str>) {
        let found = self.judged.decided.os().map_or_else(
            || "none".to_owned(),
            |os| serde_json::to_value(os).ok().and_then(|os| Some(os.as_str()?.to_owned())).unwrap_or_default(),
        );
        if let Some(expected) = expected
            && expected != found
        {
            let says = vec![format!("expected {expected}, found {found}")];
            self.fail("os", says, (list(&[expected]), list(&[found.as_str()])), self.deciders.os());
        }
    }

    fn refused(&mut self, expected: Option<ExpectedRefusal>) {
        match (expected, &self.judged.creation.refusal) {
            (None, None) => {}
            (None, Some(refusal)) => {
                let found: Vec<&str> = refusal.message.lines().collect();
                let says = vec!["it is refused, which this case does not expect".to_owned()];
                self.fail("refused", says, (String::new(), list(&found)), self.deciders.refusal(&[]));
            }
            (Some(ExpectedRefusal { says: expected, causes }), None) => {
                let rules: Vec<&str> = causes.iter().filter_map(|cause| cause.split_whitespace().next()).collect();
                let lines = (list(&[expected, causes.clone()].concat()), String::new());
                let decided = self.deciders.refusal(&rules);
                self.fail("refused", vec!["it is not refused".to_owned()], lines, decided);
            }
            (Some(expected), Some(refusal)) => {
                let message = one(&refusal.message);
                let says: Vec<&String> = expected.says.iter().filter(|text| !message.contains(&one(text))).collect();
                let causes: Vec<&String> =
                    expected.causes.iter().filter(|cause| !refusal.causes.contains(cause)).collect();
                if says.is_empty() && causes.is_empty() {
                    return;
                }
                let all: Vec<&str> = refusal.message.lines().chain(refusal.causes.iter().map(String::as_str)).collect();
                let missing: Vec<&String> = says.iter().chain(&causes).copied().collect();
                let words = says.iter().map(|text| format!("the refusal does not say `{text}`"));
                let told = words.chain(causes.iter().map(|cause| format!("there is no cause `{cause}`"))).collect();
                let decided = self.deciders.refusal(&[]);
                self.fail("refused", told, (list(&missing), list(&all)), decided);
            }
        }
    }

    fn findings(&mut self, expect: &Expect) {
        let found: Vec<&DecidedFinding> = self.judged.decided.findings.iter().collect();
        if let Some(expected) = &expect.findings {
            let (missing, left) = pair(expected, &found);
            if !missing.is_empty() || !left.is_empty() {
                let same: Vec<String> =
                    found.iter().filter(|one| !left.contains(one)).map(|finding| finding_line(finding)).collect();
                let lines = |more: Vec<String>| {
                    let mut lines = [same.clone(), more].concat();
                    lines.sort();
                    list(&lines)
                };
                let sides = (
                    lines(missing.iter().map(|one| expected_line(one)).collect()),
                    lines(left.iter().map(|one| finding_line(one)).collect()),
                );
                let lacking = missing.iter().map(|one| format!("there is no finding {}", expected_line(one)));
                let more = left.iter().map(|one| format!("not expected: {}", finding_line(one)));
                let says = lacking.chain(more).collect();
                let decided = self.deciders.findings(&missing, &left);
                self.fail("findings", says, sides, decided);
            }
        }
        let all: Vec<String> = found.iter().map(|finding| finding_line(finding)).collect();
        let some = expect.some_findings.iter().flatten();
        let missing: Vec<&ExpectedFinding> = some.filter(|one| !found.iter().any(|found| fits(one, found))).collect();
        if !missing.is_empty() {
            let says = missing.iter().map(|one| format!("there is no finding {}", expected_line(one))).collect();
            let expected: Vec<String> = missing.iter().map(|one| expected_line(one)).collect();
            let decided = self.deciders.findings(&missing, &[]);
            self.fail("findings+", says, (list(&expected), list(&all)), decided);
        }
        let none = expect.no_findings.iter().flatten();
        let none: Vec<&ExpectedFinding> = none.collect();
        let wrong: Vec<&DecidedFinding> =
            found.iter().filter(|found| none.iter().any(|one| fits(one, found))).copied().collect();
        if !wrong.is_empty() {
            let lines: Vec<String> = wrong.iter().map(|one| finding_line(one)).collect();
            let says = lines.iter().map(|line| format!("not expected: {line}")).collect();
            let decided = self.deciders.findings(&[], &wrong);
            self.fail("findings-", says, (String::new(), list(&lines)), decided);
        }
    }

    fn warned(&mut self, warned: Option<&[String]>, unwarned: Option<&[String]>) {
        let said = &self.judged.creation.warnings;
        let in_some = |text: &String| said.iter().any(|warning| warning.contains(text.as_str()));
        if let Some(warned) = warned {
            let missing: Vec<&String> = warned.iter().filter(|text| !in_some(text)).collect();
            let wrong = if warned.is_empty() { !said.is_empty() } else { !missing.is_empty() };
            if wrong {
                let mut says: Vec<String> = missing.iter().map(|text| format!("no warning says `{text}`")).collect();
                if warned.is_empty() {
                    says.push("there should be no warning".to_owned());
                }
                self.fail("warned", says, (list(&missing), list(said)), self.deciders.refusal(&[]));
            }
        }
        let wrong: Vec<&String> = unwarned.unwrap_or_default().iter().filter(|text| in_some(text)).collect();
        if !wrong.is_empty() {
            let says = wrong.iter().map(|text| format!("a warning says `{text}`")).collect();
            let found: Vec<&String> =
                said.iter().filter(|warning| wrong.iter().any(|text| warning.contains(text.as_str()))).collect();
            self.fail("unwarned", says, (String::new(), list(&found)), self.deciders.refusal(&[]));
        }
    }

    fn stored(&mut self, key: &'static str, expected: Option<&Value>, creation: &Creation) {
        let Some(expected) = expected else { return };
        let wrong = mismatches(expected, Some(&creation.stored));
        if !wrong.is_empty() {
            let says: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            let lines = (yaml(expected), yaml(&likeness(expected, &creation.stored)));
            let decided = self.deciders.placement(&says);
            self.fail(key, says, lines, decided);
        }
    }

    fn changes(&mut self, expected: Option<&[String]>) {
        let Some(expected) = expected else { return };
        let differences = differences(&self.judged.written, &self.judged.creation.stored);
        let says = unexpected(&differences, expected);
        if !says.is_empty() {
            let mut named = expected.to_vec();
            named.sort();
            let found: Vec<String> = differences.iter().map(|one| one.named(expected)).collect();
            let mut found: Vec<&str> = found.iter().map(String::as_str).collect();
            found.sort_unstable();
            found.dedup();
            let lines = (list(&named), list(&found));
            let decided = self.deciders.placement(&says);
            self.fail("changes", says, lines, decided);
        }
    }

    fn pod(&mut self, expected: Option<&Value>) {
        let Some(expected) = expected else { return };
        match &self.judged.pod {
            None => {
                let why =
                    if self.judged.kind == WorkloadKind::Pod { "it is a Pod itself" } else { "it has no pod template" };
                self.fail("pod", vec![why.to_owned()], (yaml(expected), String::new()), Vec::new());
            }
            Some(Creation { refusal: Some(refusal), .. }) => {
                let found: Vec<&str> = refusal.message.lines().collect();
                let says = vec!["its pods are refused".to_owned()];
                let decided = self.deciders.refusal(&[]);
                self.fail("pod", says, (yaml(expected), list(&found)), decided);
            }
            Some(pod) => self.stored("pod", Some(expected), pod),
        }
    }

    fn nodes(&mut self, expected: Option<&[String]>) {
        let Some(expected) = expected else { return };
        let mut wanted = expected.to_vec();
        wanted.sort();
        let mut found = self.judged.nodes.clone().unwrap_or_default();
        found.sort();
        if wanted != found || self.judged.nodes.is_none() {
            let shown = |nodes: &[String]| if nodes.is_empty() { "none".to_owned() } else { nodes.join(", ") };
            let says = match self.judged.nodes {
                Some(_) => format!("expected {}, found {}", shown(&wanted), shown(&found)),
                None => "the snapshot of this test knows of no nodes".to_owned(),
            };
            let decided = self.deciders.placement(&["nodeSelector, tolerations, windows-build".to_owned()]);
            self.fail("nodes", vec![says], (list(&wanted), list(&found)), decided);
        }
    }

    fn settings(&mut self, expect: &Expect) {
        let Some(expected) = &expect.settings else { return };
        let found = |key: &str| self.judged.setting(key).0;
        let wrong: Vec<&String> =
            expected.iter().filter(|(key, value)| found(key) != **value).map(|(key, _)| key).collect();
        if wrong.is_empty() {
            return;
        }
        let side = |value: &dyn Fn(&str) -> Value| {
            yaml(&Value::Object(expected.keys().map(|key| (key.clone(), value(key))).collect()))
        };
        let says = wrong
            .iter()
            .map(|key| format!("{key}: expected {}, found {}", expected.get(*key).unwrap_or(&Value::Null), found(key)));
        let says = says.collect();
        let lines = (side(&|key| expected.get(key).cloned().unwrap_or_default()), side(&found));
        let decided = wrong.iter().map(|key| self.deciders.setting(key)).collect();
        self.fail("settings", says, lines, decided);
    }
}

/// Which of `expected` are not there, and which of `found` are more.
fn pair<'e, 'f>(
    expected: &'e [ExpectedFinding],
    found: &[&'f DecidedFinding],
) -> (Vec<&'e ExpectedFinding>, Vec<&'f DecidedFinding>) {
    let mut left = found.to_vec();
    let mut wanted: Vec<&ExpectedFinding> = expected.iter().collect();
    // Those that say more first: what says less may take what is left.
    wanted.sort_by_key(|one| {
        let exact = usize::from(find(&one.rule).is_some());
        std::cmp::Reverse(exact + usize::from(one.action.is_some()) + 2 * usize::from(one.path.is_some()))
    });
    let missing = wanted.into_iter().filter(|one| match left.iter().position(|found| fits(one, found)) {
        Some(at) => {
            left.remove(at);
            false
        }
        None => true,
    });
    let missing = missing.collect();
    (missing, left)
}

/// Whether the finding is what is expected, as far as that is named.
fn fits(expected: &ExpectedFinding, found: &DecidedFinding) -> bool {
    let ExpectedFinding { rule, action, path } = expected;
    (found.finding.rule == rule || found.finding.code.starts_with(rule.as_str()))
        && action.is_none_or(|action| action == found.action)
        && path.as_ref().is_none_or(|path| *path == found.finding.path)
}

fn finding_line(found: &DecidedFinding) -> String {
    format!("{} {} {}", found.finding.rule, action_name(found.action), found.finding.path)
}

/// In the same words; what is not named is left out.
fn expected_line(expected: &ExpectedFinding) -> String {
    let rule = find(&expected.rule).map_or(expected.rule.as_str(), |rule| rule.name);
    let parts = [Some(rule), expected.action.map(action_name), expected.path.as_deref()];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
