//! SARIF 2.1.0 logs: one run of the tool `mullion`, for code scanning and for editors. Names in comments are properties of
//! the [specification](https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html).
//!
//! The log is written piece by piece, one line for each rule and result, so that the results of a whole cluster are not
//! kept in memory.

use std::collections::HashMap;
use std::io;
use std::io::Write;

use mullion_engine::model::settings::Action;
use mullion_engine::rules::{Rule, catalogue};
use serde::Serialize;
use serde_json::{Value, json};

use crate::exact_text::JsonWriter;
use crate::report::failure::{InputFailure, STDIN};
use crate::report::findings::fingerprint::Fingerprints;
use crate::report::findings::writer::{FileNote, FindingsWriter, ReportedFinding, ReportedWorkload};
use crate::report::json::{FindingPlace, FindingRecord};
use crate::report::rule_page::help_uri;
use crate::report::text::DiagnosticSeverity;
use crate::report::totals::CheckTotals;
use crate::report::wording::{sentence, slashed};

/// The published schema of 2.1.0 with its errata.
const SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The base of relative paths: the name of the root of the repository in code scanning.
const BASE: &str = "%SRCROOT%";

/// A log that is being written.
#[derive(Debug)]
pub(super) struct SarifLog {
    /// The index of each rule in `rules`, by code.
    rules: HashMap<&'static str, usize>,
    fingerprints: Fingerprints,
    results: usize,
    failures: Vec<Notification>,
    notes: Vec<Notification>,
}

impl SarifLog {
    /// Writes everything before the first result: the tool with the whole catalogue.
    pub(super) fn start(out: &mut dyn Write) -> io::Result<Self> {
        let version = env!("CARGO_PKG_VERSION");
        write!(out, "{{\"version\":\"2.1.0\",\"$schema\":\"{SCHEMA}\",\"runs\":[{{\n\"tool\":{{\"driver\":{{")?;
        write!(out, "\"name\":\"mullion\",\"version\":\"{version}\",\"semanticVersion\":\"{version}\",\"rules\":[")?;
        let mut rules = HashMap::new();
        for (at, rule) in catalogue().enumerate() {
            rules.insert(rule.code, at);
            write_item(out, at, &ReportingDescriptor::from(rule))?;
        }
        write!(out, "\n]}}}},\n\"columnKind\":\"unicodeCodePoints\",\n\"originalUriBaseIds\":{{\"{BASE}\":")?;
        serde_json::to_writer(JsonWriter(&mut *out), &json!({"description": {"text": "where mullion was run"}}))?;
        write!(out, "}},\n\"results\":[")?;
        Ok(Self { rules, fingerprints: Fingerprints::default(), results: 0, failures: Vec::new(), notes: Vec::new() })
    }

    /// Writes a finding. `remark` is what Mullion does about it; may be empty.
    fn finding(
        &mut self,
        out: &mut dyn Write,
        finding: &FindingRecord<'_>,
        place: FindingPlace<'_>,
        remark: &str,
    ) -> io::Result<()> {
        let FindingPlace { file, line, column, end_line, end_column, object } = place;
        let mut location = Location::new(file, Some((line, column)), Some((end_line, end_column)));
        location.logical_locations.push(json!({
            "fullyQualifiedName": format!("{object}: {}", finding.path),
            "kind": if finding.pointer.is_empty() { "object" } else { "property" },
        }));
        let result = SarifResult {
            rule_id: finding.code,
            rule_index: self.rules.get(finding.code).copied(),
            level: level(finding.action),
            message: Text::new(sentence(finding.message, &finding.help, remark)),
            locations: [location],
            partial_fingerprints: json!({"mullionFinding/v1": self.fingerprints.of_finding(finding, place)}),
        };
        write_item(out, self.results, &result)?;
        self.results += 1;
        Ok(())
    }
}

impl FindingsWriter for SarifLog {
    /// Stores it for the end of the log.
    fn failure(&mut self, failure: &InputFailure, _: &mut dyn Write) -> io::Result<()> {
        self.failures.push(Notification::new(DiagnosticSeverity::Error, failure));
        Ok(())
    }

    /// Stores it for the end of the log.
    fn note(&mut self, note: &FileNote<'_>, _: &mut dyn Write) -> io::Result<()> {
        self.notes.push(Notification::new(note.severity, &note.about));
        Ok(())
    }

    fn workload(&mut self, workload: &ReportedWorkload<'_>, out: &mut dyn Write) -> io::Result<()> {
        workload
            .shown()
            .try_for_each(|ReportedFinding { record, place, remark, .. }| self.finding(out, record, *place, remark))
    }

    fn end(self: Box<Self>, _: &CheckTotals, out: &mut dyn Write) -> io::Result<()> {
        let execution_successful = self.failures.is_empty();
        let notifications = self.failures.into_iter().chain(self.notes).collect();
        let invocation = Invocation { execution_successful, tool_execution_notifications: notifications };
        write!(out, "\n],\n\"invocations\":[")?;
        serde_json::to_writer(JsonWriter(&mut *out), &invocation)?;
        writeln!(out, "]}}]}}")
    }
}

