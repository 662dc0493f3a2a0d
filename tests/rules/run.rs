//! `mullion check` and `mullion mutate`, in this process.

use std::fs;

use clap::Parser;
use mullion::cli::{Cli, Command, Io, Outcome, check, mutate};
use mullion_engine::model::settings::Action;
use serde_json::Value;
use tempfile::TempDir;

/// Files that a command reads in addition to its input.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// Policy files; none: the built-in ones.
    pub policies: Vec<String>,
    /// The text of a snapshot file.
    pub snapshot: Option<String>,
}

impl Beside {
    /// The same, with a policy above all others that sets the action of the rule.
    pub fn and(mut self, code: &str, action: Action) -> Self {
        self.policies.push(format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: tried}}\nspec:\n  \
             priority: 1000000\n  rules: {{actions: [{{rule: {code}, action: {action:?}}}]}}\n"
        ));
        self
    }

    /// The arguments for the files, and the folder that contains them.
    fn arguments(&self) -> (Vec<String>, TempDir) {
        let folder = TempDir::new().unwrap();
        let mut arguments = Vec::new();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        for (at, policy) in self.policies.iter().enumerate() {
            let file = write(&format!("policies/{at}.yaml"), policy);
            if at == 0 {
                arguments.extend(["--policies".to_owned(), file.parent().unwrap().display().to_string()]);
            }
        }
        if let Some(snapshot) = &self.snapshot {
            arguments.extend(["--snapshot".to_owned(), write("snapshot.yaml", snapshot).display().to_string()]);
        }
        (arguments, folder)
    }
}

/// The result of one workload of the input.
#[derive(Debug, Default)]
pub struct Judged {
    /// `Pod default/web`.
    pub name: String,
    /// As `check -o json` writes them.
    pub findings: Vec<Value>,
}

impl Judged {
    /// The codes of its findings, each once.
    pub fn codes(&self) -> Vec<&str> {
        let mut codes: Vec<&str> = self.findings.iter().map(|finding| text(finding, "code")).collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    }
}

/// The text under a key of a record.
pub fn text<'v>(record: &'v Value, key: &str) -> &'v str {
    record[key].as_str().unwrap_or_else(|| panic!("no {key} in {record}"))
}

/// Runs `mullion check -o json` on a text: its workloads in order. Fails with the command's error if it cannot read the
/// input, the policies or the snapshot.
pub fn check(input: &str, beside: &Beside) -> Result<Vec<Judged>, String> {
    let (outcome, out, err) = run(&["check", "-o", "json"], input, beside)?;
    if outcome == Outcome::Unreadable {
        return Err(err);
    }
    let mut workloads = Vec::new();
    let mut current = Judged::default();
    for line in out.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        match text(&record, "type") {
            "finding" => current.findings.push(record),
            "workload" => {
                let object = &record["object"];
                let [kind, namespace, name] = ["kind", "namespace", "name"].map(|key| text(object, key));
                current.name = format!("{kind} {namespace}/{name}");
                workloads.push(std::mem::take(&mut current));
            }
            _ => {}
        }
    }
    assert!(current.findings.is_empty(), "findings of no workload: {:?}", current.findings);
    if workloads.is_empty() {
        return Err("there is no pod and no pod template in it".to_owned());
    }
    Ok(workloads)
}

/// Runs `mullion mutate --templates` on a text; returns its output. Fails with its error if anything is denied.
pub fn mutate(input: &str, beside: &Beside) -> Result<String, String> {
    let (outcome, out, err) = run(&["mutate", "--templates"], input, beside)?;
    if outcome == Outcome::Clean { Ok(out) } else { Err(err) }
}

fn run(command: &[&str], input: &str, beside: &Beside) -> Result<(Outcome, String, String), String> {
    let (beside, _folder) = beside.arguments();
    let arguments = ["mullion"].iter().chain(command).map(|argument| (*argument).to_owned());
    let cli = Cli::try_parse_from(arguments.chain(beside).chain(["-".to_owned()])).unwrap();
    let (mut stdin, mut stdout, mut stderr) = (input.as_bytes(), Vec::new(), Vec::new());
    let mut io = Io { stdin: &mut stdin, stdout: &mut stdout, stderr: &mut stderr, colour_stdout: false, width: None };
    let outcome = match cli.command {
        Command::Check(args) => check::run(&args, &mut io),
        Command::Mutate(args) => mutate::run(&args, &mut io),
        other => panic!("not for {other:?}"),
    };
    let outcome = outcome.map_err(|error| format!("{error:#}"))?;
    Ok((outcome, String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap()))
}
