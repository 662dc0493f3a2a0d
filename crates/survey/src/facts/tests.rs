#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::too_many_lines,
    reason = "tests, and tables of cases"
)]

use mullion_engine::model::windows::{Build, RELEASES, support_of};
use proptest::prelude::*;

use super::*;
use crate::facts::built_in;
use crate::facts::commands::ProviderStep;
use crate::facts::constraints::Limit;
use crate::facts::dates::Concerns;
use crate::facts::{MAX_ROWS, SCHEMA, built_in_text};
use crate::node_product::NodeProduct;
use mullion_engine::model::MinorVersion;

fn version(text: &str) -> MinorVersion {
    text.parse().unwrap()
}

/// A file with the head and these lines.
fn file(tables: &str) -> String {
    format!("schema: {SCHEMA}\nchecked: 2026-01-01\n{tables}")
}

fn error(text: &str) -> String {
    Facts::parse("t", text).unwrap_err().to_string()
}

#[test]
fn built_in_tables_can_be_read() {
    for (name, text) in built_in::PARTS {
        assert_eq!(parse_facts(name, text).map(drop).map_err(|error| error.to_string()), Ok(()));
    }
    let facts = Facts::built_in();
    assert_eq!(facts.origins.len(), FactsTable::ALL.len());
    assert!(facts.dates.len() > 50 && facts.images.images.len() > 20);
    let commands = facts.commands.iter().map(|row| (FactsTable::Commands, &row.source));
    let constraints = facts.constraints.iter().map(|row| (FactsTable::Constraints, &row.source));
    let changes = facts.changes.iter().map(|row| (FactsTable::Changes, &row.source));
    for (table, source) in commands.chain(constraints).chain(changes) {
        assert!(source.contains(['/', '.', '#']), "{}: {source}", table.name());
    }
}

/// No row was compared with a source of a later day, or after the day of its table; the table is as old as the row that was
/// compared the longest ago.
#[test]
fn days_of_comparison() {
    fn days<T: FactsRow>(rows: &[T]) -> Vec<(Date, Option<Date>)> {
        rows.iter().filter_map(FactsRow::days).collect()
    }
    let facts = Facts::built_in();
    for (name, text) in built_in::PARTS {
        let file = parse_facts(name, text).unwrap();
        let (table, days) = match &file {
            FactsFile { dates: Some(rows), .. } => (FactsTable::Dates, days(rows)),
            FactsFile { constraints: Some(rows), .. } => (FactsTable::Constraints, days(rows)),
            FactsFile { changes: Some(rows), .. } => (FactsTable::Changes, days(rows)),
            FactsFile { commands: Some(rows), .. } => (FactsTable::Commands, days(rows)),
            _ => panic!("{name}"),
        };
        assert_eq!(days.len(), facts.rows(table), "{name}");
        let checked = |own: Option<Date>| own.unwrap_or(file.checked);
        assert!(days.iter().all(|(as_of, own)| *as_of <= checked(*own)), "{name}");
        let oldest = days.iter().map(|(_, own)| checked(*own)).min().unwrap();
        assert_eq!(facts.origins[&table].checked, oldest, "{name}");
    }
    let row =
        |more: &str| format!("\n- {{limit: {{of: oneReleasePerPool}}, what: a, source: b, asOf: 2026-01-01{more}}}");
    for (rows, expected) in [
        (row(""), "2026-03-01"),
        (row(", checked: 2026-02-01") + &row(""), "2026-02-01"),
        (row(", checked: 2026-04-01") + &row(""), "2026-03-01"),
        (row(", checked: 2026-04-01"), "2026-04-01"),
        (" []".to_owned(), "2026-03-01"),
    ] {
        let text = format!("schema: {SCHEMA}\nchecked: 2026-03-01\nconstraints:{rows}\n");
        let origin = Facts::parse("t", &text).unwrap().origins[&FactsTable::Constraints];
        assert_eq!(origin.checked.to_string(), expected, "{text}");
    }
}

