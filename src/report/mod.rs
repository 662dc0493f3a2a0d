//! Findings in each output format; problems of policy files; the result of a
//! workload under a set of policies, for comparison; and the reports of a survey, of a plan and of a comparison of policies.
//!
//! Only [`admission`], [`part_findings`](mod@part_findings), [`softened`] and [`workload_result`] call the engine. This module does not read files and does not decide an
//! exit code.

mod admission;
pub(crate) mod document;
mod failure;
mod field_difference;
mod field_match;
mod field_path;
mod findings;
mod fold;
mod inventory_sections;
mod inventory_text;
mod json;
mod no_default;
mod not_reviewed;
mod part_findings;
pub mod plan;
pub(crate) mod policy_diff;
mod problem;
mod rule_page;
mod softened;
pub mod survey;
pub(crate) mod table;
pub(crate) mod text;
mod totals;
pub(crate) mod verify;
mod wording;
mod workload_result;
mod workload_text;

pub(crate) use admission::{Admission, review_of};
pub use document::{RenderOptions, ReportFormat};
pub(crate) use failure::{InputFailure, STDIN};
pub use field_difference::{differences, unexpected};
pub(crate) use field_match::likeness;
pub use field_match::mismatches;
pub(crate) use field_path::FieldPath;
pub use findings::FindingsFormat;
pub(crate) use findings::{FileNote, FindingsWriter, FormatOptions, ReportedFinding, ReportedWorkload, github};
pub(crate) use fold::folded;
pub(crate) use json::{
    CheckRecord, FindingPlace, FindingRecord, ObjectName, PartRecord, ReviewNotes, ReviewRecord, TextRecord,
    UnrenderedRecord, write_line,
};
pub(crate) use no_default::no_default;
pub(crate) use not_reviewed::{NotReviewedWorkloads, not_reviewed};
pub(crate) use part_findings::{part_findings, template_findings};
pub(crate) use problem::{PolicySources, ProblemRecord};
pub(crate) use rule_page::decider;
pub use rule_page::{action_name, default_action, page};
pub(crate) use softened::SoftenedFindings;
pub(crate) use text::{Diagnostic, DiagnosticSeverity, SourcePlace};
pub(crate) use totals::CheckTotals;
pub(crate) use wording::set_by;
pub use workload_result::WorkloadResult;
pub(crate) use workload_result::{FindingResult, finding_results};
pub(crate) use workload_text::{WorkloadChanges, evidence_text, os_text};
