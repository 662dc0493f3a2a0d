//! Dates after which a release, an image, a container runtime or a Kubernetes version is not supported: the rows of
//! `facts/lifecycle.yaml`, or of a file of the same format.

use jiff::civil::Date;
use mullion_engine::model::windows::Build;
use mullion_manifest::{LineIndex, ManifestNode, NodeValue, Problem, documents};
use serde::Deserialize;

/// The table that is part of Mullion.
const BUILT_IN: &str = include_str!("../facts/lifecycle.yaml");

/// The most rows of a table.
const MAX_ROWS: usize = 10_000;

/// A table of dates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lifecycle {
    /// The day on which its rows were last compared with their sources.
    pub checked: Date,
    /// The rows, in the order of the file.
    pub dates: Vec<LifecycleDate>,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LifecycleDate {
    /// What it is about.
    pub concerns: Concerns,
    /// The last day, or the day of the change.
    pub date: Date,
    /// What happens: a clause.
    pub what: String,
    /// Where the date is published.
    pub source: String,
    /// The day of the source.
    pub as_of: Date,
    /// Whether support ends on that day.
    #[serde(default)]
    pub ends: bool,
}

/// What a row is about: all members must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Concerns {
    /// Windows build of nodes.
    #[serde(default)]
    pub node_build: Option<Build>,
    /// Windows build of images of Windows workloads.
    #[serde(default)]
    pub image_build: Option<Build>,
    /// `AKS`, `EKS`, `GKE`, `OpenShift`, `RKE2`.
    #[serde(default)]
    pub provider: Option<String>,
    /// Minor version of containerd: `1.7`.
    #[serde(default)]
    pub containerd: Option<String>,
    /// Minor version of kubelets: `1.32`.
    #[serde(default)]
    pub kubelet: Option<String>,
    /// Beginning of images of Windows workloads.
    #[serde(default)]
    pub image: Option<String>,
}

impl Lifecycle {
    /// The table that is part of Mullion. It is empty if the embedded file cannot be read, which a test excludes.
    pub fn built_in() -> Self {
        Self::parse("lifecycle.yaml", BUILT_IN)
            .unwrap_or(Self { checked: Date::constant(2026, 1, 1), dates: Vec::new() })
    }

    /// Reads a table. An error names the line.
    pub fn parse(name: &str, text: &str) -> Result<Self, Box<Problem>> {
        let lines = LineIndex::new(text);
        let fail = |node: &ManifestNode, message: String| Box::new(Problem::at(name, &lines, node.span, message));
        let whole = |message: &str| {
            Box::new(Problem::of_file(name, message, "write it in the format of crates/survey/facts/lifecycle.yaml"))
        };
        let mut all = documents(name, text).into_iter();
        let document = all.next().ok_or_else(|| whole("the file is empty"))?.map_err(Box::new)?;
        if all.next().is_some() {
            return Err(whole("it has more than one document"));
        }
        let root = &document.node;
        let NodeValue::Map(entries) = &root.value else {
            return Err(whole("it is not a map with the keys checked and dates"));
        };
        if let Some(entry) = entries.iter().find(|entry| !["checked", "dates"].contains(&entry.key.as_str())) {
            return Err(fail(&entry.value, format!("unknown key `{}`; the keys are checked and dates", entry.key)));
        }
        let checked = root.get("checked").ok_or_else(|| whole("the key checked is missing"))?;
        let date = checked.value.as_str().and_then(|text| text.parse::<Date>().ok());
        let checked =
            date.ok_or_else(|| fail(&checked.value, "checked is not a date; write it as 2026-11-22".to_owned()))?;
        let rows = root.get("dates").ok_or_else(|| whole("the key dates is missing"))?;
        let NodeValue::List(items) = &rows.value.value else {
            return Err(fail(&rows.value, "dates is not a list".to_owned()));
        };
        if items.len() > MAX_ROWS {
            return Err(fail(&rows.value, format!("dates has {} rows, and at most {MAX_ROWS} are read", items.len())));
        }
        let mut dates = Vec::new();
        for item in items {
            let row = LifecycleDate::deserialize(item.to_json())
                .map_err(|error| fail(item, format!("the row cannot be read: {error}")))?;
            if row.concerns == Concerns::default() {
                return Err(fail(
                    item,
                    "concerns is empty, so the row would concern everything; name a member".to_owned(),
                ));
            }
            if row.what.is_empty() || row.source.is_empty() {
                return Err(fail(item, "what or source is empty".to_owned()));
            }
            dates.push(row);
        }
        Ok(Self { checked, dates })
    }
}

