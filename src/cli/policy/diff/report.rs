//! The report of `mullion policy diff`, as text or JSON Lines.

use std::collections::BTreeMap;
use std::io;

use mullion_engine::model::WorkloadKind;
use mullion_engine::model::schema::PolicyKey;
use mullion_engine::model::settings::NodeSettings;
use mullion_engine::model::text::{counted, list_first, thousands};
use mullion_engine::rules::find;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::io_handles::Io;
use crate::cli::output_format::OutputFormat;
use crate::cli::policy::diff::compare::{DifferenceCategory, KeyDifference, KeyValue, WorkloadDifference};
use crate::cli::policy::diff::nodes::NodeDifference;
use crate::cli::policy::diff::sets::SettingDifference;
use crate::report::{ObjectName, WorkloadResult, action_name, set_by, unquoted, write_line};

/// The number of groups of workloads that are shown, and of workloads in a group.
const GROUPS: usize = 50;
const OF_A_GROUP: usize = 5;

/// The longest list that is shown with its entries, in characters.
const LONGEST: usize = 60;

/// The counts of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DiffTotals {
    /// Pods and templates that are reviewed.
    pub(crate) workloads: usize,
    /// Workloads with different results: the sum of the next four.
    pub(crate) different: usize,
    pub(crate) denied: usize,
    pub(crate) no_longer_denied: usize,
    pub(crate) placed: usize,
    pub(crate) reported: usize,
    /// Nodes that would be labeled or tainted differently.
    pub(crate) nodes: usize,
    /// All nodes.
    pub(crate) nodes_compared: usize,
    /// Pods, `ReplicaSet` and Job objects that are reviewed with their owner.
    pub(crate) reviewed_with_owner: usize,
    /// Files, documents and objects that cannot be read.
    pub(crate) unreadable: usize,
}

/// A workload, and its place in the input.
pub(crate) struct ComparedWorkload {
    pub(crate) name: ObjectName,
    pub(crate) owner: Option<(String, String)>,
    pub(crate) file: String,
    pub(crate) line: usize,
}

/// Workloads with the same differences and causes.
struct Group {
    members: Vec<ComparedWorkload>,
    lines: Vec<String>,
}

pub(crate) struct DiffReport {
    output: OutputFormat,
    all: bool,
    pub(crate) totals: DiffTotals,
    groups: Vec<(DifferenceCategory, Group)>,
    /// Indices of `groups`, by category and lines.
    known: BTreeMap<(DifferenceCategory, Vec<String>), usize>,
    nodes: BTreeMap<Vec<String>, Vec<String>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Record<'a> {
    Workload {
        object: &'a ObjectName,
        file: &'a str,
        line: usize,
        category: DifferenceCategory,
        old: &'a WorkloadResult,
        new: &'a WorkloadResult,
        causes: &'a [KeyDifference],
    },
    Node {
        name: &'a str,
        changes: &'a [String],
    },
    Summary(&'a DiffTotals),
}

impl DiffReport {
    pub(crate) fn new(output: OutputFormat, all: bool) -> Self {
        Self {
            output,
            all,
            totals: DiffTotals::default(),
            groups: Vec::new(),
            known: BTreeMap::new(),
            nodes: BTreeMap::new(),
        }
    }

    /// Adds a workload that is decided differently.
    pub(crate) fn workload(
        &mut self,
        workload: ComparedWorkload,
        kind: WorkloadKind,
        difference: &WorkloadDifference,
        io: &mut Io<'_>,
    ) -> io::Result<()> {
        let WorkloadDifference { category, old, new, causes } = difference;
        self.totals.different += 1;
        *match category {
            DifferenceCategory::Denied => &mut self.totals.denied,
            DifferenceCategory::NoLongerDenied => &mut self.totals.no_longer_denied,
            DifferenceCategory::Placed => &mut self.totals.placed,
            DifferenceCategory::Reported => &mut self.totals.reported,
        } += 1;
        if self.output == OutputFormat::Json {
            let ComparedWorkload { name: object, file, line, .. } = &workload;
            let record = Record::Workload { object, file, line: *line, category: *category, old, new, causes };
            return write_line(io.stdout, &record);
        }
        let mut lines = difference.lines(kind);
        lines.extend(causes.iter().map(cause));
        let next = self.groups.len();
        let at = *self.known.entry((*category, lines.clone())).or_insert(next);
        match self.groups.get_mut(at) {
            Some((_, group)) => group.members.push(workload),
            None => self.groups.push((*category, Group { members: vec![workload], lines })),
        }
        Ok(())
    }

    /// Adds a node that is labeled or tainted differently.
    pub(crate) fn node(&mut self, difference: NodeDifference, io: &mut Io<'_>) -> io::Result<()> {
        self.totals.nodes += 1;
        let NodeDifference { name, lines } = difference;
        if self.output == OutputFormat::Json {
            return write_line(io.stdout, &Record::Node { name: &name, changes: &lines });
        }
        self.nodes.entry(lines).or_default().push(name);
        Ok(())
    }

