//! Files of a repository whose authors are not trusted: links that lead out of a directory, and names that are options.

use serde_json::json;

use super::*;

/// A text that no output may contain.
const SECRET: &str = "c2VjcmV0LXRva2Vu";

/// A pod that is denied.
const DENIED: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec:\n  os: {name: windows}\n  \
                      securityContext: {runAsUser: 1}\n  containers: [{name: a, image: a}]\n";

/// A policy under which it is admitted.
const ALLOW: &str = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: allow}\nspec: {priority: 10, mode: Disabled}\n";

/// Runs the program in a directory.
fn mullion_in(directory: &Path, arguments: &[&str]) -> Ran {
    finish(bare_program().args(arguments).current_dir(directory).spawn().unwrap(), b"")
}

#[cfg(unix)]
#[test]
fn links_that_leave_a_directory_are_named_and_not_followed() {
    use std::os::unix::fs::symlink;

    let dir = dir();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"kubernetes.io/os": "windows"}}});
    write(&dir, "in/pod.yaml", GOOD);
    write(&dir, "in/node.json", node.to_string());
    write(
        &dir,
        "in/a.test.yaml",
        "apiVersion: mullion.dev/v1alpha1\nkind: PolicyTest\npolicies: [a.yaml]\ncases: []\n",
    );
    write(&dir, "out/config.json", format!("{{\"auths\": {{\"registry.example.com\": {{\"auth\": \"{SECRET}\"}}}}}}"));
    let pod = GOOD.replace("good", SECRET);
    write(&dir, "out/pod.yaml", &pod);
    write(&dir, "out/b.test.yaml", format!("{SECRET}: x\n"));
    let at = |name: &str| dir.path().join("in").join(name);
    for (target, link) in [
        ("../out/config.json", "config.json"),
        ("../out/pod.yaml", "leaves.yaml"),
        ("../out/b.test.yaml", "b.test.yaml"),
        ("../out", "below"),
        ("/", "root"),
        (".", "loop"),
        ("pod.yaml", "inside.yaml"),
    ] {
        symlink(target, at(link)).unwrap();
    }
    let below = dir.path().join("in").to_str().unwrap().to_owned();
    let manifests = ["config.json", "leaves.yaml", "below", "root"].as_slice();
    let table: &[(&[&str], &[&str])] = &[
        (&["check"], manifests),
        (&["check", "-o", "json"], manifests),
        (&["check", "-o", "sarif"], manifests),
        (&["check", "-o", "github"], manifests),
        (&["mutate"], manifests),
        (&["mutate", "--diff"], manifests),
        (&["explain"], manifests),
        (&["survey"], manifests),
        (&["plan", "--to", "ltsc2025"], manifests),
        (&["policy", "show", "--pod"], manifests),
        (&["policy", "diff", "built-in", "built-in"], manifests),
        (&["policy", "test"], &["b.test.yaml", "below", "root"]),
        (&["policy", "check"], &["config.json", "leaves.yaml"]),
        (&["image", "nginx", "--policies"], &["config.json"]),
        (&["check", "../../tests/cli/pod-windows.yaml", "--policies"], &["config.json"]),
    ];
    for (words, named) in table {
        let ran = mullion(&[*words, &[&below]].concat(), "");
        let all = format!("{}{}", ran.out, ran.err);
        assert!(!all.contains(SECRET) && !all.contains("registry.example.com"), "{words:?}: {all}");
        for name in *named {
            let message = all.lines().find(|line| line.contains(&format!("in/{name}")));
            assert!(message.is_some() && all.contains("leaves the directory"), "{words:?}: {name} in {all}");
        }
        let is_problem = words.contains(&"--policies") || matches!(words, ["policy", "test" | "check"]);
        assert_eq!(ran.code == 2, is_problem, "{words:?}: {all}");
    }
    // A link that the user passes, and the flag.
    let ran = mullion(&["check", "-o", "json", at("leaves.yaml").to_str().unwrap()], "");
    assert!(ran.out.contains(SECRET) && ran.code == 0, "{}{}", ran.out, ran.err);
    fs::remove_file(at("root")).unwrap();
    fs::remove_file(at("config.json")).unwrap();
    fs::remove_file(dir.path().join("out/config.json")).unwrap();
    for words in
        [&["check", "-o", "json", "--follow-links"][..], &["mutate", "--follow-links"], &["explain", "--follow-links"]]
    {
        let ran = mullion(&[words, &[&below]].concat(), "");
        assert!(ran.out.contains(SECRET) && !ran.err.contains("leaves the directory"), "{}{}", ran.out, ran.err);
    }
}

/// The arguments of pre-commit: the entry of the hook, its `args` or those of the user, and the names of files.
fn hook(arguments: Option<&[&str]>, files: &[&str]) -> Vec<String> {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/.pre-commit-hooks.yaml")).unwrap();
    let hooks = documents(".pre-commit-hooks.yaml", &text).remove(0).unwrap().json;
    let hook = &hooks[0];
    let own: Vec<&str> = hook["args"].as_array().into_iter().flatten().map(|word| word.as_str().unwrap()).collect();
    let entry = hook["entry"].as_str().unwrap().split(' ').skip(1);
    let all = entry.chain(arguments.map_or(own, <[&str]>::to_vec)).chain(files.iter().copied());
    all.map(str::to_owned).collect()
}

#[test]
fn names_that_are_options_are_files() {
    let dir = dir();
    write(&dir, "bad.yaml", DENIED);
    write(&dir, "p/a.yaml", ALLOW);
    write(&dir, "--policies=p/a.yaml", DENIED);
    write(&dir, "-f/bad.yaml", DENIED);
    let files = ["--policies=p/a.yaml", "-f/bad.yaml", "bad.yaml"];
    // Without the names the policy is an option, and the pod is admitted.
    fs::rename(dir.path().join("--policies=p"), dir.path().join("kept")).unwrap();
    assert_eq!(mullion_in(dir.path(), &["check", "--policies=p/a.yaml", "bad.yaml"]).code, 0);
    fs::rename(dir.path().join("kept"), dir.path().join("--policies=p")).unwrap();

    let run = |arguments: Option<&[&str]>| {
        let words = hook(arguments, &files);
        mullion_in(dir.path(), &words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    for arguments in [None, Some(&["--"][..]), Some(&["--fail-on", "warn", "--"])] {
        let ran = run(arguments);
        assert_eq!(ran.code, 1, "{arguments:?}: {}{}", ran.out, ran.err);
        for file in files {
            assert!(ran.out.contains(&format!("--> {file}:")), "{arguments:?}: {file} in {}", ran.out);
        }
    }
    // Arguments of a user without `--`: the names are no options either.
    for arguments in [Some(&[][..]), Some(&["--fail-on", "warn"]), Some(&["--policies=p/a.yaml"])] {
        let ran = run(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}: {}", ran.err);
        let message =
            "--policies=p/a.yaml is an option, and the name of a file here; write -- before the names of files";
        assert!(ran.err.contains(message), "{}", ran.err);
    }
    // Ordinary names need no `--`.
    let ran = mullion_in(dir.path(), &["check", "--fail-on", "warn", "bad.yaml"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
}
