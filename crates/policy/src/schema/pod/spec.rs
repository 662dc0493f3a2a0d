//! The tables of `kind: PodPolicy`, except `spec.detect` and `spec.place`.

use mullion_engine::model::settings::RuleAction;
use serde_json::json;

use crate::schema::field::{field, list};
use crate::schema::pod::detect::DETECT;
use crate::schema::pod::place::PLACE;
use crate::schema::types::{KeyConstraint, SchemaKey, SchemaObject, TextFormat, ValueShape, word};
use crate::schema::words::{METADATA, NAMESPACES, SELECTOR, VERSION, kind};

pub(crate) static POD_POLICY: SchemaObject = SchemaObject::of(&[
    VERSION,
    kind(&[word(
        "PodPolicy",
        "Settings for pods and for workloads with a pod template. There may be many: all that match a pod apply together, \
         key by key.",
    )]),
    METADATA,
    SchemaKey::required(
        "spec",
        ValueShape::Object(&POD_SPEC),
        "Settings for the pods that match. A policy needs only the keys that it changes: a key that is absent comes from \
         the matching policies of lower priority, and finally from the built-in policies.",
    )
    .example("{priority: 10, rules: {denials: Warn}}"),
]);

/// `spec` of a PodPolicy.
pub(crate) static POD_SPEC: SchemaObject = SchemaObject::with(&[
    SchemaKey::new(
        "priority",
        ValueShape::Integer,
        "If several policies match a pod and set the same key, the one with the highest priority decides. Two policies of \
         equal priority must not set the same key for the same pods: the error contains both lines. They may if \
         `match.namespaces.include` of both lists different namespaces without `*`. The built-in PodPolicy `default` has \
         the lowest priority. The built-in PodPolicy `kube-system` has priority 1000; at equal priority the policy of a \
         file decides.",
    )
    .with_default(|| json!(0))
    .example("10"),
    SchemaKey::new(
        "mode",
        ValueShape::Word(&[
            word("Enforce", "Mullion changes pods, warns and denies, according to the other keys."),
            word(
                "Audit",
                "Mullion changes and denies nothing. It reports what it would do: warnings such as `would deny: …`, audit \
                 annotations, metrics. Start with this mode in an existing cluster.",
            ),
            word("Disabled", "Mullion does nothing, as if it were not installed: it does not change, deny or report."),
        ]),
        "Whether Mullion acts on the pods that match. `Disabled` is the quickest way out in an emergency; to admit \
         everything and still place pods, set `rules.denials: Warn` instead.",
    )
    .settings(field!(mode))
    .example("Audit"),
    SchemaKey::new(
        "match",
        ValueShape::Object(&MATCH),
        "The pods to which the policy applies. All members must match; an empty or absent `match` matches everything. A \
         policy does not inherit any part of it from other policies.",
    )
    .example("{namespaces: {include: [team-a-*]}, podSelector: {matchLabels: {tier: build}}}"),
    SchemaKey::new(
        "until",
        ValueShape::Text(TextFormat::Date),
        "The end of the policy, for an exemption: a date, at the end of which (24:00 UTC) the policy no longer has an effect, \
         or a time as in RFC 3339. Only a policy that softens rules or lets authors opt out may have an end: one that, \
         besides `priority`, `match` and `message`, sets nothing but `rules.denials: Warn`, `rules.templates: Warn`, \
         `rules.actions` with `Warn` or `Allow`, and `optOut` with `ignore: Namespaces` or `Pods`. The end of any other key would move or deny pods at midnight. \
         `mullion policy check` mentions the end from 30 days before it.",
    )
    .example("2027-03-31"),
    SchemaKey::new(
        "message",
        ValueShape::Text(TextFormat::Line),
        "A line that Mullion adds at the end of every denial, for example whom to ask. At most 256 bytes. It can be of \
         another policy than the one that sets the action.",
    )
    .settings(field!(message))
    .exempts(&[])
    .example("\"Questions: #platform-windows\""),
    SchemaKey::new("optOut", ValueShape::Object(&OPT_OUT), "How authors of manifests may opt out of Mullion."),
    SchemaKey::new(
        "detect",
        ValueShape::Object(&DETECT),
        "How Mullion detects the operating system of a pod that does not specify it by `spec.os`, nodeSelector, node \
         affinity, RuntimeClass, `windowsOptions` or the annotation `mullion.dev/os`.",
    ),
    SchemaKey::new(
        "place",
        ValueShape::Object(&PLACE),
        "What Mullion adds to pods so that they run on suitable nodes. You can turn off each part separately.",
    ),
    SchemaKey::new(
        "rules",
        ValueShape::Object(&RULES),
        "The actions of the rules. `mullion rules` lists the rules, `mullion rules run-as-user` explains one.",
    ),
], KeyConstraint::Exemption);

static MATCH: SchemaObject = SchemaObject::of(&[
    SchemaKey::new(
        "namespaces",
        ValueShape::Object(&NAMESPACES),
        "Namespaces by name: those that are included and not excluded.",
    )
    .example("{include: [team-a-*], exclude: [team-a-sandbox]}"),
    SchemaKey::new(
        "namespaceSelector",
        ValueShape::Object(&SELECTOR),
        "Namespaces by their labels. If a namespace is unknown (`mullion check` without `--snapshot`, or a namespace that \
         could not be read), a policy with a `namespaceSelector` does not match.",
    )
    .example("{matchLabels: {team: web}}"),
    SchemaKey::new(
        "podSelector",
        ValueShape::Object(&SELECTOR),
        "Pods by their labels; for a workload such as a Deployment, the labels of its pod template. The author of a pod \
         chooses these labels, so do not rely on them for security.",
    )
    .example("{matchExpressions: [{key: windows-legacy, operator: Exists}]}"),
]);

