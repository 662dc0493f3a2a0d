//! The pipelines on the pages of CI systems: their scripts run as the system runs them, in a new repository. The download
//! is a stand-in: `curl` copies a local archive, and `apt-get` does nothing. `kustomize` prints the manifests.

use std::os::unix::fs::PermissionsExt as _;

use quick_junit::Report;

use super::*;

/// A repository of a reader, and the programs in its way.
struct Checkout {
    folder: TempDir,
    /// Directories that the agent of Azure Pipelines adds.
    path: Vec<String>,
}

const ARCHIVE: &str = "mullion-0.1.0-x86_64-unknown-linux-musl";

impl Checkout {
    fn new(manifest: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write(&folder, "work/manifests/web.yaml", manifest);
        write(&folder, "work/apps/web/web.yaml", manifest);
        let program = |name: &str, text: &str| {
            let file = write(&folder, name, format!("#!/bin/sh\n{text}\n"));
            fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
        };
        program(&format!("release/{ARCHIVE}/mullion"), &format!("exec '{}' \"$@\"", env!("CARGO_BIN_EXE_mullion")));
        let release = folder.path().join("release");
        let archive = release.join(format!("{ARCHIVE}.tar.gz"));
        let packed = Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(&release).arg(ARCHIVE).status();
        assert!(packed.unwrap().success());
        let sum = Command::new("sha256sum").arg(format!("{ARCHIVE}.tar.gz")).current_dir(&release).output().unwrap();
        write(&folder, "work/mullion/SHA256SUMS", sum.stdout);
        program("bin/curl", &format!("for last; do :; done; cp '{}' \"$(basename \"$last\")\"", archive.display()));
        program("bin/apt-get", "");
        program("bin/kustomize", "cat \"$2\"/*.yaml");
        Self { folder, path: Vec::new() }
    }

    fn work(&self) -> std::path::PathBuf {
        self.folder.path().join("work")
    }

    /// Runs a script as `shell`, with the program in the PATH if it is `installed`.
    fn run(&mut self, shell: &[&str], script: &str, installed: bool) -> Ran {
        let mut path = self.path.clone();
        path.push(self.folder.path().join("bin").to_str().unwrap().to_owned());
        if installed {
            path.push(self.folder.path().join("release").join(ARCHIVE).to_str().unwrap().to_owned());
        }
        path.push(std::env::var("PATH").unwrap());
        let mut program = Command::new(shell[0]);
        program.args(&shell[1..]).arg(script).current_dir(self.work()).env("PATH", path.join(":"));
        program.env("ARCHIVE", ARCHIVE).env("ARGOCD_APP_NAMESPACE", "shop");
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ran = finish(program.spawn().unwrap(), b"");
        self.path
            .extend(ran.out.lines().filter_map(|line| line.strip_prefix("##vso[task.prependpath]")).map(str::to_owned));
        ran
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.work().join(name)).unwrap()
    }

    /// The numbers of test cases and of failures.
    fn junit(&self) -> (usize, usize) {
        let report = Report::deserialize_from_str(&self.read("junit.xml")).unwrap();
        (report.tests, report.failures)
    }
}

/// The first block of a page with these words, without its fences.
fn block(page: &str, words: &str) -> String {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/how-to/ci").join(page)).unwrap();
    let blocks = page.split("\n```").skip(1).step_by(2);
    let block = blocks.filter_map(|block| block.split_once('\n')).map(|(_, text)| text);
    block.into_iter().find(|text| text.contains(words)).unwrap().to_owned() + "\n"
}

fn yaml(page: &str, words: &str) -> Value {
    serde_saphyr::from_str(&block(page, words)).unwrap()
}

fn denied() -> String {
    fs::read_to_string("tests/cli/denied.yaml").unwrap()
}

