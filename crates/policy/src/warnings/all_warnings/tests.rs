#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "the shipped policies are files")]

use std::fs;
use std::path::Path;

use super::*;
use crate::warnings::notes;

/// A set of policies for pods, given as name and spec.
pub(super) fn set(policies: &[(&str, &str)]) -> PolicySet {
    let files: Vec<_> = policies
        .iter()
        .map(|(name, spec)| {
            let head = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy";
            (format!("{name}.yaml"), format!("{head}\nmetadata: {{name: {name}}}\nspec:\n{spec}\n"))
        })
        .collect();
    PolicySet::from_files(&files).unwrap_or_else(|all| panic!("{}: {policies:?}", all[0]))
}

/// The texts of all warnings.
fn print_all(policies: &[(&str, &str)]) -> Vec<String> {
    warnings(&set(policies)).iter().map(ToString::to_string).collect()
}

/// Name and spec of each policy of a set.
type Policies<'a> = &'a [(&'a str, &'a str)];

/// Each set with parts of its warnings, in order.
fn expect(cases: &[(Policies<'_>, &[&str])]) {
    for (policies, expected) in cases {
        let found = print_all(policies);
        let fits = found.len() == expected.len() && found.iter().zip(*expected).all(|(text, part)| text.contains(part));
        assert!(fits, "{policies:?}:\n{}", found.join("\n"));
    }
}

const EVERY: &str = "every pod that does not specify an operating system becomes";

#[test]
fn the_shipped_files_give_no_warning() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    let mut seen = 0;
    for entry in fs::read_dir(shipped).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let policies = path.extension().is_some_and(|end| end == "yaml") && !name.contains(".test.");
        if !policies {
            continue;
        }
        let set = PolicySet::from_files(&[(name, fs::read(&path).unwrap())]).unwrap();
        assert_eq!(warnings(&set), [], "{name}");
        seen += 1;
    }
    assert!(seen >= 4);
    assert_eq!(warnings(&PolicySet::built_in()), []);
    assert_eq!(warnings(&PolicySet::default()), []);
}

#[test]
fn control_plane_pods_must_run() {
    let exclude = "  match: {namespaces: {exclude: [kube-system, mullion-system]}}\n";
    let only = "  match: {namespaces: {include: [kube-system]}}\n  priority: 1000\n  rules: {denials: Warn}";
    let team = "  match: {namespaces: {include: [team]}}\n";
    let k8s = "  detect: {images: [{pattern: 'registry.k8s.io/**', os: windows}]}";
    expect(&[
        (
            &[("a", k8s)],
            &[
                "a.yaml:5: `detect.images: {pattern: registry.k8s.io/**, os: windows}` turns kube-apiserver, etcd, kube-scheduler and \
               kube-controller-manager in kube-system into Windows pods, so that no Linux node can run them (add \
               `match: {namespaces: {exclude: [kube-system]}}` to PodPolicy `a`)",
            ],
        ),
        // The shipped policy for kube-system denies nothing, and does not keep the pods on Linux nodes.
        (
            &[("a", k8s), ("k", only)],
            &[
                "turns kube-apiserver, etcd, kube-scheduler and kube-controller-manager in kube-system into Windows pods, so \
               that no Linux node can run them",
            ],
        ),
        (&[("a", &format!("{exclude}{k8s}"))], &[]),
        (&[("a", &format!("{team}{k8s}"))], &[]),
        (&[("a", &format!("{team}  detect: {{os: windows}}"))], &[]),
        (&[("a", &format!("{k8s}\n  mode: Audit"))], &[]),
        // Without a selector, pods do not move; without a denial, they run.
        (
            &[
                ("a", &format!("{k8s}\n  place: {{nodeSelector: {{mode: Never}}, specOS: {{mode: Never}}}}")),
                ("k", only),
            ],
            &[],
        ),
        (
            &[("a", "  match: {namespaces: {include: [kube-system]}}\n  detect: {os: windows}")],
            &["(remove kube-system from match.namespaces.include of PodPolicy `a`)"],
        ),
        (
            &[(
                "a",
                "  match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}\n  detect: {os: windows}",
            )],
            &["a.yaml:6: `detect.os: windows` turns "],
        ),
        (
            &[("a", "  match: {podSelector: {matchLabels: {tier: control-plane}}}\n  detect: {os: windows}")],
            &["a.yaml:6: `detect.os: windows` turns "],
        ),
    ]);
}

