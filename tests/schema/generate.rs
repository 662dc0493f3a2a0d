//! Documents generated from the table: valid ones, and valid ones with one fault.

use mullion_policy::schema::{SchemaKey, SchemaObject, TextFormat, ValueShape};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// Texts of a form, valid ones first; the rest may or may not be valid.
pub fn texts(form: TextFormat) -> (&'static [&'static str], &'static [&'static str]) {
    match form {
        TextFormat::Any => (&["x", "", "a b"], &["é"]),
        TextFormat::Name => (&["ours", "a.b-c.d", "0"], &["", "A", "-a", "a-", "a..b", "a/b", "a_b"]),
        TextFormat::ShortName => (&["ltsc2028", "a-b"], &["", "a.b", "A", "-a", "a-"]),
        TextFormat::Namespaces => (&["*", "team-a-*", "shop", "a*b*"], &["", "Team", "a.b", "a?", "[a]", "-a", "**"]),
        TextFormat::Build => {
            (&["10.0.20348", "10.0.0"], &["", "20348", "10.0.", "10.0.020348", "10.0.1.2", "6.1.7601", "10.0.x"])
        }
        TextFormat::LabelKey => (
            &["team", "example.com/team", "a.b/C_d.e-F"],
            &["", "/a", "a/", "a/b/c", "A.com/x", "-a", "a_", "a b", "a=b"],
        ),
        TextFormat::LabelValue => (&["", "web", "A_b.c-D"], &["-a", "a-", "a/b", "a b", "é"]),
        TextFormat::Image => (
            &["registry.example.com/win/**", "*:*-nanoserver-*", "**/app", "nginx", "a.io/b*c**d*@sha256:00"],
            &["", "a//b", "/a", "a/", "http://a/b", "a***b", "***", "a b", "a?", "a/*/**/***"],
        ),
        TextFormat::TaintPattern => (
            &["os=win*", "example.com/os=*", "*=", "a*.b/c=d"],
            &["", "os", "os=a:NoSchedule", "=a", "os=a=b", "a/b/c=d", "os=-a", "os= "],
        ),
        TextFormat::Taint => (
            &["os=windows:NoSchedule", "a.b/c:NoExecute", "a=:PreferNoSchedule"],
            &[
                "",
                "os=windows",
                "os=windows:Never",
                ":NoSchedule",
                "a/b/c=d:NoSchedule",
                "a=-:NoSchedule",
                "=a:NoExecute",
            ],
        ),
        TextFormat::Rule => (
            &["run-as-user", "MUL201", "MUL2", "M", "mixed-os-containers", "MUL102"],
            &["", "run-as-usr", "mul201", "MUL9", "MUL2011", "run-as", "RUN-AS-USER"],
        ),
        TextFormat::TranslatedRule => (&["run-as-user", "MUL201", "MUL2"], &["", "nfs-volume", "MUL3", "MUL202", "x"]),
        TextFormat::Version => (&["0.1", "1.2.3", "00.1"], &["", "1", "v0.1", "0.1.2.3", "0.x", ".1", "0.1-rc1"]),
        TextFormat::Registry => (
            &["registry.local:5000", "localhost", "10.0.0.7", "[::1]:5000", "a:80", "docker.io", "Reg"],
            &["", "registry", "http://a.b", "a.b/c", "*.a", "a b", ":80", "a:b"],
        ),
        TextFormat::RegistryPattern => (
            &["registry.local:5000", "*.corp.example", "docker.io", "[::1]:5000", "*", "r.io:*", "10.0.*:50*", "Reg*"],
            &["", "registry", "http://a.b", "*.a/b", "*/", "a b*", ":*", "*:", "*:x", "[*]:5", "[::*]"],
        ),
        TextFormat::Path => (&["/etc/mullion/ca.pem", "/"], &["", "ca.pem", "./a", "~/a"]),
        TextFormat::Line => (
            &["Questions: #platform, https://wiki.example.com/windows", "é", " a b "],
            &["", " ", "a\nb", "a\tb", "\u{7}", "a\u{85}b"],
        ),
        TextFormat::Date => (
            &["2027-03-31", "2027-03-31T18:00:00Z", "2024-02-29 20:00:00.5+02:00"],
            &[
                "",
                "2027",
                "2027-3-31",
                "2027-13-01",
                "2027-03-32",
                "2027-03-31T18:00:00",
                "2027-03-31T24:00:00Z",
                "31.03.2027",
            ],
        ),
        TextFormat::Span => {
            (&["5m", "90s", "24h", "7d", "01s"], &["", "5", "5 m", "1h30m", "0s", "00d", "m", "-5m", "1.5h", "5M"])
        }
    }
}

