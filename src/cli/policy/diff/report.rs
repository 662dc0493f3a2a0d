//! What differs, for people and as JSON Lines.

use std::collections::BTreeMap;
use std::io;

use mullion_engine::model::settings::node_settings::NodeSettings;
use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::text::{counted, list_first, thousands};
use mullion_engine::model::workload::WorkloadKind;
use mullion_engine::rules::catalogue::find;
use mullion_policy::keys::PolicyKey;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::check::Output;
use crate::cli::io_handles::Io;
use crate::cli::policy::diff::compare::{Category, Cause, Difference, Held};
use crate::cli::policy::diff::nodes::NodeDifference;
use crate::cli::policy::diff::sets::Setting;
use crate::report::json::{ObjectName, write_line};
use crate::report::rule_page::action_name;
use crate::report::text::printable;
use crate::report::workload_result::WorkloadResult;
use crate::report::{set_by, unquoted};

/// How many groups of subjects are shown, and how many subjects of a group.
const GROUPS: usize = 50;
const OF_A_GROUP: usize = 5;

/// The longest value that is shown whole, in characters.
const LONGEST: usize = 60;

/// The keys that decide what a node gets.
const OF_NODES: [&str; 5] = ["mode", "labels", "taint", "windowsTaints", "releases"];

/// What a run came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Totals {
    /// Pods and templates that were judged.
    pub(crate) subjects: usize,
    /// Those that are decided differently: the next four together.
    pub(crate) different: usize,
    pub(crate) refused: usize,
    pub(crate) no_longer_refused: usize,
    pub(crate) placed: usize,
    pub(crate) told: usize,
    /// Nodes that would be labelled or tainted differently, of all.
    pub(crate) nodes: usize,
    pub(crate) nodes_asked: usize,
    /// Pods and Jobs that were not judged but with their owner.
    pub(crate) folded: usize,
    /// Files, documents and objects that cannot be read.
    pub(crate) unreadable: usize,
}

/// Which subject, and where it stands.
pub(crate) struct Subject<'a> {
    pub(crate) name: ObjectName,
    pub(crate) owner: Option<(String, String)>,
    pub(crate) file: &'a str,
    pub(crate) line: usize,
}

/// One subject of a group.
struct Member {
    name: String,
    place: String,
    owner: Option<(String, String)>,
}

/// Subjects of which the same differs, for the same reason.
struct Group {
    members: Vec<Member>,
    lines: Vec<String>,
}

pub(crate) struct Report {
    output: Output,
    all: bool,
    pub(crate) totals: Totals,
    groups: Vec<(Category, Group)>,
    /// Places in `groups`, by what they say.
    known: BTreeMap<(Category, Vec<String>), usize>,
    nodes: BTreeMap<Vec<String>, Vec<String>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Record<'a> {
    Subject {
        object: &'a ObjectName,
        file: &'a str,
        line: usize,
        category: Category,
        old: &'a WorkloadResult,
        new: &'a WorkloadResult,
        causes: &'a [Cause],
    },
    Node {
        name: &'a str,
        changes: &'a [String],
    },
    Policy {
        policy: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        old: &'a Option<Origin>,
        #[serde(skip_serializing_if = "Option::is_none")]
        new: &'a Option<Origin>,
    },
    Key {
        policy: &'a str,
        #[serde(flatten)]
        cause: &'a Cause,
    },
    Summary(&'a Totals),
}

impl Report {
    pub(crate) fn new(output: Output, all: bool) -> Self {
        Self {
            output,
            all,
            totals: Totals::default(),
            groups: Vec::new(),
            known: BTreeMap::new(),
            nodes: BTreeMap::new(),
        }
    }

    /// Takes a subject that is decided differently.
    pub(crate) fn subject(
        &mut self,
        subject: Subject<'_>,
        kind: WorkloadKind,
        difference: &Difference,
        io: &mut Io<'_>,
    ) -> io::Result<()> {
        let Difference { category, old, new, causes } = difference;
        self.totals.different += 1;
        *match category {
            Category::Refused => &mut self.totals.refused,
            Category::NoLongerRefused => &mut self.totals.no_longer_refused,
            Category::Placed => &mut self.totals.placed,
            Category::Told => &mut self.totals.told,
        } += 1;
        let Subject { name, owner, file, line } = subject;
        if self.output == Output::Json {
            let record = Record::Subject { object: &name, file, line, category: *category, old, new, causes };
            return write_line(io.stdout, &record);
        }
        let mut lines = difference.lines(kind);
        lines.extend(causes.iter().map(cause));
        let member = Member { name: name.to_string(), place: format!("{file}:{line}"), owner };
        let next = self.groups.len();
        let at = *self.known.entry((*category, lines.clone())).or_insert(next);
        match self.groups.get_mut(at) {
            Some((_, group)) => group.members.push(member),
            None => self.groups.push((*category, Group { members: vec![member], lines })),
        }
        Ok(())
    }

    /// Takes a node that is treated differently.
    pub(crate) fn node(&mut self, difference: NodeDifference, io: &mut Io<'_>) -> io::Result<()> {
        self.totals.nodes += 1;
        let NodeDifference { name, lines } = difference;
        if self.output == Output::Json {
            return write_line(io.stdout, &Record::Node { name: &name, changes: &lines });
        }
        self.nodes.entry(lines).or_default().push(name);
        Ok(())
    }