#[test]
fn keys_that_deny_pods_of_kube_system_are_reported() {
    let deny = "  rules: {actions: [{rule: privileged, action: Deny}]}";
    let denies =
        "a.yaml:5: `rules.actions: {rule: privileged, action: Deny}` denies azure-cns-win in kube-system (privileged)";
    // It matches kube-system, exempts it from nothing, and replaces the built-in policy that does.
    let replaced = ("kube-system", "  match: {namespaces: {include: [kube-system]}}\n  mode: Enforce");
    expect(&[
        // The built-in policy for kube-system.
        (&[("a", deny)], &[]),
        (&[("a", deny), replaced], &[denies]),
        (
            &[("a", deny), replaced],
            &["or create a PodPolicy for kube-system with priority 1000 and `rules: {denials: Warn}`"],
        ),
        (
            &[("a", &format!("  priority: 2000\n{deny}")), replaced],
            &["a PodPolicy for kube-system with priority 2001 and"],
        ),
        (&[("a", &format!("{deny}\n  mode: Audit")), ("kube-system", "  detect: {default: Nothing}")], &[]),
        (&[("a", "  rules: {actions: [{rule: privileged, action: Deny}], templates: Warn}"), replaced], &[]),
        (&[("a", "  rules: {actions: [{rule: privileged, action: Deny}], denials: Warn}"), replaced], &[]),
        (
            &[
                ("a", deny),
                (
                    "kube-system",
                    "  priority: 1000\n  match: {namespaces: {include: [kube-*]}}\n  rules: {denials: Warn}",
                ),
            ],
            &[],
        ),
        // A policy above the one that exempts kube-system removes the exemption.
        (
            &[
                ("a", deny),
                ("z", "  priority: 1001\n  match: {namespaces: {include: [kube-*]}}\n  rules: {denials: Deny}"),
            ],
            &[denies],
        ),
        (
            &[
                ("a", deny),
                (
                    "kube-system",
                    "  priority: 1\n  match: {namespaceSelector: {matchLabels: {exempt: 'yes'}}}\n  rules: {denials: Warn}",
                ),
            ],
            &["labels of kube-system that are unknown here may change this, see PodPolicy `kube-system`"],
        ),
    ]);
}

#[test]
fn a_set_that_exempts_kube_system_from_nothing_is_reported() {
    let replaces = "kube-system.yaml:1: PodPolicy `kube-system` replaces the built-in policy of that name, and no policy has \
                    `rules.denials: Warn` for namespace kube-system now";
    let applies = "`rules.denials: Deny` of PodPolicy `a` also applies to kube-system";
    let deny = |priority: i64| format!("  priority: {priority}\n  rules: {{denials: Deny}}");
    expect(&[
        (&[("kube-system", "  detect: {default: Nothing}")], &[replaces]),
        (&[("kube-system", "  priority: 1000\n  rules: {denials: Deny}")], &[replaces]),
        (&[("kube-system", "  match: {namespaces: {include: [other]}}\n  rules: {denials: Warn}")], &[replaces]),
        (&[("kube-system", "  rules: {denials: Warn}")], &[]),
        (&[("kube-system", "  mode: Audit")], &[]),
        (&[("kube-system", "  match: {namespaces: {include: [kube-system]}}\n  rules: {denials: Deny}")], &[]),
        (&[("kube-system", "  detect: {default: Nothing}"), ("b", "  priority: 3\n  rules: {denials: Warn}")], &[]),
        (&[("a", &deny(999))], &[]),
        (&[("a", &deny(1000))], &[applies]),
        (&[("a", &deny(1001))], &[applies]),
        (&[("a", &format!("{}\n  match: {{namespaces: {{exclude: [kube-*]}}}}", deny(1001)))], &[]),
    ]);
}