/// `1.7` of `containerd://1.7.29+azure` or of `v1.7.29`.
pub(crate) fn minor_version(text: &str) -> Option<&str> {
    let version = text.trim_start_matches('v');
    let mut dots = version.match_indices('.').map(|(at, _)| at);
    dots.next()?;
    let end = dots.next().unwrap_or(version.len());
    let minor = version.get(..end)?;
    minor.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.').then_some(minor)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use mullion_engine::model::windows::support_of;

    use super::*;

    #[test]
    fn the_table_is_complete_and_in_order() {
        let table = Lifecycle::parse("lifecycle.yaml", BUILT_IN).unwrap();
        assert_eq!(table, Lifecycle::built_in());
        assert!(table.dates.len() > 50);
        for row in &table.dates {
            assert!(row.as_of <= table.checked, "{}: its source is newer than the check", row.what);
            assert!(row.source.contains(['/', '.']) && !row.what.ends_with('.'), "{}", row.what);
            // `ended` and `ends` are written from the day of the check.
            let has = |words: &[&str]| row.what.split(' ').any(|word| words.contains(&word));
            let (past, future) = (has(&["ended", "lost"]), has(&["ends", "loses", "deletes"]));
            assert!(past != future && past == (row.date <= table.checked), "{} on {}", row.what, row.date);
        }
        let rows = |concerns: &dyn Fn(&Concerns) -> bool| {
            table.dates.iter().filter(|row| concerns(&row.concerns)).map(|row| row.date).collect::<Vec<_>>()
        };
        for minor in ["1.6", "1.7", "2.0", "2.1", "2.2", "2.3"] {
            assert_eq!(rows(&|concerns| concerns.containerd.as_deref() == Some(minor)).len(), 1, "{minor}");
        }
        assert!(table.dates.windows(2).all(|pair| pair[0].concerns != pair[1].concerns || pair[0].date < pair[1].date));
    }

    /// The engine has the dates of images too, because its rules must not depend on this table.
    #[test]
    fn image_dates_are_those_of_the_engine() {
        for build in [14393, 17763, 20348, 26100].map(Build::new) {
            let end = Lifecycle::built_in().dates.into_iter();
            let end = end.filter(|row| row.concerns.image_build == Some(build) && row.ends).map(|row| row.date).next();
            assert_eq!(end.unwrap().to_string(), support_of(build).unwrap().end, "{build}");
        }
    }

    #[test]
    fn errors_name_the_line() {
        let row = "concerns: {provider: AKS}, date: 2027-01-01, what: a, source: b, asOf: 2026-01-01";
        for (text, expected) in [
            ("", "empty"),
            ("- a", "not a map"),
            ("dates: []", "checked is missing"),
            ("checked: soon\ndates: []", "t:1:10: checked is not a date"),
            ("checked: 2026-01-01", "dates is missing"),
            ("checked: 2026-01-01\ndates: {}", "t:2:8: dates is not a list"),
            ("checked: 2026-01-01\nmore: 1\ndates: []", "t:2:7: unknown key `more`"),
            (
                "checked: 2026-01-01\ndates:\n- {date: 2026-01-01}",
                "t:3:3: the row cannot be read: missing field `concerns`",
            ),
            (
                &format!("checked: 2026-01-01\ndates:\n- {{{row}}}\n- {{{row}, more: 1}}"),
                "t:4:3: the row cannot be read: unknown field `more`",
            ),
            (
                &format!("checked: 2026-01-01\ndates:\n- {{{}}}", row.replace("provider: AKS", "")),
                "t:3:3: concerns is empty",
            ),
            (
                &format!("checked: 2026-01-01\ndates:\n- {{{}}}", row.replace("2027-01-01", "2027-13-01")),
                "t:3:3: the row cannot be read",
            ),
            (
                &format!("checked: 2026-01-01\ndates:\n- {{{}}}", row.replace("what: a", "what: ''")),
                "t:3:3: what or source is empty",
            ),
        ] {
            let error = Lifecycle::parse("t", text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert_eq!(Lifecycle::parse("t", &format!("checked: 2026-01-01\ndates:\n- {{{row}}}")).unwrap().dates.len(), 1);
    }

    #[test]
    fn minor_versions() {
        for (text, expected) in [
            ("v1.33.4", Some("1.33")),
            ("1.7.29+azure", Some("1.7")),
            ("v1.32", Some("1.32")),
            ("2", None),
            ("", None),
            ("a.b.c", None),
        ] {
            assert_eq!(minor_version(text), expected, "{text}");
        }
    }
}
