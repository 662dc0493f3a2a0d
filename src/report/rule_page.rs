//! A rule's page as Markdown: its entry in the catalogue, and below it the text in `crates/engine/src/rules/pages/`.
//!
//! The text has six headings, in this order: `What it checks`, `Why it matters on Windows`, `Why this default`,
//! `Example`, `Use instead`, `References`. Example and remedy are manifests; `tests/rules` checks them.

use mullion_engine::model::json_pointer::field_path;
use mullion_engine::model::settings::{Action, Settings};
use mullion_engine::model::text::{list_with, upper_first};
use mullion_engine::rules::Rule;
use mullion_engine::rules::linux_only::{FIELDS, FieldValues, HostProcess, LinuxOnlyField, ValueGrade};

use crate::report::wording::set_by;

/// The whole page.
pub fn page(rule: &Rule) -> String {
    let row = FIELDS.iter().find(|field| field.rule.code == rule.code);
    let mut blocks = vec![format!("# {} {}", rule.code, rule.name), sentences(rule), table(&facts(rule, row))];
    if let Some(row) = row {
        blocks.push(table(&values(row)));
        blocks.extend(row.kubelet_rejects.map(|values| {
            let rejected = if values == FieldValues::Any { "it".to_owned() } else { words(values) };
            format!("The kubelet of a Windows node rejects a pod with {rejected}.")
        }));
    }
    blocks.push(rule.page.to_owned());
    blocks.join("\n\n")
}

/// The first documentation that its page refers to, as a URI. The page itself has no address: `mullion rules` prints
/// it.
pub(crate) fn help_uri(rule: &Rule) -> Option<&'static str> {
    let (_, references) = rule.page.split_once("\n## References\n")?;
    let uri = references.get(references.find("https://")?..)?;
    uri.split(|c: char| c.is_whitespace() || c == ')').next()
}

/// An action as policies spell it.
pub fn action_name(action: Action) -> &'static str {
    match action {
        Action::Allow => "Allow",
        Action::Warn => "Warn",
        Action::Repair => "Repair",
        Action::Deny => "Deny",
    }
}

/// The action of its findings if no policy sets one.
pub fn default_action(rule: &Rule) -> String {
    let action = action_name(rule.default);
    let milder = |grade: ValueGrade| matches!(grade, ValueGrade::Harmless | ValueGrade::Soft);
    let row = FIELDS.iter().find(|row| row.rule.code == rule.code && rule.default == Action::Deny);
    match (rule.depends, row) {
        (Some(clause), _) => clause.to_owned(),
        (None, Some(row)) if row.grades.iter().any(|(_, grade)| milder(*grade)) => {
            format!("{action}; less for some values")
        }
        _ => action.to_owned(),
    }
}

/// `runAsUser on a Windows pod. Windows has no numeric user ids. Instead: write windowsOptions.runAsUserName: ContainerUser.`
fn sentences(rule: &Rule) -> String {
    let Rule { summary, why, instead, .. } = *rule;
    // For some rules the summary is also the reason.
    let without_article = |text: &'static str| text.trim_start_matches("a ").trim_start_matches("the ");
    let why =
        if without_article(why) == without_article(summary) { String::new() } else { format!(" {}.", capital(why)) };
    let instead = if instead.is_empty() { String::new() } else { format!(" Instead: {instead}.") };
    format!("{}.{why}{instead}", capital(summary))
}

/// Capitalizes `text` unless its first word is the name of a field, such as `hostPID`.
fn capital(text: &str) -> String {
    let field = text.split(' ').next().is_some_and(|word| word.contains(|c: char| c.is_uppercase()));
    if field { text.to_owned() } else { upper_first(text) }
}

fn facts(rule: &Rule, row: Option<&LinuxOnlyField>) -> Vec<[String; 2]> {
    let name = rule.name;
    let repair = match (rule.repair, row) {
        (false, _) => "none",
        (true, Some(_)) => "removes the field; a policy can set Repair for every value",
        (true, None) => "available; a policy can set the action Repair",
    };
    let mut facts = vec![("Default action", default_action(rule)), ("Repair", repair.to_owned())];
    if let Some(translation) = rule.translation {
        facts.push(("Translation", format!("{translation}; PodPolicy, `spec.rules.translate: [{name}]`")));
    }
    if let Some(row) = row {
        facts.push((if paths(row).len() > 1 { "Fields" } else { "Field" }, paths(row).join("; ")));
        let forbidden = match row.server_rejects {
            _ if row.forbidden_by_os => "forbids it: the API server rejects the pod with 422".to_owned(),
            Some(values) => format!("forbids {}: the API server rejects the pod with 422", words(values)),
            None => "does not forbid it".to_owned(),
        };
        facts.push(("`spec.os.name: windows`", forbidden));
        facts.push(("HostProcess pods", host_process(row.host_process).to_owned()));
    }
    if rule.hint {
        facts.push((
            "Pods of controllers",
            "no label for a warning, because only the author of the template can act on it".to_owned(),
        ));
    }
    // An action that differs from the default.
    let other = if matches!(rule.default, Action::Warn) { Action::Deny } else { Action::Warn };
    facts.push((
        "Change the action",
        format!("PodPolicy, `spec.rules.actions: [{{rule: {name}, action: {}}}]`", action_name(other)),
    ));
    facts.push((
        "Exempt a pod",
        format!("pod annotation `mullion.dev/allow: {name}`, if a policy sets `spec.optOut.allow: [{name}]`"),
    ));
    facts.push(("Since", rule.since.to_owned()));
    facts.into_iter().map(|(what, text)| [what.to_owned(), text]).collect()
}

