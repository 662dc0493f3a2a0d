//! Tests of `charts/mullion/dashboards/mullion.json`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::exported::Exported;
use crate::{complaints, file};

const DASHBOARD: &str = "charts/mullion/dashboards/mullion.json";
/// Grafana's grid.
const COLUMNS: u64 = 24;

fn dashboard() -> Value {
    serde_json::from_str(&file(DASHBOARD)).unwrap()
}

fn panels(dashboard: &Value) -> Vec<&Value> {
    dashboard["panels"].as_array().unwrap().iter().collect()
}

fn targets(panel: &Value) -> Vec<&Value> {
    panel["targets"].as_array().map(|targets| targets.iter().collect()).unwrap_or_default()
}

/// Every query, with values instead of Grafana's variables.
pub fn queries() -> Vec<String> {
    let dashboard = dashboard();
    let targets = panels(&dashboard).into_iter().flat_map(targets);
    let queries = targets.map(|target| target["expr"].as_str().unwrap());
    queries.map(|query| query.replace("$__rate_interval", "1m").replace("$__range", "1h")).collect()
}

/// `{{label}}` in a legend.
fn labels_in(legend: &str) -> Vec<String> {
    legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap().trim().to_owned()).collect()
}

#[test]
fn every_panel_queries_exported_metrics() {
    let (exported, dashboard) = (Exported::new(), dashboard());
    let mut wrong = Vec::new();
    for panel in panels(&dashboard).into_iter().filter(|panel| panel["type"] != "row") {
        let title = &panel["title"];
        assert!(!targets(panel).is_empty(), "{title} asks for nothing");
        for target in targets(panel) {
            let (query, legend) =
                (target["expr"].as_str().unwrap(), target["legendFormat"].as_str().unwrap_or_default());
            let found = complaints(&exported, query, &labels_in(legend));
            wrong.extend(found.into_iter().map(|found| format!("{title}: {found}")));
        }
    }
    for annotation in dashboard["annotations"]["list"].as_array().unwrap() {
        wrong.extend(complaints(&exported, annotation["expr"].as_str().unwrap(), &[]));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_depends_on_one_grafana_server() {
    let dashboard = dashboard();
    assert_eq!(dashboard["uid"], "mullion");
    assert!(dashboard.get("id").is_none_or(Value::is_null), "an id is of one Grafana");
    let sources = |value: &Value| -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut rest = vec![value];
        while let Some(value) = rest.pop() {
            if let Value::Object(fields) = value {
                found.extend(fields.get("datasource").map(ToString::to_string));
                rest.extend(fields.values());
            } else if let Value::Array(items) = value {
                rest.extend(items);
            }
        }
        found
    };
    assert_eq!(sources(&dashboard), BTreeSet::from([r#"{"type":"prometheus","uid":"${datasource}"}"#.to_owned()]));
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert!(variables.iter().any(|variable| variable["name"] == "datasource" && variable["type"] == "datasource"));
}

#[test]
fn every_panel_is_distinguishable() {
    let dashboard = dashboard();
    let panels = panels(&dashboard);
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    let titles: BTreeSet<&str> = panels.iter().map(|panel| panel["title"].as_str().unwrap()).collect();
    assert_eq!((ids.len(), titles.len()), (panels.len(), panels.len()));
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = &panel["title"];
        assert!(["stat", "timeseries", "table"].iter().any(|known| panel["type"] == *known), "{title}");
        assert!(
            panel["description"].as_str().is_some_and(|text| text.ends_with('.')),
            "{title} does not say what it shows"
        );
        let letters: BTreeSet<&str> = targets(panel).iter().map(|target| target["refId"].as_str().unwrap()).collect();
        assert_eq!(letters.len(), targets(panel).len(), "{title}: two targets have one refId");
        // A column belongs to a target: `Value #B` to the second.
        for transformation in panel["transformations"].as_array().into_iter().flatten() {
            let names = transformation["options"]["include"]["names"].as_array();
            for name in names.into_iter().flatten().filter_map(|name| name.as_str()?.strip_prefix("Value #")) {
                assert!(letters.contains(name), "{title}: there is no target {name}");
            }
        }
    }
}

#[test]
fn panels_fill_the_grid_and_do_not_overlap() {
    let dashboard = dashboard();
    let mut taken = BTreeSet::new();
    let mut rows: BTreeSet<u64> = BTreeSet::new();
    for panel in panels(&dashboard) {
        let side = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        let (x, y, w, h) = (side("x"), side("y"), side("w"), side("h"));
        assert!(w > 0 && h > 0 && x + w <= COLUMNS, "{}", panel["title"]);
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "{} overlaps another panel", panel["title"]);
            rows.insert(cell.1);
        }
    }
    assert_eq!(taken.len() as u64, rows.len() as u64 * COLUMNS, "there is a hole");
    assert_eq!(rows.last().map(|last| last + 1), Some(rows.len() as u64), "there is an empty row");
}
