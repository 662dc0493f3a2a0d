//! What a file of test cases for policies may hold.

use crate::schema::types::{Key, Object, Shape, Text, word};
use crate::schema::words::{METADATA, VERSION};

/// `kind: PolicyTest`.
pub const POLICY_TEST: &str = "PolicyTest";

/// The kinds of document in a test file.
pub const TEST_KINDS: [(&str, &Object); 1] = [(POLICY_TEST, &TEST)];

static TEST: Object = Object::of(&[
    VERSION,
    Key::required(
        "kind",
        Shape::Word(&[word(POLICY_TEST, "Cases of what policies decide, for `mullion policy test`.")]),
        "PolicyTest.",
    ),
    Key { required: false, ..METADATA },
    Key::new(
        "policies",
        Shape::List(&Shape::Text(Text::Any)),
        "The policies that are tested: files or directories, relative to this file, read together as one set; absent: \
         every policy file beside this one.",
    ),
    Key::new(
        "snapshot",
        Shape::Short(&Shape::Text(Text::Any), &SNAPSHOT),
        "The cluster: a file as for --snapshot, relative to this one, or what is in it; absent: a small mixed cluster, \
         which `mullion policy test --help` describes.",
    ),
    Key::required("cases", Shape::List(&Shape::Object(&CASE)), "One object each, and what must come of it."),
]);

static SNAPSHOT: Object = Object::of(&[
    Key::new(
        "file",
        Shape::Text(Text::Any),
        "A file as for --snapshot, relative to this one; the rest is added to it.",
    ),
    Key::new("nodes", Shape::List(&Shape::Object(&NODE)), "Its nodes, in few words."),
    Key::new(
        "objects",
        Shape::List(&Shape::Map),
        "Nodes, RuntimeClasses, Namespaces and ImagePlatforms as a --snapshot file has them.",
    ),
]);

static NODE: Object = Object::of(&[
    Key::required("name", Shape::Text(Text::Name), "Its name."),
    Key::required(
        "os",
        Shape::Word(&[word("windows", "A Windows node."), word("linux", "A Linux node.")]),
        "Its operating system, as label kubernetes.io/os.",
    ),
    Key::new("build", Shape::Text(Text::Build), "Of a Windows node, as 10.0.20348."),
    Key::new("labels", Shape::Texts(Text::LabelKey, Text::LabelValue), "Labels besides those."),
    Key::new("taints", Shape::List(&Shape::Text(Text::Taint)), "Its taints, as key=value:Effect."),
]);

static CASE: Object = Object::of(&[
    Key::required("name", Shape::Text(Text::Any), "One sentence that says what must hold; each once in a file."),
    Key::new(
        "namespace",
        Shape::Short(&Shape::Text(Text::Name), &NAMESPACE),
        "Where the object is created, unless it says so itself; default `default`.",
    ),
    Key::new("object", Shape::Map, "The manifest, in place."),
    Key::new("file", Shape::Text(Text::Any), "The manifest as a file, relative to this one."),
    Key::new("select", Shape::Text(Text::Any), "Which object of `file`, as Kind/name, where it holds several."),
    Key::required("expect", Shape::Object(&EXPECT), "What must come of it; what is not named is not compared."),
]);

static NAMESPACE: Object = Object::of(&[
    Key::required("name", Shape::Text(Text::Name), "Its name."),
    Key::new("labels", Shape::Texts(Text::LabelKey, Text::LabelValue), "Its labels, instead of those in `snapshot`."),
    Key::new(
        "annotations",
        Shape::Texts(Text::LabelKey, Text::Any),
        "Its annotations, instead of those in `snapshot`.",
    ),
]);

static EXPECT: Object = Object::of(&[
    Key::new(
        "os",
        Shape::Word(&[
            word("windows", "Windows."),
            word("linux", "Linux."),
            word("undecided", "Nobody says, or not clearly enough."),
            word("conflict", "Two placements exclude each other."),
            word("none", "Mullion has nothing to do with it: it is opted out, or the mode is Disabled."),
        ]),
        "The verdict, as `mullion explain` has it.",
    ),
    Key::new(
        "refused",
        Shape::Short(&Shape::List(&Shape::Text(Text::Any)), &REFUSED),
        "That it is refused, and each text is in what is said; `[]`: it is not refused. Without this key it must not be \
         refused either.",
    ),
    Key::new("findings", Shape::List(&Shape::Object(&FINDING)), "Exactly these findings, in any order; `[]`: none."),
    Key::new("findings+", Shape::List(&Shape::Object(&FINDING)), "These findings among others."),
    Key::new("findings-", Shape::List(&Shape::Object(&FINDING)), "None of these findings."),
    Key::new(
        "warned",
        Shape::List(&Shape::Text(Text::Any)),
        "Each text is in some warning that whoever creates it reads; `[]`: no warning at all.",
    ),
    Key::new("unwarned", Shape::List(&Shape::Text(Text::Any)), "No warning has any of these texts."),
    Key::new(
        "stored",
        Shape::Map,
        "What the object has at least as it is stored. `null`: absent; a list entry by entry; `key+`: the list has these \
         among others; `key-`: it has none of these.",
    ),
    Key::new(
        "changes",
        Shape::List(&Shape::Text(Text::Any)),
        "Exactly these fields are changed, as spec.nodeSelector or metadata.labels[a.b/c], whatever is below counting as \
         that; `[]`: none.",
    ),
    Key::new("pod", Shape::Map, "Of an object with a pod template: what its pods have at least, as `stored`."),
    Key::new(
        "nodes",
        Shape::List(&Shape::Text(Text::Name)),
        "Exactly these nodes of the snapshot could run it, or its pods, once Mullion has placed them.",
    ),
    Key::new("settings", Shape::Map, "What the policies come to, by dotted key: {place.build.mode: Exact}."),
]);

static REFUSED: Object = Object::of(&[
    Key::new("says", Shape::List(&Shape::Text(Text::Any)), "Each text is in the refusal."),
    Key::new(
        "causes",
        Shape::List(&Shape::Text(Text::Any)),
        "Each is among the causes, as rule code and field: MUL201 spec.containers[0].securityContext.runAsUser.",
    ),
]);

static FINDING: Object = Object::of(&[
    Key::required("rule", Shape::Text(Text::Rule), "Name or code of the rule, or a code prefix."),
    Key::new(
        "action",
        Shape::Word(&[
            word("Deny", "Refused."),
            word("Repair", "Changed."),
            word("Warn", "Said, on the object or on its owner."),
        ]),
        "What it came to, as `mullion check` has it.",
    ),
    Key::new("path", Shape::Text(Text::Any), "Where, as spec.containers[0].securityContext.runAsUser."),
]);
