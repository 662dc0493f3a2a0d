//! What holds, as policy files hold it.

use std::io;
use std::io::Write;

use mullion_engine::model::text::list;
use mullion_manifest::edit::render::string as yaml_string;
use mullion_policy::schema::types::{API_VERSION, Object, Shape};
use serde_json::{Map, Value};

use crate::cli::policy::show::{EffectivePolicy, Setting, place};
use crate::report::text::printable;

pub(crate) fn write(shown: &EffectivePolicy<'_>, out: &mut dyn Write) -> io::Result<()> {
    comment(out, &format!("What holds for {}, made by mullion policy show.", shown.title()))?;
    for note in &shown.notes {
        comment(out, &format!("Note: {note}."))?;
    }
    // A name counts only with the mode that uses it, and is refused without.
    let named = |setting: &&Setting| setting.key == "place.runtimeClass.mode" && setting.value == "Named";
    let named = shown.settings.iter().any(|setting| named(&setting));
    let settings = shown.settings.iter().filter(|setting| named || setting.key != "place.runtimeClass.name");
    document("PodPolicy", settings, out)?;
    writeln!(out, "---")?;
    document("NodePolicy", shown.nodes.iter(), out)?;
    writeln!(out, "---")?;
    document("RegistryPolicy", shown.registries.iter(), out)
}

fn comment(out: &mut dyn Write, text: &str) -> io::Result<()> {
    writeln!(out, "# {}", printable(text))
}

fn document<'s>(kind: &str, settings: impl Iterator<Item = &'s Setting>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "apiVersion: {API_VERSION}\nkind: {kind}\nmetadata: {{name: effective}}\nspec:")?;
    let mut above: Vec<&str> = Vec::new();
    for setting in settings.filter(|setting| !setting.value.is_null()) {
        let mut path: Vec<&str> = setting.key.split('.').collect();
        let Some(name) = path.pop() else { continue };
        let common = above.iter().zip(&path).take_while(|(a, b)| a == b).count();
        for (depth, parent) in path.iter().enumerate().skip(common) {
            writeln!(out, "{}{parent}:", indent(depth))?;
        }
        let pad = indent(path.len());
        match &setting.entries {
            Some(entries) if !entries.is_empty() => {
                writeln!(out, "{pad}{name}:")?;
                let item = item_of(setting.shape);
                for entry in entries {
                    let at = place(Some(&entry.origin));
                    writeln!(out, "{pad}  - {}  # {}", flow(&entry.value, item), printable(&at))?;
                }
            }
            _ => {
                let at = place(setting.origin.as_ref());
                writeln!(out, "{pad}{name}: {}  # {}", flow(&setting.value, Some(setting.shape)), printable(&at))?;
            }
        }
        above = path;
    }
    Ok(())
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth + 1)
}

/// The shape of a list's entries.
pub(crate) fn item_of(shape: &'static Shape) -> Option<&'static Shape> {
    match shape {
        Shape::List(item) => Some(item),
        _ => None,
    }
}

/// A value in one line, the keys of its maps in the order in which people write them.
pub(crate) fn flow(value: &Value, shape: Option<&'static Shape>) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => yaml_string(text, true),
        Value::Array(items) => {
            let item = shape.and_then(item_of);
            format!("[{}]", list(items.iter().map(|value| flow(value, item))))
        }
        Value::Object(map) => {
            let Some(Shape::Object(object)) = shape else { return unordered(map) };
            let Object { keys, .. } = object;
            let pair = |name: &str, shape| Some(format!("{name}: {}", flow(map.get(name)?, Some(shape))));
            format!("{{{}}}", list(keys.iter().filter_map(|key| pair(key.name, &key.shape))))
        }
    }
}

/// No map of a policy comes here: each has its keys in the schema.
fn unordered(map: &Map<String, Value>) -> String {
    format!("{{{}}}", list(map.iter().map(|(key, value)| format!("{key}: {}", flow(value, None)))))
}