#[test]
fn dates_are_complete_and_in_order() {
    let facts = Facts::built_in();
    for row in &facts.dates {
        assert!(row.source.contains(['/', '.']), "{}", row.what);
        // `ended` and `ends` are relative to the day of the check.
        let has = |words: &[&str]| row.what.split(' ').any(|word| words.contains(&word));
        let (past, future) = (has(&["ended", "lost"]), has(&["ends", "loses", "deletes"]));
        assert!(past != future && past == (row.date <= facts.checked()), "{} on {}", row.what, row.date);
        assert_eq!(row.deletes, has(&["deletes"]), "{}", row.what);
    }
    let rows = |concerns: &dyn Fn(&Concerns) -> bool| {
        facts.dates.iter().filter(|row| concerns(&row.concerns)).map(|row| row.date).collect::<Vec<_>>()
    };
    for minor in ["1.6", "1.7", "2.0", "2.1", "2.2", "2.3", "2.4"] {
        assert_eq!(rows(&|concerns| concerns.containerd == Some(version(minor))).len(), 1, "{minor}");
    }
    assert!(facts.dates.windows(2).all(|pair| pair[0].concerns != pair[1].concerns || pair[0].date < pair[1].date));
}

/// The engine also contains the dates of images, because its rules must not depend on this table.
#[test]
fn image_dates_are_those_of_the_engine() {
    for release in RELEASES.iter().filter(|release| release.is_server() && release.base_image) {
        let end = Facts::built_in().dates.into_iter();
        let build = release.build;
        let end = end.filter(|row| row.concerns.image_build == Some(build) && row.ends).map(|row| row.date).next();
        assert_eq!(end.unwrap(), support_of(build).unwrap().end, "{build}");
    }
}

/// `mullion compat`, surveys and plans have the same dates of hosts: of every server, and of every client that has one.
#[test]
fn dates_of_every_host() {
    let facts = Facts::built_in();
    for release in RELEASES {
        let product = if release.is_server() { NodeProduct::Server } else { NodeProduct::Client };
        let ends: Vec<_> = facts.dates.iter().filter(|row| row.is_end_of_host(release.build, product)).collect();
        assert_eq!(ends.len(), 1, "{}: {ends:#?}", release.product);
        // The product of 2025 has another date than its images.
        if let (Some(support), true) = (support_of(release.build), release.is_server())
            && release.build != Build::new(26_100)
        {
            assert_eq!(ends[0].date, support.end, "{}", release.product);
        }
    }
    for (build, end) in [(19041, "2021-12-14"), (19042, "2022-08-09"), (22631, "2026-11-10"), (26100, "2034-11-14")] {
        assert_eq!(facts.end_of_host(Build::new(build)).unwrap().to_string(), end, "{build}");
    }
}

#[test]
fn dates_of_docker() {
    let facts = Facts::built_in();
    for (running, end) in [("18.09.9", "2019-08-22"), ("19.3.14", "2021-01-08"), ("20.10.9", "2023-12-10")] {
        let rows = facts.dates.iter().filter(|row| row.concerns.docker == MinorVersion::of(running));
        assert_eq!(rows.map(|row| row.date.to_string()).collect::<Vec<_>>(), [end], "{running}");
    }
}

/// The limits of `upgrade.md` 1.3, as data.
#[test]
fn limits_of_providers() {
    let facts = Facts::built_in();
    let limits = |provider: &str, build: u32| {
        let rows = facts.constraints.iter();
        let rows = rows.filter(|row| row.provider.as_deref() == Some(provider) && row.build == Some(Build::new(build)));
        rows.map(|row| row.limit.clone()).collect::<Vec<_>>()
    };
    let pool = |from: Option<&str>, until: Option<&str>| Limit::PoolVersion {
        from: from.map(version),
        until: until.map(version),
    };
    assert!(limits("AKS", 17763).contains(&pool(None, Some("1.32"))));
    assert!(limits("AKS", 20348).contains(&pool(Some("1.23"), Some("1.36"))));
    assert!(limits("AKS", 26100).contains(&pool(Some("1.32"), None)));
    assert!(limits("EKS", 26100).contains(&Limit::ControlPlaneVersion { from: version("1.35") }));
    assert!(limits("OpenShift", 26100).contains(&Limit::ControlPlaneVersion { from: version("1.35") }));
    assert!(limits("GKE", 26100).contains(&Limit::NotAnnounced {}));
    let in_place: Vec<_> =
        facts.constraints.iter().filter(|row| matches!(row.limit, Limit::InPlaceChange { .. })).collect();
    assert!(in_place.iter().all(|row| row.provider.as_deref() == Some("AKS")));
    // The words of a row agree with its members.
    for row in in_place {
        let Limit::InPlaceChange { possible, preview, .. } = row.limit else { unreachable!() };
        assert_eq!((possible, preview), (row.what.contains(" can "), row.what.contains("in preview")), "{}", row.what);
    }
}

