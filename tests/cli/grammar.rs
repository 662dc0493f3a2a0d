//! Arguments that mean the same in every command, and the examples of the help.

use std::collections::BTreeMap;

use clap::{CommandFactory as _, Parser as _};
use mullion::cli::Cli;

use super::manual::commands;
use super::*;

const WINDOWS_POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - name: a\n    image: mcr.microsoft.com/windows/nanoserver:ltsc2022\n";
const WINDOWS_DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n      containers:\n      - name: a\n        image: mcr.microsoft.com/windows/nanoserver:ltsc2022 # kept\n";

/// A cluster that nobody serves: the port is reserved and closed.
const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: prod\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n\
    contexts: [{name: prod, context: {cluster: c, user: u, namespace: shop}}]\nusers: [{name: u, user: {}}]\n";

const DUMP: &str = r#"{"apiVersion": "v1", "kind": "List", "items": [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}}, "status": {"nodeInfo": {"operatingSystem": "linux"}}},
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": "shop"}, "spec": {"containers": [{"name": "a", "image": "nginx"}]}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "far-0", "namespace": "other", "labels": {"tier": "far"}}, "spec": {"containers": [{"name": "a", "image": "nginx"}]}}]}"#;

/// A directory with everything that the examples name.
fn folder() -> TempDir {
    let dir = dir();
    write(&dir, "manifests/web.yaml", WINDOWS_POD);
    write(&dir, "policies/strict.yaml", fs::read("policies/strict.yaml").unwrap());
    write(&dir, "policies/strict.test.yaml", fs::read("policies/strict.test.yaml").unwrap());
    write(&dir, "cluster.json", DUMP);
    write(&dir, "kubeconfig", KUBECONFIG);
    dir
}

fn run_in(dir: &TempDir, args: &[&str]) -> Ran {
    let mut program = bare_program();
    program.args(args).current_dir(dir.path()).env("KUBECONFIG", dir.path().join("kubeconfig"));
    finish(program.spawn().unwrap(), b"")
}

/// The lines below `Examples:` of a command's help.
fn examples(command: &clap::Command) -> Vec<String> {
    let help = command.clone().render_long_help().to_string();
    let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    lines.take_while(|line| line.starts_with("  mullion ")).map(|line| line.trim().to_owned()).collect()
}

/// Examples for files are run. Those for a cluster find none behind the kubeconfig, so they end with the message about
/// that. The two servers are only parsed.
#[test]
fn examples_of_the_help_run() {
    let dir = folder();
    for (words, command) in commands().into_iter().filter(|(words, _)| !words.is_empty()) {
        let examples = examples(&command);
        assert!((2..=4).contains(&examples.len()), "{words:?}: {examples:?}");
        for example in examples {
            let args: Vec<&str> = example.split(' ').skip(1).collect();
            assert!(example.starts_with(&format!("mullion {}", words.join(" "))), "{example}");
            Cli::try_parse_from([&["mullion"], &*args].concat()).unwrap_or_else(|error| panic!("{example}: {error}"));
            if ["webhook", "controller"].contains(&words[0].as_str()) {
                continue;
            }
            let ran = run_in(&dir, &args);
            if args.contains(&"--context") || words == ["status"] {
                assert!(
                    ran.code == 2 && ran.err.contains("context \"prod\": no response of the API server"),
                    "{example}: {} {}",
                    ran.code,
                    ran.err
                );
            } else {
                assert!(ran.code < 2, "{example}: {} {}", ran.code, ran.err);
            }
        }
    }
    for written in ["mullion.sarif", "survey.html", "plan.html", "facts.yaml", "report.xml", "policy.json"] {
        assert!(dir.path().join(written).metadata().unwrap().len() > 100, "{written}");
    }
}

/// Options that several commands have are the same option: the same short name, and a value or none.
#[test]
fn one_name_is_one_option() {
    let mut known: BTreeMap<String, (Option<char>, bool, String)> = BTreeMap::new();
    for (words, command) in commands() {
        for argument in command.get_arguments() {
            let Some(long) = argument.get_long() else { continue };
            let shared =
                ["filename", "namespace", "all-namespaces", "selector", "context", "as", "output", "output-file"];
            if !shared.contains(&long) || words.first().is_some_and(|word| ["webhook", "controller"].contains(&&**word))
            {
                continue;
            }
            let this = (argument.get_short(), argument.get_action().takes_values(), words.join(" "));
            let first = known.entry(long.to_owned()).or_insert_with(|| this.clone());
            assert_eq!((first.0, first.1), (this.0, this.1), "--{long} of {} and {}", first.2, this.2);
        }
    }
    assert_eq!(known.len(), 8, "{known:?}");
}

