//! The output of each format for a whole report.

use mullion::report::survey::write;
use mullion::report::{RenderOptions, ReportFormat};
use mullion_survey::{compare, read_report};

use crate::hostile::{outside_code, table_cells};
use crate::{FORMATS, fixtures, golden, written};

#[test]
fn every_finding_has_code_object_field_and_action_in_each_format() {
    let report = fixtures::mixed();
    let text = |format| written(&report, None, format).split_whitespace().collect::<Vec<_>>().join(" ");
    let (plain, markdown, html) = (text(ReportFormat::Text), text(ReportFormat::Markdown), text(ReportFormat::Html));
    let html_only = html
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("<wbr>", "")
        .replace("<code>", "`")
        .replace("</code>", "`");
    for finding in &report.findings {
        let name = format!("{}/{}", finding.object.namespace, finding.object.name);
        for (format, text) in [("text", &plain), ("Markdown", &markdown), ("HTML", &html_only)] {
            for part in [&finding.code, &name, &finding.path, &finding.name] {
                assert!(text.contains(part.as_str()), "{format} lacks {part}");
            }
        }
        assert!(plain.contains(&finding.action) && html_only.contains(&finding.action), "{}", finding.action);
    }
}

#[test]
fn text_without_details_is_short_and_names_what_it_leaves_out() {
    let report = fixtures::mixed();
    for width in [0, 80, 100, 500] {
        let mut out = Vec::new();
        let options = RenderOptions { width, ..RenderOptions::default() };
        write(&report, None, ReportFormat::Text, options, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= 120, "{width}: {longest}");
        assert!(!text.contains('\u{1b}'), "no colour");
        let order = ["Summary", "Coverage", "Fleet", "Problems", "Warnings", "Dates", "Not known", "--details"];
        let places: Vec<usize> = order
            .iter()
            .map(|heading| text.find(&format!("\n{heading}")).or_else(|| text.find(heading)).unwrap())
            .collect();
        assert!(places.is_sorted(), "{places:?}");
        assert!(!text.contains("Back-off pulling image"), "raw texts are details");
    }
}

/// The output for a reader, kept for review: `UPDATE_DOCS=1 cargo test --test survey` writes it again.
#[test]
fn whole_reports_read_as_before() {
    let comparison = compare(&fixtures::earlier(), &fixtures::mixed());
    let short = RenderOptions::default();
    let details = RenderOptions { details: true, width: 80, ..short };
    let kept = [
        ("mixed.txt", ReportFormat::Text, None, short),
        ("details.txt", ReportFormat::Text, None, details),
        ("compared.md", ReportFormat::Markdown, Some(&comparison), short),
    ];
    for (file, format, comparison, options) in kept {
        let mut out = Vec::new();
        write(&fixtures::mixed(), comparison, format, options, &mut out).unwrap();
        let made = String::from_utf8(out).unwrap();
        golden::file(&format!("tests/survey/expected/{file}"), &made).unwrap_or_else(|complaint| panic!("{complaint}"));
    }
}

#[test]
fn json_is_read_again() {
    let report = fixtures::mixed();
    let json = written(&report, Some(&fixtures::earlier()), ReportFormat::Json);
    assert_eq!(read_report(&json).unwrap(), report);
    let wrong =
        json.replacen("\"nodes\": 18", "\"nodes\": \"x\"", 1).replacen("\"nodes\": 3", "\"nodes\": \"three\"", 1);
    let error = read_report(&wrong).unwrap_err();
    assert!(error.line > 1 && error.problem.contains("expected usize"), "{error}");
}

#[test]
fn csv_has_a_row_for_each_workload() {
    let report = fixtures::mixed();
    let csv = written(&report, None, ReportFormat::Csv);
    let lines: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!(lines.len(), report.workloads.len() + 2, "header, rows, and nothing after the last line end");
    assert_eq!(
        lines[1],
        "billing,Deployment,invoice-api,windows,\"spec.template.spec.nodeSelector[\"\"kubernetes.io/os\"\"] is windows\",\
         registry.contoso.example/billing/invoice-api:4.12-ltsc2019,10.0.17763,name,6,6,win19,Helm release billing,SUR306"
    );
}

/// No format has a control character, and no text of a cluster begins a line of Markdown or CSV with markup.
#[test]
fn hostile_names_are_text() {
    let (report, earlier) = (fixtures::hostile(), fixtures::mixed());
    for format in FORMATS {
        let made = written(&report, Some(&earlier), format);
        let control = |c: char| c.is_control() && !matches!(c, '\n' | '\r') || c == '\u{202e}';
        let data = [ReportFormat::Csv, ReportFormat::Json].contains(&format);
        assert!(data || !made.contains(control), "{format:?} has control characters");
    }
    let html = written(&report, Some(&earlier), ReportFormat::Html);
    for element in ["<img", "<svg onload", "<base", "href=\"javascript", "</style><", "<!--", "onerror=alert(1)>"] {
        assert!(!html.contains(element), "{element}");
    }
    assert_eq!(html.matches("<script").count(), 1);
    let markdown = written(&report, Some(&earlier), ReportFormat::Markdown);
    let mut header = None;
    for line in markdown.lines() {
        header = table_cells(line, header);
    }
    // Outside of code nothing begins an element or a link.
    let is_own = |line: &&str| !["</details>", "<details><summary>What the report lacks</summary>"].contains(line);
    for line in markdown.lines().filter(is_own) {
        let outside = outside_code(line);
        assert!(!outside.contains('<') && !outside.contains("](j"), "{line}");
    }
    let csv = written(&report, None, ReportFormat::Csv);
    assert!(!csv.contains(",=") && !csv.contains("\n=") && !csv.contains("\"="), "a formula");
}

#[test]
fn the_largest_page_has_at_most_ten_megabytes() {
    let report = fixtures::huge();
    let html = written(&report, Some(&fixtures::mixed()), ReportFormat::Html);
    assert!(html.len() <= 10_000_000, "{}", html.len());
    assert!(html.len() > 5_000_000, "{}: the limits of the tables are not reached", html.len());
    assert!(html.contains("of 20,000 rows. The most severe are first."), "findings");
    assert!(html.contains("<code>mullion survey -o csv</code> writes all of them."), "workloads");
    // A name of a megabyte does not make a page larger.
    let mut report = fixtures::mixed();
    report.header.cluster = "x".repeat(1_000_000);
    report.workloads[0].object.name = "y".repeat(1_000_000);
    report.findings[0].message = "z".repeat(1_000_000);
    report.summary = vec!["s".repeat(1_000_000); 100];
    let html = written(&report, None, ReportFormat::Html);
    assert!(html.len() < 300_000, "{}", html.len());
}

#[test]
fn a_report_of_nothing_is_complete() {
    for format in FORMATS {
        let made = written(&fixtures::empty(), None, format);
        assert!(!made.is_empty(), "{format:?}");
    }
    let text = written(&fixtures::empty(), None, ReportFormat::Text);
    assert!(text.contains("The survey read no nodes."), "{text}");
}