    /// Writes the rest of the report.
    pub(crate) fn end(
        mut self,
        node_causes: &[(&'static PolicyKey<NodeSettings>, KeyDifference)],
        io: &mut Io<'_>,
    ) -> io::Result<DiffTotals> {
        if self.output == OutputFormat::Json {
            write_line(io.stdout, &Record::Summary(&self.totals))?;
            return Ok(self.totals);
        }
        let mut text = vec![self.totals.head()];
        self.groups.sort_by_key(|(category, _)| *category);
        let shown = if self.all { self.groups.len() } else { GROUPS };
        for (_, group) in self.groups.iter().take(shown) {
            text.push(String::new());
            group.text(self.all, &mut text);
        }
        let rest = self.groups.iter().skip(shown);
        let left_out: usize = rest.map(|(_, group)| group.members.len()).sum();
        if left_out > 0 {
            text.push(String::new());
            text.push(format!("and {}, shown with --all", counted(left_out, "more workload")));
        }
        if self.totals.nodes > 0 {
            text.push(String::new());
            let [nodes, all] = [self.totals.nodes, self.totals.nodes_compared].map(thousands);
            text.push(format!("{nodes} of {all} nodes would be labeled or tainted differently"));
            for (lines, names) in &self.nodes {
                text.push(String::new());
                text.push(list_first(names, if self.all { names.len() } else { OF_A_GROUP }));
                text.extend(lines.iter().map(|line| format!("    {line}")));
            }
            let causes = node_causes.iter().filter(|(key, _)| !key.row.decides.is_empty());
            text.extend(causes.map(|(_, one)| format!("    {}", cause(one))));
        }
        for line in text {
            io.println(line)?;
        }
        if self.totals.reviewed_with_owner > 0 {
            let more = thousands(self.totals.reviewed_with_owner);
            io.eprintln(format_args!(
                "{more} more pods, ReplicaSets and Jobs are reviewed with the templates that create them"
            ))?;
        }
        Ok(self.totals)
    }
}

impl Group {
    fn text(&self, all: bool, text: &mut Vec<String>) {
        // The pods of one owner share a line.
        let mut owners: Vec<(&ComparedWorkload, usize)> = Vec::new();
        for member in &self.members {
            let known =
                |other: &&mut (&ComparedWorkload, usize)| member.owner.is_some() && other.0.owner == member.owner;
            match owners.iter_mut().rev().take(OF_A_GROUP).find(known) {
                Some((_, more)) => *more += 1,
                None => owners.push((member, 0)),
            }
        }
        let shown = if all { owners.len() } else { OF_A_GROUP };
        for (ComparedWorkload { name, owner, file, line }, more) in owners.iter().take(shown) {
            text.push(match (owner, more) {
                (Some((kind, owner)), 1..) => format!("{name} ({file}:{line}) and {more} more of {kind} {owner}"),
                _ => format!("{name} ({file}:{line})"),
            });
        }
        let left_out: usize = owners.iter().skip(shown).map(|(_, more)| more + 1).sum();
        if left_out > 0 {
            text.push(format!("and {} more", thousands(left_out)));
        }
        text.extend(self.lines.iter().map(|line| format!("    {line}")));
    }
}

impl DiffTotals {
    /// `12 of 1,204 workloads would be decided differently: 3 denied that were not, …`.
    fn head(&self) -> String {
        let [different, all] = [self.different, self.workloads].map(thousands);
        let parts = [
            (self.denied, if self.denied == 1 { "denied that was not" } else { "denied that were not" }),
            (self.no_longer_denied, "no longer denied"),
            (self.placed, "placed differently"),
            (self.reported, "warned or repaired differently"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", thousands(*count)))
            .collect();
        let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
        let workloads = if self.workloads == 1 { "workload" } else { "workloads" };
        format!("{different} of {all} {workloads} would be decided differently{parts}")
    }
}

/// Writes the policies and keys that differ, without input.
pub(crate) fn write_settings(
    differences: &[SettingDifference],
    output: OutputFormat,
    io: &mut Io<'_>,
) -> io::Result<()> {
    if output == OutputFormat::Json {
        differences.iter().try_for_each(|difference| write_line(io.stdout, difference))?;
        return write_line(io.stdout, &json!({"type": "summary", "differences": differences.len()}));
    }
    for difference in differences {
        let line = match difference {
            SettingDifference::Policy { policy, old: Some(old), .. } => format!("- {policy} ({old})"),
            SettingDifference::Policy { policy, old: None, new } => format!("+ {policy} ({})", set_by(new.as_ref())),
            SettingDifference::Key { policy, cause: key } => format!("{policy}: {}", cause(key)),
        };
        io.println(line)?;
    }
    let count = match differences.len() {
        0 => "no setting differs".to_owned(),
        count => counted(count, "difference"),
    };
    io.eprintln(format_args!(
        "{count}; name manifests or a dump of a cluster to see which workloads would be decided differently"
    ))
}

/// `place.build.mode: Compatible (old/default.yaml:31) → Exact (new/default.yaml:31)`.
fn cause(cause: &KeyDifference) -> String {
    let KeyDifference { key, old, new, rule } = cause;
    let rule = rule.and_then(find);
    let value = |side: &KeyValue| match rule {
        Some(rule) if side.value.is_null() => format!("not set, default {}", action_name(rule.default)),
        _ => shown(&side.value),
    };
    let (before, after) = (value(old), value(new));
    // Two long lists of equal length are shown with the same count.
    let after = if before == after { format!("others, {after}") } else { after };
    format!("{key}: {before}{} → {after}{}", origin_text(old), origin_text(new))
}

fn origin_text(side: &KeyValue) -> String {
    match &side.origin {
        None if side.value.is_null() => String::new(),
        origin => format!(" ({})", set_by(origin.as_ref())),
    }
}

/// A value on one line: long lists are counted.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) if value.to_string().chars().count() > LONGEST => counted(items.len(), "entry"),
        other => unquoted(other),
    }
}
