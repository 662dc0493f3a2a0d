//! The contents of a test file: each key with its type and its documentation.
#![allow(missing_docs, reason = "some fields have their documentation in the attribute `key`")]

use std::collections::BTreeMap;

use mullion_engine::model::Os;
use mullion_engine::model::schema::{PolicyObject, PolicyValue, SchemaWord, ValueShape};
use mullion_engine::model::settings::Action;
use mullion_engine::model::windows::Build;
use mullion_engine::policy_object;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::policy_date::PolicyDate;

policy_object! {
    /// One document: policies, a cluster, and cases.
    #[derive(Debug, Clone, Deserialize)]
    pub struct TestSpec {
        /// The policies that are tested: files or directories, relative to this file, read together as one set; absent:
        /// every policy file next to this one.
        #[key("policies")]
        pub policies: Option<Vec<String>>,
        /// The date of the cases, as of its beginning (00:00 UTC), or a time: policies whose `until` is earlier have
        /// ended; absent: now.
        #[key("date")]
        pub date: Option<PolicyDate>,
        /// The cluster: a file as for --snapshot, relative to this one, or what is in it; absent: a small mixed
        /// cluster, which `mullion policy test --help` describes.
        #[key("snapshot")]
        pub snapshot: Option<ShortForm<String, SnapshotSpec>>,
        /// One object each, and the expected results.
        #[key("cases", required: true)]
        pub cases: Vec<TestCase>,
    }
}

/// A map, or its short form.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum ShortForm<S, M> {
    Short(S),
    Full(M),
}

impl<S: PolicyValue, M: PolicyObject> PolicyValue for ShortForm<S, M> {
    const SHAPE: ValueShape = ValueShape::Short(&S::SHAPE, M::OBJECT);
}

policy_object! {
    /// The cluster.
    #[derive(Debug, Clone, Default, Deserialize)]
    #[serde(default)]
    pub struct SnapshotSpec {
        /// A file as for --snapshot, relative to this one; the rest is added to it.
        #[key("file")]
        pub file: Option<String>,
        /// Its nodes: name, operating system, build, labels and taints.
        #[key("nodes")]
        pub nodes: Vec<NodeFixture>,
        /// Nodes, RuntimeClasses, Namespaces and ImagePlatforms as a --snapshot file has them.
        #[key("objects")]
        pub objects: Vec<Value>,
    }
}

policy_object! {
    /// A node, by what distinguishes it.
    #[derive(Debug, Clone, Deserialize)]
    pub struct NodeFixture {
        /// Its name.
        #[key("name": Text(Name), required: true)]
        pub name: String,
        /// Its operating system, as label kubernetes.io/os.
        #[key("os": Word(NODE_OS), required: true)]
        pub os: Os,
        /// Of a Windows node, as 10.0.20348.
        #[key("build")]
        pub build: Option<Build>,
        /// Labels besides those.
        #[key("labels": Texts(LabelKey, LabelValue))]
        #[serde(default)]
        pub labels: BTreeMap<String, String>,
        /// Its taints, as key=value:Effect.
        #[key("taints": List(&Text(Taint)))]
        #[serde(default)]
        pub taints: Vec<String>,
    }
}

/// The words of [`Os`].
const NODE_OS: &[SchemaWord] =
    &[SchemaWord { word: "windows", doc: "A Windows node." }, SchemaWord { word: "linux", doc: "A Linux node." }];

policy_object! {
    /// One object, and the expected results.
    #[derive(Debug, Clone, Deserialize)]
    pub struct TestCase {
        /// One sentence that describes the expected result, unique in a file.
        #[key("name", required: true)]
        pub name: String,
        /// Namespace in which the object is created, unless it names its own; default `default`.
        #[key("namespace": Short(&Text(Name), NamespaceSpec::OBJECT))]
        pub namespace: Option<ShortForm<String, NamespaceSpec>>,
        /// The manifest, in place.
        #[key("object")]
        pub object: Option<Value>,
        /// The manifest as a file, relative to this one.
        #[key("file")]
        pub file: Option<String>,
        /// Which object of `file`, as Kind/name, if it contains several.
        #[key("select")]
        pub select: Option<String>,
        /// The expected results; what is absent is not compared.
        #[key("expect", required: true)]
        pub expect: Expectations,
    }
}

