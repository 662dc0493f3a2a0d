//! The output of each format for a whole plan.

use std::collections::BTreeSet;
use std::fmt::Write;

use mullion::report::plan::write;
use mullion::report::{RenderOptions, ReportFormat};
use mullion_plan::PlanReport;
use serde_json::{Value, json};

use crate::hostile::{outside_code, table_cells};
use crate::{FORMATS, fixtures, golden, written, written_with};

/// Every command of a plan.
fn commands(report: &PlanReport) -> Vec<&str> {
    let in_place = report.in_place.iter().flat_map(|change| &change.steps);
    let steps = report.steps.iter().chain(in_place).flat_map(|step| step.commands.iter().chain(&step.back));
    let workloads = report.workloads.iter().flat_map(|workload| workload.commands.iter().chain(&workload.back));
    let objects = report.objects.iter().map(|object| &object.command);
    steps.chain(workloads).chain(objects).map(|command| command.run.as_str()).collect()
}

#[test]
fn commands_are_whole_lines_in_text_and_markdown() {
    let report = fixtures::fleet();
    for width in [80, 120] {
        let options = RenderOptions { details: true, width, ..RenderOptions::default() };
        for format in [ReportFormat::Text, ReportFormat::Markdown] {
            let made = written_with(&report, format, options);
            for command in commands(&report) {
                assert!(made.contains(&format!("\n{command}\n")), "{format:?} at {width} lacks or wraps {command}");
            }
        }
    }
    let html = written(&report, ReportFormat::Html);
    for command in commands(&report) {
        let escaped = command.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let escaped = escaped.replace('"', "&quot;");
        assert!(html.contains(&format!("<pre>{escaped}</pre>")), "HTML lacks {command}");
    }
}

/// A command that Mullion's tests do not run has its source, the day of the source, and a note that it is not run here.
#[test]
fn commands_of_a_provider_have_a_source() {
    let report = fixtures::fleet();
    let in_place = report.in_place.iter().flat_map(|change| &change.steps);
    let provided = report.steps.iter().chain(in_place).flat_map(|step| step.commands.iter().chain(&step.back));
    let provided = provided.filter(|command| command.source.is_some()).count();
    assert_eq!(provided, 5);
    for format in [ReportFormat::Text, ReportFormat::Markdown, ReportFormat::Html] {
        let made = written(&report, format).split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let source = "source microsoftdocs/azure-aks-docs articles/aks/upgrade-windows-os.md, as of 2026-07-13";
        // The text contains the same source for a constraint, with other words around it.
        assert!(made.matches(source).count() >= provided, "{format:?}");
        assert_eq!(made.matches("not run here").count(), provided, "{format:?}");
    }
    assert_eq!(
        written(&report, ReportFormat::Markdown).matches("<details>").count(),
        provided + 1,
        "and what was not read"
    );
}