/// Writes the item at `at` of an array, on a line of its own.
fn write_item(out: &mut dyn Write, at: usize, item: &impl Serialize) -> io::Result<()> {
    out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
    Ok(serde_json::to_writer(JsonWriter(out), item)?)
}

fn level(action: Action) -> &'static str {
    if action == Action::Allow { "none" } else { DiagnosticSeverity::from(action).name() }
}

/// `reportingDescriptor`: a rule.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportingDescriptor {
    id: &'static str,
    name: &'static str,
    short_description: Text,
    full_description: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    help_uri: Option<&'static str>,
    help: Text,
    default_configuration: Value,
}

/// `message` and `multiformatMessageString`.
#[derive(Debug, Serialize)]
struct Text {
    text: String,
}

/// `result`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifResult<'a> {
    rule_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_index: Option<usize>,
    level: &'static str,
    message: Text,
    locations: [Location; 1],
    /// Not named `primaryLocationLineHash`, which code scanning computes from the file itself.
    partial_fingerprints: Value,
}

/// `location`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    physical_location: PhysicalLocation,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    logical_locations: Vec<Value>,
}

/// `physicalLocation`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: ArtifactLocation,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<Region>,
}

/// `artifactLocation`.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactLocation {
    uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri_base_id: Option<&'static str>,
}

/// `region`; the end column is exclusive.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: usize,
    start_column: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_column: Option<usize>,
}

/// `invocation`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Invocation {
    execution_successful: bool,
    tool_execution_notifications: Vec<Notification>,
}

/// `notification`.
#[derive(Debug, Serialize)]
struct Notification {
    level: &'static str,
    message: Text,
    locations: [Location; 1],
}

impl Notification {
    fn new(severity: DiagnosticSeverity, about: &InputFailure) -> Self {
        Self {
            level: severity.name(),
            message: Text::new(&about.message),
            locations: [Location::new(&about.file, about.place, None)],
        }
    }
}

impl From<&'static Rule> for ReportingDescriptor {
    fn from(rule: &'static Rule) -> Self {
        let sentence = sentence(rule.why, rule.instead, "");
        let help = format!(
            "{sentence}.\n\nThe whole page: mullion rules {}. Policy files set the action of its findings, \
             rules.actions: [{{rule: {}, action: …}}].",
            rule.code, rule.name
        );
        Self {
            id: rule.code,
            name: rule.name,
            short_description: Text::new(rule.summary),
            full_description: Text::new(format!("{sentence}.")),
            help_uri: help_uri(rule),
            help: Text { text: help },
            default_configuration: json!({"level": level(rule.default)}),
        }
    }
}

impl Text {
    fn new(text: impl AsRef<str>) -> Self {
        Self { text: text.as_ref().to_owned() }
    }
}

impl Location {
    /// The location in `file` between two lines and columns; without `start` the whole file.
    fn new(file: &str, start: Option<(usize, usize)>, end: Option<(usize, usize)>) -> Self {
        let (end_line, end_column) = end.unzip();
        let region = start.map(|(start_line, start_column)| Region { start_line, start_column, end_line, end_column });
        let physical_location = PhysicalLocation { artifact_location: ArtifactLocation::of(file), region };
        Self { physical_location, logical_locations: Vec::new() }
    }
}

impl ArtifactLocation {
    /// The URI reference (RFC 3986) of a file, from the name as the user passed it.
    fn of(file: &str) -> Self {
        let path = slashed(file);
        if path.starts_with('/') {
            return Self { uri: format!("file://{}", percent_encoded(&path)), uri_base_id: None };
        }
        if cfg!(windows) && path.get(1..3) == Some(":/") {
            return Self { uri: format!("file:///{}", percent_encoded(&path)), uri_base_id: None };
        }
        let path = path.trim_start_matches("./");
        // Standard input has no path, and a path that leads out of the base is not below it.
        let below = path != STDIN && !path.split('/').any(|part| part == "..");
        Self { uri: percent_encoded(path), uri_base_id: below.then_some(BASE) }
    }
}

/// Encodes every byte that is not literal in all parts of a path, including `:`, which would end a scheme in the first
/// segment.
fn percent_encoded(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/');
    path.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {

    use super::*;

    #[cfg(unix)]
    #[test]
    fn files_become_uris() {
        let table = [
            ("web.yaml", "web.yaml", Some(BASE)),
            ("./a/web.yaml", "a/web.yaml", Some(BASE)),
            ("a b/100%/ü:#?.yaml", "a%20b/100%25/%C3%BC%3A%23%3F.yaml", Some(BASE)),
            ("..a/b..yaml", "..a/b..yaml", Some(BASE)),
            ("../web.yaml", "../web.yaml", None),
            ("a/../../web.yaml", "a/../../web.yaml", None),
            ("/a b/web.yaml", "file:///a%20b/web.yaml", None),
            (STDIN, "%3Cstdin%3E", None),
        ];
        for (file, uri, uri_base_id) in table {
            assert_eq!(ArtifactLocation::of(file), ArtifactLocation { uri: uri.to_owned(), uri_base_id }, "{file}");
        }
    }
}
