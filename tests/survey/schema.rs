//! The JSON Schema of the report, compared with reports that have every member.

use mullion::report::ReportFormat;
use mullion_survey::report::SCHEMA;
use serde_json::{Value, json};

use crate::{fixtures, json_schema, written};

fn schema() -> Value {
    json_schema::schema("survey-v1.json")
}

#[test]
fn reports_are_valid_and_every_member_is_described() {
    let lenient = schema();
    assert!(jsonschema::draft202012::meta::is_valid(&lenient));
    assert_eq!(lenient["properties"]["schema"]["const"], SCHEMA);
    let mut strict_schema = lenient.clone();
    json_schema::strict(&mut strict_schema);
    // A part of allOf is open; the whole is closed.
    for part in ["object", "finding"] {
        let part = strict_schema["$defs"][part].as_object_mut().unwrap();
        part.retain(|key, _| !["additionalProperties", "unevaluatedProperties"].contains(&key.as_str()));
    }
    strict_schema["properties"]["findings"]["items"]["unevaluatedProperties"] = json!(false);
    let validator = jsonschema::draft202012::new(&strict_schema).unwrap();
    let (mixed, earlier) = (fixtures::mixed(), fixtures::earlier());
    for (report, before) in
        [(&mixed, None), (&mixed, Some(&earlier)), (&earlier, Some(&mixed)), (&fixtures::empty(), None)]
    {
        let json: Value = serde_json::from_str(&written(report, before, ReportFormat::Json)).unwrap();
        let complaints = json_schema::complaints(&validator, &json);
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }
}

#[test]
fn a_fault_anywhere_is_found() {
    let json: Value =
        serde_json::from_str(&written(&fixtures::mixed(), Some(&fixtures::earlier()), ReportFormat::Json)).unwrap();
    json_schema::a_fault_anywhere_is_found(&schema(), &json, &["comparison"], &[]);
}
