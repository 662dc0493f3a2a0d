//! The JSON Schemas of policy files, compared with the loader and with the files in the repository.
//!
//! `policies/schema/` and `docs/reference/policy.md` are generated from the same table as the loader's checks; `make
//! rules` writes them again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![allow(unreachable_pub, reason = "modules of one test program")]

mod agree;
mod generate;
#[path = "../rules/golden.rs"]
#[allow(dead_code, reason = "the rules use all of it")]
mod golden;
mod page;
mod schema_store;
mod table;

use std::io;

use mullion::cli::policy::{PolicySchemaArgs, schema};
use mullion::cli::{Io, Outcome};
use mullion_policy::is_test_file;
use mullion_policy::schema::json::{render_kind_schema, render_policy_schema, schema_kinds};

/// The result of a check: its complaints, one line each.
type Checked = Result<(), String>;

/// All complaints as one, or none.
fn all(complaints: &[String]) -> Checked {
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

/// The output of `mullion policy schema`.
fn printed(kind: Option<&str>) -> String {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let args = PolicySchemaArgs { output_file: mullion::cli::OutputFileArgs::default(), kind: kind.map(str::to_owned) };
    let mut io =
        Io { stdin: &mut io::empty(), stdout: &mut stdout, stderr: &mut stderr, colour_stdout: false, width: None };
    assert_eq!(schema::run(&args, &mut io).unwrap(), Outcome::Clean);
    assert!(stderr.is_empty());
    String::from_utf8(stdout).unwrap()
}

#[test]
fn the_schemas_are_what_the_program_prints() {
    for (file, kind) in [("policy.json", None), ("policy-test.json", Some("PolicyTest"))] {
        let made = printed(kind);
        golden::file(&format!("policies/schema/{file}"), &made).unwrap_or_else(|complaint| panic!("{complaint}"));
    }
}

#[test]
fn the_reference_is_made_from_the_table() {
    let pages = page::pages().into_iter();
    let complaints: Vec<String> = pages.filter_map(|(path, page)| golden::file(&path, &page).err()).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Every schema is valid in its dialect for strict validators, except for keywords for editors.
#[test]
fn each_is_a_schema_of_its_dialect() {
    for schema in schema_kinds().filter_map(render_kind_schema).chain([render_policy_schema()]) {
        let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
        assert!(jsonschema::draft7::meta::is_valid(&schema));
        jsonschema::draft7::new(&schema).unwrap();
    }
}

/// The language server searches for it in the comments of each document.
#[test]
fn each_document_of_the_shipped_files_names_its_schema() {
    for name in golden::names("policies") {
        let path = golden::path("policies").join(&name);
        if path.extension().is_none_or(|end| end != "yaml") {
            continue;
        }
        let schema = if is_test_file(&path) { "policy-test" } else { "policy" };
        let line = format!("# yaml-language-server: $schema=schema/{schema}.json\n");
        let text = std::fs::read_to_string(path).unwrap();
        for document in format!("\n{text}").split("\n---\n") {
            assert!(document.trim_start().starts_with(&line), "policies/{name}: a document lacks {line}");
        }
    }
}
