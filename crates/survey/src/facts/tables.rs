//! The tables that a survey and a plan read: those that are part of Mullion, or those of a file in their place.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::civil::Date;
use mullion_engine::model::published_images::PublishedImages;
use mullion_engine::model::windows::Build;

use crate::facts::behavior_changes::BehaviorRow;
use crate::facts::built_in;
use crate::facts::commands::CommandRow;
use crate::facts::constraints::ConstraintRow;
use crate::facts::dates::LifecycleDate;
use crate::facts::read::{FactsError, FactsFile, parse_facts};
use crate::facts::row::FactsRow;
use crate::node_product::NodeProduct;

/// Dates, image facts, constraints, behavior changes and commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// When support ends.
    pub dates: Vec<LifecycleDate>,
    /// The limits of Kubernetes versions and providers.
    pub constraints: Vec<ConstraintRow>,
    /// Changes of behavior after a move.
    pub changes: Vec<BehaviorRow>,
    /// Commands of providers.
    pub commands: Vec<CommandRow>,
    /// The Windows releases for which images are published.
    pub images: Cow<'static, PublishedImages>,
    /// The source of each table.
    pub origins: BTreeMap<FactsTable, TableOrigin>,
}

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FactsTable {
    /// [`Facts::dates`].
    Dates,
    /// [`Facts::images`].
    Images,
    /// [`Facts::constraints`].
    Constraints,
    /// [`Facts::changes`].
    Changes,
    /// [`Facts::commands`].
    Commands,
}

impl FactsTable {
    /// All tables, in the order of reports.
    pub const ALL: [Self; 5] = [Self::Dates, Self::Images, Self::Constraints, Self::Changes, Self::Commands];

    /// Its key in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dates => "dates",
            Self::Images => "images",
            Self::Constraints => "constraints",
            Self::Changes => "changes",
            Self::Commands => "commands",
        }
    }
}

/// The tables that a survey reads. A plan reads all of them.
pub const SURVEY_TABLES: [FactsTable; 2] = [FactsTable::Dates, FactsTable::Images];

/// The source of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableOrigin {
    /// Whether a file replaces the built-in table.
    pub replaced: bool,
    /// The day on which all its rows had been compared with their sources.
    pub checked: Date,
}

impl Facts {
    /// When Microsoft ends support of a host with that build: of its server, or of its client if it has no server.
    pub fn end_of_host(&self, build: Build) -> Option<Date> {
        let end = |product| self.dates.iter().find(|row| row.is_end_of_host(build, product)).map(|row| row.date);
        end(NodeProduct::Server).or_else(|| end(NodeProduct::Client))
    }

    /// The day on which all dates had been compared with their sources.
    pub fn checked(&self) -> Date {
        self.origins.get(&FactsTable::Dates).map_or(Date::MIN, |origin| origin.checked)
    }

    /// The tables that are part of Mullion. A test parses them, so they are never malformed.
    pub fn built_in() -> Self {
        let images = PublishedImages::shipped();
        let checked = images.as_of.unwrap_or(Date::MIN);
        let mut facts = Self {
            dates: Vec::new(),
            constraints: Vec::new(),
            changes: Vec::new(),
            commands: Vec::new(),
            images: Cow::Borrowed(images),
            origins: BTreeMap::from([(FactsTable::Images, TableOrigin { replaced: false, checked })]),
        };
        for (name, text) in built_in::PARTS {
            // An error leaves the table empty.
            if let Ok(part) = parse_facts(name, text) {
                facts.replace(part, false);
            }
        }
        facts
    }

    /// The built-in tables, with each table of the text in place of the built-in one. `name`: that of the file.
    pub fn parse(name: &str, text: &str) -> Result<Self, FactsError> {
        let mut facts = Self::built_in();
        facts.replace(parse_facts(name, text)?, true);
        Ok(facts)
    }

    /// The number of rows of a table.
    pub fn rows(&self, table: FactsTable) -> usize {
        match table {
            FactsTable::Dates => self.dates.len(),
            FactsTable::Images => self.images.images.len(),
            FactsTable::Constraints => self.constraints.len(),
            FactsTable::Changes => self.changes.len(),
            FactsTable::Commands => self.commands.len(),
        }
    }

    fn replace(&mut self, from: FactsFile, replaced: bool) {
        let FactsFile { checked, dates, images, constraints, changes, commands } = from;
        let days = [
            (FactsTable::Dates, replace_table(&mut self.dates, dates, checked)),
            (FactsTable::Constraints, replace_table(&mut self.constraints, constraints, checked)),
            (FactsTable::Changes, replace_table(&mut self.changes, changes, checked)),
            (FactsTable::Commands, replace_table(&mut self.commands, commands, checked)),
            (FactsTable::Images, images.as_ref().map(|_| checked)),
        ];
        for (table, checked) in days {
            self.origins.extend(checked.map(|checked| (table, TableOrigin { replaced, checked })));
        }
        if let Some(images) = images {
            self.images = Cow::Owned(PublishedImages { as_of: Some(checked), images });
        }
    }
}

/// Replaces a table by that of a file, if the file has it. Returns the day of the row whose comparison is the longest ago.
/// `checked`: of rows without a day of their own.
fn replace_table<T: FactsRow>(own: &mut Vec<T>, rows: Option<Vec<T>>, checked: Date) -> Option<Date> {
    *own = rows?;
    let day = |row: &T| row.days().and_then(|(_, own)| own).unwrap_or(checked);
    Some(own.iter().map(day).min().unwrap_or(checked))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
