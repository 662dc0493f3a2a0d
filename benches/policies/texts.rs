//! Policy files of the size that large clusters could have.

use std::fmt::Write as _;

use mullion_policy::{MAX_FILE, PolicySet};
use serde_json::{Value, json};

/// The number of policies in the budget.
pub const POLICIES: usize = 500;
/// The number of patterns in the budget.
pub const PATTERNS: usize = 10_000;

/// A file: name and text.
pub type Text = (String, String);

/// How the patterns of a file are written.
#[derive(Clone, Copy)]
pub enum Style {
    /// Each key on a line of its own.
    Block,
    /// Each pattern on a line of its own.
    Flow,
    /// All of it in one line, as programs write it.
    Json,
}

/// The `n`th pattern, in a common form, with names of many lengths. No two are the same.
pub fn pattern(n: usize) -> String {
    let team = team(n);
    match n % 6 {
        0 => format!("registry.example.com/{team}/**"),
        1 => format!("registry.example.com/{team}/app-{n}"),
        2 => format!("registry.example.com/shared/app:{n}"),
        3 => format!("**/{team}-tool"),
        4 => format!("registry.example.com/{team}/**/web"),
        _ => format!("registry.example.com/{team}/*-nanoserver"),
    }
}

/// An image that only the `n`th pattern matches.
pub fn image(n: usize) -> String {
    let team = team(n);
    match n % 6 {
        0 => format!("registry.example.com/{team}/a/b:1.2"),
        1 => format!("registry.example.com/{team}/app-{n}:1.2"),
        2 => format!("registry.example.com/shared/app:{n}"),
        3 => format!("registry.example.com/other/{team}-tool:1.2"),
        4 => format!("registry.example.com/{team}/a/web:1.2"),
        _ => format!("registry.example.com/{team}/a-nanoserver:1.2"),
    }
}

/// Names of 6 to 25 letters and digits.
fn team(n: usize) -> String {
    format!("t{n:05}{}", &"abcdefghijklmnopqrstuvwxyz"[..n * 7 % 20])
}

