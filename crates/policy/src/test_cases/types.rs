//! What a test file says, as types: the keys are those of [`schema`](crate::schema), which explains them.
#![allow(missing_docs, reason = "the keys of these names, which the schema explains")]

use std::collections::BTreeMap;

use mullion_engine::model::settings::rule_actions::Action;
use mullion_engine::model::windows::build::Build;
use serde::Deserialize;
use serde_json::{Map, Value};

/// One document: policies, a cluster, and cases.
#[derive(Debug, Clone, Deserialize)]
pub struct TestSpec {
    pub policies: Option<Vec<String>>,
    pub snapshot: Option<Short<String, SnapshotSpec>>,
    pub cases: Vec<TestCase>,
}

/// A map, or what stands for it in short.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Short<S, M> {
    Short(S),
    Full(M),
}

/// The cluster.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct SnapshotSpec {
    pub file: Option<String>,
    pub nodes: Vec<NodeSpec>,
    pub objects: Vec<Value>,
}

/// A node in few words.
#[derive(Debug, Clone, Deserialize)]
pub struct NodeSpec {
    pub name: String,
    pub os: NodeOs,
    pub build: Option<Build>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub taints: Vec<String>,
}

/// The operating system of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeOs {
    Windows,
    Linux,
}

/// One object, and what must come of it.
#[derive(Debug, Clone, Deserialize)]
pub struct TestCase {
    pub name: String,
    pub namespace: Option<Short<String, NamespaceSpec>>,
    pub object: Option<Value>,
    pub file: Option<String>,
    pub select: Option<String>,
    pub expect: Expect,
}

/// A namespace.
#[derive(Debug, Clone, Deserialize)]
pub struct NamespaceSpec {
    pub name: String,
    pub labels: Option<BTreeMap<String, String>>,
    pub annotations: Option<BTreeMap<String, String>>,
}

/// What must come of an object. What is absent is not compared.
#[derive(Debug, Clone, Deserialize)]
pub struct Expect {
    pub os: Option<String>,
    pub refused: Option<Short<Vec<String>, ExpectedRefusal>>,
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

/// A refusal.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ExpectedRefusal {
    pub says: Vec<String>,
    pub causes: Vec<String>,
}

/// A finding, as far as it is named.
#[derive(Debug, Clone, Deserialize)]
pub struct ExpectedFinding {
    pub rule: String,
    pub action: Option<Action>,
    pub path: Option<String>,
}

impl TestCase {
    /// The name of the namespace it is about; `None`: the case names none.
    pub fn namespace_name(&self) -> Option<&str> {
        self.namespace.as_ref().map(|namespace| match namespace {
            Short::Short(name) => name.as_str(),
            Short::Full(namespace) => namespace.name.as_str(),
        })
    }
}

impl Expect {
    /// What the refusal must say; `None` where the object must not be refused.
    pub fn refusal(&self) -> Option<ExpectedRefusal> {
        match &self.refused {
            None => None,
            Some(Short::Short(says)) if says.is_empty() => None,
            Some(Short::Short(says)) => Some(ExpectedRefusal { says: says.clone(), ..ExpectedRefusal::default() }),
            Some(Short::Full(refusal)) => Some(refusal.clone()),
        }
    }
}