static OPT_OUT: SchemaObject = SchemaObject::of(&[
    SchemaKey::new(
        "ignore",
        ValueShape::Word(&[
            word("Never", "Nowhere."),
            word("Namespaces", "On namespaces: Mullion ignores their pods. Everyone who may label namespaces can set it."),
            word("Pods", "On namespaces, and on single pods and pod templates. Everyone who may create or change pods can set it."),
        ]),
        "Where Mullion honors the label or annotation `mullion.dev/ignore: \"true\"`. Mullion neither changes nor checks \
         what it ignores.",
    )
    .settings(field!(ignore))
    .exempts(&["Namespaces", "Pods"]),
    SchemaKey::new(
        "allow",
        ValueShape::List(&ValueShape::Text(TextFormat::Rule)),
        "Rules from which the annotation `mullion.dev/allow: run-as-user, nfs-volume` on a pod or pod template may exempt, \
         by name, code or code prefix. Mullion does not report an exempt finding and changes nothing for it. The \
         annotation has no effect on rules that are not listed here.",
    )
    .settings(list!(allow, String, distinct))
    .exempts(&[])
    .example("[run-as-user, MUL3]"),
]);

static RULES: SchemaObject = SchemaObject::of(&[
    SchemaKey::new(
        "version",
        ValueShape::Text(TextFormat::Version),
        "The version of Mullion for which these policies were written, in quotes. Rules that later versions add or tighten \
         only warn, so that an upgrade denies nothing new. Absent: the version of the built-in policies.",
    )
    .settings(field!(rules_version))
    .example("\"0.1\""),
    SchemaKey::new(
        "denials",
        ValueShape::Word(&[
            word("Deny", "Findings of rules with action `Deny` are denied."),
            word("Warn", "Every `Deny` becomes a `Warn`: Mullion denies nothing, and still places and repairs pods."),
        ]),
        "Whether Mullion denies anything. Set `Warn` first if Mullion denies what must run now.",
    )
    .settings(field!(denials))
    .exempts(&["Warn"])
    .example("Warn"),
    SchemaKey::new(
        "templates",
        ValueShape::Word(&[
            word(
                "Deny",
                "Mullion denies the Deployment, StatefulSet, Job and so on when it is applied, so that its author reads the \
                 reason. An update is denied only for new findings; an update of a Job is never denied.",
            ),
            word(
                "Warn",
                "It is stored with a warning. Mullion still reviews its pods when they are created, and may deny them without \
                 anyone noticing.",
            ),
        ]),
        "The outcome for objects with a pod template whose pods would be denied.",
    )
    .settings(field!(templates))
    .exempts(&["Warn"]),
    SchemaKey::new(
        "translate",
        ValueShape::List(&ValueShape::Text(TextFormat::TranslatedRule)),
        "Rules, by name, code or code prefix, that replace a Linux field with its equivalent on Windows: `run-as-user` turns \
         `runAsUser: 0` into `windowsOptions.runAsUserName: ContainerAdministrator`, and another user together with \
         `runAsNonRoot` into `ContainerUser`. Off by default, because it changes the user of a process. The page of a rule \
         shows whether it has a translation.",
    )
    .settings(list!(translate, String, distinct))
    .example("[run-as-user]"),
    SchemaKey::new(
        "actions",
        ValueShape::List(&ValueShape::Object(&RULE_ACTION)),
        "Actions of rules that replace the default action, which `mullion rules` lists. Of the \
         policies that have an entry for a rule, the one with the highest priority decides. Within one policy the longest \
         match decides: a name before a code, a code before a code prefix. `mullion policy check` reports entries that never \
         decide.",
    )
    .settings(list!(actions, RuleAction, first_of_each_rule, |settings| {
        settings.actions.iter().map(|RuleAction { rule, action, .. }| json!([rule, action])).collect()
    }))
    .exempts(&[])
    .example("[{rule: run-as-user, action: Warn}, {rule: MUL3, action: Deny}]"),
]);

static RULE_ACTION: SchemaObject = SchemaObject::with(
    &[
        SchemaKey::required(
            "rule",
            ValueShape::Text(TextFormat::Rule),
            "The rule: its name (`run-as-user`), its code (`MUL201`), or a code prefix (`MUL2`: all rules of that family).",
        )
        .example("run-as-user"),
        SchemaKey::required(
            "action",
            ValueShape::Word(&[
                word(
                    "Deny",
                    "Mullion denies pods that a user creates, and templates according to `templates`, with a message on how to \
                     fix them. It denies pods of a controller only if Kubernetes itself would reject them, and pods of a \
                     DaemonSet never; the others get the label `mullion.dev/findings`.",
                ),
                word(
                    "Repair",
                    "Mullion removes the field from the pod, or changes it into one that works; in a template only if the \
                     API server would reject it. Only for rules that have a repair; a code prefix may also cover rules \
                     without one, which keep their default action.",
                ),
                word("Warn", "A warning to the user who applies it; on pods of controllers the label `mullion.dev/findings`."),
                word("Allow", "Nothing: no report and no change."),
            ]),
            "The action for the findings of the rule.",
        )
        .exempts(&["Warn", "Allow"]),
    ],
    KeyConstraint::RuleAction,
);
