//! `kind: PodPolicy`.

pub mod detect;
pub mod place;

use mullion_engine::model::settings::rule_actions::RuleAction;
use serde_json::json;

use crate::schema::field::{field, list};
use crate::schema::pod::detect::DETECT;
use crate::schema::pod::place::PLACE;
use crate::schema::types::{Between, Key, Object, Shape, Text, word};
use crate::schema::words::{METADATA, SELECTOR, VERSION, kind};

pub(crate) static POD_POLICY: Object = Object::of(&[
    VERSION,
    kind(&[word(
        "PodPolicy",
        "What is done to pods and to what makes pods. There may be many: all that match a pod are laid over each \
         other, key by key.",
    )]),
    METADATA,
    Key::required(
        "spec",
        Shape::Object(&POD_SPEC),
        "What holds for the pods that match. A policy needs no more than the keys it changes: what it leaves out comes \
         from matching policies of lower priority, and at last from the default.",
    )
    .example("{priority: 10, rules: {denials: Warn}}"),
]);

/// `spec` of a PodPolicy.
pub(crate) static POD_SPEC: Object = Object::of(&[
    Key::new(
        "priority",
        Shape::Integer,
        "Of the policies that match a pod and set the same key, the one with the highest priority decides it. Two of \
         equal priority that set the same key for the same pods are an error that names both lines, unless the \
         `match.namespaces.include` of both name different namespaces without `*`. In the shipped files the policy for \
         all namespaces has 0, the one for kube-system 1000.",
    )
    .with_default(|| json!(0))
    .example("10"),
    Key::new(
        "mode",
        Shape::Word(&[
            word("Enforce", "Changes pods, warns and refuses, as the other keys say."),
            word(
                "Audit",
                "Changes and refuses nothing, and says what it would do: warnings such as `would deny: …`, audit \
                 annotations, metrics. The way to take Mullion up in a cluster that runs already.",
            ),
            word("Disabled", "As if Mullion were not there: nothing is changed, refused or said."),
        ]),
        "Whether Mullion acts on the pods that match. The quickest way out in an emergency; to let everything through \
         and still have pods placed, set `rules.denials: Warn` instead.",
    )
    .settings(field!(mode))
    .example("Audit"),
    Key::new(
        "match",
        Shape::Object(&MATCH),
        "Which pods the policy is about. All members must hold, and an empty `match`, or none, matches everything. It is \
         the policy's own: nothing of it is inherited.",
    )
    .example("{namespaces: {include: [team-a-*]}, podSelector: {matchLabels: {tier: build}}}"),
    Key::new("optOut", Shape::Object(&OPT_OUT), "What people who write manifests may take out of Mullion's hands."),
    Key::new(
        "detect",
        Shape::Object(&DETECT),
        "How the operating system of a pod is found, where the pod does not say it itself by `spec.os`, nodeSelector, \
         node affinity, RuntimeClass, `windowsOptions` or the annotation `mullion.dev/os`.",
    ),
    Key::new(
        "place",
        Shape::Object(&PLACE),
        "What pods are given so that they land on nodes that can run them. Each part can be switched off by itself.",
    ),
    Key::new(
        "rules",
        Shape::Object(&RULES),
        "What the findings of each rule do. `mullion rules` lists the rules, `mullion rules run-as-user` explains one.",
    ),
]);

static MATCH: Object = Object::of(&[
    Key::new(
        "namespaces",
        Shape::Object(&Object::of(&[
            Key::new(
                "include",
                Shape::List(&Shape::Text(Text::Namespaces)),
                "Names of namespaces, in which `*` stands for any run of characters. Absent or empty: every namespace.",
            )
            .example("[shop, team-a-*]"),
            Key::new(
                "exclude",
                Shape::List(&Shape::Text(Text::Namespaces)),
                "Names of namespaces that are left out, in which `*` stands for any run of characters. It wins over \
                 `include`.",
            )
            .example("[dev-*]"),
        ])),
        "Namespaces by name: those that are included and not excluded.",
    )
    .example("{include: [team-a-*], exclude: [team-a-sandbox]}"),
    Key::new(
        "namespaceSelector",
        Shape::Object(&SELECTOR),
        "Namespaces by their labels. Where nothing is known of a namespace (`mullion check` without `--snapshot`, or a \
         namespace that could not be read), a policy with a `namespaceSelector` does not match.",
    )
    .example("{matchLabels: {team: web}}"),
    Key::new(
        "podSelector",
        Shape::Object(&SELECTOR),
        "Pods by their labels; of a Deployment and the like, the labels of its pod template. Whoever writes a pod chooses \
         them, so this is no fence.",
    )
    .example("{matchExpressions: [{key: windows-legacy, operator: Exists}]}"),
]);

