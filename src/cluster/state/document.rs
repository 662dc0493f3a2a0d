//! The content of the ConfigMap, and its format: short texts that a person can read and edit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::{Timestamp, Unit};
use mullion_engine::model::MinorVersion;
use mullion_engine::model::cluster::Taint;
use mullion_engine::model::dns_name::is_dns_subdomain;
use mullion_engine::model::windows::Build;
use mullion_policy::PolicyFile;
use serde::{Deserialize, Serialize};

use crate::cluster::state::controller_report::ControllerReport;

/// The ConfigMap's name.
pub(crate) const NAME: &str = "mullion-state";

/// The last good policy files, as JSON: a list of objects with `name` and `text`.
const POLICIES: &str = "policies";
/// The minor release of Mullion that stored the policy files: `0.1`.
const POLICIES_RELEASE: &str = "policies-release";
/// When these policy files last changed, as RFC 3339.
const POLICIES_SINCE: &str = "policies-since";
/// The last good policy files of the release before, and that release: for a rollback, because an older release may not
/// support the newer files.
const EARLIER: &str = "earlier-policies";
const EARLIER_RELEASE: &str = "earlier-policies-release";
/// A taint per line, in the format of `kubectl taint`: `os=windows:NoSchedule`.
const SEEN_TAINTS: &str = "seen-taints";
/// A build per line: `10.0.20348`.
const SEEN_BUILDS: &str = "seen-builds";
/// A name of a node per line.
const UNLABELLED_NODES: &str = "unlabelled-nodes";
/// A taint per line, as in [`SEEN_TAINTS`]; absent if an earlier release wrote the state.
const OWN_TAINTS: &str = "own-taints";
/// A taint as in [`SEEN_TAINTS`]; absent, or `false`, while new nodes get no taint with their CREATE.
const TAINT_ON_CREATE: &str = "taint-on-create";
/// When Mullion was withdrawn, as RFC 3339; absent while it is active.
const WITHDRAWN: &str = "withdrawn";
/// The uid of the ServiceAccount of the controller that the state belongs to.
const SERVICE_ACCOUNT: &str = "service-account";
/// A list of conditions, as JSON.
const CONDITIONS: &str = "conditions";
/// The controller's report for `mullion status`, as JSON: an object.
const REPORT: &str = "controller-report";

/// The size limit of all values of a ConfigMap together, in bytes (`ValidateConfigMap`, as below).
const MAX_DATA: usize = 1 << 20;

/// The size limit of stored policy files, in bytes. A ConfigMap has room for 1 MiB (`ValidateConfigMap` in
/// pkg/apis/core/validation/validation.go), and everything else is small.
pub(crate) const MAX_POLICIES: usize = 854 << 10;

/// The maximum number of taints and of builds that are stored: more than any cluster has on purpose.
pub(crate) const MAX_SEEN: usize = 256;

/// The maximum number of nodes that have lost their operating system label: 16 KiB with the longest names. Further ones
/// count as nodes that never had it.
pub(crate) const MAX_UNLABELLED: usize = 64;

/// The maximum number of Mullion's own taints: policies set one at a time, so this is more than sixty changes.
pub(crate) const MAX_OWN_TAINTS: usize = 64;