    /// Writes what is left to be written.
    pub(crate) fn end(
        mut self,
        node_causes: &[(&'static PolicyKey<NodeSettings>, Cause)],
        io: &mut Io<'_>,
    ) -> io::Result<Totals> {
        if self.output == Output::Json {
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
            text.push(format!("and {}, shown with --all", counted(left_out, "more subject")));
        }
        if self.totals.nodes > 0 {
            text.push(String::new());
            let [nodes, all] = [self.totals.nodes, self.totals.nodes_asked].map(thousands);
            text.push(format!("{nodes} of {all} nodes would be labelled or tainted differently"));
            for (lines, names) in &self.nodes {
                text.push(String::new());
                text.push(names_of(names, self.all));
                text.extend(lines.iter().map(|line| format!("    {line}")));
            }
            let causes = node_causes.iter().filter(|(key, _)| OF_NODES.contains(&key.name.as_str()));
            text.extend(causes.map(|(_, one)| format!("    {}", cause(one))));
        }
        for line in text {
            writeln!(io.stdout, "{}", printable(&line))?;
        }
        if self.totals.folded > 0 {
            let folded = thousands(self.totals.folded);
            io.say(format_args!(
                "{folded} more pods, ReplicaSets and Jobs come from templates that were judged in their place"
            ))?;
        }
        Ok(self.totals)
    }
}

impl Group {
    fn text(&self, all: bool, text: &mut Vec<String>) {
        // The pods of one owner are one line.
        let mut owners: Vec<(&Member, usize)> = Vec::new();
        for member in &self.members {
            let known = |other: &&mut (&Member, usize)| member.owner.is_some() && other.0.owner == member.owner;
            match owners.iter_mut().rev().take(OF_A_GROUP).find(known) {
                Some((_, more)) => *more += 1,
                None => owners.push((member, 0)),
            }
        }
        let shown = if all { owners.len() } else { OF_A_GROUP };
        for (Member { name, place, owner }, more) in owners.iter().take(shown) {
            text.push(match (owner, more) {
                (Some((kind, owner)), 1..) => format!("{name} ({place}) and {more} more of {kind} {owner}"),
                _ => format!("{name} ({place})"),
            });
        }
        let left_out: usize = owners.iter().skip(shown).map(|(_, more)| more + 1).sum();
        if left_out > 0 {
            text.push(format!("and {} more", thousands(left_out)));
        }
        text.extend(self.lines.iter().map(|line| format!("    {line}")));
    }
}

impl Totals {
    /// `12 of 1,204 subjects would be decided differently: 3 refused that were not, …`.
    fn head(&self) -> String {
        let [different, all] = [self.different, self.subjects].map(thousands);
        let parts = [
            (self.refused, if self.refused == 1 { "refused that was not" } else { "refused that were not" }),
            (self.no_longer_refused, "no longer refused"),
            (self.placed, "placed differently"),
            (self.told, "warned or repaired differently"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", thousands(*count)))
            .collect();
        let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
        let subjects = if self.subjects == 1 { "subject" } else { "subjects" };
        format!("{different} of {all} {subjects} would be decided differently{parts}")
    }
}

/// Writes which keys differ, whoever is asked about.
pub(crate) fn settings(found: &[Setting], output: Output, io: &mut Io<'_>) -> io::Result<()> {
    for setting in found {
        let line = match (output, setting) {
            (Output::Json, Setting::Policy { what, old, new }) => {
                write_line(io.stdout, &Record::Policy { policy: what, old, new })?;
                continue;
            }
            (Output::Json, Setting::Key { what, cause }) => {
                write_line(io.stdout, &Record::Key { policy: what, cause })?;
                continue;
            }
            (Output::Text, Setting::Policy { what, old, new }) => {
                let (sign, at) = if old.is_some() { ('-', old) } else { ('+', new) };
                format!("{sign} {what} ({})", set_by(at.as_ref()))
            }
            (Output::Text, Setting::Key { what, cause: one }) => format!("{what}: {}", cause(one)),
        };
        writeln!(io.stdout, "{}", printable(&line))?;
    }
    if output == Output::Text {
        let what = if found.is_empty() { "no setting differs".to_owned() } else { counted(found.len(), "difference") };
        io.say(format_args!("{what}; name manifests or a dump of a cluster to see who would be decided differently"))?;
    } else {
        write_line(io.stdout, &json!({"type": "summary", "differences": found.len()}))?;
    }
    Ok(())
}

/// `place.build.mode: Compatible (old/default.yaml:31) → Exact (new/default.yaml:31)`.
fn cause(cause: &Cause) -> String {
    let Cause { key, old, new, rule } = cause;
    let rule = rule.and_then(find);
    let value = |held: &Held| match rule {
        Some(rule) if held.value.is_null() => format!("not set, by itself {}", action_name(rule.default)),
        _ => shown(&held.value),
    };
    let (before, after) = (value(old), value(new));
    // Long lists are counted, and as long they may still be others.
    let after = if before == after { format!("others, {after}") } else { after };
    format!("{key}: {before}{} → {after}{}", held_at(old), held_at(new))
}

fn held_at(held: &Held) -> String {
    match &held.origin {
        None if held.value.is_null() => String::new(),
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

fn names_of(names: &[String], all: bool) -> String {
    list_first(names, if all { names.len() } else { OF_A_GROUP })
}
