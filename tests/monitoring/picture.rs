//! Draws `docs/images/dashboard.svg` from the dashboard's definition, with simulated values. It is not a screenshot of Grafana.
//!
//! Titles, legends, units, colors and value texts are those of `charts/mullion/dashboards/mullion.json`; `UPDATE_DOCS=1` writes
//! the picture again.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::file;

const DASHBOARD: &str = "charts/mullion/dashboards/mullion.json";
const PICTURE: &str = "docs/images/dashboard.svg";
const CAPTION: &str = "Drawn from the dashboard's definition with simulated values, not a Grafana screenshot.";

/// Size of the picture. It is narrow, so that its text can be read on a phone.
const WIDTH: f64 = 560.0;
const MARGIN: f64 = 12.0;
const GAP: f64 = 8.0;
const STAT_HEIGHT: f64 = 74.0;
const CHART_HEIGHT: f64 = 172.0;
/// Values of a series: one every five minutes for six hours.
const POINTS: u32 = 72;

/// The simulated value of each panel with one value, by panel id.
const STATS: [(u64, f64); 8] = [(2, 1.0), (3, 1.0), (4, 2.0), (5, 41.3), (6, 6.0), (7, 0.0), (8, 0.72), (9, 0.0)];

/// The simulated series of each chart.
const CHARTS: [(u64, &[Series]); 4] = [
    (
        10,
        &[
            Series { target: 0, labels: &[("decision", "skipped")], from: 9.0, to: 9.0, wave: 2.0 },
            Series { target: 0, labels: &[("decision", "allowed")], from: 18.0, to: 18.0, wave: 5.0 },
            Series { target: 0, labels: &[("decision", "patched")], from: 10.0, to: 14.0, wave: 3.0 },
            Series { target: 0, labels: &[("decision", "denied")], from: 0.6, to: 0.3, wave: 0.5 },
        ],
    ),
    (
        11,
        &[
            Series { target: 0, labels: &[("endpoint", "mutate")], from: 0.0004, to: 0.0004, wave: 0.0001 },
            Series { target: 1, labels: &[("endpoint", "mutate")], from: 0.0021, to: 0.0021, wave: 0.0008 },
            Series { target: 1, labels: &[("endpoint", "validate")], from: 0.0015, to: 0.0015, wave: 0.0006 },
        ],
    ),
    (
        19,
        &[
            Series { target: 0, labels: &[("os", "linux"), ("effect", "placed")], from: 420.0, to: 430.0, wave: 110.0 },
            Series { target: 0, labels: &[("os", "windows"), ("effect", "placed")], from: 90.0, to: 180.0, wave: 40.0 },
        ],
    ),
    (
        21,
        &[
            Series { target: 0, labels: &[], from: 12.0, to: 18.0, wave: 0.0 },
            Series { target: 1, labels: &[], from: 4.0, to: 0.0, wave: 0.0 },
            Series { target: 2, labels: &[], from: 0.0, to: 0.0, wave: 0.0 },
        ],
    ),
];

/// The simulated rows of the table of denials.
const TABLE: (u64, &[[&str; 3]]) =
    (15, &[["shop", "MUL201", "4"], ["shop", "MUL203", "2"], ["ci-runners", "MUL306", "2"], ["legacy", "MUL217", "1"]]);

/// A simulated series: a line from one value to another, with a wave.
struct Series {
    /// Index of the query in the panel.
    target: usize,
    labels: &'static [(&'static str, &'static str)],
    from: f64,
    to: f64,
    wave: f64,
}

impl Series {
    fn values(&self, number: usize) -> Vec<f64> {
        let phase = 1.7 * f64::from(u32::try_from(number).unwrap());
        let value = |at: u32| {
            let at = f64::from(at);
            let share = at / f64::from(POINTS - 1);
            let wave = (at / 7.0 + phase).sin() * 0.6 + (at / 2.3 + 2.0 * phase).sin() * 0.4;
            let line = self.from + (self.to - self.from) * share;
            // Counts change in steps.
            if self.wave == 0.0 { line.round() } else { (line + self.wave * wave).max(0.0) }
        };
        (0..POINTS).map(value).collect()
    }