#[test]
fn built_in_policies_that_a_file_replaces_are_noted() {
    let noted = |policies: &[(&str, &str)]| -> Vec<String> {
        notes(&set(policies), 0).iter().map(ToString::to_string).collect()
    };
    let found = noted(&[("a", "  mode: Audit"), ("kube-system", "  rules: {denials: Warn}")]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("kube-system.yaml:1: PodPolicy `kube-system` replaces the built-in policy of that name"),
        "{found:?}"
    );
    // The policy is merged over the built-in one.
    assert_eq!(noted(&[("default", "  mode: Audit")]), [""; 0]);
}

#[test]
fn mullions_own_pods_must_run() {
    let ours = "  match: {namespaces: {include: [mullion-*]}}\n";
    expect(&[
        (
            &[("a", &format!("{ours}  detect: {{os: windows}}"))],
            &[
                "`detect.os: windows` would turn mullion-webhook and mullion-controller in mullion-system into Windows pods and \
               deny them (run-as-user), but the webhook registration excludes Mullion's own namespace",
            ],
        ),
        (&[("a", &format!("{ours}  detect: {{os: linux}}"))], &[]),
    ]);
}

#[test]
fn catch_all_windows_policies_are_reported() {
    let only = "  match: {namespaces: {exclude: [kube-*, mullion-system]}}\n";
    let with = |rest: &str| format!("{only}{rest}");
    let all = |os: &str| with(&format!("  detect: {{images: [{{pattern: '**', os: {os}}}]}}"));
    let hub = with("  detect: {images: [{pattern: 'docker.io/**', os: windows}]}");
    let os = with("  detect: {os: windows}");
    let some = "  priority: 5\n  match: {namespaces: {include: [x]}}\n  detect: {os: linux}";
    let windows = format!("{EVERY} a Windows pod, in every namespace except kube-* and mullion-system: ");
    expect(&[
        (&[("a", &os)], &[&format!("a.yaml:6: {windows}`detect.os: windows`")]),
        (&[("a", &all("windows"))], &[&format!("{windows}`detect.images: {{pattern: **, os: windows}}`")]),
        (
            &[("a", &hub)],
            &["every pod with images of Docker Hub that does not specify an operating system becomes a Windows pod"],
        ),
        (&[("a", &os), ("b", some)], &["mullion-system unless a higher policy decides (PodPolicy `b`): "]),
        (&[("a", "  match: {namespaces: {include: [win-*]}}\n  detect: {os: windows}")], &[]),
        (&[("a", "  match: {namespaces: {include: [default, some-*]}}\n  detect: {os: windows}")], &[]),
        (&[("a", "  match: {podSelector: {matchLabels: {os: windows}}}\n  detect: {os: windows}")], &[]),
        (&[("a", &with("  detect: {images: [{pattern: 'docker.io/acme/**', os: windows}]}"))], &[]),
        (&[("a", &with("  detect: {os: any}"))], &[]),
        // A higher policy for everything decides.
        (&[("a", &os), ("b", "  priority: 1\n  detect: {os: any}")], &[]),
    ]);
}

