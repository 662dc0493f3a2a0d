//! The effective policy as text: the matching policies, and each key with the place that sets it.

use std::io;
use std::io::Write;

use mullion_engine::model::foreign_text::visible;
use mullion_policy::EffectiveSetting;

use crate::cli::policy::show::effective_policy::{EffectivePolicy, place};
use crate::cli::policy::show::yaml::{flow, item_of};
use crate::report::table;

pub(crate) fn write(all: &[EffectivePolicy<'_>], out: &mut dyn Write) -> io::Result<()> {
    for shown in all {
        let at = if shown.place.is_empty() { String::new() } else { format!(" ({})", shown.place) };
        line(out, &format!("{}{at}", shown.title()))?;
        for note in &shown.notes {
            line(out, &format!("note: {note}"))?;
        }
        policies(shown, out)?;
        line(out, "settings:")?;
        table(&shown.settings, out)?;
        line(out, "")?;
    }
    // These are the same for all.
    let Some(shown) = all.first() else { return Ok(()) };
    line(out, "nodes, by the NodePolicy of the cluster:")?;
    table(&shown.nodes, out)?;
    line(out, "")?;
    line(out, "registries, by the RegistryPolicy of the cluster:")?;
    table(&shown.registries, out)
}

fn line(out: &mut dyn Write, text: &str) -> io::Result<()> {
    writeln!(out, "{}", visible(text))
}

fn policies(shown: &EffectivePolicy<'_>, out: &mut dyn Write) -> io::Result<()> {
    let matching = shown.policies.iter().filter(|policy| policy.matches);
    line(out, "policies that match; of those that set a key, the first decides:")?;
    for it in matching {
        let priority =
            it.priority.map_or_else(|| "below every priority".to_owned(), |number| format!("priority {number}"));
        line(out, &format!("  {}, {priority} ({})", it.name, place(Some(&it.origin))))?;
    }
    let reasons = shown.policies.iter().filter_map(|policy| Some((policy, policy.reason.as_ref()?)));
    let other: Vec<_> =
        reasons.map(|(it, reason)| format!("  {} ({}): {reason}", it.name, place(Some(&it.origin)))).collect();
    if !other.is_empty() {
        line(out, "policies that do not match:")?;
    }
    other.iter().try_for_each(|policy| line(out, policy))
}

fn table(settings: &[EffectiveSetting], out: &mut dyn Write) -> io::Result<()> {
    let mut rows = Vec::new();
    for setting in settings {
        let item = item_of(setting.shape);
        let key = format!("  {}", setting.key);
        match &setting.entries {
            Some(entries) if !entries.is_empty() => {
                rows.push([key, String::new(), String::new()]);
                rows.extend(entries.iter().map(|entry| {
                    let value = flow(&entry.value, item);
                    [String::new(), format!("- {value}"), place(Some(&entry.origin))]
                }));
            }
            _ => match setting.value.as_array() {
                Some(items) if !items.is_empty() => {
                    rows.push([key, String::new(), place(setting.origin.as_ref())]);
                    let row = |value| [String::new(), format!("- {}", flow(value, item)), String::new()];
                    rows.extend(items.iter().map(row));
                }
                _ => {
                    let value = Some(&setting.value).filter(|value| !value.is_null());
                    let value = value.map_or_else(|| "not set".to_owned(), |value| flow(value, Some(setting.shape)));
                    rows.push([key, value, place(setting.origin.as_ref())]);
                }
            },
        }
    }
    table::write(out, None, None, rows)
}