/// One policy, highest of all, with `count` patterns.
pub fn patterns(count: usize, style: Style) -> Text {
    let head = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata:\n  name: patterns\nspec:\n  priority: 9000\n  detect:\n    images:\n";
    let all = (0..count).map(pattern);
    match style {
        Style::Block => (
            "patterns.yaml".to_owned(),
            all.fold(head.to_owned(), |mut text, pattern| {
                writeln!(
                    text,
                    "      - pattern: '{pattern}'\n        os: windows\n        builds:\n          - 10.0.20348"
                )
                .unwrap();
                text
            }),
        ),
        Style::Flow => (
            "patterns.yaml".to_owned(),
            all.fold(head.to_owned(), |mut text, pattern| {
                writeln!(text, "      - {{pattern: '{pattern}', os: windows, builds: [10.0.20348]}}").unwrap();
                text
            }),
        ),
        // JSON values are not used here, because their memory would be measured with that of the set.
        Style::Json => {
            let images: Vec<String> = all
                .map(|pattern| format!(r#"{{"pattern":"{pattern}","os":"windows","builds":["10.0.20348"]}}"#))
                .collect();
            let spec = format!(r#"{{"priority":9000,"detect":{{"images":[{}]}}}}"#, images.join(","));
            let head =
                r#"{"apiVersion":"mullion.dev/v1alpha1","kind":"PodPolicy","metadata":{"name":"patterns"},"spec":"#;
            ("patterns.json".to_owned(), format!("{head}{spec}}}"))
        }
    }
}

/// The maximum number of patterns in a file.
pub fn most_patterns() -> usize {
    let each = patterns(PATTERNS, Style::Block).1.len() / PATTERNS + 1;
    MAX_FILE / each
}

/// `policies` files of one policy each, with `patterns` image patterns between them, with `match` from `matching` (of the
/// position of a policy).
pub fn spread(policies: usize, patterns: usize, matching: impl Fn(usize) -> Value) -> Vec<Text> {
    let file = |n: usize| {
        let images: Vec<Value> = (n * patterns / policies..(n + 1) * patterns / policies)
            .map(|at| json!({"pattern": pattern(at), "os": "windows"}))
            .collect();
        let actions =
            ["run-as-user", "host-network", "MUL2", "MUL501"].map(|rule| json!({"rule": rule, "action": "Warn"}));
        let spec = json!({
            "priority": policies - n,
            "match": matching(n),
            "optOut": {"allow": ["MUL3"]},
            "detect": {"images": images},
            "place": {"tolerations": {"add": [{"key": format!("team-{}", n % 5), "operator": "Exists"}]}},
            "rules": {"templates": "Warn"},
            "rules": {"actions": actions},
        });
        (format!("team-{n}.yaml"), format!("# Of team {n}.\n{}", yaml(&format!("team-{n}"), &spec)))
    };
    (0..policies).map(file).collect()
}

/// A policy of one team's namespaces.
pub fn of_a_team(n: usize) -> Value {
    json!({"namespaces": {"include": [format!("team-{n}"), format!("team-{n}-*")], "exclude": [format!("team-{n}-x*")]}})
}

/// A policy for every pod, with four requirements.
pub fn of_everybody(n: usize) -> Value {
    json!({
        "namespaceSelector": {"matchExpressions": [
            {"key": "team", "operator": "In", "values": ["t0", "t1", "t2", "t3"]},
            {"key": format!("left-{n}"), "operator": "DoesNotExist"},
        ]},
        "podSelector": {"matchExpressions": [
            {"key": "app", "operator": "Exists"},
            {"key": "tier", "operator": "NotIn", "values": [format!("tier-{n}"), "db"]},
        ]},
    })
}

/// A policy for pods with a label, which every author can set.
pub fn of_a_label(n: usize) -> Value {
    json!({"podSelector": {"matchLabels": {format!("l{n}"): "on"}}})
}

/// The set that these files contain.
pub fn set(texts: &[Text]) -> PolicySet {
    PolicySet::from_files(texts).unwrap_or_else(|problems| panic!("{}", problems[0]))
}

fn document(name: &str, spec: &Value) -> String {
    json!({"apiVersion": "mullion.dev/v1alpha1", "kind": "PodPolicy", "metadata": {"name": name}, "spec": spec})
        .to_string()
}

/// Flow style within a block: `key: <JSON>` for each key of `spec`.
fn yaml(name: &str, spec: &Value) -> String {
    let mut text = format!("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: {name}}}\nspec:\n");
    for (key, value) in spec.as_object().unwrap() {
        match value.get("images") {
            Some(Value::Array(images)) if images.is_empty() => {}
            Some(Value::Array(images)) => {
                writeln!(text, "  {key}:\n    images:").unwrap();
                for image in images {
                    writeln!(text, "      - {image}").unwrap();
                }
            }
            _ => writeln!(text, "  {key}: {value}").unwrap(),
        }
    }
    text
}

/// Policies of one priority, which may not set the same key for the same namespaces. Either they set no key that one of
/// them decides, or all set one, each for twenty namespaces of its own.
pub fn equal(policies: usize, literal: bool) -> Vec<Text> {
    let file = |n: usize| {
        let spec = if literal {
            let include: Vec<String> = (0..20).map(|at| format!("team-{n}-{at}")).collect();
            json!({"match": {"namespaces": {"include": include}}, "mode": "Enforce", "rules": {"templates": "Warn"}})
        } else {
            json!({"match": of_a_label(n), "rules": {"actions": [{"rule": "run-as-user", "action": "Warn"}]}})
        };
        (format!("p{n}.json"), document(&format!("p{n}"), &spec))
    };
    (0..policies).map(file).collect()
}