/// The step of a change in place has a command for each release to which a row permits it.
#[test]
fn changes_in_place_have_a_command() {
    let facts = Facts::built_in();
    for row in &facts.constraints {
        let Limit::InPlaceChange { possible: true, to: Some(to), .. } = row.limit else { continue };
        let is_for_it = |command: &&CommandRow| {
            command.step == ProviderStep::ChangePool
                && command.provider == row.provider
                && command.builds.contains(&to.to_string())
        };
        let command = facts.commands.iter().find(is_for_it).unwrap();
        assert!(command.command.contains("{old}") && command.note.is_some(), "{}", command.command);
    }
}

/// Tables that are younger than 90 days have no sentence, and neither has a clock before the day of the check.
#[test]
fn the_age_of_tables() {
    let facts = |file: &str| Facts::parse("t", &format!("schema: {SCHEMA}\n{file}")).unwrap();
    let one = facts("checked: 2026-03-01\ndates: []\n");
    let age = |facts: &Facts, tables: &[FactsTable], day: &str| facts.age(tables, day.parse().unwrap());
    for day in ["-009999-01-01", "2025-12-31", "2026-02-28", "2026-03-01", "2026-05-28", "2026-05-29"] {
        assert_eq!(age(&one, &SURVEY_TABLES, day), None, "{day}");
    }
    let clause = |facts: &Facts, tables: &[FactsTable], day: &str| age(facts, tables, day).unwrap().to_string();
    assert_eq!(
        clause(&one, &SURVEY_TABLES, "2026-05-30"),
        "the table dates was last compared with the sources on 2026-03-01, 90 days ago"
    );
    assert!(clause(&one, &SURVEY_TABLES, "2026-05-31").ends_with("91 days ago"));
    assert!(clause(&one, &SURVEY_TABLES, "9999-12-31").contains(" days ago"));
    assert_eq!(age(&one, &[FactsTable::Images], "2026-05-31"), None, "another table is newer");
    assert!(age(&one, &FactsTable::ALL, "2026-05-30").unwrap().sentence().contains("compare the rows of the file"));
    let two = facts("checked: 2026-03-01\ndates: []\nimages: []\n");
    assert_eq!(
        clause(&two, &SURVEY_TABLES, "2026-06-09"),
        "the tables dates and images were last compared with the sources on 2026-03-01, 100 days ago"
    );
    // Built-in tables of several days: the oldest counts.
    let built_in = Facts::built_in();
    let all = age(&built_in, &FactsTable::ALL, "2028-01-01").unwrap();
    assert_eq!(all.checked, built_in.origins.values().map(|origin| origin.checked).min().unwrap());
    assert!(all.to_string().starts_with("the oldest of the tables dates, images,"), "{all}");
    assert!(all.sentence().ends_with("use a newer version of Mullion, or replace the tables with --facts FILE."));
}

#[test]
fn the_printed_file_has_equal_tables() {
    let text = built_in_text();
    let (built_in, read) = (Facts::built_in(), Facts::parse("facts.yaml", &text).unwrap());
    assert_eq!(read.dates, built_in.dates);
    assert_eq!(read.images.images, built_in.images.images);
    assert_eq!(read.constraints, built_in.constraints);
    assert_eq!(read.changes, built_in.changes);
    assert_eq!(read.commands, built_in.commands);
    assert!(read.origins.values().all(|origin| origin.replaced) && read.origins.len() == FactsTable::ALL.len());
    // The explanations of the members are also printed.
    assert!(text.contains("# concerns: what the row is about"), "{text}");
}