policy_object! {
    /// A namespace.
    #[derive(Debug, Clone, Deserialize)]
    pub struct NamespaceSpec {
        /// Its name.
        #[key("name": Text(Name), required: true)]
        pub name: String,
        /// Its labels, instead of those in `snapshot`.
        #[key("labels": Texts(LabelKey, LabelValue))]
        pub labels: Option<BTreeMap<String, String>>,
        /// Its annotations, instead of those in `snapshot`.
        #[key("annotations": Texts(LabelKey, Any))]
        pub annotations: Option<BTreeMap<String, String>>,
    }
}

policy_object! {
    /// The expected results for an object. Absent members are not compared.
    #[derive(Debug, Clone, Deserialize)]
    pub struct Expectations {
        /// The OS decision, as `mullion explain` prints it.
        #[key("os": Word(OS_DECISIONS))]
        pub os: Option<String>,
        /// It is denied, and the message contains each text; `[]`: it is not denied. Without this key it must not be
        /// denied either.
        #[key("denied")]
        pub denied: Option<ShortForm<Vec<String>, ExpectedDenial>>,
        /// Exactly these findings, in any order; `[]`: none.
        #[key("findings")]
        pub findings: Option<Vec<ExpectedFinding>>,
        /// These findings among others.
        #[key("findings+")]
        pub some_findings: Option<Vec<ExpectedFinding>>,
        /// None of these findings.
        #[key("findings-")]
        pub no_findings: Option<Vec<ExpectedFinding>>,
        /// Some warning to the requester contains each text; `[]`: no warning at all.
        #[key("warned")]
        pub warned: Option<Vec<String>>,
        /// No warning contains any of these texts.
        #[key("unwarned")]
        pub unwarned: Option<Vec<String>>,
        /// The stored object has at least this. `null`: absent; a list entry by entry; `key+`: the list has these among
        /// others; `key-`: it has none of these.
        #[key("stored")]
        pub stored: Option<Value>,
        #[key(
            "changes",
            doc: "Exactly these fields change, as spec.nodeSelector or metadata.labels[a.b/c]; a change below a field \
                 counts as a change of it; `[]`: none."
        )]
        pub changes: Option<Vec<String>>,
        /// For an object with a pod template: its pods have at least this, as under `stored`.
        #[key("pod")]
        pub pod: Option<Value>,
        /// Exactly these nodes of the snapshot could run it, or its pods, once Mullion has placed them.
        #[key("nodes": List(&Text(Name)))]
        pub nodes: Option<Vec<String>>,
        /// The values that the policies set, by dotted key: {place.build.mode: Exact}.
        #[key("settings")]
        pub settings: Option<Map<String, Value>>,
    }
}

/// The OS decisions, as `mullion explain` prints them.
const OS_DECISIONS: &[SchemaWord] = &[
    SchemaWord { word: "windows", doc: "Windows." },
    SchemaWord { word: "linux", doc: "Linux." },
    SchemaWord { word: "undecided", doc: "Nothing determines it, or not clearly enough." },
    SchemaWord { word: "conflict", doc: "Two placements exclude each other." },
    SchemaWord {
        word: "none",
        doc: "Mullion does not review the object, because it is opted out or the mode is Disabled.",
    },
];

policy_object! {
    /// A denial: texts of its message, and causes.
    #[derive(Debug, Clone, Default, Deserialize)]
    #[serde(default)]
    pub struct ExpectedDenial {
        /// The message of the denial contains each text.
        #[key("message")]
        pub message: Vec<String>,
        #[key(
            "causes",
            doc: "Each is among the causes, as rule code and field: MUL201 \
                 spec.containers[0].securityContext.runAsUser."
        )]
        pub causes: Vec<String>,
    }
}

policy_object! {
    /// A finding: its rule, and optionally its action and path.
    #[derive(Debug, Clone, Deserialize)]
    pub struct ExpectedFinding {
        /// Name or code of the rule, or a code prefix.
        #[key("rule": Text(Rule), required: true)]
        pub rule: String,
        /// Its action, as `mullion check` prints it.
        #[key("action": Word(FINDING_ACTIONS))]
        pub action: Option<Action>,
        #[key("path", doc: "Where, as spec.containers[0].securityContext.runAsUser.")]
        pub path: Option<String>,
    }
}

/// The actions of findings that `mullion check` prints.
const FINDING_ACTIONS: &[SchemaWord] = &[
    SchemaWord { word: "Deny", doc: "Denied." },
    SchemaWord { word: "Repair", doc: "Changed." },
    SchemaWord { word: "Warn", doc: "Reported, on the object or on its owner." },
];

impl TestSpec {
    /// The date of the cases, in seconds since 1970; `None` if it is now.
    pub fn seconds(&self) -> Option<i64> {
        self.date.as_ref().map(|date| date.start)
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