/// Each number gets a value of its own, so that it cannot be confused with another.
#[test]
fn every_number_is_in_the_text_with_details() {
    let mut value = serde_json::to_value(fixtures::fleet()).unwrap();
    let mut numbers = Vec::new();
    number(&mut value, "", &mut numbers);
    assert!(numbers.len() > 90, "{}", numbers.len());
    let report: PlanReport = serde_json::from_value(value).unwrap();
    let text = written(&report, ReportFormat::Text).split_whitespace().collect::<Vec<_>>().join(" ");
    // Of objects with something unknown, the text has those that the plan lists and the number of the others.
    let others = |path: &str, number: u64| path == "/unknown/0/all" && shows(&text, number - 1);
    // What a budget permits is in the sentence about it.
    let in_words = |path: &str| path.ends_with("/allowed");
    let missing =
        numbers.iter().filter(|(path, number)| !shows(&text, *number) && !others(path, *number) && !in_words(path));
    let missing: Vec<&(String, u64)> = missing.collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Gives every number a value of its own.
fn number(value: &mut Value, path: &str, all: &mut Vec<(String, u64)>) {
    match value {
        Value::Number(_) => {
            let own = 7_000_000 + 7 * u64::try_from(all.len()).unwrap();
            all.push((path.to_owned(), own));
            *value = json!(own);
        }
        Value::Array(items) => {
            items.iter_mut().enumerate().for_each(|(at, item)| number(item, &format!("{path}/{at}"), all));
        }
        Value::Object(members) => {
            members.iter_mut().for_each(|(key, item)| number(item, &format!("{path}/{key}"), all));
        }
        _ => {}
    }
}

/// Whether a text has a number: plain, with commas, or in thousandths.
fn shows(text: &str, number: u64) -> bool {
    let (millions, thousands, rest) = (number / 1_000_000, number / 1_000 % 1_000, number % 1_000);
    let millis = format!("{millions},{thousands:03}.{rest:03}");
    let forms =
        [number.to_string(), format!("{millions},{thousands:03},{rest:03}"), millis.trim_end_matches('0').to_owned()];
    forms.iter().any(|form| {
        text.match_indices(form.as_str()).any(|(at, _)| {
            let next = text[at + form.len()..].chars().next();
            !next.is_some_and(|next| next.is_ascii_digit())
        })
    })
}

#[test]
fn text_without_details_is_short_and_names_what_it_leaves_out() {
    let report = fixtures::fleet();
    let commands: Vec<&str> = commands(&report).into_iter().flat_map(str::lines).collect();
    for width in [0, 80, 100, 500] {
        let text = written_with(&report, ReportFormat::Text, RenderOptions { width, ..RenderOptions::default() });
        let prose = text.lines().filter(|line| !commands.contains(line));
        let longest = prose.map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= 120, "{width}: {longest}");
        assert!(!text.contains('\u{1b}'), "no colour");
        let order = [
            "Answer",
            "Coverage",
            "Windows pools",
            "Constraints",
            "Gate",
            "Steps",
            "In place",
            "Work list",
            "What behaves",
            "Edits",
            "Not known",
            "Calendar",
            "Tables",
            "Print everything with --details",
        ];
        let places: Vec<usize> =
            order.iter().map(|heading| text.find(&format!("\n{heading}")).expect(heading)).collect();
        assert!(places.is_sorted(), "{places:?}");
        assert!(text.contains("\n  and 9 more images\n") && !text.contains("shop/image-resizer"), "{text}");
    }
    let coloured =
        written_with(&report, ReportFormat::Text, RenderOptions { colour: true, ..RenderOptions::default() });
    assert!(coloured.contains("\u{1b}[1m"));
}

/// The output for a reader, kept for review: `UPDATE_DOCS=1 cargo test --test plan` writes it again.
#[test]
fn whole_plans_read_as_before() {
    let short = RenderOptions::default();
    let details = RenderOptions { details: true, width: 80, ..short };
    let kept = [
        ("fleet.txt", fixtures::fleet(), ReportFormat::Text, short),
        ("details.txt", fixtures::fleet(), ReportFormat::Text, details),
        ("fleet.md", fixtures::fleet(), ReportFormat::Markdown, short),
        ("fleet.csv", fixtures::fleet(), ReportFormat::Csv, short),
        ("arrived.txt", fixtures::arrived(), ReportFormat::Text, short),
        ("empty.txt", fixtures::empty(), ReportFormat::Text, short),
    ];
    for (file, report, format, options) in kept {
        let made = written_with(&report, format, options).replace("\r\n", "\n");
        golden::file(&format!("tests/plan/expected/{file}"), &made).unwrap_or_else(|complaint| panic!("{complaint}"));
    }
}

#[test]
fn json_is_read_again() {
    let report = fixtures::fleet();
    let again: PlanReport = serde_json::from_str(&written(&report, ReportFormat::Json)).unwrap();
    assert_eq!(again, report);
}

#[test]
fn csv_has_a_row_for_each_image() {
    let report = fixtures::fleet();
    let csv = written(&report, ReportFormat::Csv);
    let images: usize = report.workloads.iter().map(|workload| workload.images().count()).sum();
    let lines: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!(lines.len(), images + 2, "header, rows, and nothing after the last line end");
    let columns = lines[0].split(',').count();
    let intranet = lines.iter().find(|line| line.contains(",iis,")).unwrap();
    assert_eq!(
        *intranet,
        "legacy,Deployment,intranet,4,anotherTag,2,win19,,driveRootMount,iis,,\
         mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2019,10.0.17763,name,anotherTag,\
         Nodes of 10.0.26100 do not run images of 10.0.17763.,\
         mcr.microsoft.com/dotnet/framework/aspnet:4.8.1-windowsservercore-ltsc2025,registry,\
         .NET Framework 4.8 becomes 4.8.1,false,,\
         \"The tag 4.8-windowsservercore-ltsc2022 exists, and nobody has updated it since 2025-10-14.\",,4402341478,\
         2027-04-01,AKS deletes the node images of Windows Server 2019,\
         MicrosoftDocs/azure-aks-docs articles/aks/includes/windows-server-2019-retirement.md,2026-01-20,\
         images placement,"
    );
    let volume = lines.iter().find(|line| line.contains("windows/nanoserver:ltsc2019")).unwrap();
    assert!(volume.contains(",driveRootMount,,,mcr.microsoft.com/") && volume.ends_with(",certificates"), "{volume}");
    assert_eq!(columns, 30);
}