    fn name(&self, panel: &Value) -> String {
        let legend = panel["targets"][self.target]["legendFormat"].as_str().unwrap();
        let name = self
            .labels
            .iter()
            .fold(legend.to_owned(), |name, (label, value)| name.replace(&format!("{{{{{label}}}}}"), value));
        assert!(!name.contains("{{"), "{}: no simulated label for {legend}", panel["title"]);
        name
    }
}

fn panel(dashboard: &Value, id: u64) -> &Value {
    let panels = dashboard["panels"].as_array().unwrap();
    panels.iter().find(|panel| panel["id"] == id).unwrap_or_else(|| panic!("{DASHBOARD}: no panel has id {id}"))
}

/// Grafana's color of that name.
fn color(name: &str) -> &str {
    match name {
        "green" => "#1a7f37",
        "red" => "#c4162a",
        "orange" => "#bc4c00",
        "blue" => "#1f60c4",
        "purple" => "#8250df",
        "text" => "#6e7781",
        other => other,
    }
}

/// The color of a series, by its name or its place.
fn series_color(panel: &Value, name: &str, number: usize) -> String {
    let overrides = panel["fieldConfig"]["overrides"].as_array().unwrap();
    let own = overrides.iter().find(|one| one["matcher"]["options"] == name);
    let fixed = own.into_iter().flat_map(|one| one["properties"].as_array().unwrap());
    let fixed = fixed.filter(|property| property["id"] == "color").find_map(|it| it["value"]["fixedColor"].as_str());
    color(fixed.unwrap_or(["blue", "orange", "green", "purple"][number % 4])).to_owned()
}

/// A value with its unit.
fn text(value: f64, unit: &str) -> String {
    match unit {
        "s" if value == 0.0 => "0 s".to_owned(),
        "s" => format!("{:.1} ms", value * 1000.0),
        "reqps" => format!("{} req/s", short(value)),
        "cpm" => format!("{}/min", short(value)),
        "percentunit" => format!("{:.0} %", value * 100.0),
        _ => short(value),
    }
}

fn short(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Text and background of a panel with one value.
fn stat(panel: &Value, value: f64) -> (String, String) {
    let defaults = &panel["fieldConfig"]["defaults"];
    let mappings = defaults["mappings"].as_array().unwrap();
    if let Some(mapped) = mappings.iter().find_map(|mapping| mapping["options"].get(short(value))) {
        return (mapped["text"].as_str().unwrap().to_owned(), color(mapped["color"].as_str().unwrap()).to_owned());
    }
    let steps = defaults["thresholds"]["steps"].as_array().unwrap();
    let step = steps.iter().rfind(|step| step["value"].as_f64().is_none_or(|from| from <= value)).unwrap();
    (text(value, defaults["unit"].as_str().unwrap()), color(step["color"].as_str().unwrap()).to_owned())
}

/// The smallest of 1, 2, 5, 10, 20 … that is not below `value`.
fn ceiling(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|top| *top >= value).unwrap()
}

fn frame(svg: &mut String, panel: &Value, x: f64, y: f64, width: f64, height: f64) {
    let title = escaped(panel["title"].as_str().unwrap());
    writeln!(svg, "  <rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\" class=\"panel\"/>")
        .unwrap();
    writeln!(svg, "  <text x=\"{}\" y=\"{}\" class=\"title\">{title}</text>", x + 10.0, y + 20.0).unwrap();
}

