//! Repeated rendering: nothing may differ, because otherwise tools that apply from Git always report drift.

use std::ffi::OsString;

use anyhow::{Result, bail, ensure};
use mullion_cluster::{Chart, helm};
use serde_json::Value;

use crate::rendered::{Rendered, program_output, read};

pub fn helm_lint_reports_nothing(file: &Rendered) -> Result<()> {
    let mut command: Vec<_> = ["lint", "--strict", "--namespace", "mullion-system"].map(OsString::from).into();
    for values in [&Chart::required(), &file.path] {
        command.extend(["--values".into(), values.into()]);
    }
    command.push(Chart::folder().into());
    let done = helm(&command)?;
    let output = done.stdout;
    ensure!(done.succeeded && !output.contains("[WARNING]") && !output.contains("[ERROR]"), "{output}{}", done.stderr);
    Ok(())
}

/// Compares the output byte for byte: that of the program `helm`, which is another process, and with every order of
/// values.
pub fn rendered_again_it_is_the_same(file: &Rendered) -> Result<()> {
    let first = file.chart().text()?;
    let program = program_output(&file.chart())?;
    ensure!(program.succeeded && program.stdout == first, "the program helm renders something else: {program:?}");
    let folder = tempfile::tempdir()?;
    let own = read(&file.path)?;
    for (name, reversed) in [("sorted.yaml", false), ("reversed.yaml", true)] {
        let path = folder.path().join(name);
        std::fs::write(&path, json_text(&own, reversed))?;
        ensure!(Chart::default().values(&path).text()? == first, "{name} renders as something else");
    }
    Ok(())
}

/// The value as JSON, with the keys of every object in order of name or in the reverse order.
fn json_text(value: &Value, reversed: bool) -> String {
    match value {
        Value::Object(members) => {
            let mut parts: Vec<_> = members
                .iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), json_text(value, reversed)))
                .collect();
            parts.sort();
            if reversed {
                parts.reverse();
            }
            format!("{{{}}}", parts.join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|item| json_text(item, reversed)).collect::<Vec<_>>().join(","))
        }
        scalar => scalar.to_string(),
    }
}

/// No Secret, no certificate except from the values, no template function that returns another result in another run.
pub fn nothing_is_generated(file: &Rendered) -> Result<()> {
    if let Some(secret) = file.of_kind("Secret")?.next() {
        bail!("a Secret: {}", secret["metadata"]["name"]);
    }
    let given = file.value("/certificates/mode") == "Provided";
    for webhook in crate::meaning::webhooks(file)? {
        let bundle = &webhook["clientConfig"]["caBundle"];
        ensure!(bundle.is_string() == given, "{}: caBundle {bundle}", webhook["name"]);
    }
    Ok(())
}

/// Functions of Helm that return another result in another run.
const UNREPEATABLE: [&str; 15] = [
    "genCA",
    "genCAWithKey",
    "genSelfSignedCert",
    "genSignedCert",
    "genPrivateKey",
    "randAlphaNum",
    "randAlpha",
    "randNumeric",
    "randAscii",
    "randBytes",
    "randInt",
    "uuidv4",
    "bcrypt",
    "htpasswd",
    "now",
];

/// The only template that may read the cluster: an upgrade without `policies` fails if the release has some.
const READS_THE_CLUSTER: &str = "_policies.tpl";

/// The only templates that may query the available APIs. The result is the same for `helm template` and for every API
/// server with default settings, except for an annotation that matters to Helm and not to the cluster.
const ASK_FOR_APIS: [&str; 2] = ["_fence.tpl", "withdraw/job.yaml"];

/// This includes branches that no values file uses. `.Capabilities` differs between a cluster and `helm template`.
pub fn no_template_uses_random_values_clock_or_cluster() -> Result<()> {
    let (mut folders, mut read) = (vec![Chart::folder().join("templates")], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            read += 1;
            let content = std::fs::read_to_string(&path)?;
            for action in content.split("{{").skip(1).filter_map(|rest| rest.split_once("}}")).map(|(action, _)| action)
            {
                if action.trim_start_matches(['-', ' ']).starts_with("/*") {
                    continue;
                }
                let mut words = action.split(|letter: char| !letter.is_alphanumeric());
                let asks = |word: &str| {
                    word == "Capabilities" && !ASK_FOR_APIS.iter().any(|template| path.ends_with(template))
                };
                let reads = |word: &str| word == "lookup" && !path.ends_with(READS_THE_CLUSTER);
                let bad = words.find(|word| UNREPEATABLE.contains(word) || asks(word) || reads(word));
                ensure!(bad.is_none(), "{}: {bad:?} in {action}", path.display());
            }
        }
    }
    ensure!(read > 20, "{read} templates");
    Ok(())
}