#[test]
fn catch_all_linux_policies_are_reported() {
    let linux = "a Linux pod, in every namespace, even if its images are Windows by name \
                 (mcr.microsoft.com/windows/nanoserver:ltsc2022): ";
    let images = |entries: &str| format!("  detect: {{images: [{entries}]}}");
    expect(&[
        (&[("a", "  detect: {os: linux}")], &[&format!("a.yaml:5: {EVERY} {linux}`detect.os: linux`")]),
        (
            &[("a", &images("{pattern: '**', os: linux}"))],
            &[&format!("{linux}`detect.images: {{pattern: **, os: linux}}`")],
        ),
        // `multi` decides nothing, and then the default decides.
        (&[("a", &images("{pattern: '**', os: multi}"))], &["`detect.images: {pattern: **, os: multi}`"]),
        (&[("a", &images("{pattern: 'mcr.microsoft.com/windows/**', os: windows}, {pattern: '**', os: linux}"))], &[]),
        (&[("a", &images("{pattern: 'docker.io/**', os: linux}"))], &[]),
        (&[("a", "  detect: {default: Linux}")], &["also in a cluster without Windows nodes: `detect.default: Linux`"]),
        (&[("a", "  detect: {default: LinuxWhenMixed}")], &[]),
        (&[("a", "  detect: {default: Nothing}")], &[]),
        (&[("a", "  match: {namespaces: {include: [x]}}\n  detect: {os: linux}")], &[]),
    ]);
}

#[test]
fn turning_mullion_off_is_reported() {
    let off = "a.yaml:5: Mullion neither places nor checks any pod: `mode: Disabled`";
    expect(&[
        (&[("a", "  mode: Disabled")], &[off]),
        (&[("a", "  mode: Audit")], &[]),
        // Mullion is turned on for one team after another.
        (
            &[("a", "  mode: Disabled"), ("b", "  priority: 1\n  match: {namespaces: {include: [x]}}\n  mode: Audit")],
            &[],
        ),
        (&[("a", "  match: {namespaces: {exclude: [x]}}\n  mode: Disabled")], &[]),
        (&[("a", "  match: {namespaces: {include: [x]}}\n  mode: Disabled")], &[]),
        (&[("a", "  mode: Disabled"), ("b", "  priority: 1\n  mode: Enforce")], &[]),
    ]);
}

#[test]
fn policies_that_match_nothing_are_reported() {
    let with = |matches: &str| format!("  match: {{{matches}}}\n  mode: Audit");
    let nothing = "a.yaml:5: PodPolicy `a` matches nothing: ";
    let selector = |which: &str| {
        with(&format!("{which}: {{matchLabels: {{t: x}}, matchExpressions: [{{key: t, operator: DoesNotExist}}]}}"))
    };
    expect(&[
        (&[("a", &with("namespaces: {include: [dev-x, dev-*], exclude: ['dev*']}"))], &[nothing]),
        (&[("a", &with("namespaces: {exclude: ['*']}"))], &[nothing]),
        (&[("a", &with("namespaces: {include: [dev-x, test], exclude: ['dev*']}"))], &[]),
        (&[("a", &with("namespaces: {include: ['dev*'], exclude: [dev-x, 'dev-*']}"))], &[]),
        (
            &[("a", &selector("namespaceSelector"))],
            &["no value of label t meets all requirements of namespaceSelector"],
        ),
        (&[("a", &selector("podSelector"))], &["no value of label t meets all requirements of podSelector"]),
    ]);
}

#[test]
fn keys_that_a_policy_for_everything_overrides_are_reported() {
    let team = "  priority: 5\n  match: {namespaces: {include: [team]}}\n  mode: Audit\n  rules: {denials: Warn}";
    let over = |rest: &str| format!("  priority: 9\n{rest}");
    let deny_all = over("  rules: {denials: Deny}");
    expect(&[
        (
            &[("a", team), ("all", &deny_all)],
            &[
                "a.yaml:8: PodPolicy `all` (all.yaml:1) matches everything with a higher priority, so that `rules.denials: Warn` \
               (`Deny` there) of PodPolicy `a` has no effect (give PodPolicy `a` a priority above 9)",
            ],
        ),
        (
            &[("a", team), ("all", &over("  mode: Enforce\n  rules: {denials: Deny}"))],
            &["`mode: Audit` (`Enforce` there) and `rules.denials: Warn` (`Deny` there)"],
        ),
        (&[("a", team), ("all", &over("  rules: {denials: Warn}"))], &[]),
        (&[("a", team), ("all", "  rules: {denials: Deny}")], &[]),
        (&[("a", team), ("some", &format!("{deny_all}\n  match: {{namespaces: {{exclude: [x]}}}}"))], &[]),
        // Defaults, and a policy that changes them.
        (&[("a", "  rules: {denials: Warn}"), ("all", &deny_all)], &[]),
    ]);
}

