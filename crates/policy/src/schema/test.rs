//! The keys of a policy test file.

use crate::schema::types::{SchemaKey, SchemaObject, TextFormat, ValueShape, word};
use crate::schema::words::{METADATA, VERSION};

/// `kind: PolicyTest`.
pub(crate) const POLICY_TEST: &str = "PolicyTest";

/// The kinds of document in a test file.
pub const TEST_KINDS: [(&str, &SchemaObject); 1] = [(POLICY_TEST, &TEST)];

static TEST: SchemaObject = SchemaObject::of(&[
    VERSION,
    SchemaKey::required(
        "kind",
        ValueShape::Word(&[word(POLICY_TEST, "Cases of what policies decide, for `mullion policy test`.")]),
        "PolicyTest.",
    ),
    SchemaKey { required: false, ..METADATA },
    SchemaKey::new(
        "policies",
        ValueShape::List(&ValueShape::Text(TextFormat::Any)),
        "The policies that are tested: files or directories, relative to this file, read together as one set; absent: \
         every policy file next to this one.",
    ),
    SchemaKey::new(
        "date",
        ValueShape::Text(TextFormat::Date),
        "The date of the cases, as of its beginning (00:00 UTC), or a time: policies whose `until` is earlier have ended; \
         absent: now.",
    ),
    SchemaKey::new(
        "snapshot",
        ValueShape::Short(&ValueShape::Text(TextFormat::Any), &SNAPSHOT),
        "The cluster: a file as for --snapshot, relative to this one, or what is in it; absent: a small mixed cluster, \
         which `mullion policy test --help` describes.",
    ),
    SchemaKey::required(
        "cases",
        ValueShape::List(&ValueShape::Object(&CASE)),
        "One object each, and the expected results.",
    ),
]);

static SNAPSHOT: SchemaObject = SchemaObject::of(&[
    SchemaKey::new(
        "file",
        ValueShape::Text(TextFormat::Any),
        "A file as for --snapshot, relative to this one; the rest is added to it.",
    ),
    SchemaKey::new(
        "nodes",
        ValueShape::List(&ValueShape::Object(&NODE)),
        "Its nodes: name, operating system, build, labels and taints.",
    ),
    SchemaKey::new(
        "objects",
        ValueShape::List(&ValueShape::Map),
        "Nodes, RuntimeClasses, Namespaces and ImagePlatforms as a --snapshot file has them.",
    ),
]);

static NODE: SchemaObject = SchemaObject::of(&[
    SchemaKey::required("name", ValueShape::Text(TextFormat::Name), "Its name."),
    SchemaKey::required(
        "os",
        ValueShape::Word(&[word("windows", "A Windows node."), word("linux", "A Linux node.")]),
        "Its operating system, as label kubernetes.io/os.",
    ),
    SchemaKey::new("build", ValueShape::Text(TextFormat::Build), "Of a Windows node, as 10.0.20348."),
    SchemaKey::new("labels", ValueShape::Texts(TextFormat::LabelKey, TextFormat::LabelValue), "Labels besides those."),
    SchemaKey::new(
        "taints",
        ValueShape::List(&ValueShape::Text(TextFormat::Taint)),
        "Its taints, as key=value:Effect.",
    ),
]);

static CASE: SchemaObject = SchemaObject::of(&[
    SchemaKey::required(
        "name",
        ValueShape::Text(TextFormat::Any),
        "One sentence that describes the expected result, unique in a file.",
    ),
    SchemaKey::new(
        "namespace",
        ValueShape::Short(&ValueShape::Text(TextFormat::Name), &NAMESPACE),
        "Namespace in which the object is created, unless it names its own; default `default`.",
    ),
    SchemaKey::new("object", ValueShape::Map, "The manifest, in place."),
    SchemaKey::new("file", ValueShape::Text(TextFormat::Any), "The manifest as a file, relative to this one."),
    SchemaKey::new(
        "select",
        ValueShape::Text(TextFormat::Any),
        "Which object of `file`, as Kind/name, if it contains several.",
    ),
    SchemaKey::required("expect", ValueShape::Object(&EXPECT), "The expected results; what is absent is not compared."),
]);