#[test]
fn a_file_replaces_only_its_tables() {
    let text = file(
        "dates:\n- {concerns: {provider: AKS}, date: 2027-01-01, what: a, source: b, asOf: 2026-01-01}\n\
         images:\n- {repositories: [acme/web], tags: ['{version}-{release}'], published: {10.0.26100: '{version}-w25'}, source: b, asOf: 2026-01-01}\n",
    );
    let (facts, built_in) = (Facts::parse("t", &text).unwrap(), Facts::built_in());
    assert_eq!((facts.dates.len(), facts.images.images.len()), (1, 1));
    assert_eq!(
        (facts.checked().to_string(), built_in.checked().to_string()),
        ("2026-01-01".into(), "2026-11-28".into())
    );
    assert_eq!(facts.constraints, built_in.constraints);
    let replaced = facts.origins.iter().filter(|(_, origin)| origin.replaced).map(|(table, _)| table.name());
    assert_eq!(replaced.collect::<Vec<_>>(), ["dates", "images"]);
}

#[test]
fn errors_name_the_line() {
    let date = "concerns: {provider: AKS}, date: 2027-01-01, what: a, source: b, asOf: 2026-01-01";
    let limit = "what: a, source: b, asOf: 2026-01-01";
    let change = "name: a, moves: host, what: A., check: B., source: b, asOf: 2026-01-01";
    let image = "repositories: [a/b], source: b, asOf: 2026-01-01";
    let command = "step: addPool, command: a, source: b, asOf: 2026-01-01";
    let long = "x".repeat(1001);
    let cases = [
        (String::new(), "empty"),
        ("- a".to_owned(), "not a map"),
        ("a: [".to_owned(), "t:1"),
        (file("dates: []\n---\na: 1"), "more than one document"),
        ("checked: 2026-01-01\ndates: []".to_owned(), "schema is missing; write schema: mullion.dev/facts/v1"),
        ("schema: v2\nchecked: 2026-01-01\ndates: []".to_owned(), "t:1:9: schema is not mullion.dev/facts/v1"),
        (format!("schema: {SCHEMA}\ndates: []"), "checked is missing"),
        (format!("schema: {SCHEMA}\nchecked: soon\ndates: []"), "t:2:10: checked is not a date"),
        (file(""), "it has no table"),
        (file("dates: {}"), "t:3:8: dates is not a list"),
        (file("more: 1\ndates: []"), "t:3:1: unknown key `more`; the keys are schema"),
        (file("dates:\n- {date: 2026-01-01}"), "t:4:3: the row of dates cannot be read: missing field `concerns`"),
        (
            file(&format!("dates:\n- {{{date}}}\n- {{{date}, more: 1}}")),
            "t:5:3: the row of dates cannot be read: unknown field `more`",
        ),
        (file(&format!("dates:\n- {{{}}}", date.replace("provider: AKS", ""))), "t:4:3: concerns is empty"),
        (
            file(&format!("dates:\n- {{{}}}", date.replace("AKS", "AKZ"))),
            "t:4:3: unknown provider `AKZ`; the providers are AKS, EKS, GKE, OpenShift, RKE2, Rancher; did you mean AKS?",
        ),
        (
            file(&format!("dates:\n- {{{}}}", date.replace("AKS", "EKS, containerd: 1.10"))),
            "t:4:3: the row of dates cannot be read: invalid type: floating point `1.1`, expected a minor version in quotation marks",
        ),
        (
            file(&format!("dates:\n- {{{}}}", date.replace("AKS", "EKS, kubelet: v1.32.1"))),
            "`v1.32.1` is not a minor version; write \"1.32\"",
        ),
        (
            file(&format!("dates:\n- {{{}}}", date.replace("2027-01-01", "2027-13-01"))),
            "t:4:37: date is not a date; write it as 2026-11-22",
        ),
        (
            file(&format!("dates:\n- {{{}}}", date.replace("asOf: 2026-01-01", "asOf: soon"))),
            "t:4:75: asOf is not a date",
        ),
        (file(&format!("dates:\n- {{{date}, checked: soon}}")), "checked is not a date"),
        (file(&format!("dates:\n- {{{date}, checked: 2025-12-31}}")), "t:4:3: checked is before asOf"),
        (file(&format!("images:\n- {{{image}, checked: 2026-01-01}}")), "unknown field `checked`"),
        (file(&format!("dates:\n- {{{}}}", date.replace("what: a", "what: ''"))), "t:4:3: what is empty"),
        (file(&format!("dates:\n- {{{}}}", date.replace("what: a", "what: a."))), "t:4:3: what ends with a full stop"),
        (file(&format!("dates:\n- {{{}}}", date.replace("source: b", "source: ''"))), "t:4:3: source is empty"),
        (
            file(&format!("dates:\n- {{{}}}", date.replace("what: a", &format!("what: {long}")))),
            "t:4:55: the text has more than 1000 characters",
        ),
        (
            file(&format!("dates:\n- {{{}}}", date.replace("what: a", "what: \"\\e[31ma\""))),
            "t:4:55: the text has control characters",
        ),
        (
            file(&format!("dates:\n- {{{}}}", date.replace("what: a", "what: \"a\\nb\""))),
            "control characters or several lines",
        ),
        (
            file(&format!("constraints:\n- {{limit: {{of: poolVersion, until: \"1.32\"}}, {limit}}}")),
            "t:4:3: build is missing",
        ),
        (
            file(&format!("constraints:\n- {{build: 10.0.26100, limit: {{of: poolVersion}}, {limit}}}")),
            "neither from nor until",
        ),
        (
            file(&format!(
                "constraints:\n- {{build: 10.0.26100, limit: {{of: poolVersion, from: \"1.36\", until: \"1.32\"}}, {limit}}}"
            )),
            "from is newer than until",
        ),
        (
            file(&format!("constraints:\n- {{limit: {{of: oneReleasePerPool, more: 1}}, {limit}}}")),
            "unknown field `more`",
        ),
        (file(&format!("constraints:\n- {{limit: {{of: maxNodes}}, {limit}}}")), "unknown variant `maxNodes`"),
        (file(&format!("constraints:\n- {{limit: {{of: inPlaceChange}}, {limit}}}")), "missing field `possible`"),
        (
            file(&format!("constraints:\n- {{limit: {{of: inPlaceChange, possible: false, preview: true}}, {limit}}}")),
            "t:4:3: preview is set, but the change is not possible",
        ),
        (
            file(&format!(
                "constraints:\n- {{limit: {{of: inPlaceChange, possible: true, from: 10.0.26100, to: 10.0.20348}}, {limit}}}"
            )),
            "t:4:3: from is not older than to",
        ),
        (
            file(&format!("constraints:\n- {{limit: {{of: poolContainerd, version: \"2.0\"}}, {limit}}}")),
            "neither from nor until",
        ),
        (
            file(&format!("constraints:\n- {{limit: {{of: poolContainerd, version: 2.0, from: \"1.35\"}}, {limit}}}")),
            "expected a minor version in quotation marks",
        ),
        (file(&format!("commands:\n- {{{}}}", command.replace("addPool", "movePool"))), "unknown variant `movePool`"),
        (file(&format!("constraints:\n- {{limit: {{of: notice}}, {limit}}}")), "action is missing"),
        (
            file(&format!("constraints:\n- {{build: ltsc2025, limit: {{of: notAnnounced}}, {limit}}}")),
            "t:4:3: the row of constraints cannot be read",
        ),
        (file(&format!("changes:\n- {{{change}}}\n- {{{change}}}")), "t:5:3: the name a occurs twice in changes"),
        (
            file(&format!("changes:\n- {{{}}}", change.replace("what: A.", "what: A"))),
            "what does not end with a full stop",
        ),
        (file(&format!("changes:\n- {{{}}}", change.replace("name: a", "name: a b"))), "name is not made of letters"),
        (file(&format!("changes:\n- {{{change}, uses: [teapot]}}")), "unknown variant `teapot`"),
        (file(&format!("images:\n- {{{}}}", image.replace("[a/b]", "[]"))), "t:4:3: repositories is empty"),
        (file(&format!("images:\n- {{{}}}", image.replace("[a/b]", "['a b']"))), "is not a repository"),
        (
            file(&format!("images:\n- {{{image}, tag: a}}")),
            "t:4:3: the row of images cannot be read: unknown field `tag`",
        ),
        (
            file(&format!("commands:\n- {{{}}}", command.replace("command: a", "command: ''"))),
            "t:4:3: command is empty",
        ),
        (file(&format!("commands:\n- {{{command}, note: a}}")), "note does not end with a full stop"),
    ];
    for (text, expected) in cases {
        let error = error(&text);
        assert!(error.contains(expected), "{text}: {error}");
    }
    for good in [
        format!("dates:\n- {{{date}}}"),
        format!("dates:\n- {{{date}, checked: 2026-01-01}}"),
        format!("changes:\n- {{{change}, checked: 2026-01-01}}"),
        format!("commands:\n- {{{command}, checked: 2026-01-01}}"),
        format!("constraints:\n- {{limit: {{of: oneReleasePerPool}}, {limit}}}"),
        format!("constraints:\n- {{limit: {{of: inPlaceChange, possible: true}}, {limit}}}"),
        format!("constraints:\n- {{limit: {{of: poolContainerd, version: \"2.0\", from: \"1.35\"}}, {limit}}}"),
        format!("changes:\n- {{{change}}}"),
        format!("images:\n- {{{image}}}"),
        format!("commands:\n- {{{}}}", command.replace("command: a", "command: \"a \\\\\\n  b\"")),
    ] {
        assert_eq!(Facts::parse("t", &file(&good)).map(drop).map_err(|error| error.to_string()), Ok(()), "{good}");
    }
}

