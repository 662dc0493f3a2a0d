//! Reads a report from the JSON that `mullion survey -o json` writes.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

use crate::report::{SCHEMA, SurveyReport};

/// Why a text is not a report that this version can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportError {
    /// 1-based line; 0 if the text as a whole is wrong.
    pub line: usize,
    /// 1-based column, in bytes.
    pub column: usize,
    /// What is wrong, without a period.
    pub problem: String,
}

impl fmt::Display for ReportError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(out, "line {}, column {}: ", self.line, self.column)?;
        }
        write!(
            out,
            "{}; expected a report with schema {SCHEMA}, as `mullion survey -o json` of this version writes it",
            self.problem
        )
    }
}

impl std::error::Error for ReportError {}

impl From<serde_json::Error> for ReportError {
    fn from(error: serde_json::Error) -> Self {
        let text = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let problem = text.strip_suffix(&place).unwrap_or(&text).to_owned();
        Self { line: error.line(), column: error.column(), problem }
    }
}

/// The member with the version. It is read first, so that a report of another version gets one error about the version.
#[derive(Deserialize)]
#[serde(expecting = "a report")]
struct Version {
    #[serde(deserialize_with = "supported", rename = "schema")]
    _schema: (),
}

fn supported<'de, D: Deserializer<'de>>(input: D) -> Result<(), D::Error> {
    let schema = String::deserialize(input)?;
    if schema == SCHEMA {
        return Ok(());
    }
    let shown: String = schema.chars().take(60).flat_map(char::escape_debug).collect();
    Err(de::Error::custom(format!("the report has schema `{shown}`, which is another version")))
}

/// Reads a report. Members that this version does not know are ignored, because later versions of the schema add some.
pub fn read_report(text: &str) -> Result<SurveyReport, ReportError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(ReportError { line: 0, column: 0, problem: "the file is empty".to_owned() });
    }
    serde_json::from_str::<Version>(text)?;
    Ok(serde_json::from_str(text)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_error_names_the_place_and_what_was_expected() {
        let expected = "expected a report with schema mullion.dev/survey/v1, as `mullion survey -o json` of this version writes it";
        let cases = [
            ("", "the file is empty"),
            ("\u{feff} \n", "the file is empty"),
            ("{", "line 1, column 1: EOF while parsing an object"),
            ("{\n  \"schema\": 1}", "line 2, column 13: invalid type: integer `1`, expected a string"),
            ("{\"a\": 1}", "line 1, column 8: missing field `schema`"),
            ("5", "line 1, column 1: invalid type: integer `5`, expected a report"),
            (
                "{\n\"schema\": \"mullion.dev/survey/v2\"}",
                "line 2, column 34: the report has schema `mullion.dev/survey/v2`, which is another version",
            ),
            (
                "{\"schema\": \"\\u001b[31m\"}",
                "line 1, column 24: the report has schema `\\u{1b}[31m`, which is another version",
            ),
            ("{\"schema\": \"mullion.dev/survey/v1\"}", "line 1, column 35: missing field `header`"),
            (
                "{\"schema\": \"mullion.dev/survey/v1\",\n\"header\": 5}",
                "line 2, column 11: invalid type: integer `5`, expected struct Header",
            ),
        ];
        for (text, problem) in cases {
            let shown = read_report(text).unwrap_err().to_string();
            let (found, end) = shown.split_once("; ").unwrap();
            assert_eq!((found, end), (problem, expected), "{text:?}");
        }
    }
}
