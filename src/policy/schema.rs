//! What a policy file may hold, and a file of test cases for policies: tables of keys, from which files are checked and the
//! JSON Schemas are made.

mod test;

pub use test::{POLICY_TEST, TEST_KINDS};

/// A map with known keys.
#[derive(Debug)]
pub struct Object {
    /// What it may hold, in the order in which people write it.
    pub keys: &'static [Key],
    /// What must hold between its keys.
    pub rule: Option<Between>,
}

/// One key of an [`Object`].
#[derive(Debug)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// What it is for: one sentence.
    pub doc: &'static str,
    /// What it takes.
    pub shape: Shape,
    /// Whether it must be there.
    pub required: bool,
}

/// What a value looks like.
#[derive(Debug)]
pub enum Shape {
    /// A map with known keys.
    Object(&'static Object),
    /// A map from any text to text.
    Texts(Text, Text),
    /// A list.
    List(&'static Shape),
    /// A whole number.
    Integer,
    /// One of a few words.
    Word(&'static [Word]),
    /// Text of some form.
    Text(Text),
    /// A map with any keys: a Kubernetes object, or a part of one.
    Map,
    /// A map with known keys, or in short what its first key takes.
    Short(&'static Shape, &'static Object),
}

/// One word of a [`Shape::Word`].
#[derive(Debug)]
pub struct Word {
    /// As it is written.
    pub word: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// Forms of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// Anything.
    Any,
    /// A name of a Kubernetes object: RFC 1123 subdomain.
    Name,
    /// The name of a Kubernetes object that is also a label's value: without dots, at most 63 characters.
    ShortName,
    /// A name of a namespace, with stars.
    Namespaces,
    /// `10.0.20348`.
    Build,
    /// Key of a label, a taint or a toleration.
    LabelKey,
    /// Value of one.
    LabelValue,
    /// An image reference, with stars.
    Image,
    /// `key=value`, with stars.
    TaintPattern,
    /// `key=value:Effect`.
    Taint,
    /// Name, code or code prefix of a rule.
    Rule,
    /// The same, of a rule that has a translation.
    TranslatedRule,
    /// A version of Mullion: `0.1`.
    Version,
    /// A registry's host and port, as image references begin with them.
    Registry,
    /// An absolute path.
    Path,
    /// A span of time: `5m`.
    Span,
}

/// What must hold between the keys of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// `values` as `operator` asks for them.
    LabelRequirement,
    /// What the API server asks of tolerations (`ValidateTolerations`).
    Toleration,
    /// `name` where `mode` is `Named`, and only there.
    RuntimeClass,
    /// `Repair` only of a rule that has a repair.
    RuleAction,
    /// `runsFrom` no newer than `build`.
    Release,
}

/// The kinds of document.
pub const KINDS: [(&str, &Object); 3] =
    [("PodPolicy", &POD_POLICY), ("NodePolicy", &NODE_POLICY), ("RegistryPolicy", &REGISTRY_POLICY)];

/// What `kind` is for.
const KIND_DOC: &str = "PodPolicy, NodePolicy or RegistryPolicy.";

/// `apiVersion` of all.
pub const API_VERSION: &str = "mullion.dev/v1alpha1";

impl Key {
    const fn new(name: &'static str, shape: Shape, doc: &'static str) -> Self {
        Self { name, doc, shape, required: false }
    }

    const fn required(name: &'static str, shape: Shape, doc: &'static str) -> Self {
        Self { name, doc, shape, required: true }
    }
}

impl Object {
    const fn of(keys: &'static [Key]) -> Self {
        Self { keys, rule: None }
    }

    const fn with(keys: &'static [Key], rule: Between) -> Self {
        Self { keys, rule: Some(rule) }
    }

    /// The key of that name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

const fn word(word: &'static str, doc: &'static str) -> Word {
    Word { word, doc }
}

const VERSION: Key = Key::required(
    "apiVersion",
    Shape::Word(&[word(API_VERSION, "The only version so far.")]),
    "Version of the policy language.",
);
const METADATA: Key = Key::required(
    "metadata",
    Shape::Object(&Object::of(&[
        Key::required("name", Shape::Text(Text::Name), "Name of the policy, once in all files for each kind."),
        Key::new(
            "labels",
            Shape::Texts(Text::LabelKey, Text::LabelValue),
            "For people and tools; Mullion does not read them.",
        ),
        Key::new(
            "annotations",
            Shape::Texts(Text::Any, Text::Any),
            "For people and tools; Mullion does not read them.",
        ),
    ])),
    "Which policy this is.",
);

const MODE: Shape = Shape::Word(&[
    word("Enforce", "Changes and refuses."),
    word("Audit", "Says what it would do: warnings, audit annotations, metrics; changes and refuses nothing."),
    word("Disabled", "As if Mullion were not there."),
]);

const EFFECT: Shape = Shape::Word(&[
    word("NoSchedule", "Pods that do not tolerate the taint are not scheduled."),
    word("PreferNoSchedule", "Pods that do not tolerate the taint are scheduled elsewhere if possible."),
    word("NoExecute", "Pods that do not tolerate the taint are also evicted."),
]);

static SELECTOR: Object = Object::of(&[
    Key::new("matchLabels", Shape::Texts(Text::LabelKey, Text::LabelValue), "Every pair must be present."),
    Key::new("matchExpressions", Shape::List(&Shape::Object(&REQUIREMENT)), "Every requirement must hold."),
]);

static REQUIREMENT: Object = Object::with(
    &[
        Key::required("key", Shape::Text(Text::LabelKey), "Label key."),
        Key::required(
            "operator",
            Shape::Word(&[
                word("In", "The label is there with one of the values."),
                word("NotIn", "The label is absent or has none of the values."),
                word("Exists", "The label is there."),
                word("DoesNotExist", "The label is absent."),
            ]),
            "How values are compared.",
        ),
        Key::new("values", Shape::List(&Shape::Text(Text::LabelValue)), "For In and NotIn only."),
    ],
    Between::LabelRequirement,
);

static TOLERATION: Object = Object::with(
    &[
        Key::new("key", Shape::Text(Text::LabelKey), "Taint key; absent only with operator Exists: every taint."),
        Key::new(
            "operator",
            Shape::Word(&[word("Equal", "The values are the same; the default."), word("Exists", "Any value.")]),
            "How values are compared.",
        ),
        Key::new("value", Shape::Text(Text::LabelValue), "Taint value, with operator Equal."),
        Key::new("effect", EFFECT, "Taint effect; absent: every effect."),
        Key::new("tolerationSeconds", Shape::Integer, "How long a NoExecute taint is tolerated; absent: for ever."),
    ],
    Between::Toleration,
);

static IMAGE_PATTERN: Object = Object::of(&[
    Key::required(
        "pattern",
        Shape::Text(Text::Image),
        "Image reference: * stands for anything within a path segment, ** across segments; without a tag any tag matches.",
    ),
    Key::required(
        "os",
        Shape::Word(&[
            word("windows", "Windows images."),
            word("linux", "Linux images."),
            word("multi", "Images for both: they decide nothing."),
        ]),
        "What the images are.",
    ),
    Key::new(
        "builds",
        Shape::List(&Shape::Text(Text::Build)),
        "Windows builds of the images, as 10.0.20348; absent: unknown.",
    ),
]);

static RULE_ACTION: Object = Object::with(
    &[
        Key::required("rule", Shape::Text(Text::Rule), "Name, code or code prefix; the longest match wins."),
        Key::required(
            "action",
            Shape::Word(&[
                word("Deny", "Refused."),
                word("Repair", "Changed, where the rule has a repair."),
                word("Warn", "Said."),
                word("Allow", "Nothing."),
            ]),
            "What the rule's findings do.",
        ),
    ],
    Between::RuleAction,
);

static DETECT: Object = Object::of(&[
    Key::new(
        "os",
        Shape::Word(&[
            word("windows", "Windows."),
            word("linux", "Linux."),
            word("any", "Either: no placement by operating system."),
        ]),
        "Operating system of subjects that do not say one themselves.",
    ),
    Key::new(
        "default",
        Shape::Word(&[
            word("LinuxWhenMixed", "Linux, if the cluster has or had Windows nodes."),
            word("Linux", "Linux."),
            word("Nothing", "No placement."),
        ]),
        "What subjects get of which nothing says an operating system.",
    ),
    Key::new(
        "images",
        Shape::List(&Shape::Object(&IMAGE_PATTERN)),
        "What images are, by name; the first match wins, and those of higher policies come first.",
    ),
    Key::new(
        "registry",
        Shape::Object(&Object::of(&[Key::new(
            "lookup",
            Shape::Word(&[
                word("Never", "Registries are not asked."),
                word("Background", "After the answer, for the next pod."),
                word("Inline", "Before the answer, within the review's deadline."),
            ]),
            "When registries are asked.",
        )])),
        "Whether registries are asked about images.",
    ),
]);

static PLACE: Object = Object::of(&[
    Key::new(
        "nodeSelector",
        Shape::Object(&Object::of(&[Key::new(
            "mode",
            Shape::Word(&[word("Add", "Added where none stands."), word("Never", "Not added.")]),
            "Whether kubernetes.io/os is added.",
        )])),
        "The operating system in nodeSelector.",
    ),
    Key::new(
        "tolerations",
        Shape::Object(&Object::of(&[
            Key::new(
                "mode",
                Shape::Word(&[
                    word("Learn", "For the operating-system taints of the cluster's nodes, and those listed."),
                    word("Listed", "Those listed under add only."),
                    word("Never", "None."),
                ]),
                "Which tolerations are added.",
            ),
            Key::new("add", Shape::List(&Shape::Object(&TOLERATION)), "Added to every Windows pod."),
        ])),
        "Tolerations.",
    ),
    Key::new(
        "build",
        Shape::Object(&Object::of(&[Key::new(
            "mode",
            Shape::Word(&[
                word("Compatible", "Node affinity that leaves out builds that cannot run the image."),
                word("Exact", "nodeSelector node.kubernetes.io/windows-build."),
                word("Never", "Not at all."),
            ]),
            "How a known image build constrains nodes.",
        )])),
        "Windows builds.",
    ),
    Key::new(
        "runtimeClass",
        Shape::Object(&Object::with(
            &[
                Key::new(
                    "mode",
                    Shape::Word(&[
                        word("PerRelease", "mullion-windows-<release>, where exactly one release can run the pod."),
                        word("Named", "The one under name."),
                        word("Never", "None."),
                    ]),
                    "Which RuntimeClass Windows pods get.",
                ),
                Key::new("name", Shape::Text(Text::Name), "With mode Named."),
            ],
            Between::RuntimeClass,
        )),
        "RuntimeClass of Windows pods.",
    ),
    Key::new(
        "specOS",
        Shape::Object(&Object::of(&[Key::new(
            "mode",
            Shape::Word(&[
                word("WhenClean", "Set when the repairs leave no field that it forbids."),
                word("Never", "Not set."),
            ]),
            "Whether Windows pods get spec.os.name.",
        )])),
        "The field spec.os of Windows pods.",
    ),
]);

static POD_POLICY: Object = Object::of(&[
    VERSION,
    Key::required("kind", Shape::Word(&[word("PodPolicy", "What is done to pods.")]), KIND_DOC),
    METADATA,
    Key::required(
        "spec",
        Shape::Object(&POD_SPEC),
        "What holds for the pods that match; an absent key inherits from policies of lower priority.",
    ),
]);

/// `spec` of a PodPolicy.
pub(super) static POD_SPEC: Object = Object::of(&[
    Key::new(
        "priority",
        Shape::Integer,
        "Of the policies that match and set a key, the one with the highest priority decides; default 0.",
    ),
    Key::new("mode", MODE, "Whether this policy acts."),
    Key::new(
        "match",
        Shape::Object(&Object::of(&[
            Key::new(
                "namespaces",
                Shape::Object(&Object::of(&[
                    Key::new(
                        "include",
                        Shape::List(&Shape::Text(Text::Namespaces)),
                        "Names, with * for anything; absent or empty: every namespace.",
                    ),
                    Key::new("exclude", Shape::List(&Shape::Text(Text::Namespaces)), "Wins over include."),
                ])),
                "Namespaces by name.",
            ),
            Key::new("namespaceSelector", Shape::Object(&SELECTOR), "Namespaces by label."),
            Key::new("podSelector", Shape::Object(&SELECTOR), "Pods, or pod templates, by label; users can set these."),
        ])),
        "Which pods the policy is about: all members must hold, and an empty match matches everything.",
    ),
    Key::new(
        "optOut",
        Shape::Object(&Object::of(&[
            Key::new(
                "ignore",
                Shape::Word(&[
                    word("Never", "Nowhere."),
                    word("Namespaces", "On namespaces."),
                    word("Pods", "On namespaces and on pods."),
                ]),
                "Where mullion.dev/ignore is honoured.",
            ),
            Key::new(
                "allow",
                Shape::List(&Shape::Text(Text::Rule)),
                "Rules that mullion.dev/allow may wave off, by name, code or code prefix.",
            ),
        ])),
        "Who may opt out of Mullion.",
    ),
    Key::new("detect", Shape::Object(&DETECT), "How the operating system is found."),
    Key::new("place", Shape::Object(&PLACE), "What is placed on pods."),
    Key::new(
        "workloads",
        Shape::Word(&[word("Refuse", "Refused."), word("Warn", "Warned about.")]),
        "What happens to templates whose pods could not work.",
    ),
    Key::new(
        "rules",
        Shape::Object(&Object::of(&[
            Key::new(
                "version",
                Shape::Text(Text::Version),
                "Rules added or tightened after this version of Mullion only warn.",
            ),
            Key::new(
                "denials",
                Shape::Word(&[word("Refuse", "Deny refuses."), word("Warn", "Every Deny is a Warn.")]),
                "Whether Deny refuses.",
            ),
            Key::new(
                "translate",
                Shape::List(&Shape::Text(Text::TranslatedRule)),
                "Rules whose findings become what means the same on Windows, where there is such a thing.",
            ),
            Key::new(
                "actions",
                Shape::List(&Shape::Object(&RULE_ACTION)),
                "Actions other than the catalogue's; those of higher policies come first.",
            ),
        ])),
        "Which action each rule takes.",
    ),
]);

static NODE_POLICY: Object = Object::of(&[
    VERSION,
    Key::required("kind", Shape::Word(&[word("NodePolicy", "What is done to nodes; at most one.")]), KIND_DOC),
    METADATA,
    Key::required("spec", Shape::Object(&NODE_SPEC), "What holds for Windows nodes."),
]);

static NODE_SPEC: Object = Object::of(&[
    Key::new("mode", MODE, "Whether nodes are changed."),
    Key::new(
        "labels",
        Shape::List(&Shape::Word(&[
            word("release", "mullion.dev/windows-release."),
            word("revision", "mullion.dev/windows-revision."),
        ])),
        "Labels that Windows nodes get.",
    ),
    Key::new(
        "taint",
        Shape::Object(&Object::of(&[
            Key::new("key", Shape::Text(Text::LabelKey), "Default os."),
            Key::new("value", Shape::Text(Text::LabelValue), "Default windows."),
            Key::new("effect", EFFECT, "Default NoSchedule."),
            Key::new(
                "apply",
                Shape::Word(&[
                    word("Always", "At once."),
                    word("WhenTolerated", "Once everything that belongs on the node tolerates it."),
                    word("Never", "Not at all."),
                ]),
                "When the taint is set.",
            ),
        ])),
        "The taint that Windows nodes get.",
    ),
    Key::new(
        "windowsTaints",
        Shape::List(&Shape::Text(Text::TaintPattern)),
        "Taints that mark a Windows node: where one is, none is added, and Windows pods tolerate it.",
    ),
    Key::new("linuxTaints", Shape::List(&Shape::Text(Text::TaintPattern)), "Taints that mark a Linux node."),
    Key::new(
        "runtimeClasses",
        Shape::Object(&Object::of(&[
            Key::new(
                "mode",
                Shape::Word(&[word("Manage", "One for each release."), word("Never", "None.")]),
                "Whether RuntimeClasses mullion-windows-<release> are made.",
            ),
            Key::new("handler", Shape::Text(Text::ShortName), "The containerd handler that they name."),
        ])),
        "RuntimeClasses that Mullion makes.",
    ),
    Key::new(
        "expectedPools",
        Shape::List(&Shape::Object(&Object::of(&[
            Key::required("build", Shape::Text(Text::Build), "Build of the pool's nodes, as 10.0.26100."),
            Key::new(
                "taints",
                Shape::List(&Shape::Text(Text::Taint)),
                "Taints of the pool's nodes, as key=value:Effect.",
            ),
        ]))),
        "Pools that may be at zero nodes now.",
    ),
    Key::new(
        "releases",
        Shape::List(&Shape::Object(&Object::with(
            &[
                Key::required("build", Shape::Text(Text::Build), "Build of the release's hosts and images."),
                Key::required(
                    "name",
                    Shape::Text(Text::ShortName),
                    "Name of the release, as in mullion-windows-<name>.",
                ),
                Key::required("runsFrom", Shape::Text(Text::Build), "Oldest image build that its hosts run."),
            ],
            Between::Release,
        ))),
        "Windows releases newer than this Mullion.",
    ),
]);

static REGISTRY_POLICY: Object = Object::of(&[
    VERSION,
    Key::required(
        "kind",
        Shape::Word(&[word("RegistryPolicy", "How registries are asked about images; at most one.")]),
        KIND_DOC,
    ),
    METADATA,
    Key::required(
        "spec",
        Shape::Object(&REGISTRY_SPEC),
        "What holds for registries, where a PodPolicy's detect.registry.lookup has them asked.",
    ),
]);

static REGISTRY_SPEC: Object = Object::of(&[
    Key::new(
        "plainHTTP",
        Shape::List(&Shape::Text(Text::Registry)),
        "Registries without TLS, as image references begin with them; all others are asked over TLS only.",
    ),
    Key::new(
        "caFiles",
        Shape::List(&Shape::Text(Text::Path)),
        "PEM files with certificate authorities to trust beside the system's.",
    ),
    Key::new(
        "pullSecrets",
        Shape::Word(&[
            word("Never", "Registries are sent no credentials."),
            word("Pods", "Those of the pod's imagePullSecrets, which the webhook must be allowed to read."),
        ]),
        "Whose credentials registries are sent.",
    ),
    Key::new(
        "lifetimes",
        Shape::Object(&Object::of(&[
            Key::new("tag", Shape::Text(Text::Span), "Of what a tag means; default 5m."),
            Key::new("digest", Shape::Text(Text::Span), "Of what a digest means; default 24h."),
            Key::new("error", Shape::Text(Text::Span), "Of a failure; default 5s."),
        ])),
        "How long answers are kept.",
    ),
    Key::new(
        "timeout",
        Shape::Text(Text::Span),
        "How long one look-up may take; default 10s. Reviews never wait so long.",
    ),
]);
