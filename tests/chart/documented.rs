//! `values.yaml` and `values.schema.json` contain the same values, with a description of each.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail, ensure};
use mullion_cluster::Chart;
use serde_json::Value;

use crate::rendered::read;

/// Values that Helm adds to a subchart.
const OF_HELM: [&str; 2] = ["global", "enabled"];

pub fn schema_and_values_agree() -> Result<()> {
    let schema = std::fs::read_to_string(Chart::folder().join("values.schema.json"))?;
    let schema: Value = serde_json::from_str(&schema).context("values.schema.json")?;
    let path = Chart::folder().join("values.yaml");
    let (mut wrong, mut known) = (Vec::new(), BTreeSet::new());
    compare("", &schema, &read(&path)?, &mut known, &mut wrong);
    let commented = commented(&std::fs::read_to_string(&path)?)?;
    wrong.extend(known.difference(&commented).map(|value| format!("{value}: no comment in values.yaml describes it")));
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(known.len() > 70, "{} values", known.len());
    Ok(())
}

/// The categories that Artifact Hub knows: <https://artifacthub.io/docs/topics/annotations/helm/>.
const CATEGORIES: [&str; 8] = [
    "ai-machine-learning",
    "database",
    "integration-delivery",
    "monitoring-logging",
    "networking",
    "security",
    "storage",
    "streaming-messaging",
];

/// The annotations for Artifact Hub, some of which are YAML in a string, and the files in this repository that they and
/// the icon name.
pub fn annotations_match_the_chart() -> Result<()> {
    let chart = read(&Chart::folder().join("Chart.yaml"))?;
    let annotation = |name: &str| {
        let text = chart["annotations"][format!("artifacthub.io/{name}")].as_str();
        text.with_context(|| format!("no annotation artifacthub.io/{name}"))
    };
    let items = |name: &str| -> Result<Vec<Value>> { Ok(serde_saphyr::from_str(annotation(name)?)?) };
    ensure!(CATEGORIES.contains(&annotation("category")?), "{:?}", annotation("category"));
    let images = items("images")?;
    let version = chart["appVersion"].as_str().context("an appVersion")?;
    ensure!(images.len() == 1, "{images:?}");
    ensure!(images[0]["image"].as_str().is_some_and(|image| image.ends_with(&format!(":{version}"))), "{images:?}");
    let mut addresses = vec![chart["icon"].clone()];
    addresses.extend(items("links")?.into_iter().map(|link| link["url"].clone()));
    ensure!(addresses.len() > 3, "{addresses:?}");
    let repository = Chart::folder().join("../..");
    for address in addresses {
        let address = address.as_str().context("an address")?;
        let mut ends = address.match_indices('/').map(|(at, _)| &address[at + 1..]).filter(|end| !end.is_empty());
        ensure!(ends.any(|end| repository.join(end.trim_start_matches('/')).is_file()), "{address}: no such file");
    }
    Ok(())
}

fn compare(at: &str, schema: &Value, value: &Value, known: &mut BTreeSet<String>, wrong: &mut Vec<String>) {
    if schema["description"].as_str().is_none_or(|words| !words.ends_with('.') || words.len() < 8) {
        wrong.push(format!("{at}: no description in values.schema.json"));
    }
    let Some(properties) = schema["properties"].as_object().filter(|_| schema["additionalProperties"] == false) else {
        // Values that are passed to Kubernetes, and plain values.
        if schema["type"].is_null() && schema["enum"].is_null() {
            wrong.push(format!("{at}: the schema takes anything"));
        }
        return;
    };
    let Some(values) = value.as_object() else {
        wrong.push(format!("{at} is no object in values.yaml"));
        return;
    };
    // The comment of an object that is empty by default lists its keys.
    if values.is_empty() {
        return;
    }
    for key in values.keys().filter(|key| !properties.contains_key(*key)) {
        wrong.push(format!("{at}.{key} is not in values.schema.json"));
    }
    for (key, below) in properties {
        let path = format!("{at}.{key}");
        match values.get(key) {
            Some(value) => {
                if value.as_object().is_none_or(serde_json::Map::is_empty) {
                    known.insert(path.clone());
                }
                compare(&path, below, value, known, wrong);
            }
            // Kubernetes' own keys, of which none is a default.
            None if *below == Value::Bool(false) => {}
            // An earlier name, which the chart rejects with a message.
            None if below["deprecated"] == true => {}
            None if at.is_empty() && OF_HELM.contains(&key.as_str()) => {}
            None => wrong.push(format!("{path} is not in values.yaml")),
        }
    }
}

/// The keys that a comment describes: the key directly below it, the keys of the same object that follow without an
/// empty line, or the object that contains them (but not a whole part such as `webhook`, unless the comment is for its
/// switch).
fn commented(content: &str) -> Result<BTreeSet<String>> {
    let (mut found, mut parents): (BTreeSet<String>, Vec<(usize, String)>) = (BTreeSet::new(), Vec::new());
    let mut described: BTreeSet<usize> = BTreeSet::new();
    for (number, line) in content.lines().enumerate() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if text.is_empty() {
            described.clear();
        } else if text.starts_with('#') {
            described.insert(indent);
        } else if !text.starts_with("- ") {
            let Some((key, _)) = text.split_once(':') else { bail!("values.yaml:{}: {line}", number + 1) };
            described.retain(|other| *other <= indent);
            parents.retain(|(other, _)| *other < indent);
            let parent = parents.last().map_or("", |(_, path)| path);
            let path = format!("{parent}.{key}");
            if described.contains(&indent) || (parents.len() > 1 || key == "enabled") && found.contains(parent) {
                found.insert(path.clone());
            }
            parents.push((indent, path));
        }
    }
    Ok(found)
}