/// Everything that the ConfigMap stores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MullionState {
    /// Whether the ConfigMap exists; not part of its content.
    pub found: bool,
    /// The last good policy files.
    pub policies: StoredPolicies,
    /// When `policies` last changed; `None` if an earlier release wrote the state, or if none were ever stored.
    pub policies_since: Option<Timestamp>,
    /// Those of the release of Mullion that ran before.
    pub earlier_policies: StoredPolicies,
    /// OS taints and builds ever seen on Windows nodes.
    pub seen: NodeHistory,
    /// The exact taints that policies have ever set, each stored before it is set on the first node; `None` if an earlier
    /// release wrote the state, which did not store them.
    pub own_taints: Option<BTreeSet<Taint>>,
    /// The taint that the webhook may set on a Windows node's CREATE, if it is still the policy's. It is the taint and
    /// not a boolean, because webhook and controller read changed policy files at different times.
    pub taint_on_create: Option<Taint>,
    /// When `mullion withdraw` ran. From then on, controllers change nothing in the cluster.
    pub withdrawn: Option<String>,
    /// The uid of the ServiceAccount of the controller that the state belongs to; `None` if no controller with a
    /// ServiceAccount has written it.
    pub service_account: Option<String>,
    /// Conditions, for people.
    pub conditions: Vec<StateCondition>,
    /// The report of the controller that leads, or led last; `None` if it does not exist, or cannot be read.
    pub(crate) report: Option<ControllerReport>,
}

/// Policy files that a release of Mullion has loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredPolicies {
    /// The release; `None` if it is not stored.
    pub release: Option<MinorVersion>,
    /// The files; empty if none are stored.
    pub files: Vec<PolicyFile>,
}

/// Taints and builds of Windows nodes, including deleted nodes, and nodes that have lost a label.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeHistory {
    /// Taints that mark Windows nodes.
    pub taints: BTreeSet<Taint>,
    /// Their builds.
    pub builds: BTreeSet<Build>,
    /// Names of nodes that have no operating system label now and had one before, at most [`MAX_UNLABELLED`].
    pub unlabelled: BTreeSet<String>,
}

/// A time as it is stored: RFC 3339 in whole seconds, as in Kubernetes.
pub(crate) fn time_text(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// A condition, as Kubernetes objects have them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateCondition {
    /// `Reachable`.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// When `status` last changed, as RFC 3339.
    pub last_transition_time: String,
}