static OPT_OUT: Object = Object::of(&[
    Key::new(
        "ignore",
        Shape::Word(&[
            word("Never", "Nowhere."),
            word("Namespaces", "On namespaces: their pods are left alone. Who may label namespaces decides."),
            word("Pods", "On namespaces, and on single pods and pod templates. Who may write pods decides."),
        ]),
        "Where the label or annotation `mullion.dev/ignore: \"true\"` is honoured. What is ignored is neither changed nor \
         judged.",
    )
    .settings(field!(ignore)),
    Key::new(
        "allow",
        Shape::List(&Shape::Text(Text::Rule)),
        "Rules that the annotation `mullion.dev/allow: run-as-user, nfs-volume` on a pod or pod template may wave off, by \
         name, code or beginning of codes. A finding that is waved off is not said and changes nothing. Rules that are \
         not listed here the annotation cannot wave off.",
    )
    .settings(list!(allow, String, distinct))
    .example("[run-as-user, MUL3]"),
]);

static RULES: Object = Object::of(&[
    Key::new(
        "version",
        Shape::Text(Text::Version),
        "The version of Mullion that these policies were made for, in quotes. Rules that later versions add or tighten \
         only warn, so that an upgrade refuses nothing new. Absent: all rules as the running version has them.",
    )
    .settings(field!(rules_version))
    .example("\"0.1\""),
    Key::new(
        "denials",
        Shape::Word(&[
            word("Deny", "What a rule denies is denied."),
            word("Warn", "Every `Deny` is a `Warn`: nothing is refused, and pods are still placed and repaired."),
        ]),
        "Whether anything is refused. `Warn` is the first thing to set where Mullion refuses what must run now.",
    )
    .settings(field!(denials))
    .example("Warn"),
    Key::new(
        "templates",
        Shape::Word(&[
            word(
                "Deny",
                "The Deployment, StatefulSet, Job and so on is denied when it is applied, where a person reads why. On \
                 an update, only for findings that the old one did not have; a change of a Job is never denied.",
            ),
            word(
                "Warn",
                "It is stored with a warning. Its pods are still reviewed when they are created, and may be denied where \
                 nobody looks.",
            ),
        ]),
        "What happens to objects with a pod template whose pods would be denied.",
    )
    .settings(field!(templates)),
    Key::new(
        "translate",
        Shape::List(&Shape::Text(Text::TranslatedRule)),
        "Rules, by name, code or beginning of codes, that write what means the same on Windows instead of what they \
         found: `run-as-user` turns `runAsUser: 0` into `windowsOptions.runAsUserName: ContainerAdministrator`, and \
         another user beside `runAsNonRoot` into `ContainerUser`. Off by default, because it changes who a process runs \
         as. A rule's page says whether it has a translation.",
    )
    .settings(list!(translate, String, distinct))
    .example("[run-as-user]"),
    Key::new(
        "actions",
        Shape::List(&Shape::Object(&RULE_ACTION)),
        "Actions of rules other than their own default, which `mullion rules` lists. The longest match decides, whatever the priority: a name before a \
         code, a code before its beginning. Of equally long ones the entry of the higher policy decides, then the first \
         of the list.",
    )
    .settings(list!(actions, RuleAction, first_of_each_rule, |settings| {
        settings.actions.iter().map(|RuleAction { rule, action, .. }| json!([rule, action])).collect()
    }))
    .example("[{rule: run-as-user, action: Warn}, {rule: MUL3, action: Deny}]"),
]);

static RULE_ACTION: Object = Object::with(
    &[
        Key::required(
            "rule",
            Shape::Text(Text::Rule),
            "Which rule: its name (`run-as-user`), its code (`MUL201`), or the beginning of codes (`MUL2`: all of that \
             family).",
        )
        .example("run-as-user"),
        Key::required(
            "action",
            Shape::Word(&[
                word(
                    "Deny",
                    "Refused, with what to write instead: pods that somebody creates, and templates as `templates` says. \
                     Pods that a controller makes only where Kubernetes itself would refuse them, and those of a \
                     DaemonSet never; the others get the label `mullion.dev/findings`.",
                ),
                word(
                    "Repair",
                    "Taken off the pod, or changed into what works; in a template only where the API server would refuse \
                     it. Only for rules that have a repair; a beginning of codes may also cover rules without one, \
                     which keep what they do by default.",
                ),
                word("Warn", "Said to whoever applies it; on pods of controllers by the label `mullion.dev/findings`."),
                word("Allow", "Nothing: neither said nor changed."),
            ]),
            "What the findings of the rule do.",
        ),
    ],
    Between::RuleAction,
);