/// A day has one form in all tables, and one message names the place of another.
#[test]
fn days_have_one_form() {
    let image = "repositories: [a/b], source: b";
    for day in [
        "soon",
        "7",
        "20260101",
        "'20260101'",
        "2026-1-1",
        "2026-02-29",
        "2026-01-01T10:00",
        "2026-01-01 10:00",
        "'2026-01-01[UTC]'",
        "' 2026-01-01'",
        "'+002026-01-01'",
        "'-000001-01-01'",
        "2026-W01-1",
        "true",
        "[2026-01-01]",
        "{a: 2026-01-01}",
    ] {
        for (text, key, place) in [
            (format!("schema: {SCHEMA}\nchecked: {day}\ndates: []"), "checked", "t:2:10"),
            (file(&format!("commands:\n- {{checked: {day}}}")), "checked", "t:4:13"),
            (file(&format!("dates:\n- {{date: {day}}}")), "date", "t:4:10"),
            (file(&format!("constraints:\n- {{limit: {{refusedFrom: {day}}}}}")), "refusedFrom", "t:4:25"),
            (file(&format!("changes:\n- {{asOf: {day}}}")), "asOf", "t:4:10"),
            (file(&format!("images:\n- {{{image}, frozenSince: {day}}}")), "frozenSince", "t:4:49"),
            (file(&format!("images:\n- {{{image}, supportEnd: {{date: {day}}}}}")), "date", "t:4:55"),
        ] {
            assert_eq!(error(&text), format!("{place}: {key} is not a date; write it as 2026-11-22"), "{text}");
        }
    }
    let error = error(&file(&format!("images:\n- {{{image}, asOf: null}}")));
    assert!(error.starts_with("t:4:3: the row of images cannot be read"), "{error}");
}