#[test]
fn covered_image_patterns_are_reported_and_counted() {
    let images = |entries: &str| format!("  detect:\n    images:\n{entries}");
    let one = "    - {pattern: r.io/**, os: windows}\n    - {pattern: r.io/linux/**, os: linux}";
    let good = "    - {pattern: r.io/linux/**, os: linux}\n    - {pattern: r.io/**, os: windows}";
    let many: Vec<_> = (0..30).map(|n| format!("    - {{pattern: r.io/{n}, os: linux}}\n")).collect();
    let many = many.concat();
    let found = print_all(&[("a", &images(&format!("    - {{pattern: r.io/**, os: windows}}\n{many}")))]);
    assert_eq!(found.len(), 10);
    assert!(found[9].ends_with("; 20 more patterns have no effect either)"), "{}", found[9]);
    expect(&[
        (
            &[("a", &images(one))],
            &[
                "a.yaml:8: image pattern `r.io/linux/**` has no effect: `r.io/**` on line 7 comes first, covers all of it and sets \
               another value (the first match decides; move it before that one)",
            ],
        ),
        (&[("a", &images(good))], &[]),
    ]);
}

#[test]
fn actions_after_another_for_the_same_rule_are_reported() {
    let actions = |entries: &str| format!("  rules:\n    actions:\n{entries}");
    let twice = "    - {rule: run-as-user, action: Warn}\n    - {rule: run-as-user, action: Deny}";
    let same = "    - {rule: run-as-user, action: Warn}\n    - {rule: run-as-user, action: Warn}";
    let longer = "    - {rule: MUL2, action: Warn}\n    - {rule: run-as-user, action: Deny}";
    expect(&[
        (
            &[("a", &actions(twice))],
            &[
                "a.yaml:8: action `Deny` of `run-as-user` has no effect: line 7 sets `Warn` first (remove one of the two)",
            ],
        ),
        (&[("a", &actions(same))], &[]),
        (&[("a", &actions(longer))], &[]),
        (
            &[("a", &actions("    - {rule: MUL201, action: Warn}\n    - {rule: run-as-user, action: Deny}"))],
            &["a.yaml:7: action `Warn` of `MUL201` has no effect: `run-as-user` on line 8 is a longer match"],
        ),
        (&[("a", &actions("    - {rule: MUL201, action: Deny}\n    - {rule: run-as-user, action: Deny}"))], &[]),
    ]);
}

