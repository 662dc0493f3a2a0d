//! Policy files in arguments: files, directories, standard input, ConfigMaps from Git.

use super::*;

const POLICY: &str = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: shop}\nspec: {mode: Audit}\n";

fn config_map(policy: &str) -> String {
    let lines: String = policy.lines().flat_map(|line| ["    ", line, "\n"]).collect();
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: policies}}\ndata:\n  shop.yaml: |\n{lines}")
}

#[test]
fn a_config_map_from_git_is_policies() {
    let dir = dir();
    let good = write(&dir, "good/cm.yaml", config_map(POLICY));
    let bad = write(&dir, "bad/cm.yaml", config_map(&POLICY.replace("mode", "mod")));
    let ran = mullion(&["policy", "check", &good], "");
    assert_eq!((ran.code, ran.err.as_str()), (0, "mullion: 1 file, 1 policy, no problem\n"), "{}", ran.out);
    assert!(ran.out.contains(&format!("{good}:6")), "{}", ran.out);

    let ran = mullion(&["policy", "check", &bad], "");
    let at = format!(" --> {bad}:9:12\n  |\n9 |     spec: {{mod: Audit}}\n  |            ^^^\n");
    assert!(ran.code == 2 && ran.out.contains(&at) && ran.out.contains("did you mean `mode`?"), "{}", ran.out);
    // Another object in the output of `helm template` is not a problem.
    let release = format!("apiVersion: v1\nkind: Service\nmetadata: {{name: s}}\n---\n{}", config_map(POLICY));
    let ran = mullion(&["policy", "check", "-"], &release);
    assert_eq!((ran.code, ran.err.as_str()), (0, "mullion: 1 file, 1 policy, no problem\n"), "{}", ran.out);
    assert!(ran.out.contains("<stdin>:10"), "{}", ran.out);
    assert_eq!(mullion(&["policy", "check", "-", "-"], POLICY).code, 2);

    // The same for the other commands that read policies.
    let ran = mullion(&["policy", "diff", "built-in", &good], "");
    assert!(
        ran.code == 1
            && ran.out.contains("Enforce (built-in default.yaml:20)")
            && ran.out.contains(&format!("Audit ({good}:9)")),
        "{}",
        ran.out
    );
    let ran = mullion(&["policy", "show", "--policies", &good], "");
    assert!(ran.code == 0 && ran.out.contains(&format!("{good}:9")), "{}{}", ran.out, ran.err);
    let ran = mullion(&["check", "--policies", &bad, "denied.yaml"], "");
    assert!(
        ran.code == 2 && ran.err.starts_with(&format!("mullion: {bad}:9:12: `spec` has no key `mod`")),
        "{}",
        ran.err
    );
}

#[test]
fn built_in_policies_lie_under_the_files_and_those_that_a_file_replaces_are_named() {
    let dir = dir();
    let named =
        |file: &str, spec: &str| write(&dir, file, POLICY.replace("shop", "kube-system").replace("mode: Audit", spec));
    let own = named("own.yaml", "match: {namespaces: {include: [kube-system]}}, rules: {denials: Warn}");
    let ran = mullion(&["policy", "check", "--fail-on", "warn", &own], "");
    assert_eq!((ran.code, ran.err.as_str()), (0, "mullion: 1 file, 1 policy, no problem\n"));
    let note = format!("note: PodPolicy `kube-system` replaces the built-in policy of that name\n --> {own}:1:1\n");
    assert!(ran.out.starts_with(&note), "{}", ran.out);
    let ran = mullion(&["policy", "check", "-o", "json", &own], "");
    let all = records(&ran);
    assert_eq!((&all[0]["severity"], &of_type(&all, "summary")[0]["notes"]), (&Value::from("note"), &Value::from(1)));

    // A policy for other namespaces leaves kube-system without a policy of its own.
    let other = named("other.yaml", "detect: {default: Nothing}");
    let ran = mullion(&["policy", "check", "--fail-on", "warn", &other], "");
    assert!(
        ran.code == 1 && ran.out.contains("no policy has `rules.denials: Warn` for namespace kube-system"),
        "{}",
        ran.out
    );

    // One file with one key does not change other keys.
    let one = write(&dir, "one.yaml", POLICY);
    let ran = mullion(&["policy", "check", "--fail-on", "warn", &one], "");
    assert!(ran.code == 0 && !ran.out.contains("note"), "{}", ran.out);
    let ran = mullion(&["policy", "show", "--policies", &one, "-n", "kube-system"], "");
    assert!(ran.out.contains("  kube-system, priority 1000 (built-in default.yaml:"), "{}", ran.out);
    assert!(ran.out.contains("  default, below every priority (built-in default.yaml:"), "{}", ran.out);
}

