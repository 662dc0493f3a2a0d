//! Collects what differs, and writes it in one of the formats: JSON Lines as soon as it is known, the others at the end.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use mullion_engine::model::WorkloadKind;
use serde::Serialize;
use serde_json::json;

use crate::report::document;
use crate::report::document::{RenderOptions, ReportFormat};
use crate::report::json::{ObjectName, write_line};
use crate::report::policy_diff::document::{document, setting_table, settings_document, workload_table};
use crate::report::policy_diff::model::{
    ComparedWorkload, DiffTotals, DifferenceCategory, DifferenceGroup, KeyDifference, NodeDifference,
    PolicyDifferences, SettingDifference, WorkloadDifference,
};
use crate::report::workload_result::WorkloadResult;

/// Collects what differs between two sets of policies.
pub(crate) struct DiffReport {
    format: ReportFormat,
    pub(crate) totals: DiffTotals,
    differences: PolicyDifferences,
    /// Indices of the groups, by category, differences and causes.
    known: BTreeMap<(DifferenceCategory, Vec<String>, Vec<String>), usize>,
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
    pub(crate) fn new(format: ReportFormat) -> Self {
        Self {
            format,
            totals: DiffTotals::default(),
            differences: PolicyDifferences::default(),
            known: BTreeMap::new(),
        }
    }

    /// Adds a workload that is decided differently.
    pub(crate) fn workload(
        &mut self,
        workload: ComparedWorkload,
        kind: WorkloadKind,
        difference: &WorkloadDifference,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let WorkloadDifference { category, old, new, causes } = difference;
        let category = *category;
        self.totals.different += 1;
        *match category {
            DifferenceCategory::Denied => &mut self.totals.denied,
            DifferenceCategory::NoLongerDenied => &mut self.totals.no_longer_denied,
            DifferenceCategory::Placed => &mut self.totals.placed,
            DifferenceCategory::Reported => &mut self.totals.reported,
        } += 1;
        if self.format == ReportFormat::Json {
            let ComparedWorkload { name: object, file, line, .. } = &workload;
            return write_line(out, &Record::Workload { object, file, line: *line, category, old, new, causes });
        }
        let (differences, causes) =
            (difference.lines(kind), causes.iter().map(KeyDifference::text).collect::<Vec<_>>());
        let groups = &mut self.differences.groups;
        let next = groups.len();
        let at = *self.known.entry((category, differences.clone(), causes.clone())).or_insert(next);
        match groups.get_mut(at) {
            Some(group) => group.members.push(workload),
            None => groups.push(DifferenceGroup { category, members: vec![workload], differences, causes }),
        }
        Ok(())
    }

    /// Adds a node that is labeled or tainted differently.
    pub(crate) fn node(&mut self, difference: NodeDifference, out: &mut dyn Write) -> io::Result<()> {
        self.totals.nodes += 1;
        let NodeDifference { name, lines } = difference;
        if self.format == ReportFormat::Json {
            return write_line(out, &Record::Node { name: &name, changes: &lines });
        }
        self.differences.nodes.entry(lines).or_default().push(name);
        Ok(())
    }

    /// Writes the rest of the report. `node_causes`: the keys that decide labels or taints, and differ.
    pub(crate) fn end(
        mut self,
        node_causes: &[KeyDifference],
        options: RenderOptions,
        out: &mut dyn Write,
    ) -> io::Result<DiffTotals> {
        self.differences.groups.sort_by_key(|group| group.category);
        self.differences.node_causes = node_causes.iter().map(KeyDifference::text).collect();
        let Self { format, totals, differences, .. } = &self;
        let json = |out: &mut dyn Write| write_line(out, &Record::Summary(totals));
        document::write(json, || document(totals, differences), || workload_table(differences), *format, options, out)?;
        Ok(self.totals)
    }
}

/// Writes the policies and keys that differ, without input.
pub(crate) fn write_settings(
    differences: &[SettingDifference],
    format: ReportFormat,
    options: RenderOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let json = |out: &mut dyn Write| {
        differences.iter().try_for_each(|difference| write_line(out, difference))?;
        write_line(out, &json!({"type": "summary", "differences": differences.len()}))
    };
    let document = || settings_document(differences);
    document::write(json, document, || setting_table(differences), format, options, out)
}
