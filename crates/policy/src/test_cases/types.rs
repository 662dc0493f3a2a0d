//! The contents of a test file as types. The keys are those of [`schema`](crate::schema), which explains them.
#![allow(missing_docs, reason = "the keys of these names, which the schema explains")]

use std::collections::BTreeMap;

use mullion_engine::model::Os;
use mullion_engine::model::settings::Action;
use mullion_engine::model::windows::Build;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::policy_date::PolicyDate;

/// One document: policies, a cluster, and cases.
#[derive(Debug, Clone, Deserialize)]
pub struct TestSpec {
    pub policies: Option<Vec<String>>,
    pub date: Option<String>,
    pub snapshot: Option<ShortForm<String, SnapshotSpec>>,
    pub cases: Vec<TestCase>,
}

/// A map, or its short form.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum ShortForm<S, M> {
    Short(S),
    Full(M),
}

/// The cluster.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct SnapshotSpec {
    pub file: Option<String>,
    pub nodes: Vec<NodeFixture>,
    pub objects: Vec<Value>,
}

/// A node, by what distinguishes it.
#[derive(Debug, Clone, Deserialize)]
pub struct NodeFixture {
    pub name: String,
    pub os: Os,
    pub build: Option<Build>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub taints: Vec<String>,
}

/// One object, and the expected results.
#[derive(Debug, Clone, Deserialize)]
pub struct TestCase {
    pub name: String,
    pub namespace: Option<ShortForm<String, NamespaceSpec>>,
    pub object: Option<Value>,
    pub file: Option<String>,
    pub select: Option<String>,
    pub expect: Expectations,
}

/// A namespace.
#[derive(Debug, Clone, Deserialize)]
pub struct NamespaceSpec {
    pub name: String,
    pub labels: Option<BTreeMap<String, String>>,
    pub annotations: Option<BTreeMap<String, String>>,
}

/// The expected results for an object. Absent members are not compared.
#[derive(Debug, Clone, Deserialize)]
pub struct Expectations {
    pub os: Option<String>,
    pub denied: Option<ShortForm<Vec<String>, ExpectedDenial>>,
    pub findings: Option<Vec<ExpectedFinding>>,
    #[serde(rename = "findings+")]
    pub some_findings: Option<Vec<ExpectedFinding>>,
    #[serde(rename = "findings-")]
    pub no_findings: Option<Vec<ExpectedFinding>>,
    pub warned: Option<Vec<String>>,
    pub unwarned: Option<Vec<String>>,
    pub stored: Option<Value>,
    pub changes: Option<Vec<String>>,
    pub pod: Option<Value>,
    pub nodes: Option<Vec<String>>,
    pub settings: Option<Map<String, Value>>,
}

/// A denial: texts of its message, and causes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ExpectedDenial {
    pub message: Vec<String>,
    pub causes: Vec<String>,
}

/// A finding: its rule, and optionally its action and path.
#[derive(Debug, Clone, Deserialize)]
pub struct ExpectedFinding {
    pub rule: String,
    pub action: Option<Action>,
    pub path: Option<String>,
}

impl TestSpec {
    /// The date of the cases, in seconds since 1970; `None` if it is now.
    pub fn seconds(&self) -> Option<i64> {
        PolicyDate::parse(self.date.as_deref()?).ok().map(|date| date.start)
    }
}

impl TestCase {
    /// The name of the object's namespace; `None` if the case does not set one.
    pub fn namespace_name(&self) -> Option<&str> {
        self.namespace.as_ref().map(|namespace| match namespace {
            ShortForm::Short(name) => name.as_str(),
            ShortForm::Full(namespace) => namespace.name.as_str(),
        })
    }
}

impl Expectations {
    /// The expected denial; `None` if the object must not be denied.
    pub fn denial(&self) -> Option<ExpectedDenial> {
        match &self.denied {
            None => None,
            Some(ShortForm::Short(message)) if message.is_empty() => None,
            Some(ShortForm::Short(message)) => {
                Some(ExpectedDenial { message: message.clone(), ..ExpectedDenial::default() })
            }
            Some(ShortForm::Full(denial)) => Some(denial.clone()),
        }
    }
}