#[test]
fn an_exemption_ends() {
    let dir = dir();
    // A UTC day, that many days from now.
    let until = |days: i64| {
        let day = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24 * days);
        day.strftime("%Y-%m-%d").to_string()
    };
    for (days, note, denied) in [(60, "", false), (10, "ends in", false), (-10, "has ended", true)] {
        let spec = format!("until: {}, rules: {{denials: Warn}}", until(days));
        let file = write(&dir, "until.yaml", POLICY.replace("mode: Audit", &spec));
        let ran = mullion(&["policy", "check", "--fail-on", "warn", &file], "");
        assert_eq!((ran.code, ran.err.as_str()), (0, "mullion: 1 file, 1 policy, no problem\n"), "{}", ran.out);
        assert_eq!(ran.out.contains("note: PodPolicy `shop`"), !note.is_empty(), "{}", ran.out);
        assert!(
            ran.out.contains(note) && ran.out.contains(&format!("every pod, until {}", until(days))),
            "{}",
            ran.out
        );
        let ran = mullion(&["check", "--policies", &file, "denied.yaml"], "");
        assert_eq!(ran.code, i32::from(denied), "{days}: {}", ran.out);
        let ran = mullion(&["policy", "show", "--policies", &file], "");
        assert_eq!(ran.out.contains("): it has ended (until "), denied, "{}", ran.out);
    }
    let file = write(&dir, "until.yaml", POLICY.replace("mode:", "until: 2099-01-01, mode:"));
    let ran = mullion(&["policy", "check", &file], "");
    assert!(ran.code == 2 && ran.out.contains("`spec.mode` must be absent: a policy with `until` only"), "{}", ran.out);
}

#[test]
fn several_problems_are_shown_by_a_command_that_can_be_pasted() {
    let dir = dir();
    let bad = write(&dir, "bad.yaml", POLICY.replace("mode: Audit", "mod: Audit, workload: Warn"));
    for args in [&["check", "--policies", &bad, "denied.yaml"][..], &["policy", "show", "--policies", &bad]] {
        let ran = mullion(args, "");
        let end = format!("; and 1 more problem, shown by: mullion policy check {bad}\n");
        assert!(ran.code == 2 && ran.err.lines().count() == 1 && ran.err.ends_with(&end), "{}", ran.err);
    }
}

#[test]
fn test_cases_named_beside_policies_are_left_out() {
    let dir = dir();
    let (policy, test) = (write(&dir, "a.yaml", POLICY), write(&dir, "a.test.yaml", "cases: ["));
    let ran = mullion(&["policy", "check", &policy, &test], "");
    let left_out =
        format!("mullion: {test}: left out, because it contains test cases; run them with mullion policy test\n");
    assert_eq!((ran.code, ran.err), (0, left_out + "mullion: 1 file, 1 policy, no problem\n"));
    let ran = mullion(&["policy", "check", &test], "");
    assert!(ran.code == 2 && ran.out.is_empty(), "{}", ran.out);
    let ran = mullion(&["policy", "test", "-o", "json", &test], "");
    let all = records(&ran);
    let problem = of_type(&all, "problem")[0];
    assert_eq!((ran.code, &problem["file"], problem["severity"].as_str()), (2, &Value::from(test), Some("error")));
    assert!(problem["line"].is_u64() && problem["column"].is_u64(), "{problem}");
}

#[test]
fn a_denial_is_explained_with_its_setting() {
    let dir = dir();
    let file = write(&dir, "a.yaml", POLICY.replace("mode: Audit", "rules: {actions: [{rule: MUL2, action: Deny}]}"));
    let ran = mullion(&["explain", "--settings", "denied.yaml"], "");
    assert!(
        ran.out.contains(
            "  decided by MUL201 run-as-user: no entry of rules.actions names it; its default is at most Deny"
        ),
        "{}",
        ran.out
    );
    let ran = mullion(&["explain", "--settings", "denied.yaml", "--policies", &file], "");
    let entry = format!("  decided by MUL201 run-as-user: rules.actions has MUL2: Deny ({file}:4)\n");
    assert!(ran.out.contains(&entry), "{}", ran.out);
}

#[test]
fn the_help_of_every_command_contains_its_exit_codes() {
    let commands: [&[&str]; 11] = [
        &["check"],
        &["mutate"],
        &["explain"],
        &["image"],
        &["compat"],
        &["rules"],
        &["policy", "check"],
        &["policy", "show"],
        &["policy", "test"],
        &["policy", "diff"],
        &["policy", "schema"],
    ];
    for command in commands {
        let ran = mullion(&[command, &["--help"]].concat(), "");
        assert!(ran.code == 0 && ran.out.contains("\nExit code: 0; "), "{command:?}: {}", ran.out);
    }
}
