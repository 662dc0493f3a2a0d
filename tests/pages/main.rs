//! The HTML reports of a survey, a plan and a policy diff in Chromium: they render without errors and requests, fit each width,
//! sort, filter, print, and interpret no name as markup. Screenshots are in `target/pages`. Run by `make pages`, which
//! finds or installs Chromium.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![allow(unreachable_pub, reason = "modules of one test program")]

mod browser;
#[path = "../reports/hostile.rs"]
#[allow(dead_code, reason = "the suite of formats uses all of it")]
mod hostile;
#[path = "../plan/fixtures.rs"]
mod plan_fixtures;
#[path = "../survey/fixtures.rs"]
mod survey_fixtures;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mullion::report::{RenderOptions, ReportFormat, plan, survey};
use mullion_plan::PlanReport;
use mullion_survey::{SurveyReport, compare};
use serde_json::{Value, json};

use browser::{Tab, tab};

const WIDTHS: [u32; 4] = [390, 768, 1280, 1920];
/// From this width on, no table is cut.
const WHOLE_TABLES: u32 = 1280;
const SCHEMES: [&str; 2] = ["light", "dark"];

/// A call of one of the functions that inspect a page.
fn check(call: &str) -> String {
    let functions = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages/checks.js")).unwrap();
    format!("(() => {{\n{functions}\nreturn {call};\n}})()")
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("pages");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes the page of a report; its address.
fn page(name: &str, report: &SurveyReport, earlier: Option<&SurveyReport>) -> String {
    let comparison = earlier.map(|earlier| compare(earlier, report));
    let (format, options) = (ReportFormat::Html, RenderOptions::default());
    let mut html = Vec::new();
    survey::write(report, comparison.as_ref(), format, options, &mut html).unwrap();
    save(name, &html)
}

/// Writes the page of a plan; its address.
fn plan_page(name: &str, report: &PlanReport) -> String {
    let mut html = Vec::new();
    plan::write(report, ReportFormat::Html, RenderOptions::default(), &mut html).unwrap();
    save(name, &html)
}

/// Writes the page that the built program makes of a dump; its address.
fn program_page(name: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mullion"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).arg("crates/survey/tests/mixed/dump.yaml");
    let ran = command.args(["-o", "html"]).output().unwrap();
    assert!(ran.status.code().unwrap() < 2, "{}", String::from_utf8_lossy(&ran.stderr));
    save(name, &ran.stdout)
}

fn save(name: &str, html: &[u8]) -> String {
    let path = folder().join(format!("{name}.html"));
    fs::write(&path, html).unwrap();
    format!("file://{}", path.display())
}

fn fixture(name: &str) -> String {
    match name {
        "mixed" => page(name, &survey_fixtures::mixed(), None),
        "compared" => page(name, &survey_fixtures::mixed(), Some(&survey_fixtures::earlier())),
        "program" => program_page(name, &["survey", "--today", "2026-11-22"]),
        "policy-diff" => program_page(name, &["policy", "diff", "built-in", "policies/strict.yaml"]),
        "empty" => page(name, &survey_fixtures::empty(), None),
        "hostile" => page(name, &survey_fixtures::hostile(), Some(&survey_fixtures::mixed())),
        "huge" => page(name, &survey_fixtures::huge(), Some(&survey_fixtures::mixed())),
        "plan" => plan_page(name, &plan_fixtures::fleet()),
        "plan-arrived" => plan_page(name, &plan_fixtures::arrived()),
        "plan-empty" => plan_page(name, &plan_fixtures::empty()),
        "plan-hostile" => plan_page(name, &plan_fixtures::hostile()),
        "plan-huge" => plan_page(name, &plan_fixtures::huge()),
        other => panic!("no fixture {other}"),
    }
}

impl Tab {
    /// The complaints of a function of `checks.js`.
    fn complaints(&self, call: &str) -> Vec<Value> {
        self.evaluate(&check(call)).as_array().unwrap_or_else(|| panic!("{call} gives no list")).clone()
    }

    #[track_caller]
    fn assert(&self, call: &str) {
        let complaints = self.complaints(call);
        assert!(complaints.is_empty(), "{call}: {complaints:#?}");
    }

    /// No error, no message on the console, and no request but that of the page.
    #[track_caller]
    fn assert_quiet(&self, address: &str) {
        let events = self.events();
        let noise: Vec<&Value> = events
            .iter()
            .filter(|event| {
                let method = event["method"].as_str().unwrap_or_default();
                ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"].contains(&method)
                    || method == "Network.requestWillBeSent" && event["params"]["request"]["url"] != *address
            })
            .collect();
        assert!(noise.is_empty(), "{address}: {noise:#?}");
        let requests = events.iter().filter(|event| event["method"] == "Network.requestWillBeSent").count();
        assert!(requests > 0, "the page itself is a request: otherwise nothing is watched");
    }
}

#[test]
fn pages_fit_each_width_in_light_and_dark() {
    let tab = tab();
    for name in [
        "program",
        "policy-diff",
        "mixed",
        "compared",
        "empty",
        "hostile",
        "plan",
        "plan-arrived",
        "plan-empty",
        "plan-hostile",
    ] {
        let address = fixture(name);
        for width in WIDTHS {
            for scheme in SCHEMES {
                tab.show(width, scheme);
                tab.open(&address);
                tab.assert("overflow()");
                tab.assert("structure()");
                tab.assert("contrast()");
                tab.assert("tilesLead()");
                tab.assert("commandsAreWhole()");
                if !name.contains("hostile") {
                    tab.assert("wordsAreWhole()");
                    if width >= WHOLE_TABLES {
                        tab.assert("tablesFit()");
                    }
                }
                tab.assert_quiet(&address);
                fs::write(folder().join(format!("{name}-{width}-{scheme}.png")), tab.screenshot()).unwrap();
            }
        }
    }
}

#[test]
fn tables_sort_by_pointer_and_keyboard() {
    let tab = tab();
    let address = fixture("mixed");
    tab.show(1440, "light");
    tab.open(&address);
    tab.assert("sorts()");
    tab.evaluate("document.querySelector('#pools-table th:nth-child(3) button').focus()");
    tab.press("Enter");
    tab.assert("column('pools-table', 2, ['6', '4', '3', '3', '2'], 'descending')");
    tab.press(" ");
    tab.assert("column('pools-table', 2, ['2', '3', '3', '4', '6'], 'ascending')");
    tab.assert_quiet(&address);
}

/// The page of the built program: every finding of the dump with its text, and tables that sort.
#[test]
fn the_page_of_the_program_has_its_findings() {
    let tab = tab();
    let address = fixture("program");
    tab.show(1440, "light");
    tab.open(&address);
    let expected = fs::read_to_string("crates/survey/tests/mixed/report.json").unwrap();
    let expected: SurveyReport = serde_json::from_str(&expected).unwrap();
    assert_eq!(tab.count("#findings-table tbody tr"), expected.findings.len());
    assert_eq!(tab.count("#workloads-table tbody tr"), expected.workloads.len());
    let text = tab.evaluate("document.querySelector('#findings-table').textContent");
    for finding in &expected.findings {
        assert!(text.as_str().unwrap().contains(&finding.message), "{}: {}", finding.code, finding.message);
    }
    tab.assert("sorts()");
    tab.assert_quiet(&address);
}

#[test]
fn tables_filter() {
    let tab = tab();
    let address = fixture("mixed");
    tab.show(820, "light");
    tab.open(&address);
    tab.assert("filters()");
    tab.assert_quiet(&address);
}

#[test]
fn tables_of_a_plan_sort_and_filter() {
    let tab = tab();
    let address = fixture("plan");
    tab.show(1440, "light");
    tab.open(&address);
    let urgent_first = "['Not met', 'Met by a step', 'Notice', 'Met']";
    tab.assert(&format!("column('constraints-table', 0, {urgent_first}, 'none')"));
    tab.assert("column('constraints-table', 0, null, 'ascending', true)");
    tab.assert(&format!("column('constraints-table', 0, {urgent_first}, 'ascending')"));
    tab.assert("sorts()");
    tab.assert("planFilters()");
    tab.assert_quiet(&address);
}

#[test]
fn paper_has_everything_and_no_controls() {
    let tab = tab();
    let address = fixture("compared");
    for scheme in SCHEMES {
        tab.show(1440, scheme);
        tab.open(&address);
        tab.evaluate(&check("filter('workloads-table', 'checkout')"));
        tab.call(
            "Emulation.setEmulatedMedia",
            &json!({"media": "print", "features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        tab.assert("paper()");
        let pdf = tab.call("Page.printToPDF", &json!({"preferCSSPageSize": true, "printBackground": true}));
        let pdf = STANDARD.decode(pdf["data"].as_str().unwrap()).unwrap();
        assert!(pdf.starts_with(b"%PDF-"));
        fs::write(folder().join(format!("compared-{scheme}.pdf")), pdf).unwrap();
        tab.assert_quiet(&address);
    }
}

#[test]
fn tables_are_there_without_the_script() {
    let tab = tab();
    let address = fixture("mixed");
    tab.show(820, "light");
    tab.call("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    tab.open(&address);
    assert_eq!(tab.count("#workloads-table tbody tr"), survey_fixtures::mixed().workloads.len());
    assert_eq!(tab.count("#findings-table tbody tr"), survey_fixtures::mixed().findings.len());
    for control in ["input", "select", "button"] {
        assert_eq!(tab.count(control), 0, "{control} would do nothing");
    }
    tab.assert_quiet(&address);
}

/// The Content Security Policy of the page stops what escaping would miss.
#[test]
fn another_script_does_not_run() {
    let tab = tab();
    let address = fixture("mixed");
    tab.show(820, "light");
    tab.open(&address);
    tab.evaluate("const script = document.createElement('script'); script.textContent = 'document.title = \"owned\"'; document.body.append(script)");
    assert_eq!(tab.evaluate("document.title"), "Survey of aks-contoso-prod");
    let blocked = tab.events().iter().filter(|event| event["method"] == "Log.entryAdded").count();
    assert_eq!(blocked, 1, "the browser reports it");
}

#[test]
fn names_are_never_markup() {
    let tab = tab();
    for name in ["hostile", "plan-hostile"] {
        let address = fixture(name);
        tab.show(1440, "light");
        tab.open(&address);
        tab.assert("harmless()");
        tab.assert("sorts()");
        tab.assert_quiet(&address);
    }
}

#[test]
fn the_largest_page_sorts_and_filters() {
    let tab = tab();
    let address = fixture("huge");
    tab.show(1440, "light");
    tab.open(&address);
    tab.assert("overflow()");
    tab.assert("column('workloads-table', 0, null, 'ascending', true)");
    assert_eq!(tab.evaluate(&check("filter('workloads-table', 'workload-00042')")), 1);
    tab.assert_quiet(&address);
}

#[test]
fn the_largest_plan_sorts_and_filters() {
    let tab = tab();
    let address = fixture("plan-huge");
    tab.show(1440, "light");
    tab.open(&address);
    tab.assert("overflow()");
    tab.assert("column('worklist-table', 1, null, 'ascending', true)");
    // It has two containers and an image volume.
    assert_eq!(tab.evaluate(&check("filter('worklist-table', 'workload-00048')")), 3);
    tab.assert_quiet(&address);
}

#[test]
fn paper_has_every_command() {
    let tab = tab();
    let address = fixture("plan");
    tab.show(1440, "light");
    tab.open(&address);
    tab.call("Emulation.setEmulatedMedia", &json!({"media": "print"}));
    tab.assert("planPaper()");
    tab.assert_quiet(&address);
}