/// The paths as text: `spec.containers[*].securityContext.runAsUser`.
fn paths(row: &LinuxOnlyField) -> Vec<String> {
    let pod = row.pod.map(|pointer| format!("`{}`", field_path(pointer)));
    let container = row.container.map(|below| {
        format!("`spec.containers[*].{}`, and in `initContainers` and `ephemeralContainers`", field_path(below))
    });
    pod.into_iter().chain(container).collect()
}

fn host_process(differs: HostProcess) -> &'static str {
    match differs {
        HostProcess::Same => "the same",
        HostProcess::Soft(_) => "never denied: removed with a warning",
        HostProcess::Needed => "no finding: the field takes effect there",
    }
}

fn values(row: &LinuxOnlyField) -> Vec<[String; 2]> {
    let mut rows = vec![["By default".to_owned(), "Value".to_owned()]];
    let rest = (FieldValues::Any, ValueGrade::Hard);
    let open = !row.grades.iter().any(|(values, _)| *values == FieldValues::Any);
    for (values, grade) in row.grades.iter().chain(open.then_some(&rest)) {
        let other = *values == FieldValues::Any && rows.len() > 1;
        let words = if other { "anything else".to_owned() } else { words(*values) };
        rows.push([default_outcome(row, *grade).to_owned(), words]);
    }
    rows
}

fn default_outcome(row: &LinuxOnlyField, grade: ValueGrade) -> &'static str {
    match grade {
        ValueGrade::Fine => "not changed",
        ValueGrade::Harmless => "removed silently",
        ValueGrade::Soft => "removed with a warning",
        ValueGrade::Hard => match row.rule.default {
            Action::Deny => "denied",
            Action::Repair => "removed with a warning",
            Action::Warn => "reported with a warning",
            Action::Allow => "allowed",
        },
    }
}

/// A set of values as text.
fn words(values: FieldValues) -> String {
    match values {
        FieldValues::Bool(value) => format!("`{value}`"),
        FieldValues::Text(texts) => any_of(texts),
        FieldValues::TextBeyond(texts) => format!("anything but {}", any_of(texts)),
        FieldValues::Empty => "empty".to_owned(),
        FieldValues::Type(types) => format!("`type` {}", any_of(types)),
        FieldValues::AddsOnly([]) => "`drop` only".to_owned(),
        FieldValues::AddsOnly(names) => format!("`add` with nothing but {}", any_of(names)),
        FieldValues::NamesOnly(names) => format!("nothing but {}", any_of(names)),
        FieldValues::NamesBeyond(_) => "a `name` that is not among those above".to_owned(),
        FieldValues::Any => "any value".to_owned(),
    }
}

fn any_of(texts: &[&str]) -> String {
    list_with(texts.iter().map(|text| format!("`{text}`")), "or")
}

/// A table with a header, whose first column is aligned in a terminal too.
fn table(rows: &[[String; 2]]) -> String {
    let width = rows.iter().map(|[first, _]| first.chars().count()).max().unwrap_or_default();
    let mut lines: Vec<String> = rows.iter().map(|[first, second]| format!("| {first:width$} | {second} |")).collect();
    lines.insert(lines.len().min(1), format!("|{}|---|", "-".repeat(width + 2)));
    lines.join("\n")
}

/// The setting that decides the action of a rule: `MUL201 run-as-user: rules.actions has MUL2: Warn (a.yaml:7)`.
pub(crate) fn decider(settings: &Settings, rule: &Rule) -> String {
    let (code, name, default) = (rule.code, rule.name, rule.default);
    match settings.action_entry(code, name) {
        Some(entry) => {
            let (of, action) = (&entry.rule, action_name(entry.action));
            format!("{code} {name}: rules.actions has {of}: {action} ({})", set_by(entry.origin.as_ref()))
        }
        None => {
            format!(
                "{code} {name}: no entry of rules.actions names it; its default is at most {}",
                action_name(default)
            )
        }
    }
}
