//! The steps of the GitHub Action `action.yml`, run as a runner runs them, in a new repository.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A runner: a repository with a manifest that would be denied and one that would not, and the files of the runner.
struct Runner {
    folder: TempDir,
    inputs: Vec<(&'static str, String)>,
}

/// The result of all steps that ran.
struct Done {
    code: i32,
    text: String,
    outputs: String,
    path: String,
}

impl Runner {
    fn new(inputs: &[(&'static str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let done = Command::new("git").args(arguments).current_dir(folder.path()).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        };
        git(&["init", "--quiet", "work"]);
        for name in ["work/good", "work/bad", "temp", "release/mullion-0"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("work/good/pod.yaml"), GOOD).unwrap();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli");
        fs::copy(fixtures.join("denied.yaml"), folder.path().join("work/bad/pod.yaml")).unwrap();
        fs::copy(fixtures.join("warned.yaml"), folder.path().join("work/warned.yaml")).unwrap();
        let program = folder.path().join("release/mullion-0/mullion");
        fs::write(&program, format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_mullion"))).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let pack = ["-C", "release", "-czf", "release/mullion-0.tar.gz", "mullion-0"];
        assert!(Command::new("tar").args(pack).current_dir(folder.path()).status().unwrap().success());
        let inputs = inputs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { folder, inputs }
    }

    fn archive(&self) -> String {
        self.folder.path().join("release/mullion-0.tar.gz").to_str().unwrap().to_owned()
    }

    /// With the archive, whose checksum is that of the file.
    fn with_archive(mut self) -> Self {
        let sum = Command::new("sha256sum").arg(self.archive()).output().unwrap();
        let sum = String::from_utf8(sum.stdout).unwrap().split_whitespace().next().unwrap().to_owned();
        self.inputs.extend([("archive", self.archive()), ("sha256", sum)]);
        self
    }

    /// Runs the steps in order, until one fails.
    fn run(&self) -> Done {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let action: Value = serde_saphyr::from_str(&fs::read_to_string(root.join("action.yml")).unwrap()).unwrap();
        for (name, _) in &self.inputs {
            assert!(action["inputs"].get(name).is_some(), "action.yml has no input {name}");
        }
        let at = |name: &str| self.folder.path().join(name);
        fs::write(at("output"), "").unwrap();
        fs::write(at("path"), "").unwrap();
        let (mut code, mut text) = (0, String::new());
        for step in action["runs"]["steps"].as_array().unwrap() {
            assert_eq!(step["shell"], "bash");
            let added = fs::read_to_string(at("path")).unwrap();
            let path: Vec<&str> = added.lines().chain(["/usr/bin", "/bin"]).collect();
            // As the runner starts `shell: bash`.
            let mut bash = Command::new("bash");
            bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"].as_str().unwrap()]);
            bash.env_clear().current_dir(at("work")).env("PATH", path.join(":"));
            bash.env("GITHUB_ACTION_PATH", root).env("RUNNER_TEMP", at("temp"));
            bash.env("GITHUB_OUTPUT", at("output")).env("GITHUB_PATH", at("path"));
            for (name, value) in step["env"].as_object().unwrap() {
                bash.env(name, self.input(&action, value.as_str().unwrap()));
            }
            let done = bash.output().unwrap();
            text.push_str(&String::from_utf8_lossy(&done.stdout));
            text.push_str(&String::from_utf8_lossy(&done.stderr));
            code = done.status.code().unwrap();
            if code != 0 {
                break;
            }
        }
        let read = |name: &str| fs::read_to_string(at(name)).unwrap();
        Done { code, text, outputs: read("output"), path: read("path") }
    }

    /// The value of `${{ inputs.NAME }}`.
    fn input(&self, action: &Value, expression: &str) -> String {
        let name = expression.strip_prefix("${{ inputs.").unwrap().strip_suffix(" }}").unwrap();
        let declared = &action["inputs"][name];
        assert!(declared.is_object(), "action.yml has no input {name}");
        let given = self.inputs.iter().find(|(given, _)| *given == name).map(|(_, value)| value.clone());
        given.or_else(|| Some(declared["default"].as_str()?.to_owned())).unwrap_or_default()
    }
}

#[test]
fn findings_are_annotations_and_fail_the_step() {
    let done = Runner::new(&[("files", "bad\ngood\n"), ("sarif", "mullion.sarif")]).with_archive();
    let ran = done.run();
    assert_eq!(ran.code, 1, "{}", ran.text);
    assert!(ran.text.contains("::error file=bad/pod.yaml,line=8"), "{}", ran.text);
    assert_eq!(ran.outputs, "exit-code=1\n");
    assert!(ran.path.lines().count() == 1 && ran.path.contains("/temp/mullion."), "{}", ran.path);
    let sarif = fs::read_to_string(done.folder.path().join("work/mullion.sarif")).unwrap();
    let sarif: Value = serde_json::from_str(&sarif).unwrap();
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "MUL201", "{sarif}");
}

#[test]
fn without_findings_the_step_succeeds() {
    let ran = Runner::new(&[("files", "good")]).with_archive().run();
    assert_eq!((ran.code, &*ran.outputs), (0, "exit-code=0\n"), "{}", ran.text);
    assert!(!ran.text.contains("::error"), "{}", ran.text);
}

#[test]
fn inputs_reach_the_program() {
    let warn = |fail_on: &str| Runner::new(&[("files", "warned.yaml"), ("fail-on", fail_on)]).with_archive().run();
    assert_eq!(warn("deny").code, 0);
    assert_eq!(warn("warn").code, 1);
    let warn =
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: a}\nspec: {rules: {denials: Warn}}\n";
    let runner = Runner::new(&[("files", "bad"), ("policies", "a.yaml\nb.yaml")]).with_archive();
    let policy = |name: &str, text: &str| fs::write(runner.folder.path().join("work").join(name), text).unwrap();
    policy("a.yaml", warn);
    policy("b.yaml", &warn.replace("{name: a}", "{name: b}").replace("{denials: Warn}", "{}"));
    let ran = runner.run();
    assert_eq!(ran.code, 0, "{}", ran.text);
    policy("b.yaml", "kind: PodPolicy\nspec: {}\nunknown: 1\n");
    assert_eq!(runner.run().code, 2);
    let none = Runner::new(&[("files", "\n")]).with_archive().run();
    assert!(none.code == 2 && none.text.contains("files is empty"), "{}", none.text);
    let missing = Runner::new(&[("files", "nowhere"), ("sarif", "a.sarif")]).with_archive();
    let ran = missing.run();
    assert_eq!((ran.code, &*ran.outputs), (2, "exit-code=2\n"), "{}", ran.text);
    assert!(!missing.folder.path().join("work/a.sarif").exists());
}

#[test]
fn nothing_runs_whose_checksum_is_unknown() {
    let refused = |inputs: &[(&'static str, &str)], words: &str| {
        let ran = Runner::new(&[&[("files", "good")], inputs].concat()).run();
        assert_eq!(ran.code, 2, "{}", ran.text);
        assert!(ran.text.starts_with("::error title=Mullion::") && ran.text.contains(words), "{}", ran.text);
        assert!(ran.path.is_empty() && ran.outputs.is_empty(), "{}{}", ran.path, ran.outputs);
    };
    let sum = "0".repeat(64);
    refused(&[], "the program mullion is not in the PATH");
    refused(&[("sha256", &sum)], "archive is not");
    refused(&[("archive", "https://files.example.com/mullion.tar.gz")], "sha256 must be the checksum");
    refused(&[("archive", "http://files.example.com/mullion.tar.gz"), ("sha256", &sum)], "begins with https://");
    refused(&[("archive", "../release/mullion-0.tar.gz"), ("sha256", &sum)], &format!("and not {sum}"));
}
