//! `/policies` on the admin port: the report as JSON.

use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use jiff::Timestamp;
use mullion_engine::model::settings::Mode;
use mullion_manifest::Problem;
use mullion_policy::warnings::PolicyWarning;
use mullion_policy::{PodPolicy, PolicyDocument, PolicyFileStatus, PolicySet};
use serde_json::{Value, json};

use crate::policy_files::report::{PolicyReport, PolicyReporter};

impl PolicyReporter {
    /// `/policies`.
    pub fn routes(&self) -> Router {
        let reporter = self.clone();
        Router::new().route("/policies", get(async move || response(&reporter.json())))
    }

    /// The content of `/policies`:
    ///
    /// | key | what |
    /// |---|---|
    /// | `hash` | of the files of the set in force: the same in every replica that read the same |
    /// | `inForceSince` | when this process put the set in force |
    /// | `lastGood` | when it was loaded from its files, in seconds since 1970; `null` for a built-in or stored set |
    /// | `lastRead` | when the files were last read, changed or not; `null`: never |
    /// | `kept` | whether it is that of ConfigMap `mullion-state`, because the files were bad from the start |
    /// | `directories` | as they were given |
    /// | `files` | each file: `name`, `status` (`in_force`, `bad`, `waiting`, `gone`), `means` in words, `hash`, `policies` in force, `changed`, `problems` (`line` and `column` are `null` for the file as a whole), `warnings` |
    /// | `policies` | every PodPolicy in force, highest priority first; `until`: its end |
    /// | `ended` | every PodPolicy whose `until` has passed |
    /// | `nodePolicy`, `registryPolicy` | name, mode, file and line; `null`: the defaults |
    /// | `problems` | of all files as they are now, each in one line |
    /// | `warnings` | about the set in force |
    /// | `hindrances` | why changes of the files are not seen |
    /// | `registries` | why no registry is used, although the policies set it |
    pub fn json(&self) -> Value {
        let report = self.report();
        let PolicyReport { set, directories, kept, last_good, registries, hindrances, .. } = &*report;
        let read = self.last_read();
        let pod = |policy: &PodPolicy| {
            let origin = policy.origins.get("");
            json!({
                "kind": "PodPolicy",
                "name": policy.name,
                "priority": policy.priority,
                "mode": policy.mode(),
                "match": policy.matches.to_string(),
                "until": policy.until.as_ref().map(|until| &until.text),
                "file": origin.map(|origin| origin.file.as_ref()),
                "line": origin.map(|origin| origin.line),
            })
        };
        json!({
            "hash": set.hash,
            "inForceSince": (report.since > 0).then(|| time(report.since)),
            "lastGood": last_good,
            "lastRead": (read > 0).then(|| time(read)),
            "kept": kept,
            "directories": directories,
            "files": report.files.iter().map(|status| file(status, &report.warnings)).collect::<Vec<_>>(),
            "policies": set.pods.iter().map(pod).collect::<Vec<_>>(),
            "ended": set.ended.iter().map(pod).collect::<Vec<_>>(),
            "nodePolicy": only(set, "NodePolicy", Some(set.nodes.mode)),
            "registryPolicy": only(set, "RegistryPolicy", None),
            "problems": report.problem_texts(),
            "warnings": report.warnings.iter().map(warning).collect::<Vec<_>>(),
            "hindrances": hindrances,
            "registries": registries,
        })
    }
}

fn response(report: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], format!("{report}\n")).into_response()
}

fn file(status: &PolicyFileStatus, warnings: &[PolicyWarning]) -> Value {
    let warnings = warnings.iter().filter(|warning| *warning.origin.file == *status.name);
    json!({
        "name": status.name,
        "status": status.standing.name(),
        "means": status.in_words(),
        "hash": status.hash,
        "policies": status.policies,
        "changed": time(status.changed),
        "problems": status.problems.iter().map(problem).collect::<Vec<_>>(),
        "warnings": warnings.map(warning).collect::<Vec<_>>(),
    })
}

fn problem(problem: &Problem) -> Value {
    let (line, column) = problem.place().unzip();
    let related = problem.related_text().map(|related| format!("; {related}"));
    let message = format!("{}{}", problem.message, related.unwrap_or_default());
    json!({ "line": line, "column": column, "message": message, "hint": problem.hint })
}

fn warning(warning: &PolicyWarning) -> Value {
    let PolicyWarning { origin, message, hint } = warning;
    json!({ "file": origin.file, "line": origin.line, "message": message, "hint": hint })
}

/// The document of a kind of which a set contains at most one.
fn only(set: &PolicySet, kind: &str, mode: Option<Mode>) -> Value {
    let found = set.documents.iter().find(|document| document.kind == kind);
    found.map_or(Value::Null, |PolicyDocument { name, origin, .. }| {
        json!({ "name": name, "mode": mode, "file": origin.file, "line": origin.line })
    })
}

fn time(seconds: i64) -> Option<String> {
    Timestamp::from_second(seconds).ok().map(|time| time.to_string())
}
