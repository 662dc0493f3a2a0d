//! The JSON Schema of the plan, against plans that have every member.

use mullion::report::ReportFormat;
use mullion_plan::report::SCHEMA;
use serde_json::Value;

use crate::{fixtures, json_schema, written};

fn schema() -> Value {
    json_schema::schema("plan-v1.json")
}

#[test]
fn plans_are_valid_and_every_member_is_described() {
    let lenient = schema();
    assert!(jsonschema::draft202012::meta::is_valid(&lenient));
    assert_eq!(lenient["properties"]["schema"]["const"], SCHEMA);
    let mut strict_schema = lenient;
    json_schema::strict(&mut strict_schema);
    let validator = jsonschema::draft202012::new(&strict_schema).unwrap();
    for report in [fixtures::fleet(), fixtures::arrived(), fixtures::empty(), fixtures::hostile()] {
        let json: Value = serde_json::from_str(&written(&report, ReportFormat::Json)).unwrap();
        let complaints = json_schema::complaints(&validator, &json);
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }
}

#[test]
fn a_fault_anywhere_is_found() {
    let json: Value = serde_json::from_str(&written(&fixtures::fleet(), ReportFormat::Json)).unwrap();
    json_schema::a_fault_anywhere_is_found(
        &schema(),
        &json,
        &["effect", "inPlace"],
        &["before", "after", "patch", "labels"],
    );
}