#[test]
fn an_output_file_has_what_standard_output_would_have() {
    let dir = folder();
    let file = dir.path().join("out");
    for words in [
        "check manifests/ -o json",
        "check manifests/ --show-changes",
        "mutate manifests/",
        "explain manifests/",
        "facts",
        "compat",
        "rules",
        "policy schema",
        "policy show --policies policies/ -n shop",
        "completions zsh",
        "man",
        "version",
        "check no-such.yaml -o sarif",
    ] {
        let args: Vec<&str> = words.split(' ').collect();
        let expected = run_in(&dir, &args);
        let ran = run_in(&dir, &[&*args, &["--output-file", "out"]].concat());
        assert_eq!((ran.code, ran.out.as_str(), ran.err), (expected.code, "", expected.err), "{words}");
        assert_eq!(fs::read_to_string(&file).unwrap(), expected.out, "{words}");
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn an_output_file_stays_if_there_is_no_output() {
    let dir = folder();
    let kept = write(&dir, "kept", "old");
    for args in [
        &["mutate", "no-such.yaml", "--output-file", &kept][..],
        &["check", "manifests/", "--policies", "no-such", "--output-file", &kept],
    ] {
        assert_eq!(run_in(&dir, args).code, 2, "{args:?}");
        assert_eq!(fs::read_to_string(&kept).unwrap(), "old", "{args:?}");
    }
    for (file, message) in [("policies", "it exists and is no file"), ("no/such/file", "it cannot be written")] {
        let ran = run_in(&dir, &["rules", "--output-file", file]);
        assert!(ran.code == 2 && ran.out.is_empty() && ran.err.contains(message), "{}", ran.err);
    }
    // Without findings the output is empty, and that is the result.
    assert_eq!(run_in(&dir, &["check", "cluster.json", "--output-file", &kept]).code, 0);
    assert_eq!(fs::read_to_string(&kept).unwrap(), "");
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().all(|name| !name.contains("partial")));
    #[cfg(unix)]
    assert!(run_in(&dir, &["rules", "--output-file", "/dev/null"]).err.contains("it exists and is no file"));
}

#[cfg(unix)]
#[test]
fn in_place_changes_files_and_nothing_else() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let dir = folder();
    let file = dir.path().join("manifests/web.yaml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let linux = write(&dir, "linux/linux.yaml", GOOD);
    symlink("../manifests/web.yaml", dir.path().join("linux/link.yaml")).unwrap();
    let expected = run_in(&dir, &["mutate", "--templates", "manifests/"]).out;

    // Nothing is written if an input cannot be read.
    write(&dir, "broken.yaml", "a: [");
    let bad = run_in(&dir, &["mutate", "--templates", "-i", "manifests/", "broken.yaml"]);
    assert_eq!(bad.code, 2, "{}", bad.err);
    assert_eq!(fs::read_to_string(&file).unwrap(), WINDOWS_POD);

    let ran = run_in(&dir, &["mutate", "--templates", "--in-place", "linux/link.yaml", &linux]);
    let code = (ran.code, ran.out.as_str());
    assert_eq!(code, (0, ""), "{}", ran.err);
    assert!(ran.err.contains(" of 2 files changed\n"), "{}", ran.err);
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
    assert_ne!(expected, WINDOWS_POD);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(dir.path().join("linux/link.yaml").is_symlink());
    let again = run_in(&dir, &["mutate", "--templates", "-i", "manifests/"]);
    assert!(again.code == 0 && again.err.contains("0 of 1 file changed\n"), "{}", again.err);

    for (args, message) in [
        (&["-i", "-"][..], "- is standard input"),
        (&["-i", "deploy/web"], "deploy/web does not exist here"),
        (&["-i", "--context", "prod"], "--in-place changes files"),
        (&["-i", "-A"], "--in-place changes files"),
        (&["-i", "--diff", "manifests/"], "cannot be used with"),
    ] {
        let ran = run_in(&dir, &[&["mutate"], args].concat());
        assert!(ran.code == 2 && ran.err.contains(message), "{args:?}: {}", ran.err);
    }
}

#[test]
fn templates_that_stay_as_they_are_are_named() {
    let dir = folder();
    write(&dir, "web.yaml", WINDOWS_DEPLOYMENT);
    let ran = run_in(&dir, &["mutate", "--diff", "web.yaml"]);
    let expected = "mullion: 1 template stays as it is, because admission changes the pods: Deployment shop/web (web.yaml:1); --templates writes the changes into them\n";
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", expected));
    for args in [&["mutate", "--diff", "--templates", "web.yaml"][..], &["mutate", "web.yaml"]] {
        assert_eq!(run_in(&dir, args).err, "");
    }
}

#[test]
fn a_namespace_fills_a_gap_in_files_and_selects_in_clusters_and_dumps() {
    let dir = folder();
    write(&dir, "all.yaml", format!("{WINDOWS_POD}---\n{WINDOWS_DEPLOYMENT}"));
    let note = "-n team is for objects without a namespace; 1 workload is in another one, and reviewed there: shop\n";
    for command in ["check", "explain", "mutate"] {
        let ran = run_in(&dir, &[command, "-n", "team", "all.yaml"]);
        assert!(ran.code == 0 && ran.err.contains(note), "{command}: {}", ran.err);
        assert!(!run_in(&dir, &[command, "-n", "shop", "all.yaml"]).err.contains("-n shop is for"));
        assert!(!run_in(&dir, &[command, "all.yaml"]).err.contains(" is for objects"));
    }
    let explained = run_in(&dir, &["explain", "-n", "team", "all.yaml"]).out;
    assert!(explained.contains("Pod team/web") && explained.contains("Deployment shop/web"), "{explained}");
    let changed = run_in(&dir, &["mutate", "-n", "team", "all.yaml"]).out;
    assert_eq!(changed.matches("kind: ").count(), 2, "mutate drops no document: {changed}");

    let workloads = |args: &[&str]| -> Vec<String> {
        let report: Value =
            serde_json::from_str(&run_in(&dir, &[&["survey", "cluster.json", "-o", "json"], args].concat()).out)
                .unwrap();
        let text = report.to_string();
        ["web-0", "far-0"].into_iter().filter(|name| text.contains(name)).map(str::to_owned).collect()
    };
    assert_eq!(workloads(&["-n", "shop"]), ["web-0"]);
    assert_eq!(workloads(&["-n", "shop", "-A"]), ["web-0", "far-0"]);
    assert_eq!(workloads(&[]), ["web-0", "far-0"]);
    assert_eq!(workloads(&["-l", "tier=far"]), ["far-0"]);
    assert_eq!(workloads(&["-l", "tier notin (far)", "-n", "shop"]), ["web-0"]);
    let unmatched = run_in(&dir, &["survey", "cluster.json", "-l", "tier=none"]).out;
    assert!(
        unmatched.contains("objects with other labels") && !unmatched.contains("pods were not read"),
        "{unmatched}"
    );

    // The current context, whose cluster does not respond.
    for args in [
        &["check", "-n", "shop"][..],
        &["explain", "deploy/web"],
        &["check", "-A", "-n", "shop"],
        &["mutate", "-l", "a=b"],
    ] {
        let ran = run_in(&dir, args);
        assert!(
            ran.code == 2 && ran.err.contains("context \"prod\": no response of the API server"),
            "{args:?}: {}",
            ran.err
        );
    }
    write(&dir, "pod/web", WINDOWS_POD);
    let ran = run_in(&dir, &["check", "pod/web"]);
    let note = "mullion: pod/web exists here, so it is read as a file; to read the object of a cluster, write pods/web";
    assert!(ran.code == 0 && ran.err.starts_with(note), "{}", ran.err);
}

#[test]
fn help_has_every_command_in_a_group() {
    let help = mullion(&["--help"], "").out;
    let mut program = Cli::command();
    program.build();
    let visible: Vec<_> = program.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    for command in &visible {
        let (name, about) = (command.get_name(), command.get_about().unwrap().to_string());
        let lines = help.lines().filter(|line| line.starts_with(&format!("  {name} ")) && line.ends_with(&about));
        assert_eq!(lines.count(), 1, "{name}: {help}");
    }
    let listed = help.lines().filter(|line| line.starts_with("  ") && !line.starts_with("  -"));
    assert_eq!(listed.count(), visible.len(), "{help}");
    assert!(help.contains("\nManifests:\n") && help.contains("\nOptions:\n"), "{help}");
}
