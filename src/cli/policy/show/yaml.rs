//! The effective policy as policy files.

use std::io;
use std::io::Write;

use mullion_engine::model::foreign_text::visible;
use mullion_engine::model::text::list;
use mullion_manifest::edit::string as yaml_string;
use mullion_policy::EffectiveSetting;
use mullion_policy::schema::{API_VERSION, SchemaObject, ValueShape};
use serde_json::Value;

use crate::cli::policy::show::effective_policy::{EffectivePolicy, place};

pub(crate) fn write(shown: &EffectivePolicy<'_>, out: &mut dyn Write) -> io::Result<()> {
    comment(out, &format!("The effective policy of {}, printed by mullion policy show.", shown.title()))?;
    for note in &shown.notes {
        comment(out, &format!("Note: {note}."))?;
    }
    // A policy file may set the name only with the mode that uses it.
    let named = |setting: &&EffectiveSetting| setting.key == "place.runtimeClass.mode" && setting.value == "Named";
    let named = shown.settings.iter().any(|setting| named(&setting));
    let settings = shown.settings.iter().filter(|setting| named || setting.key != "place.runtimeClass.name");
    let highest = shown.policies.iter().filter(|policy| policy.built_in).filter_map(|policy| policy.priority).max();
    document("PodPolicy", highest, settings, out)?;
    writeln!(out, "---")?;
    document("NodePolicy", None, shown.nodes.iter(), out)?;
    writeln!(out, "---")?;
    document("RegistryPolicy", None, shown.registries.iter(), out)
}

fn comment(out: &mut dyn Write, text: &str) -> io::Result<()> {
    writeln!(out, "# {}", visible(text))
}

/// `above`: the highest priority of the built-in policies, which are under every set. The printed policy must take
/// precedence over them.
fn document<'s>(
    kind: &str,
    above: Option<i64>,
    settings: impl Iterator<Item = &'s EffectiveSetting>,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "apiVersion: {API_VERSION}\nkind: {kind}\nmetadata: {{name: effective}}\nspec:")?;
    if let Some(priority) = above {
        writeln!(out, "  priority: {}  # above the built-in policies", priority.saturating_add(1))?;
    }
    let mut parents: Vec<&str> = Vec::new();
    for setting in settings.filter(|setting| !setting.value.is_null()) {
        let mut path: Vec<&str> = setting.key.split('.').collect();
        let Some(name) = path.pop() else { continue };
        let common = parents.iter().zip(&path).take_while(|(a, b)| a == b).count();
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
                    writeln!(out, "{pad}  - {}  # {}", flow(&entry.value, item), visible(&at))?;
                }
            }
            _ => {
                let at = place(setting.origin.as_ref());
                writeln!(out, "{pad}{name}: {}  # {}", flow(&setting.value, Some(setting.shape)), visible(&at))?;
            }
        }
        parents = path;
    }
    Ok(())
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth + 1)
}

/// The shape of a list's entries.
pub(crate) fn item_of(shape: &'static ValueShape) -> Option<&'static ValueShape> {
    match shape {
        ValueShape::List(item) => Some(item),
        _ => None,
    }
}

/// A value in one line, with the keys of its maps in the order of the schema.
pub(crate) fn flow(value: &Value, shape: Option<&'static ValueShape>) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => yaml_string(text, true),
        Value::Array(items) => {
            let item = shape.and_then(item_of);
            format!("[{}]", list(items.iter().map(|value| flow(value, item))))
        }
        Value::Object(map) => {
            // JSON is also YAML. This is for a map without a schema; policies contain none.
            let Some(ValueShape::Object(SchemaObject { keys, .. })) = shape else { return value.to_string() };
            let pair = |name: &str, shape| Some(format!("{name}: {}", flow(map.get(name)?, Some(shape))));
            format!("{{{}}}", list(keys.iter().filter_map(|key| pair(key.name, &key.shape))))
        }
    }
}
