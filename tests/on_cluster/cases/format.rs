//! The format of case files and of the files beside them; `tests/cases/README.md` documents it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

/// `tests/cases/AREA/NAME.yaml`; its steps are parsed one by one, so that an error can identify the
/// step.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// One sentence: the expected behavior.
    #[serde(rename = "case")]
    pub sentence: String,
    /// Rows of `acceptance.tsv`.
    #[serde(default)]
    pub covers: Vec<String>,
    /// The first Kubernetes release that has what the case needs: `"1.33"`.
    pub since: Option<String>,
    #[serde(default = "mixed")]
    pub cluster: String,
    #[serde(default = "default")]
    pub mullion: String,
    #[serde(default, rename = "third-party")]
    pub third_party: Vec<String>,
    #[serde(default)]
    pub namespace: NamespaceMeta,
    pub steps: Vec<Value>,
}

fn mixed() -> String {
    "mixed".to_owned()
}

fn default() -> String {
    "default".to_owned()
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceMeta {
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// `tests/cases/clusters/NAME.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    #[expect(dead_code, reason = "for people")]
    pub about: String,
    #[serde(default)]
    pub plugins: Vec<String>,
    #[serde(default)]
    pub flags: Vec<String>,
    pub nodes: BTreeMap<String, NodeLine>,
    #[serde(default)]
    pub objects: Vec<Value>,
    pub controller: Option<String>,
    /// `find` steps that must succeed before the first case.
    #[serde(default)]
    pub ready: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeLine {
    pub os: Os,
    /// The version of Windows nodes: `10.0.20348.2655`.
    pub version: Option<String>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub taints: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Os {
    Linux,
    Windows,
}

/// `tests/cases/mullion/NAME.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Mullion {
    /// Paths from the root of the repository.
    #[serde(default)]
    pub policies: Vec<String>,
    /// Policy documents in place.
    #[serde(default)]
    pub documents: Vec<Value>,
    #[serde(default)]
    pub failure_policy: Failure,
    #[serde(default)]
    pub dead: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub enum Failure {
    #[default]
    Ignore,
    Fail,
}

/// `tests/cases/third-party-webhooks/NAME.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThirdPartyWebhooks {
    #[expect(dead_code, reason = "for people")]
    pub about: String,
    #[serde(default)]
    pub webhooks: Vec<Webhook>,
    #[serde(default)]
    pub objects: Vec<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Webhook {
    pub name: String,
    #[serde(default = "never")]
    pub reinvocation_policy: String,
    #[serde(default = "pods")]
    pub resources: Vec<String>,
    #[serde(default = "create")]
    pub operations: Vec<String>,
    pub unless: Option<String>,
    pub patch: Vec<Value>,
}

fn never() -> String {
    "Never".to_owned()
}

fn pods() -> Vec<String> {
    vec!["pods".to_owned()]
}

fn create() -> Vec<String> {
    vec!["CREATE".to_owned()]
}

/// One step: its verb, the verb's value, and the other keys.
#[derive(Debug)]
pub struct Step {
    pub verb: &'static str,
    pub value: Value,
    pub with: With,
}

/// The keys beside a verb; [`VERBS`] lists which keys each verb has.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct With {
    pub manager: Option<String>,
    pub force: bool,
    #[serde(deserialize_with = "present")]
    pub merge: Option<Value>,
    #[serde(deserialize_with = "present")]
    pub strategic: Option<Value>,
    pub json: Option<Vec<Value>>,
    pub subresource: Option<String>,
    #[serde(deserialize_with = "present")]
    pub body: Option<Value>,
    pub input: Option<Input>,
    pub prints: Option<Vec<String>>,
    pub fails: Option<Vec<String>>,
    #[serde(deserialize_with = "present")]
    pub is: Option<Value>,
    pub count: Option<usize>,
    #[serde(rename = "as")]
    pub user: Option<User>,
    pub dry_run: bool,
    pub eventually: bool,
    pub repeat: Option<usize>,
    #[serde(deserialize_with = "present")]
    pub stored: Option<Value>,
    pub changes: Option<Vec<String>>,
    pub denied: Option<Rejection>,
    pub rejected: Option<Rejection>,
    pub warned: Option<Vec<String>>,
    pub unwarned: Option<Vec<String>>,
}

/// `null` is a value: the object or field is absent.
fn present<'de, D: serde::Deserializer<'de>>(reader: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(reader).map(Some)
}

/// Text as it is, or objects, which are serialized as JSON.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Input {
    Text(String),
    Objects(Vec<Value>),
    Object(Map<String, Value>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum User {
    Name(String),
    Full {
        user: String,
        #[serde(default)]
        groups: Vec<String>,
    },
}

/// A request that fails at admission.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Rejection {
    pub by: Option<String>,
    pub status: Option<u64>,
    pub message: Vec<String>,
    pub causes: Vec<String>,
    pub causes_only: bool,
}

/// The expected Event.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedEvent {
    pub about: String,
    pub reason: Option<String>,
    #[serde(default)]
    pub message: Vec<String>,
}

const REQUEST_KEYS: &[&str] =
    &["stored", "changes", "denied", "rejected", "warned", "unwarned", "as", "dryRun", "eventually", "repeat"];
const TOOL_KEYS: &[&str] = &["input", "prints", "fails", "warned", "unwarned", "repeat"];

/// Every verb with its keys: its own, and those that it shares with other verbs.
const VERBS: &[(&str, &[&str], &[&str])] = &[
    ("create", &[], REQUEST_KEYS),
    ("apply", &["manager", "force"], REQUEST_KEYS),
    ("replace", &[], REQUEST_KEYS),
    ("patch", &["merge", "strategic", "json", "subresource"], REQUEST_KEYS),
    ("delete", &[], REQUEST_KEYS),
    ("request", &["body"], REQUEST_KEYS),
    ("kubectl", &["as"], TOOL_KEYS),
    ("helm", &[], TOOL_KEYS),
    ("adopt", &[], &[]),
    ("find", &["is", "count"], &[]),
    ("lands", &[], &[]),
    ("event", &[], &[]),
    ("remember", &[], &[]),
    ("unchanged", &[], &[]),
];

impl With {
    /// The expected denial by Mullion, or rejection by anything else.
    pub fn rejection(&self) -> Option<&Rejection> {
        self.denied.as_ref().or(self.rejected.as_ref())
    }
}

impl Step {
    /// Parses a step; the error contains the invalid key.
    pub fn read(step: &Value) -> Result<Self> {
        let map = step.as_object().context("a step is a map with one verb")?;
        let found: Vec<_> = VERBS.iter().filter(|(verb, ..)| map.contains_key(*verb)).collect();
        let names = || VERBS.iter().map(|(verb, ..)| *verb).collect::<Vec<_>>().join(", ");
        let keys = || map.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let [(verb, own, shared)] = found[..] else {
            bail!("a step has one verb of {}; here are {}", names(), keys());
        };
        let mut rest = map.clone();
        let value = rest.remove(*verb).unwrap_or_default();
        for key in rest.keys() {
            let key = key.as_str();
            let known = own.contains(&key) || shared.contains(&key);
            ensure!(known, "`{key}` does not belong to `{verb}`, which takes {}", [*own, *shared].concat().join(", "));
        }
        let with: With = serde_json::from_value(Value::Object(rest))?;
        let step = Self { verb, value, with };
        step.check()?;
        Ok(step)
    }

    /// Fails if the step could not fail, or cannot work.
    fn check(&self) -> Result<()> {
        let With { denied, rejected, stored, is, changes, fails, prints, unwarned, repeat, .. } = &self.with;
        ensure!(denied.is_none() || rejected.is_none(), "`denied` and `rejected` exclude each other");
        for (key, rejection) in [("denied", denied), ("rejected", rejected)] {
            let Some(Rejection { by, status, message, causes, causes_only }) = rejection else { continue };
            let empty = by.is_none() && status.is_none() && message.is_empty() && causes.is_empty();
            ensure!(!empty, "`{key}` has no key: add `by`, `status`, `message` or `causes`");
            let by = by.as_deref().unwrap_or("server");
            ensure!(super::judge::is_known(by), "`by: {by}` is neither a webhook, `server`, nor a known plugin");
            ensure!(!causes_only || !causes.is_empty(), "`causesOnly` without `causes`");
            ensure!(
                stored.is_none() && changes.is_none(),
                "`{key}` has no object to compare with `stored` or `changes`"
            );
        }
        for (key, value) in [("stored", stored), ("is", is)] {
            let empty = value.as_ref().is_some_and(|value| value.as_object().is_some_and(Map::is_empty));
            ensure!(!empty, "an empty `{key}` asserts nothing");
        }
        ensure!(!stored.as_ref().is_some_and(Value::is_null), "an empty `stored` asserts nothing");
        for (key, texts) in [("fails", fails), ("prints", prints), ("unwarned", unwarned)] {
            ensure!(!texts.as_ref().is_some_and(Vec::is_empty), "an empty `{key}` asserts nothing");
        }
        let pods = self.value.as_str().is_some_and(|about| about.starts_with("pods of "));
        ensure!(self.with.count.is_none() || pods, "`count` counts `pods of Kind/name`");
        ensure!(*repeat != Some(0), "`repeat: 0` does nothing");
        ensure!(
            !self.with.eventually || (self.with.dry_run && changes.is_none() && repeat.is_none()),
            "`eventually` needs `dryRun: true`, without `changes` and `repeat`: each try would find the object of the last one"
        );
        let ways = [self.with.merge.is_some(), self.with.strategic.is_some(), self.with.json.is_some()];
        let ways = ways.into_iter().filter(|way| *way).count();
        ensure!(self.verb != "patch" || ways == 1, "`patch` takes one of `merge`, `strategic` and `json`");
        let shape = match self.verb {
            "create" | "apply" | "replace" | "lands" | "event" => {
                self.value.as_object().is_some_and(|map| !map.is_empty())
            }
            "kubectl" | "helm" => self.value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
            _ => self.value.is_string(),
        };
        ensure!(shape, "`{}` does not take {}", self.verb, self.value);
        Ok(())
    }

    /// Whether the step alone asserts more than that a request succeeds.
    pub fn asserts(&self) -> bool {
        let With { stored, changes, warned, unwarned, prints, fails, .. } = &self.with;
        let waits = ["find", "lands", "event", "unchanged"].contains(&self.verb);
        let lists = [changes, warned, unwarned, prints, fails].into_iter().any(Option::is_some);
        waits || lists || stored.is_some() || self.with.rejection().is_some()
    }

    /// The step in error messages.
    pub fn title(&self) -> String {
        let about = match &self.value {
            Value::String(text) => text.clone(),
            Value::Array(list) => {
                list.iter().map(|text| text.as_str().unwrap_or_default()).collect::<Vec<_>>().join(" ")
            }
            Value::Object(object) if object.contains_key("kind") => {
                let name = &self.value["metadata"]["name"];
                let name = name.as_str().or(self.value["metadata"]["generateName"].as_str()).unwrap_or_default();
                format!("{}/{name}", object["kind"].as_str().unwrap_or_default())
            }
            Value::Object(object) => match object.get("about") {
                Some(about) => format!("about {}", about.as_str().unwrap_or_default()),
                None => object.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
            },
            other => other.to_string(),
        };
        format!("{} {about}", self.verb)
    }
}
