//! The document of a comparison of two sets of policies: workloads with the same differences and causes, and nodes; or,
//! without input, the keys that differ.

use mullion_engine::model::text::{counted, thousands, unquoted};
use serde_json::json;

use crate::report::document::{
    Block, Cell, Document, Inline, OBJECTS, ReportSection, RowObject, Shown, Table, TableBuilder, Text, Tile, Tone,
    name,
};
use crate::report::policy_diff::model::{
    ComparedWorkload, DiffTotals, DifferenceCategory, DifferenceGroup, PolicyDifferences, SettingDifference,
};

/// The most groups of workloads, and of nodes, in text and Markdown without `--all`.
const GROUPS: usize = 50;

/// The number of owners among which the one of a pod is looked for.
const RECENT_OWNERS: usize = 5;

/// The document of the report.
pub(super) fn document<'r>(totals: &DiffTotals, differences: &'r PolicyDifferences) -> Document<'r> {
    let PolicyDifferences { groups, nodes, .. } = differences;
    let is_cut = groups.len().max(nodes.len()) > GROUPS
        || groups.iter().any(|group| owners(group).len() > OBJECTS)
        || nodes.values().any(|names| names.len() > OBJECTS);
    let sections =
        [Some(summary(totals)), unread(totals), workloads(totals, differences), self::nodes(totals, differences)];
    titled(totals.sentence(), sections.into_iter().flatten().collect(), is_cut)
}

fn titled(title: String, sections: Vec<ReportSection<'_>>, is_cut: bool) -> Document<'_> {
    let mullion = env!("CARGO_PKG_VERSION").to_owned();
    let footer = format!(
        "Written by Mullion {mullion}. `mullion policy diff -o json` writes all of it for programs, and `-o csv` a table \
         for a spreadsheet."
    );
    Document { title, command: "mullion policy diff", mullion, sections, footer, all: "--all", is_cut }
}

const fn tone(category: DifferenceCategory) -> Tone {
    match category {
        DifferenceCategory::Denied => Tone::Bad,
        DifferenceCategory::NoLongerDenied => Tone::Good,
        DifferenceCategory::Placed => Tone::Warn,
        DifferenceCategory::Reported => Tone::Note,
    }
}

/// The counts on the page. The title has them in words.
fn summary(totals: &DiffTotals) -> ReportSection<'static> {
    let tile = |label, count, tone: Tone, list| Tile {
        label,
        count: thousands(count),
        tone: Some(tone).filter(|_| count > 0),
        list,
    };
    let categories = totals.by_category();
    let of_category =
        |(category, count): (DifferenceCategory, usize)| tile(category.name(), count, tone(category), "workloads");
    let nodes = tile("Labels or taints of nodes", totals.nodes, Tone::Warn, "nodes");
    let tiles = categories.into_iter().map(of_category).chain([nodes]).collect();
    ReportSection::new("summary", "Summary", vec![Block::Tiles(tiles)]).shown(Shown::Page)
}

fn unread(totals: &DiffTotals) -> Option<ReportSection<'static>> {
    let unreadable = totals.unreadable;
    let note = format!(
        "{} cannot be read. Whether they would be decided differently is not known.",
        counted(unreadable, "file, document or object")
    );
    (unreadable > 0).then(|| ReportSection::new("unread", "Not read", vec![Block::Note(Text::plain(note))]))
}

fn workloads<'r>(totals: &DiffTotals, differences: &'r PolicyDifferences) -> Option<ReportSection<'r>> {
    if differences.groups.is_empty() {
        return None;
    }
    let of_category = totals.by_category();
    let heading = move |category: DifferenceCategory| {
        let count = of_category.iter().find(|(of, _)| *of == category).map_or(0, |(_, count)| *count);
        Text::from(tag(category)).and(format!(": {}", counted(count, "workload")))
    };
    let table = TableBuilder::new("workloads", "workload", &differences.groups)
        .choice("Result", |group| tag(group.category))
        .in_group()
        .objects("Workloads", objects)
        .prose("What differs, and why", |group| {
            let cell = group.differences.iter().fold(Cell::default(), |cell, line| cell.line(difference(line)));
            group.causes.iter().fold(cell, |cell, cause| cell.labeled("Cause", Text::plain(cause)))
        })
        .grouped(false, move |group| heading(group.category))
        .filtered()
        .first(GROUPS)
        .at_most(500, 3_000_000);
    let section = ReportSection::new("workloads", "Workloads", vec![Block::Table(table.build())]);
    Some(section.counted(totals.different, ""))
}

fn tag(category: DifferenceCategory) -> Inline {
    Inline::Tag(tone(category), category.name().to_owned())
}