/// All problems of a file are reported at once, up to a limit.
#[test]
fn many_problems_and_many_rows() {
    let rows = "- {a: 1}\n".repeat(60);
    let error = error(&file(&format!("dates:\n{rows}")));
    assert!(error.lines().count() == 51 && error.ends_with("and 10 more problems"), "{error}");
    let rows = "- {}\n".repeat(MAX_ROWS + 1);
    assert!(self::error(&file(&format!("dates:\n{rows}"))).contains("dates has 2001 rows, and at most 2000 are read"));
}

proptest! {
    // Each case parses the built-in tables.
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever a file contains, it is read or rejected, with an error of limited length.
    #[test]
    fn any_text_is_read_or_refused(
        key in "schema|checked|dates|images|constraints|changes|commands|[a-z]{0,4}",
        value in "[-{}\\[\\], :a-z0-9.'\"&*!|>\n]{0,80}",
        cut in 0usize..70_000,
    ) {
        for text in [format!("{key}: {value}"), file(&format!("{key}:\n- {value}"))] {
            if let Err(error) = Facts::parse("t", &text) {
                prop_assert!(error.to_string().lines().count() <= 51);
            }
        }
        // The built-in file, cut anywhere.
        let text = built_in_text();
        let cut = (0..=cut.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let cut_text = text.get(..cut).unwrap_or_default();
        if let Err(error) = Facts::parse("t", cut_text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