#[test]
fn gitlab() {
    let job = &yaml("gitlab.md", "# .gitlab-ci.yml")["manifests"];
    let lines = |key: &str| job[key].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned());
    let script: Vec<String> = lines("before_script").chain(lines("script")).collect();
    for (manifest, code) in [(denied(), 1), (GOOD.to_owned(), 0)] {
        let mut checkout = Checkout::new(&manifest);
        let ran = checkout.run(&["bash", "-e", "-o", "pipefail", "-c"], &script.join("\n"), false);
        assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
        let issues: Vec<Value> = serde_json::from_str(&checkout.read("codequality.json")).unwrap();
        assert_eq!(
            issues.iter().filter(|issue| issue["location"]["path"] == "manifests/web.yaml").count(),
            issues.len()
        );
        assert_eq!((issues.is_empty(), checkout.junit()), (code == 0, (1, usize::try_from(code).unwrap())));
    }
    let reports = &job["artifacts"]["reports"];
    assert_eq!((&reports["codequality"], &reports["junit"]), (&"codequality.json".into(), &"junit.xml".into()));
}

#[test]
fn azure_devops() {
    let pipeline = yaml("azure-devops.md", "# azure-pipelines.yml");
    let steps = pipeline["steps"].as_array().unwrap();
    let scripts: Vec<&str> = steps.iter().filter_map(|step| step["bash"].as_str()).collect();
    assert_eq!(scripts.len(), 2);
    for (manifest, code) in [(denied(), 1), (GOOD.to_owned(), 0)] {
        let mut checkout = Checkout::new(&manifest);
        let installed = checkout.run(&["bash", "-c"], scripts[0], false);
        assert_eq!((installed.code, checkout.path.len()), (0, 1), "{}{}", installed.out, installed.err);
        let ran = checkout.run(&["bash", "-c"], scripts[1], false);
        assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
        let expected = "##vso[task.logissue type=error;sourcepath=manifests/web.yaml;linenumber=8;";
        assert_eq!(ran.out.contains(expected), code == 1, "{}", ran.out);
        assert_eq!(checkout.junit(), (1, usize::try_from(code).unwrap()));
    }
    assert_eq!(steps[2]["inputs"]["testResultsFiles"], "junit.xml");
}

#[test]
fn jenkins() {
    let file = block("jenkins.md", "// Jenkinsfile");
    let script = file.split("'''").nth(1).unwrap();
    for (manifest, code) in [(denied(), 1), (GOOD.to_owned(), 0)] {
        let mut checkout = Checkout::new(&manifest);
        let ran = checkout.run(&["sh", "-xe", "-c"], script, false);
        assert_eq!(ran.code, code, "{}{}", ran.out, ran.err);
        assert_eq!(checkout.junit(), (1, usize::try_from(code).unwrap()));
    }
    assert!(file.contains("junit testResults: 'junit.xml'"), "{file}");
}

#[test]
fn argo_cd_and_flux() {
    let plugin = yaml("rendered.md", "kind: ConfigManagementPlugin");
    let generate = &plugin["spec"]["generate"];
    assert_eq!(generate["command"], serde_json::json!(["sh", "-ec"]));
    let (generate, script) = (generate["args"][0].as_str().unwrap(), block("rendered.md", "# check-rendered.sh"));
    for (manifest, code) in [(denied(), 1), (GOOD.to_owned(), 0)] {
        let mut checkout = Checkout::new(&manifest);
        let ran = checkout.run(&["bash", "-c"], &script, true);
        assert!(ran.code == code && ran.err.starts_with("apps/web/\n"), "{}{}", ran.out, ran.err);
        let generate = generate.replace("kustomize build .", "kustomize build manifests");
        let ran = checkout.run(&["sh", "-ec"], &generate, true);
        assert_eq!((ran.code, ran.out == manifest), (code, code == 0), "{}{}", ran.out, ran.err);
        assert_eq!(ran.err.contains("MUL201"), code == 1, "{}", ran.err);
    }
}