/// A line that is present on one side only is exact, others are sentences.
fn difference(line: &str) -> Text {
    if line.starts_with(['-', '+']) { name(line).into() } else { Text::plain(line) }
}

/// The workloads of a group with their number: the pods of one owner share an entry.
fn owners(group: &DifferenceGroup) -> Vec<(&ComparedWorkload, usize)> {
    let mut owners: Vec<(&ComparedWorkload, usize)> = Vec::new();
    for member in &group.members {
        let is_known =
            |(other, _): &&mut (&ComparedWorkload, usize)| member.owner.is_some() && other.owner == member.owner;
        match owners.iter_mut().rev().take(RECENT_OWNERS).find(is_known) {
            Some((_, count)) => *count += 1,
            None => owners.push((member, 1)),
        }
    }
    owners
}

/// The workloads of a group with their places.
fn objects(group: &DifferenceGroup) -> Vec<RowObject> {
    let object = |(ComparedWorkload { name: object, owner, file, line }, count): (&ComparedWorkload, usize)| {
        let about = match owner {
            Some((kind, owner)) if count > 1 => {
                format!("{file}:{line}, and {} more of {kind} {owner}", thousands(count - 1))
            }
            _ => format!("{file}:{line}"),
        };
        RowObject { name: name(object.to_string()).into(), about: Text::plain(about), count }
    };
    owners(group).into_iter().map(object).collect()
}

fn nodes<'r>(totals: &DiffTotals, differences: &'r PolicyDifferences) -> Option<ReportSection<'r>> {
    if differences.nodes.is_empty() {
        return None;
    }
    let node = |node: &String| RowObject { name: name(node).into(), about: Text::default(), count: 1 };
    let table = TableBuilder::new("nodes", "node", &differences.nodes)
        .objects("Nodes", move |(_, names)| names.iter().map(node))
        .prose("What differs", |(lines, _)| {
            lines.iter().fold(Cell::default(), |cell, line| cell.line(difference(line)))
        })
        .first(GROUPS)
        .at_most(500, 1_000_000);
    let causes = differences.node_causes.iter().map(|cause| ("Cause", Text::plain(cause))).collect();
    let blocks = vec![Block::Table(table.build()), Block::Facts(causes)];
    Some(ReportSection::new("nodes", "Nodes", blocks).counted(totals.nodes, ""))
}

/// The workloads for CSV, the most important first.
pub(super) fn workload_table(differences: &PolicyDifferences) -> Table<'_> {
    let rows = differences.groups.iter().flat_map(|group| group.members.iter().map(|member| (group.category, member)));
    TableBuilder::new("workloads", "workload", rows)
        .csv("namespace", |(_, workload)| workload.name.namespace.clone())
        .csv("kind", |(_, workload)| workload.name.kind.to_string())
        .csv("name", |(_, workload)| workload.name.name.clone())
        .csv("file", |(_, workload)| workload.file.clone())
        .csv("line", |(_, workload)| workload.line.to_string())
        .csv("category", |(category, _)| unquoted(&json!(category)))
        .build()
}

/// The document of the policies and keys that differ.
pub(super) fn settings_document(differences: &[SettingDifference]) -> Document<'_> {
    let title = match differences.len() {
        0 => "No setting differs".to_owned(),
        1 => "1 setting differs".to_owned(),
        count => format!("{} settings differ", thousands(count)),
    };
    let block = match differences {
        [] => Block::paragraph("Both sets of policies have the same settings."),
        _ => Block::Table(setting_table(differences)),
    };
    titled(title, vec![ReportSection::new("summary", "Settings", vec![block])], false)
}

/// The policies and keys that differ, which are also those of CSV.
pub(super) fn setting_table(differences: &[SettingDifference]) -> Table<'_> {
    let old = |one: &SettingDifference| {
        let [old, _] = one.sides();
        old
    };
    let new = |one: &SettingDifference| {
        let [_, new] = one.sides();
        new
    };
    TableBuilder::new("settings", "setting", differences)
        .choice("Policy", |one| Text::plain(one.policy()))
        .in_group()
        .csv("policy", |one| one.policy().to_owned())
        .text("Key", |one| name(one.key().unwrap_or("the policy itself")))
        .head()
        .csv("key", |one| one.key().unwrap_or_default().to_owned())
        .wide("Old", move |one| Text::plain(old(one)))
        .csv("old", old)
        .wide("New", move |one| Text::plain(new(one)))
        .csv("new", new)
        .grouped(false, |one| Text::plain(one.policy()))
        .filtered()
        .first(usize::MAX)
        .at_most(2_000, 3_000_000)
        .build()
}