/// A title in lines of at most 18 characters, as wide as a panel with one value.
fn title_lines(title: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in title.split(' ') {
        let last = lines.last_mut().unwrap();
        if last.is_empty() {
            last.push_str(word);
        } else if last.len() + 1 + word.len() <= 18 {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

fn draw_stat(svg: &mut String, panel: &Value, value: f64, x: f64, y: f64, width: f64) {
    let (shown, background) = stat(panel, value);
    writeln!(
        svg,
        "  <rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{STAT_HEIGHT}\" rx=\"4\" fill=\"{background}\"/>"
    )
    .unwrap();
    let mut baseline = y + 18.0;
    for line in title_lines(panel["title"].as_str().unwrap()) {
        writeln!(svg, "  <text x=\"{}\" y=\"{baseline}\" class=\"small on\">{}</text>", x + 9.0, escaped(&line))
            .unwrap();
        baseline += 14.0;
    }
    writeln!(
        svg,
        "  <text x=\"{}\" y=\"{}\" class=\"value on\" text-anchor=\"middle\">{}</text>",
        x + width / 2.0,
        y + 59.0,
        escaped(&shown)
    )
    .unwrap();
}

fn draw_chart(svg: &mut String, panel: &Value, series: &[Series], y: f64) {
    let (left, right) = (MARGIN + 76.0, WIDTH - MARGIN - 12.0);
    let (top, bottom) = (y + 34.0, y + CHART_HEIGHT - 36.0);
    frame(svg, panel, MARGIN, y, WIDTH - 2.0 * MARGIN, CHART_HEIGHT);
    let defaults = &panel["fieldConfig"]["defaults"];
    let stacked = defaults["custom"]["stacking"]["mode"] == "normal";
    let mut below = vec![0.0; POINTS as usize];
    let mut lines = Vec::new();
    for (number, one) in series.iter().enumerate() {
        let mut values = one.values(number);
        let base = below.clone();
        if stacked {
            values.iter_mut().zip(&below).for_each(|(value, below)| *value += below);
            below.clone_from(&values);
        }
        lines.push((one.name(panel), values, base));
    }
    let highest = ceiling(lines.iter().flat_map(|(_, values, _)| values).copied().fold(0.0, f64::max));
    let across = |at: usize| left + (right - left) * f64::from(u32::try_from(at).unwrap()) / f64::from(POINTS - 1);
    let up = |value: f64| bottom - (bottom - top) * value / highest;
    for share in [0.0, 0.5, 1.0] {
        let level = up(highest * share);
        let label = text(highest * share, defaults["unit"].as_str().unwrap());
        writeln!(svg, "  <path d=\"M{left} {level:.1} H{right}\" class=\"grid\"/>").unwrap();
        writeln!(
            svg,
            "  <text x=\"{}\" y=\"{:.1}\" class=\"small\" text-anchor=\"end\">{label}</text>",
            left - 6.0,
            level + 4.0
        )
        .unwrap();
    }
    let mut legend = left;
    for (number, (name, values, base)) in lines.iter().enumerate() {
        let stroke = series_color(panel, name, number);
        let points = |values: &[f64]| -> Vec<String> {
            values.iter().enumerate().map(|(at, value)| format!("{:.1} {:.1}", across(at), up(*value))).collect()
        };
        let line = points(values);
        if stacked {
            let mut back = points(base);
            back.reverse();
            writeln!(
                svg,
                "  <path d=\"M{} L{} Z\" fill=\"{stroke}\" fill-opacity=\"0.25\"/>",
                line.join(" L"),
                back.join(" L")
            )
            .unwrap();
        }
        writeln!(svg, "  <path d=\"M{}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"1.6\"/>", line.join(" L"))
            .unwrap();
        let baseline = y + CHART_HEIGHT - 13.0;
        writeln!(svg, "  <rect x=\"{legend}\" y=\"{}\" width=\"12\" height=\"4\" fill=\"{stroke}\"/>", baseline - 6.0)
            .unwrap();
        writeln!(svg, "  <text x=\"{}\" y=\"{baseline}\" class=\"small\">{}</text>", legend + 17.0, escaped(name))
            .unwrap();
        legend += 34.0 + 7.6 * f64::from(u32::try_from(name.chars().count()).unwrap());
    }
}

/// Draws the table; returns its height.
fn draw_table(svg: &mut String, panel: &Value, rows: &[[&str; 3]], y: f64) -> f64 {
    let organize = panel["transformations"].as_array().unwrap().iter().find(|one| one["id"] == "organize").unwrap();
    let names = &organize["options"]["renameByName"];
    let head = ["namespace", "rule", "Value"].map(|field| names[field].as_str().unwrap());
    let height = 40.0 + 24.0 * f64::from(u32::try_from(rows.len() + 1).unwrap());
    frame(svg, panel, MARGIN, y, WIDTH - 2.0 * MARGIN, height);
    for (number, (row, class)) in [(&head, "head")].into_iter().chain(rows.iter().map(|row| (row, "cell"))).enumerate()
    {
        let baseline = y + 50.0 + 24.0 * f64::from(u32::try_from(number).unwrap());
        writeln!(
            svg,
            "  <path d=\"M{} {} H{}\" class=\"grid\"/>",
            MARGIN + 10.0,
            baseline + 7.0,
            WIDTH - MARGIN - 10.0
        )
        .unwrap();
        for (x, text) in [22.0, 240.0, 440.0].into_iter().zip(row) {
            writeln!(svg, "  <text x=\"{x}\" y=\"{baseline}\" class=\"{class}\">{}</text>", escaped(text)).unwrap();
        }
    }
    height
}

fn picture() -> String {
    let dashboard: Value = serde_json::from_str(&file(DASHBOARD)).unwrap();
    let mut svg = String::new();
    let mut y = 40.0;
    let width = (WIDTH - 2.0 * MARGIN - 3.0 * GAP) / 4.0;
    for row in STATS.chunks(4) {
        let mut x = MARGIN;
        for (id, value) in row {
            draw_stat(&mut svg, panel(&dashboard, *id), *value, x, y, width);
            x += width + GAP;
        }
        y += STAT_HEIGHT + GAP;
    }
    for (id, series) in CHARTS {
        draw_chart(&mut svg, panel(&dashboard, id), series, y);
        y += CHART_HEIGHT + GAP;
    }
    y += draw_table(&mut svg, panel(&dashboard, TABLE.0), TABLE.1, y) + 20.0;
    writeln!(svg, "  <text x=\"{MARGIN}\" y=\"{y}\" class=\"small\">{CAPTION}</text>").unwrap();
    y += MARGIN;
    let title = escaped(dashboard["title"].as_str().unwrap());
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y}\" width=\"{WIDTH}\" height=\"{y}\" role=\"img\" \
         aria-labelledby=\"title desc\" font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"13\">\n  \
         <title id=\"title\">The Grafana dashboard {title}</title>\n  \
         <desc id=\"desc\">Panels of the dashboard, drawn from its definition with simulated values: the state of webhook, controller, \
         policies and certificate, reviews by decision, the time of a review, placements, Windows nodes, and a table of denials.</desc>\n  \
         <style>\n    .panel {{ fill: #ffffff; stroke: #d0d7de }}\n    .grid {{ stroke: #d8dee4; fill: none }}\n    \
         .title {{ font-weight: bold; fill: #1f2328; font-size: 14px }}\n    .small, .cell {{ fill: #424a53 }}\n    .small {{ font-size: 11.5px }}\n    \
         .head {{ fill: #1f60c4; font-weight: bold }}\n    .value {{ font-size: 19px; font-weight: bold }}\n    .on {{ fill: #ffffff }}\n  </style>\n  \
         <rect width=\"{WIDTH}\" height=\"{y}\" rx=\"8\" fill=\"#f4f5f7\" stroke=\"#d0d7de\"/>\n  \
         <text x=\"{MARGIN}\" y=\"27\" class=\"title\">{title}</text>\n{svg}</svg>\n"
    )
}

#[test]
fn the_picture_is_of_this_dashboard() {
    let picture = picture();
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::write(PICTURE, &picture).unwrap();
    }
    assert!(
        file(PICTURE) == picture,
        "{PICTURE} differs: UPDATE_DOCS=1 cargo test --test monitoring picture writes it again"
    );
}