static NAMESPACE: SchemaObject = SchemaObject::of(&[
    SchemaKey::required("name", ValueShape::Text(TextFormat::Name), "Its name."),
    SchemaKey::new(
        "labels",
        ValueShape::Texts(TextFormat::LabelKey, TextFormat::LabelValue),
        "Its labels, instead of those in `snapshot`.",
    ),
    SchemaKey::new(
        "annotations",
        ValueShape::Texts(TextFormat::LabelKey, TextFormat::Any),
        "Its annotations, instead of those in `snapshot`.",
    ),
]);

static EXPECT: SchemaObject = SchemaObject::of(&[
    SchemaKey::new(
        "os",
        ValueShape::Word(&[
            word("windows", "Windows."),
            word("linux", "Linux."),
            word("undecided", "Nothing determines it, or not clearly enough."),
            word("conflict", "Two placements exclude each other."),
            word("none", "Mullion does not review the object, because it is opted out or the mode is Disabled."),
        ]),
        "The OS decision, as `mullion explain` prints it.",
    ),
    SchemaKey::new(
        "denied",
        ValueShape::Short(&ValueShape::List(&ValueShape::Text(TextFormat::Any)), &DENIED),
        "It is denied, and the message contains each text; `[]`: it is not denied. Without this key it must not be \
         denied either.",
    ),
    SchemaKey::new(
        "findings",
        ValueShape::List(&ValueShape::Object(&FINDING)),
        "Exactly these findings, in any order; `[]`: none.",
    ),
    SchemaKey::new("findings+", ValueShape::List(&ValueShape::Object(&FINDING)), "These findings among others."),
    SchemaKey::new("findings-", ValueShape::List(&ValueShape::Object(&FINDING)), "None of these findings."),
    SchemaKey::new(
        "warned",
        ValueShape::List(&ValueShape::Text(TextFormat::Any)),
        "Some warning to the requester contains each text; `[]`: no warning at all.",
    ),
    SchemaKey::new(
        "unwarned",
        ValueShape::List(&ValueShape::Text(TextFormat::Any)),
        "No warning contains any of these texts.",
    ),
    SchemaKey::new(
        "stored",
        ValueShape::Map,
        "The stored object has at least this. `null`: absent; a list entry by entry; `key+`: the list has these among \
         others; `key-`: it has none of these.",
    ),
    SchemaKey::new(
        "changes",
        ValueShape::List(&ValueShape::Text(TextFormat::Any)),
        "Exactly these fields change, as spec.nodeSelector or metadata.labels[a.b/c]; a change below a field counts as a \
         change of it; `[]`: none.",
    ),
    SchemaKey::new(
        "pod",
        ValueShape::Map,
        "For an object with a pod template: its pods have at least this, as under `stored`.",
    ),
    SchemaKey::new(
        "nodes",
        ValueShape::List(&ValueShape::Text(TextFormat::Name)),
        "Exactly these nodes of the snapshot could run it, or its pods, once Mullion has placed them.",
    ),
    SchemaKey::new(
        "settings",
        ValueShape::Map,
        "The values that the policies set, by dotted key: {place.build.mode: Exact}.",
    ),
]);

static DENIED: SchemaObject = SchemaObject::of(&[
    SchemaKey::new(
        "message",
        ValueShape::List(&ValueShape::Text(TextFormat::Any)),
        "The message of the denial contains each text.",
    ),
    SchemaKey::new(
        "causes",
        ValueShape::List(&ValueShape::Text(TextFormat::Any)),
        "Each is among the causes, as rule code and field: MUL201 spec.containers[0].securityContext.runAsUser.",
    ),
]);

static FINDING: SchemaObject = SchemaObject::of(&[
    SchemaKey::required("rule", ValueShape::Text(TextFormat::Rule), "Name or code of the rule, or a code prefix."),
    SchemaKey::new(
        "action",
        ValueShape::Word(&[
            word("Deny", "Denied."),
            word("Repair", "Changed."),
            word("Warn", "Reported, on the object or on its owner."),
        ]),
        "Its action, as `mullion check` prints it.",
    ),
    SchemaKey::new(
        "path",
        ValueShape::Text(TextFormat::Any),
        "Where, as spec.containers[0].securityContext.runAsUser.",
    ),
]);
