//! How old tables of facts are.

use std::fmt;

use jiff::civil::Date;
use mullion_engine::model::text::list_with;

use crate::facts::{Facts, FactsTable};

/// From how many days on tables count as old: sources that change with each release of Kubernetes and Windows have then
/// changed.
pub const OLD_AFTER_DAYS: i32 = 90;

/// Tables that are old. Displayed as a clause: `the tables dates and images were last compared with their sources on
/// 2026-08-01, 90 days ago`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactsAge {
    /// Those that are old, in the order of reports.
    pub tables: Vec<FactsTable>,
    /// The day on which the oldest of them was compared with its sources.
    pub checked: Date,
    /// How many days ago that was.
    pub days: i32,
    /// Whether a file replaces at least one of them.
    pub replaced: bool,
    /// Whether all of them were compared on that day.
    is_same_day: bool,
}

impl Facts {
    /// Which of these tables are old on a day. `None`: none of them, also if the day is before that of their check, because
    /// then the clock or the table is wrong, and nothing shows an age.
    pub fn age(&self, tables: &[FactsTable], today: Date) -> Option<FactsAge> {
        let days_since = |checked: Date| today.since(checked).map_or(i32::MAX, |span| span.get_days());
        let old: Vec<(FactsTable, Date, bool)> = tables
            .iter()
            .filter_map(|table| self.origins.get(table).map(|origin| (*table, origin.checked, origin.replaced)))
            .filter(|(_, checked, _)| days_since(*checked) >= OLD_AFTER_DAYS)
            .collect();
        let checked = old.iter().map(|(_, checked, _)| *checked).min()?;
        Some(FactsAge {
            checked,
            days: days_since(checked),
            replaced: old.iter().any(|(_, _, replaced)| *replaced),
            is_same_day: old.iter().all(|(_, day, _)| *day == checked),
            tables: old.into_iter().map(|(table, _, _)| table).collect(),
        })
    }
}

impl fmt::Display for FactsAge {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tables, checked, days, is_same_day, .. } = self;
        let names = list_with(tables.iter().map(|table| table.name()), "and");
        let subject = match (tables.len(), is_same_day) {
            (1, _) => format!("the table {names} was"),
            (_, true) => format!("the tables {names} were"),
            (_, false) => format!("the oldest of the tables {names} was"),
        };
        write!(out, "{subject} last compared with the sources on {checked}, {days} days ago")
    }
}

impl FactsAge {
    /// The clause as a sentence, with what to do.
    pub fn sentence(&self) -> String {
        let remedy = if self.replaced {
            "compare the rows of the file with their sources, and set `checked` in it"
        } else {
            "use a newer version of Mullion, or replace the tables with --facts FILE"
        };
        let clause = mullion_engine::model::text::upper_first(&self.to_string());
        format!("{clause}: later changes are not in this report; {remedy}.")
    }
}