/// No format has a control character, and no text of a cluster begins a line of Markdown or CSV with markup.
#[test]
fn hostile_names_are_text() {
    let report = fixtures::hostile();
    for format in FORMATS {
        let made = written(&report, format);
        let control = |c: char| c.is_control() && !matches!(c, '\n' | '\r') || c == '\u{202e}';
        let data = [ReportFormat::Csv, ReportFormat::Json].contains(&format);
        assert!(data || !made.contains(control), "{format:?} has control characters");
    }
    let html = written(&report, ReportFormat::Html);
    for element in ["<img", "<svg onload", "<base", "href=\"javascript", "</style><", "<!--", "onerror=alert(1)>"] {
        assert!(!html.contains(element), "{element}");
    }
    assert_eq!(html.matches("<script").count(), 1);
    let markdown = written(&report, ReportFormat::Markdown);
    let (mut fence, mut header) = (None, None);
    let mut fenced = 0;
    for line in markdown.lines() {
        let ticks = line.len() - line.trim_start_matches('`').len();
        match fence {
            Some(open) if ticks >= open && line.trim_start_matches('`').is_empty() => fence = None,
            Some(_) => fenced += 1,
            None if ticks >= 3 => fence = Some(ticks),
            None => {
                header = table_cells(line, header);
                // Markdown is not interpreted in the line that folds a command, so it contains nothing of the plan.
                let folds = |label| line == format!("<details><summary>{label} (not run here)</summary>");
                let folds_coverage = line == "<details><summary>What the plan lacks</summary>";
                if line == "</details>" || folds("Run") || folds("To go back, run") || folds_coverage {
                    continue;
                }
                // Outside of code nothing begins an element or a link.
                let outside = outside_code(line);
                assert!(!outside.contains('<') && !outside.contains("](j"), "{line}");
            }
        }
    }
    // A command of a workload that its step prints is not printed again.
    let all: BTreeSet<&str> = commands(&report).into_iter().collect();
    assert!(fence.is_none() && fenced >= all.len(), "{fenced}");
    let csv = written(&report, ReportFormat::Csv);
    assert!(!csv.contains(",=") && !csv.contains("\n=") && !csv.contains("\"="), "a formula");
}

#[test]
fn the_largest_page_has_at_most_ten_megabytes() {
    let html = written(&fixtures::huge(), ReportFormat::Html);
    assert!(html.len() <= 10_000_000, "{}", html.len());
    assert!(html.len() > 5_000_000, "{}: the limits of the tables are not reached", html.len());
    assert!(html.contains("<code>mullion plan -o csv</code> writes all of them."), "containers");
    assert!(html.contains("writes all commands."), "commands");
    assert!(html.contains("and 1,900 steps more."), "steps");
    // A name or a command of a megabyte does not make a page larger, and no part of a command is on it.
    let mut report = fixtures::fleet();
    report.header.cluster = "x".repeat(1_000_000);
    report.workloads[0].object.name = "y".repeat(1_000_000);
    report.workloads[0].instead = "w".repeat(1_000_000);
    report.workloads[0].pools = vec!["p".repeat(1_000_000); 100];
    report.steps[0].commands[0].run = format!("kubectl {}", "&".repeat(1_500_000));
    report.steps[0].why = vec!["z".repeat(1_000_000); 100];
    report.summary = vec!["s".repeat(1_000_000); 100];
    let html = written(&report, ReportFormat::Html);
    assert!(html.len() < 300_000, "{}", html.len());
    assert!(!html.contains("&amp;&amp;"), "a part of a command");
}

/// Markdown fits in an issue, text on some screens.
#[test]
fn the_largest_plan_is_short_without_details() {
    let report = fixtures::huge();
    let mut sizes = String::new();
    for format in [ReportFormat::Text, ReportFormat::Markdown] {
        let mut out = Vec::new();
        write(&report, format, RenderOptions::default(), &mut out).unwrap();
        writeln!(sizes, "{format:?}: {}", out.len()).unwrap();
        assert!(out.len() <= 65_536, "{sizes}");
    }
}

#[test]
fn a_plan_of_nothing_is_complete() {
    for format in FORMATS {
        for report in [fixtures::empty(), fixtures::arrived()] {
            assert!(!written(&report, format).is_empty(), "{format:?}");
        }
    }
    let text = written(&fixtures::empty(), ReportFormat::Text);
    assert!(text.contains("The plan read no Windows nodes.") && text.contains("nothing that moves"), "{text}");
    let html = written(&fixtures::arrived(), ReportFormat::Html);
    assert!(html.contains("No pool leaves") && !html.contains("id=\"steps\""));
}
