#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use proptest::prelude::*;
use serde_json::json;

use super::*;

const FILE: &str = "\
apiVersion: mullion.dev/v1alpha1
kind: PodPolicy
metadata: {name: low}
spec:
  optOut: {allow: [MUL1]}
  detect:
    images:
      - {pattern: low/**, os: linux}
  place: {tolerations: {add: [{key: low}]}}
  rules: {denials: Warn, translate: [run-as-user]}
---
apiVersion: mullion.dev/v1alpha1
kind: PodPolicy
metadata: {name: high}
spec:
  priority: 5
  match: {namespaces: {include: [dev-*, test], exclude: [dev-x]}}
  mode: Audit
  optOut:
    allow:
      - MUL2
      - MUL3
  detect:
    images:
      - {pattern: high/**, os: windows, builds: [10.0.20348]}
  place:
    tolerations:
      add:
        - key: high
          operator: Exists
  rules:
    actions: [{rule: MUL2, action: Warn}]
---
apiVersion: mullion.dev/v1alpha1
kind: NodePolicy
metadata: {name: nodes}
spec:
  taint: {apply: Never}
  expectedPools: [{build: 10.0.26100}]
---
apiVersion: mullion.dev/v1alpha1
kind: RegistryPolicy
metadata: {name: registries}
spec: {lifetimes: {tag: 90s}}
";

fn set() -> PolicySet {
    PolicySet::from_files(&[("a.yaml", FILE)]).unwrap()
}

/// The line of the file; `None` for a key of the built-in policies.
fn line(origin: Option<&Origin>) -> Option<u32> {
    origin.filter(|origin| &*origin.file == "a.yaml").map(|origin| origin.line)
}

#[test]
fn lists_are_those_of_the_schema() {
    assert!(POD_KEYS.iter().all(|key| matches!(key.row.shape, ValueShape::List(_)) == key.list.is_some()));
}

#[test]
fn each_value_and_each_entry_has_its_origin() {
    let set = set();
    let found = |key: &str| set.effective("dev-a", None, &()).into_iter().find(|it| it.key == key).unwrap();
    let scalar = |key| (found(key).value, line(found(key).origin.as_ref()));
    let entries = |key| -> Vec<_> {
        found(key).entries.unwrap().into_iter().map(|entry| (entry.value, entry.origin.line)).collect()
    };
    assert_eq!(scalar("mode"), (json!("Audit"), Some(18)));
    assert_eq!(scalar("rules.denials"), (json!("Warn"), Some(10)));
    assert_eq!(scalar("rules.templates"), (json!("Deny"), None));
    assert_eq!(scalar("detect.os"), (json!(null), None));
    assert_eq!(entries("optOut.allow"), [(json!("MUL2"), 21), (json!("MUL3"), 22), (json!("MUL1"), 5)]);
    let images = [
        (json!({"pattern": "high/**", "os": "windows", "builds": ["10.0.20348"]}), 25),
        (json!({"pattern": "low/**", "os": "linux"}), 8),
    ];
    assert_eq!(entries("detect.images"), images);
    let add = [(json!({"key": "high", "operator": "Exists"}), 29), (json!({"key": "low"}), 9)];
    assert_eq!(entries("place.tolerations.add"), add);
    assert_eq!(entries("rules.translate"), [(json!("run-as-user"), 10)]);
    assert_eq!(entries("rules.actions"), [(json!({"rule": "MUL2", "action": "Warn"}), 32)]);
    let scalar_keys = POD_KEYS.iter().filter(|key| key.list.is_none()).count();
    let found = scalar_settings(&set.settings("dev-a", None, &()));
    assert_eq!(found.len(), scalar_keys - 3, "without three that are not set");
}

#[test]
fn keys_of_node_and_registry_policies_have_their_origins() {
    let set = set();
    let found = |all: Vec<EffectiveSetting>, key: &str| {
        let setting = all.into_iter().find(|it| it.key == key).unwrap();
        (setting.value, line(setting.origin.as_ref()))
    };
    let node = |key| found(set.effective_nodes(), key);
    assert_eq!(node("taint.apply"), (json!("Never"), Some(38)));
    assert_eq!(node("taint.key"), (json!("os"), None));
    assert_eq!(node("expectedPools"), (json!([{"build": "10.0.26100", "taints": [], "labels": {}}]), Some(39)));
    assert_eq!(found(set.effective_registries(), "lifetimes.tag"), (json!("90s"), Some(44)));
    assert_eq!(found(set.effective_registries(), "lifetimes.digest"), (json!("1d"), None));
    assert!(PolicySet::default().effective_nodes().iter().all(|setting| setting.origin.is_none()));
}

#[test]
fn a_mismatch_has_a_reason_and_agrees_with_the_match() {
    let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let (team, app) = (labels(&[("team", "web")]), labels(&[("app", "x")]));
    for (matches, known, expected) in [
        ("{}", false, None),
        ("{namespaces: {include: [shop]}}", false, None),
        ("{namespaces: {include: [dev-*, test]}}", true, Some("namespace shop is not in [dev-*, test]")),
        ("{namespaces: {exclude: [a, sh*]}}", true, Some("namespace shop is excluded by sh*")),
        ("{namespaces: {include: [shop], exclude: [shop]}}", true, Some("namespace shop is excluded by shop")),
        ("{namespaceSelector: {matchLabels: {team: web}}}", true, None),
        (
            "{namespaceSelector: {matchLabels: {team: web}}}",
            false,
            Some("it requires labels of namespace shop, which is unknown"),
        ),
        (
            "{namespaceSelector: {matchLabels: {team: db}}}",
            true,
            Some("namespaceSelector requires label team=db, and it is `web`"),
        ),
        (
            "{namespaceSelector: {matchExpressions: [{key: zone, operator: Exists}]}}",
            true,
            Some("namespaceSelector requires label zone, and it is absent"),
        ),
        ("{podSelector: {matchLabels: {tier: a}}}", true, Some("podSelector requires label tier=a, and it is absent")),
        (
            "{podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [x, z]}]}}",
            true,
            Some("podSelector requires label app not in [x, z], and it is `x`"),
        ),
        (
            "{podSelector: {matchExpressions: [{key: app, operator: In, values: [z]}]}}",
            true,
            Some("podSelector requires label app in [z], and it is `x`"),
        ),
        (
            "{podSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}}",
            true,
            Some("podSelector requires no label app, and it is `x`"),
        ),
    ] {
        let head = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: p}\nspec: {match: ";
        let set = PolicySet::from_files(&[("p.yaml", format!("{head}{matches}}}\n"))]).unwrap();
        let (spec, known) = (&set.own().next().unwrap().matches, known.then_some(&team));
        assert_eq!(spec.mismatch("shop", known, &app).as_deref(), expected, "{matches}");
        assert_eq!(spec.matches("shop", known, &app), expected.is_none(), "{matches}");
    }
}

/// Keys with some of their values.
const VALUES: [(&str, &[&str]); 12] = [
    ("mode", &["Enforce", "Audit", "Disabled"]),
    ("rules.templates", &["Deny", "Warn"]),
    ("optOut.ignore", &["Never", "Pods"]),
    ("optOut.allow", &[r#"["MUL2"]"#, r#"["MUL1", "run-as-user"]"#]),
    ("detect.os", &["windows", "linux", "any"]),
    ("detect.default", &["Linux", "Nothing"]),
    ("detect.images", &[r#"[{"pattern": "a/**", "os": "windows"}]"#, r#"[{"pattern": "b", "os": "multi"}]"#]),
    ("place.build.mode", &["Exact", "Never", "Compatible"]),
    ("place.tolerations.mode", &["Listed", "Never"]),
    ("place.tolerations.add", &[r#"[{"key": "spot", "operator": "Exists"}, {"key": "gpu"}]"#]),
    ("rules.denials", &["Deny", "Warn"]),
    ("rules.actions", &[r#"[{"rule": "MUL2", "action": "Warn"}]"#, r#"[{"rule": "run-as-user", "action": "Deny"}]"#]),
];

/// The namespaces and the keys of one policy.
type PolicyKeys = (&'static str, BTreeMap<&'static str, &'static str>);

fn policy_keys() -> impl Strategy<Value = Vec<PolicyKeys>> {
    let key = (0..VALUES.len(), 0..6_usize).prop_map(|(key, value)| {
        let (key, values) = VALUES[key];
        (key, values[value % values.len()])
    });
    let namespaces = prop::sample::select(vec!["{}", r#"{"include": ["shop"]}"#, r#"{"exclude": ["shop"]}"#]);
    prop::collection::vec(
        (namespaces, prop::collection::vec(key, 0..6).prop_map(|keys| keys.into_iter().collect::<BTreeMap<_, _>>())),
        1..5,
    )
}

/// The effective settings in namespace shop: the value of each key, and the files that set it.
fn effective(policies: &[Option<PolicyKeys>]) -> BTreeMap<String, (Value, Vec<String>)> {
    let file = |(priority, policy): (usize, &Option<PolicyKeys>)| {
        let (namespaces, keys) = policy.as_ref()?;
        let namespaces: Value = serde_json::from_str(namespaces).unwrap();
        let mut spec = json!({"priority": priority, "match": {"namespaces": namespaces}});
        for (key, value) in keys {
            let parent = key.split('.').fold(&mut spec, |at, name| &mut at[name]);
            *parent = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        }
        let name = format!("p{priority}");
        let policy = json!({"apiVersion": "mullion.dev/v1alpha1", "kind": "PodPolicy", "metadata": {"name": name}, "spec": spec});
        Some((format!("{name}.json"), policy.to_string()))
    };
    let mut files: Vec<_> = policies.iter().enumerate().filter_map(file).collect();
    files.push((
        "nodes.json".into(),
        r#"{"apiVersion": "mullion.dev/v1alpha1", "kind": "NodePolicy", "metadata": {"name": "n"}, "spec": {}}"#.into(),
    ));
    let set = PolicySet::from_files(&files).unwrap();
    let name = |origin: &Origin| origin.file.to_string();
    let value_and_files = |setting: EffectiveSetting| {
        let from = match &setting.entries {
            Some(entries) => entries.iter().map(|entry| name(&entry.origin)).collect(),
            None => setting.origin.iter().map(name).collect(),
        };
        (setting.key, (setting.value, from))
    };
    set.effective("shop", None, &()).into_iter().map(value_and_files).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The reported origins decide, and no other policy has an effect.
    #[test]
    fn reported_origins_decide_and_others_do_not(policies in policy_keys()) {
        let all: Vec<Option<PolicyKeys>> = policies.into_iter().map(Some).collect();
        let before = effective(&all);
        for at in 0..all.len() {
            let file = format!("p{at}.json");
            for key in all[at].as_ref().unwrap().1.keys() {
                let mut without = all.clone();
                without[at].as_mut().unwrap().1.remove(key);
                let after = effective(&without);
                let named = before[*key].1.contains(&file);
                prop_assert_eq!(named, before[*key] != after[*key], "{} of {}", key, file);
                prop_assert!(before.iter().all(|(other, value)| other == key || *value == after[other]), "{key} of {file}");
            }
            if before.values().all(|(_, from)| !from.contains(&file)) {
                let mut without = all.clone();
                without[at] = None;
                prop_assert_eq!(&before, &effective(&without), "{} is not reported", file);
            }
        }
    }
}
