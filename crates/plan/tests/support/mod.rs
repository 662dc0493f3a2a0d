//! Inventories of objects, and the inputs of a plan, for the suites about surveys and plans.

#![allow(clippy::unwrap_used, dead_code, reason = "tests; each suite uses a part")]

use jiff::civil::Date;
use mullion_engine::model::windows::Build;
use mullion_plan::PlanContext;
use mullion_policy::PolicySet;
use mullion_survey::inventory::{KINDS, read_yaml};
use mullion_survey::report::Source;
use mullion_survey::{Facts, InventoryReader, SurveyContext};
use serde_json::Value;

/// The objects in a dump in YAML.
pub(crate) fn objects_in(dump: &str) -> Vec<Value> {
    let mut objects = Vec::new();
    let problems = read_yaml(dump, &mut |mut object, _| match object.get_mut("items").and_then(Value::as_array_mut) {
        Some(items) => objects.append(items),
        None => objects.push(object),
    });
    assert_eq!(problems, Vec::new());
    objects
}

/// A reader of these objects without those of some kinds. All other kinds were listed, as from a live cluster.
pub(crate) fn read_objects(objects: Vec<Value>, without: &[&str]) -> InventoryReader {
    let mut reader = InventoryReader::default();
    reader.begin_input("dump");
    let is_read = |object: &Value| !without.contains(&object["kind"].as_str().unwrap());
    objects.into_iter().filter(is_read).for_each(|object| reader.add(object, None, &mut |_| {}));
    KINDS.iter().filter(|kind| !without.contains(&kind.kind)).for_each(|kind| reader.listed(kind.plural));
    assert_eq!(reader.end_input().problems, Vec::<String>::new());
    reader
}

/// A plan without options, on that day.
pub(crate) fn context<'a>(
    source: Source,
    today: Date,
    (policies, facts): (&'a PolicySet, &'a Facts),
    target: u32,
) -> PlanContext<'a> {
    PlanContext {
        survey: SurveyContext { cluster: "c", source, today, mullion: "0.0.0", policies, facts },
        policies_given: false,
        facts_file: None,
        target: Build::new(target),
        from: None,
        provider: None,
        kubernetes: None,
        strict_match: false,
    }
}
