//! `docs/reference/policy.md`: its head, and a section for each key of the table.

use std::collections::HashMap;
use std::fmt::Write;

use mullion_policy::schema::{KINDS, SchemaKey, SchemaObject, SchemaWord, TEST_KINDS, ValueShape};

/// Keys that every kind has, explained once.
const COMMON: [&str; 3] = ["apiVersion", "kind", "metadata"];

pub fn page() -> String {
    let mut page = Page { text: include_str!("head.md").to_owned(), ..Page::default() };
    page.text.push_str("\n## Every document\n");
    for key in COMMON.iter().filter_map(|name| KINDS[0].1.key(name)) {
        page.key("Every document", key.name, key);
    }
    for (kind, object) in KINDS.iter().chain(TEST_KINDS.iter()) {
        page.kind(kind, object);
    }
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
    /// How often an object occurs in the current kind: an object that occurs in several places has no section of its
    /// own.
    places: HashMap<*const SchemaObject, usize>,
}

impl Page {
    fn kind(&mut self, kind: &str, object: &'static SchemaObject) {
        let Some(ValueShape::Word([word])) = object.key("kind").map(|key| &key.shape) else {
            panic!("{kind} has one word")
        };
        self.places.clear();
        self.count(object);
        let mut links = Vec::new();
        let keys = || object.keys.iter().filter(|key| !COMMON.contains(&key.name));
        keys().for_each(|key| self.links(kind, key.name, key, &mut links));
        writeln!(self.text, "\n## {kind}\n\n{}\n\n{}", word.doc, links.join(" · ")).unwrap();
        keys().for_each(|key| self.key(kind, key.name, key));
    }

    fn count(&mut self, object: &'static SchemaObject) {
        *self.places.entry(std::ptr::from_ref(object)).or_default() += 1;
        for key in object.keys {
            if let ValueShape::Object(below) = &key.shape {
                self.count(below);
            }
        }
    }

    /// Whether the keys of an object have sections of their own.
    fn opens(&self, object: &'static SchemaObject) -> bool {
        self.places.get(&std::ptr::from_ref(object)) == Some(&1)
    }

    fn links(&self, kind: &str, path: &str, key: &'static SchemaKey, links: &mut Vec<String>) {
        match &key.shape {
            ValueShape::Object(object) if self.opens(object) => {
                object.keys.iter().for_each(|key| self.links(kind, &format!("{path}.{}", key.name), key, links));
            }
            _ => {
                let anchor: String =
                    path.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect::<String>().to_lowercase();
                links.push(format!("[`{path}`](#{}-{anchor})", kind.to_lowercase()));
            }
        }
    }

    fn key(&mut self, kind: &str, path: &str, key: &'static SchemaKey) {
        let SchemaKey { doc, shape, example, .. } = key;
        let layers = key.merge;
        write!(self.text, "\n### {kind}: `{path}`\n\n{doc}\n\n").unwrap();
        let mut facts = vec![("Takes", takes(shape))];
        if key.required {
            facts.push(("Required", "yes".to_owned()));
        }
        facts.extend(key.default().map(|yaml| ("Default", default(&yaml))));
        facts.extend(layers.map(|sentence| ("Merge", sentence.trim_end_matches('.').to_owned())));
        for (what, fact) in facts {
            writeln!(self.text, "- {what}: {fact}").unwrap();
        }
        match shape {
            // For the key that all kinds share, each kind's table has only its own word.
            ValueShape::Word([_]) if path == "kind" => {
                let kinds = KINDS.iter().chain(TEST_KINDS.iter()).filter_map(|(_, object)| object.key("kind"));
                self.words(kinds.flat_map(|key| if let ValueShape::Word(words) = key.shape { words } else { &[] }));
            }
            ValueShape::Word(words) | ValueShape::List(ValueShape::Word(words)) => self.words(words.iter()),
            ValueShape::List(ValueShape::Object(object)) => self.entries("Each entry", object),
            ValueShape::Short(_, object) => self.entries("The map", object),
            ValueShape::Object(object) if !self.opens(object) => self.entries("The map", object),
            _ => {}
        }
        if let Some(example) = example {
            write!(self.text, "\n```yaml\n{}\n```\n", nested(path, example)).unwrap();
        }
        if let ValueShape::Object(object) = shape
            && self.opens(object)
        {
            for key in object.keys {
                self.key(kind, &format!("{path}.{}", key.name), key);
            }
        }
    }

    fn words<'w>(&mut self, words: impl Iterator<Item = &'w SchemaWord>) {
        self.text.push_str("\n| Word | What it means |\n|---|---|\n");
        for SchemaWord { word, doc } in words {
            writeln!(self.text, "| `{word}` | {doc} |").unwrap();
        }
    }

    fn entries(&mut self, what: &str, object: &SchemaObject) {
        writeln!(self.text, "\n{what} has:\n").unwrap();
        self.list(object, "");
    }

    /// The keys of a map in a list, as a list.
    fn list(&mut self, object: &SchemaObject, indent: &str) {
        for key in object.keys {
            let required = if key.required { ", required" } else { "" };
            let default = key.default().map_or_else(String::new, |it| format!(" Default: {}.", default(&it)));
            let form = match &key.shape {
                ValueShape::Word(_) => String::new(),
                shape => format!(" ({}{required})", takes(shape)),
            };
            let form = if form.is_empty() && key.required { " (required)".to_owned() } else { form };
            writeln!(self.text, "{indent}- `{}`{form}: {}{default}", key.name, key.doc).unwrap();
            let below = format!("{indent}  ");
            match &key.shape {
                ValueShape::Word(words) => {
                    for SchemaWord { word, doc } in *words {
                        writeln!(self.text, "{below}- `{word}`: {doc}").unwrap();
                    }
                }
                ValueShape::Object(object)
                | ValueShape::List(ValueShape::Object(object))
                | ValueShape::Short(_, object) => {
                    self.list(object, &below);
                }
                _ => {}
            }
        }
    }
}

fn default(yaml: &str) -> String {
    if yaml == "[]" { "nothing".to_owned() } else { format!("`{yaml}`") }
}

fn takes(shape: &ValueShape) -> String {
    match shape {
        ValueShape::Object(_) | ValueShape::Map => "a map".to_owned(),
        ValueShape::Short(short, _) => format!("{}; or a map", takes(short)),
        ValueShape::Texts(keys, values) => {
            format!("a map; each key is {}, each value {}", keys.expected(), values.expected())
        }
        ValueShape::List(ValueShape::Word(_)) => "a list of these words".to_owned(),
        ValueShape::List(item) => format!("a list; each entry is {}", takes(item)),
        ValueShape::Integer => "a whole number".to_owned(),
        ValueShape::Word(_) => "one of these words".to_owned(),
        ValueShape::Text(form) => form.expected().to_owned(),
    }
}

/// `value` under its keys.
fn nested(path: &str, value: &str) -> String {
    let keys: Vec<&str> = path.split('.').collect();
    let (last, above) = keys.split_last().unwrap();
    let mut text = String::new();
    for (depth, key) in above.iter().enumerate() {
        writeln!(text, "{}{key}:", "  ".repeat(depth)).unwrap();
    }
    write!(text, "{}{last}: {value}", "  ".repeat(above.len())).unwrap();
    text
}