/// Values of every wrong type.
pub fn of_other_types() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(3),
        json!(1.5),
        json!("x y"),
        json!([]),
        json!([{}]),
        json!({}),
        json!({"x y": 1}),
    ]
}

/// Any value: mostly of the shape, else similar to it.
pub fn value(shape: &'static ValueShape) -> BoxedStrategy<Value> {
    let good: BoxedStrategy<Value> = match shape {
        ValueShape::Object(object) => map(object),
        ValueShape::Short(short, object) => prop_oneof![value(short), map(object)].boxed(),
        ValueShape::Map => Just(json!({"kind": "Pod"})).boxed(),
        ValueShape::Texts(keys, values) => prop::collection::vec((text(*keys), text(*values)), 0..2)
            .prop_map(|pairs| pairs.into_iter().map(|(key, value)| (key, json!(value))).collect::<Map<_, _>>().into())
            .boxed(),
        ValueShape::List(item) => prop::collection::vec(value(item), 0..3).prop_map(Value::from).boxed(),
        ValueShape::Integer => select(vec![0_i64, 7, -1, 1000]).prop_map(Value::from).boxed(),
        ValueShape::Word(words) => {
            let words: Vec<_> = words.iter().map(|word| word.word).collect();
            select(words).prop_map(Value::from).boxed()
        }
        ValueShape::Text(form) => text(*form).prop_map(Value::from).boxed(),
    };
    let odd = select(of_other_types());
    let lower = good.clone().prop_map(|value| value.as_str().map_or(value.clone(), |text| json!(text.to_lowercase())));
    prop_oneof![30 => good, 1 => odd, 1 => lower].boxed()
}

fn text(form: TextFormat) -> BoxedStrategy<String> {
    let (good, others) = texts(form);
    // Two interpretations of a form differ for texts that are similar to valid ones.
    let near = (select(good), any::<prop::sample::Index>(), select(vec!["", "-", ".", "/", "*", "=", ":", "A", "0"]))
        .prop_map(|(good, at, put)| {
            let mut text: Vec<char> = good.chars().collect();
            let at = at.index(text.len() + 1);
            text.splice(at..at, put.chars());
            text.into_iter().collect()
        });
    let plain = |text: &'static str| text.to_owned();
    prop_oneof![8 => select(good).prop_map(plain), 1 => select(others).prop_map(plain), 1 => near].boxed()
}

fn map(object: &'static SchemaObject) -> BoxedStrategy<Value> {
    let keys: Vec<_> = object.keys.iter().map(entry).collect();
    let unknown = prop_oneof![30 => Just(None), 1 => Just(Some(("unknown".to_owned(), json!(1))))];
    (keys, unknown)
        .prop_map(|(entries, unknown)| entries.into_iter().flatten().chain(unknown).collect::<Map<_, _>>().into())
        .boxed()
}

fn entry(key: &'static SchemaKey) -> BoxedStrategy<Option<(String, Value)>> {
    let present = value(&key.shape).prop_map(|value| Some((key.name.to_owned(), value)));
    let absent = if key.required { 1 } else { 100 };
    prop_oneof![100 => present, absent => Just(None)].boxed()
}