#[test]
fn entries_for_which_a_higher_policy_always_decides_are_reported() {
    let spec =
        |priority: i64, matches: &str, rest: &str| format!("  priority: {priority}\n  match: {{{matches}}}\n  {rest}");
    let act = |entries: &str| format!("rules: {{actions: [{entries}]}}");
    let (team, all) = ("namespaces: {include: [team]}", "");
    let low = spec(5, team, &act("{rule: run-as-user, action: Warn}, {rule: MUL305, action: Warn}"));
    let high = |matches: &str, entries: &str| spec(9, matches, &act(entries));
    let never = "PodPolicy `z` (z.yaml:1) has a higher priority and matches everything that PodPolicy `a` matches, so that \
                 these entries of it never decide: `run-as-user: Warn` (`Deny` there)";
    let warned = |high: &str, low: &str| {
        let all = print_all(&[("a", low), ("z", high)]);
        all.into_iter().filter(|text| text.contains("never decide")).collect::<Vec<_>>()
    };
    for (matches, entries) in [
        (all, "{rule: MUL2, action: Deny}"),
        ("namespaces: {include: [te*], exclude: [team-b]}", "{rule: MUL201, action: Deny}"),
        (team, "{rule: run-as-user, action: Deny}"),
    ] {
        let found = warned(&high(matches, entries), &low);
        assert!(found.len() == 1 && found[0].contains(never), "{matches} {entries}: {found:?}");
    }
    for (matches, entries) in [
        (all, "{rule: MUL202, action: Deny}"),
        (all, "{rule: MUL2, action: Warn}"),
        ("namespaces: {exclude: [team]}", "{rule: MUL2, action: Deny}"),
        ("namespaces: {include: [other]}", "{rule: MUL2, action: Deny}"),
        ("podSelector: {matchLabels: {a: b}}", "{rule: MUL2, action: Deny}"),
    ] {
        assert_eq!(warned(&high(matches, entries), &low), [""; 0], "{matches} {entries}");
    }
    // Several together; of two policies for everything the lower one contains defaults.
    let both = high(all, "{rule: MUL2, action: Deny}, {rule: memory-volume, action: Deny}");
    assert!(warned(&both, &low)[0].contains("`MUL305: Warn` (`Deny` there) and `run-as-user: Warn` (`Deny` there)"));
    let defaults = low.replace(team, all);
    assert_eq!(warned(&both, &defaults), [""; 0]);
    let noted = notes(&set(&[("a", &defaults), ("z", &both)]), 0);
    assert!(noted.len() == 1 && noted[0].message.contains("never decide"), "{noted:?}");
    // A prefix that decides for one of its rules has an effect.
    assert_eq!(
        warned(&high(all, "{rule: MUL201, action: Deny}"), &spec(5, team, &act("{rule: MUL2, action: Warn}"))),
        [""; 0]
    );
    let images =
        |priority: i64, matches: &str, entry: &str| spec(priority, matches, &format!("detect: {{images: [{entry}]}}"));
    let found = warned(
        &images(9, all, "{pattern: 'a.io/**', os: linux}"),
        &images(5, team, "{pattern: 'a.io/x/*', os: windows}"),
    );
    assert!(found.len() == 1 && found[0].contains("never decide: `a.io/x/*`"), "{found:?}");
    let found = warned(
        &images(9, all, "{pattern: 'a.io/x/*', os: linux}"),
        &images(5, team, "{pattern: 'a.io/**', os: windows}"),
    );
    assert_eq!(found, [""; 0]);
}

#[test]
fn the_end_of_a_policy_is_noted_thirty_days_before_and_when_it_has_passed() {
    let day = 24 * 60 * 60;
    let end = 90 * day;
    let loaded = set(&[("a", "  until: 1970-03-31\n  rules: {denials: Warn}")]);
    for (now, expected) in [
        (end - 31 * day, ""),
        (end - 30 * day, "a.yaml:5: PodPolicy `a` ends in 30 days (until 1970-03-31)"),
        (end - day - 1, "a.yaml:5: PodPolicy `a` ends in a day (until 1970-03-31)"),
        (end - 1, "a.yaml:5: PodPolicy `a` ends in less than a day (until 1970-03-31)"),
        (end, "a.yaml:5: PodPolicy `a` has ended (until 1970-03-31) and has no effect"),
        (end + 1000 * day, "a.yaml:5: PodPolicy `a` has ended (until 1970-03-31) and has no effect"),
    ] {
        let at = loaded.at(now);
        assert_eq!(warnings(&at), [], "{now}");
        let found: Vec<_> = notes(&at, now).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), usize::from(!expected.is_empty()), "{found:?}");
        assert!(found.iter().all(|text| text.starts_with(expected)), "{found:?}");
    }
}