impl StateCondition {
    /// A condition whose status changed now.
    pub(crate) fn new(r#type: &str, status: &str, reason: &str, message: impl Into<String>) -> Self {
        Self {
            r#type: r#type.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message.into(),
            last_transition_time: time_text(Timestamp::now()),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct KeptFile {
    name: String,
    text: String,
}

impl MullionState {
    /// Reads `data` of a ConfigMap leniently: what cannot be parsed is left out, and listed in the second part.
    pub fn parse(data: &BTreeMap<String, String>) -> (Self, Vec<String>) {
        let mut problems = Vec::new();
        let text = |key: &str| data.get(key).map_or("", |text| text.trim());
        let some = |text: &str| Some(text).filter(|text| !text.is_empty()).map(str::to_owned);
        let mut stored = |files: &str, release: &str| {
            let files = kept_files(files, text(files)).unwrap_or_else(|problem| {
                problems.push(problem);
                Vec::new()
            });
            StoredPolicies { release: MinorVersion::of(text(release)), files }
        };
        let policies = stored(POLICIES, POLICIES_RELEASE);
        let earlier_policies = stored(EARLIER, EARLIER_RELEASE);
        let policies_since = some(text(POLICIES_SINCE)).and_then(|since| {
            let time = since.parse();
            time.inspect_err(|error| problems.push(format!("{POLICIES_SINCE}: {error}"))).ok()
        });
        let taints = lines(SEEN_TAINTS, text(SEEN_TAINTS), "key=value:effect", &mut problems, Taint::parse);
        let own_taints = data.get(OWN_TAINTS).map(|text| {
            let all = lines(OWN_TAINTS, text, "key=value:effect", &mut problems, Taint::parse);
            if all.len() > MAX_OWN_TAINTS {
                problems.push(format!("{OWN_TAINTS}: only the first {MAX_OWN_TAINTS} of {} lines are used", all.len()));
            }
            all.into_iter().take(MAX_OWN_TAINTS).collect()
        });
        let builds = lines(SEEN_BUILDS, text(SEEN_BUILDS), "10.0.20348", &mut problems, Build::from_label);
        let node = |name: &str| is_dns_subdomain(name).then(|| name.to_owned());
        let unlabelled = lines(UNLABELLED_NODES, text(UNLABELLED_NODES), "the name of a node", &mut problems, node);
        let unlabelled = unlabelled.into_iter().take(MAX_UNLABELLED).collect();
        let taint_on_create = match text(TAINT_ON_CREATE) {
            "" | "false" => None,
            other => {
                let taint = Taint::parse(other);
                if taint.is_none() {
                    problems.push(format!("{TAINT_ON_CREATE}: expected key=value:effect or false, found {other:?}"));
                }
                taint
            }
        };
        let state = Self {
            found: true,
            policies,
            policies_since,
            earlier_policies,
            seen: NodeHistory { taints, builds, unlabelled },
            own_taints,
            taint_on_create,
            withdrawn: some(text(WITHDRAWN)),
            service_account: some(text(SERVICE_ACCOUNT)),
            conditions: json(CONDITIONS, text(CONDITIONS), &mut problems),
            report: json(REPORT, text(REPORT), &mut problems),
        };
        (state, problems)
    }

    /// `data` of the ConfigMap: every key that is not empty. The report is left out if there is no room for it.
    pub fn data(&self) -> BTreeMap<String, String> {
        let mut data = BTreeMap::new();
        let mut put = |key: &str, text: String| {
            if !text.is_empty() {
                data.insert(key.to_owned(), text);
            }
        };
        for (stored, files, release) in
            [(&self.policies, POLICIES, POLICIES_RELEASE), (&self.earlier_policies, EARLIER, EARLIER_RELEASE)]
        {
            put(files, policies_text(&stored.files));
            put(release, stored.release.map(|release| release.to_string()).unwrap_or_default());
        }
        put(POLICIES_SINCE, self.policies_since.map(time_text).unwrap_or_default());
        put(SEEN_TAINTS, one_per_line(&self.seen.taints));
        put(SEEN_BUILDS, one_per_line(&self.seen.builds));
        put(UNLABELLED_NODES, one_per_line(&self.seen.unlabelled));
        put(TAINT_ON_CREATE, self.taint_on_create.as_ref().map_or_else(|| "false".to_owned(), ToString::to_string));
        put(WITHDRAWN, self.withdrawn.clone().unwrap_or_default());
        put(SERVICE_ACCOUNT, self.service_account.clone().unwrap_or_default());
        put(CONDITIONS, list(&self.conditions));
        if let Some(own_taints) = &self.own_taints {
            // An empty list is not the same as none.
            data.insert(OWN_TAINTS.to_owned(), one_per_line(own_taints));
        }
        // A struct of strings and numbers, so serialization does not fail.
        let report = self.report.as_ref().and_then(|report| serde_json::to_string_pretty(report).ok());
        let others: usize = data.values().map(String::len).sum();
        if let Some(report) = report.filter(|report| others + report.len() <= MAX_DATA) {
            data.insert(REPORT.to_owned(), report);
        }
        data
    }

    /// Makes it the state of the controller with the ServiceAccount of that uid. From the state of an earlier release,
    /// only facts about the cluster stay: that release was withdrawn before it was uninstalled, and this one is active.
    pub fn belong_to(&mut self, uid: &str) {
        let before = self.service_account.replace(uid.to_owned());
        if before.is_some_and(|before| before != uid) {
            (self.withdrawn, self.taint_on_create, self.report) = (None, None, None);
            self.conditions.clear();
        }
    }

    /// The last good policy files in `data` of a ConfigMap; the error is that they cannot be parsed.
    pub(crate) fn policy_files(data: &BTreeMap<String, String>) -> Result<Vec<PolicyFile>, String> {
        kept_files(POLICIES, data.get(POLICIES).map_or("", |text| text.trim()))
    }

    /// Stores the policy files that `release` has loaded at `now`; stores none and returns `false` if they are too large. If
    /// another release stored the current ones, these become the earlier ones, if there is room for both.
    pub fn keep_policies(&mut self, files: &[PolicyFile], release: MinorVersion, now: Timestamp) -> bool {
        if self.policies.files == files && self.policies.release == Some(release) {
            return true;
        }
        let before = self.policies.files.clone();
        if self.policies.release.is_some_and(|stored| stored != release) {
            self.earlier_policies = std::mem::take(&mut self.policies);
        }
        let length = policies_text(files).len();
        let room = length <= MAX_POLICIES;
        let files = if room { files.to_vec() } else { Vec::new() };
        if before != files {
            self.policies_since = now.round(Unit::Second).ok();
        }
        self.policies = StoredPolicies { release: (!files.is_empty()).then_some(release), files };
        if self.earlier_policies.files.is_empty()
            || length + policies_text(&self.earlier_policies.files).len() > MAX_POLICIES
        {
            self.earlier_policies = StoredPolicies::default();
        }
        room
    }

    /// The condition of that type.
    pub(crate) fn condition(&self, r#type: &str) -> Option<&StateCondition> {
        self.conditions.iter().find(|condition| condition.r#type == r#type)
    }

    /// Removes the condition of that type.
    pub(crate) fn remove_condition(&mut self, r#type: &str) {
        self.conditions.retain(|condition| condition.r#type != r#type);
    }

    /// Sets the condition of its type. Its time changes only with its status.
    pub fn set_condition(&mut self, mut condition: StateCondition) {
        match self.conditions.iter_mut().find(|standing| standing.r#type == condition.r#type) {
            Some(standing) => {
                if standing.status == condition.status {
                    condition.last_transition_time.clone_from(&standing.last_transition_time);
                }
                *standing = condition;
            }
            None => self.conditions.push(condition),
        }
    }
}

/// Files that are not UTF-8 do not load, so policies in force are UTF-8.
fn policies_text(files: &[PolicyFile]) -> String {
    let text = |file: &PolicyFile| String::from_utf8_lossy(&file.bytes).into_owned();
    let files: Vec<KeptFile> =
        files.iter().map(|file| KeptFile { name: file.name.clone(), text: text(file) }).collect();
    list(&files)
}

/// The policy files in the text of a key.
fn kept_files(key: &str, text: &str) -> Result<Vec<PolicyFile>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let kept: Vec<KeptFile> = serde_json::from_str(text).map_err(|error| format!("{key}: {error}"))?;
    Ok(kept.into_iter().map(|file| PolicyFile { name: file.name, bytes: file.text.into() }).collect())
}

fn json<T: Default + for<'de> Deserialize<'de>>(key: &str, text: &str, problems: &mut Vec<String>) -> T {
    if text.is_empty() {
        return T::default();
    }
    serde_json::from_str(text).unwrap_or_else(|error| {
        problems.push(format!("{key}: {error}"));
        T::default()
    })
}

fn list<T: Serialize>(items: &[T]) -> String {
    // Structs of strings, so serialization does not fail.
    if items.is_empty() { String::new() } else { serde_json::to_string_pretty(items).unwrap_or_default() }
}

fn one_per_line<T: fmt::Display>(items: &BTreeSet<T>) -> String {
    items.iter().flat_map(|item| [item.to_string(), "\n".to_owned()]).collect()
}

fn lines<T: Ord>(
    key: &str,
    text: &str,
    expected: &str,
    problems: &mut Vec<String>,
    parse: impl Fn(&str) -> Option<T>,
) -> BTreeSet<T> {
    let mut found = BTreeSet::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match parse(line) {
            Some(value) => {
                found.insert(value);
            }
            None => problems.push(format!("{key}: expected a line like {expected}, found {line:?}")),
        }
    }
    found
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn condition(status: &str, time: &str) -> StateCondition {
        StateCondition {
            r#type: "Reachable".to_owned(),
            status: status.to_owned(),
            reason: "Probed".to_owned(),
            message: "it is".to_owned(),
            last_transition_time: time.to_owned(),
        }
    }

    fn stored(release: &str, text: &str) -> StoredPolicies {
        let files = vec![PolicyFile { name: "a.yaml".to_owned(), bytes: text.into() }];
        StoredPolicies { release: MinorVersion::of(release), files }
    }

    fn report() -> ControllerReport {
        ControllerReport { version: "1.2.3".to_owned(), ..ControllerReport::default() }
    }

    #[test]
    fn the_report_yields_to_everything_else() {
        let mut state = MullionState { found: true, report: Some(report()), ..MullionState::default() };
        assert!(state.data().contains_key(REPORT));
        let room = MAX_DATA - state.data()[REPORT].len() - state.data()[TAINT_ON_CREATE].len();
        for (length, is_written) in [(room, true), (room + 1, false)] {
            state.withdrawn = Some("x".repeat(length));
            assert_eq!(state.data().contains_key(REPORT), is_written);
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let state = MullionState {
            found: true,
            policies: stored("0.2", "kind: PodPolicy\n"),
            policies_since: "2026-01-02T03:04:05Z".parse().ok(),
            earlier_policies: stored("0.1", "# Older.\nkind: PodPolicy\n"),
            seen: NodeHistory {
                taints: [Taint::parse("os=windows:NoSchedule").unwrap(), Taint::parse("windows:NoExecute").unwrap()]
                    .into(),
                builds: [Build::from_label("10.0.20348").unwrap()].into(),
                unlabelled: ["n1".to_owned()].into(),
            },
            own_taints: Some([Taint::parse("mine=windows:NoExecute").unwrap()].into()),
            taint_on_create: Taint::parse("os=windows:NoSchedule"),
            withdrawn: Some("2026-01-01T00:00:00Z".to_owned()),
            service_account: Some("5f0c".to_owned()),
            conditions: vec![condition("True", "2026-01-01T00:00:00Z")],
            report: Some(report()),
        };
        let data = state.data();
        assert_eq!(data[SEEN_TAINTS], "os=windows:NoSchedule\nwindows:NoExecute\n");
        assert_eq!(MullionState::parse(&data), (state, vec![]));
        let empty = MullionState { found: true, ..MullionState::default() };
        assert_eq!(MullionState::parse(&BTreeMap::new()), (empty.clone(), vec![]));
        let none_set = MullionState { own_taints: Some(BTreeSet::new()), ..empty.clone() };
        assert_eq!(MullionState::parse(&none_set.data()), (none_set, vec![]));
        assert_eq!(MullionState::parse(&empty.data()), (empty, vec![]));
    }

    #[test]
    fn a_former_release_leaves_what_it_saw() {
        let state = MullionState {
            found: true,
            policies: stored("0.2", "kind: PodPolicy\n"),
            policies_since: "2026-01-02T03:04:05Z".parse().ok(),
            earlier_policies: stored("0.1", "# Older.\nkind: PodPolicy\n"),
            seen: NodeHistory {
                taints: [Taint::parse("os=windows:NoSchedule").unwrap()].into(),
                ..NodeHistory::default()
            },
            own_taints: Some([Taint::parse("mine=windows:NoExecute").unwrap()].into()),
            taint_on_create: Taint::parse("os=windows:NoSchedule"),
            withdrawn: Some("2026-01-01T00:00:00Z".to_owned()),
            service_account: Some("old".to_owned()),
            conditions: vec![condition("True", "2026-01-01T00:00:00Z")],
            report: Some(report()),
        };
        let of = |owner: Option<&str>, uid: &str| {
            let mut state = MullionState { service_account: owner.map(str::to_owned), ..state.clone() };
            state.belong_to(uid);
            state
        };
        let after = MullionState {
            found: true,
            policies: state.policies.clone(),
            policies_since: state.policies_since,
            earlier_policies: state.earlier_policies.clone(),
            seen: state.seen.clone(),
            own_taints: state.own_taints.clone(),
            service_account: Some("new".to_owned()),
            ..MullionState::default()
        };
        assert_eq!(of(Some("old"), "new"), after);
        assert_eq!(of(Some("old"), "old"), state);
        // The state comes from a version that did not store the uid: the same release, upgraded.
        assert_eq!(of(None, "old"), state);
    }

    #[test]
    fn what_people_break_is_named_and_the_rest_is_kept() {
        let data = [
            (SEEN_TAINTS, "\n  os=windows:NoSchedule \nnonsense\n"),
            (SEEN_BUILDS, "10.0.20348\r\n2022\n"),
            (TAINT_ON_CREATE, "yes"),
            (POLICIES, "[{"),
            (POLICIES_SINCE, "yesterday"),
            (CONDITIONS, "{}"),
            (REPORT, "[1]"),
            ("unknown", "x"),
        ];
        let data = data.map(|(key, text)| (key.to_owned(), text.to_owned())).into();
        let (state, problems) = MullionState::parse(&data);
        assert_eq!((state.seen.taints.len(), state.seen.builds.len(), state.taint_on_create), (1, 1, None));
        assert_eq!(problems.len(), 7, "{problems:?}");
        assert!(problems.iter().any(|problem| problem.contains("\"nonsense\"")), "{problems:?}");
    }

    #[test]
    fn policies_are_kept_as_they_are_or_not_at_all() {
        let file = |name: &str, text: &str| PolicyFile { name: name.to_owned(), bytes: text.into() };
        let odd = [file("a \"b\".yaml", "\u{feff}# \u{0}\u{85}\u{2028}\r\n\t'\\ \u{1f600}\n\n"), file("b.json", "{}")];
        let mut state = MullionState { found: true, ..MullionState::default() };
        assert!(state.keep_policies(&odd, MinorVersion::of_mullion(), NOW));
        assert_eq!(MullionState::parse(&state.data()), (state.clone(), vec![]));
        assert!(state.keep_policies(&odd, MinorVersion::of_mullion(), NOW), "twice is once");
        assert!(!state.keep_policies(&[file("huge.yaml", &"x".repeat(MAX_POLICIES))], MinorVersion::of_mullion(), NOW));
        assert_eq!(state.policies, StoredPolicies::default(), "the old ones are not those in force");
        // The stored form counts: a quote takes two bytes.
        assert!(state.keep_policies(
            &[file("a.yaml", &"x".repeat(MAX_POLICIES - 1000))],
            MinorVersion::of_mullion(),
            NOW
        ));
        assert!(!state.keep_policies(
            &[file("a.yaml", &"\"".repeat(MAX_POLICIES - 1000))],
            MinorVersion::of_mullion(),
            NOW
        ));
    }

    #[test]
    fn the_time_of_the_policies_changes_with_them() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let mut state = MullionState::default();
        let (own, newer) = (MinorVersion::of_mullion(), MinorVersion::of("99.1").unwrap());
        let huge = "x".repeat(MAX_POLICIES);
        for (files, release, second, since) in [
            (Vec::new(), own, 1, None),
            (stored("0.1", "one").files, own, 2, Some(at(2))),
            (stored("0.1", "one").files, own, 3, Some(at(2))),
            (stored("0.1", "one").files, newer, 4, Some(at(2))),
            (stored("0.1", "two").files, newer, 5, Some(at(5))),
            // None are stored of these, and that does not change again.
            (stored("0.1", &huge).files, newer, 6, Some(at(6))),
            (stored("0.1", &huge).files, newer, 7, Some(at(6))),
            (Vec::new(), newer, 8, Some(at(6))),
        ] {
            state.keep_policies(&files, release, at(second));
            assert_eq!(state.policies_since, since, "{second}");
        }
    }

    #[test]
    fn another_release_keeps_the_policies_of_the_one_before() {
        let of = |state: &MullionState| {
            let row = |stored: &StoredPolicies| {
                let text = stored.files.iter().map(|file| String::from_utf8(file.bytes.clone()).unwrap()).collect();
                (stored.release.map(|release| release.to_string()).unwrap_or_default(), text)
            };
            [row(&state.policies), row(&state.earlier_policies)]
        };
        let row = |release: &str, text: &str| (release.to_owned(), text.to_owned());
        let keep = |state: &mut MullionState, release: &str, text: &str| {
            assert!(state.keep_policies(&stored(release, text).files, MinorVersion::of(release).unwrap(), NOW));
            of(state)
        };
        let none = row("", "");
        let mut state = MullionState::default();
        assert_eq!(keep(&mut state, "0.1", "one"), [row("0.1", "one"), none.clone()]);
        assert_eq!(keep(&mut state, "0.1", "two"), [row("0.1", "two"), none.clone()]);
        // An upgrade with the same files, and files that only the newer release supports.
        assert_eq!(keep(&mut state, "0.2", "two"), [row("0.2", "two"), row("0.1", "two")]);
        assert_eq!(keep(&mut state, "0.2", "new"), [row("0.2", "new"), row("0.1", "two")]);
        assert_eq!(keep(&mut state, "0.2", "newer"), [row("0.2", "newer"), row("0.1", "two")]);
        // The rollback, with the files that the older release loads.
        assert_eq!(keep(&mut state, "0.1", "two"), [row("0.1", "two"), row("0.2", "newer")]);
        // Built-in policies are not stored.
        assert!(state.keep_policies(&[], MinorVersion::of("0.2").unwrap(), NOW));
        assert_eq!(of(&state), [none.clone(), row("0.1", "two")]);
        // Without room for both, the earlier ones are dropped.
        let mut state = MullionState::default();
        keep(&mut state, "0.1", &"x".repeat(MAX_POLICIES / 2));
        assert_eq!(keep(&mut state, "0.2", &"y".repeat(MAX_POLICIES / 2))[1], none);
    }

    #[test]
    fn everything_at_its_largest_has_room_in_a_config_map() {
        let long = |n: usize, length: usize| format!("{n:0length$}");
        let taint = |n| Taint { key: long(n, 253 + 1 + 63), value: long(n, 63), effect: "PreferNoSchedule".to_owned() };
        let mut state = MullionState {
            seen: NodeHistory {
                taints: (0..MAX_SEEN).map(taint).collect(),
                builds: (0..u32::try_from(MAX_SEEN).unwrap()).map(|n| Build::new(u32::MAX - n)).collect(),
                unlabelled: (0..MAX_UNLABELLED).map(|n| long(n, 253)).collect(),
            },
            own_taints: Some((0..MAX_OWN_TAINTS).map(taint).collect()),
            taint_on_create: Some(taint(0)),
            ..MullionState::default()
        };
        let text = "x".repeat(MAX_POLICIES - 100);
        assert!(state.keep_policies(
            &[PolicyFile { name: "a.yaml".to_owned(), bytes: text.into() }],
            MinorVersion::of_mullion(),
            NOW
        ));
        let bytes: usize = state.data().values().map(String::len).sum();
        assert!(bytes > MAX_POLICIES && bytes < (1 << 20) - (16 << 10), "{bytes} bytes");
    }

    #[test]
    fn times_are_whole_seconds() {
        assert_eq!(time_text("2026-01-02T03:04:05.987654321Z".parse().unwrap()), "2026-01-02T03:04:05Z");
    }

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let mut state = MullionState::default();
        for (status, time, expected) in [("True", "1", "1"), ("True", "2", "1"), ("False", "3", "3")] {
            state.set_condition(condition(status, time));
            assert_eq!(state.conditions, [condition(status, expected)]);
        }
    }
}
