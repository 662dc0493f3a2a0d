//! Comparison of the result of a step, a response or a program's output, with the expected one; differences are sentences.

use mullion::report::mismatches;
use serde_json::Value;

use super::ask::Answer;
use super::format::{Rejection, With};
use super::tool::ToolOutput;

/// Texts that identify an admission plugin's denial, because it does not contain the plugin's name.
const PLUGINS: &[(&str, &[&str])] = &[
    // plugin/pkg/admission/security/podsecurity; staging/src/k8s.io/pod-security-admission/admission
    ("PodSecurity", &["violates PodSecurity"]),
    // plugin/pkg/admission/podnodeselector
    ("PodNodeSelector", &["pod node label selector conflicts with its namespace node label selector"]),
    // plugin/pkg/admission/podtolerationrestriction
    ("PodTolerationRestriction", &["conflict with its namespace whitelist"]),
    // plugin/pkg/admission/runtimeclass
    ("RuntimeClass", &["pod rejected: "]),
    // plugin/pkg/admission/limitranger
    ("LimitRanger", &["usage per Container is", "usage per Pod is", "max limit to request ratio per"]),
    // staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota
    ("ResourceQuota", &["exceeded quota", "failed quota", "status unknown for quota"]),
    // plugin/pkg/admission/priority
    ("Priority", &["no PriorityClass with name", "is not permitted in", "the integer value of priority"]),
    // plugin/pkg/admission/noderestriction
    (
        "NodeRestriction",
        &[
            "can only create pods with spec.nodeName",
            "can only evict pods",
            "is not allowed to",
            "can not create pods that",
        ],
    ),
    // plugin/pkg/admission/serviceaccount
    ("ServiceAccount", &["error looking up service account"]),
    // staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating
    ("ValidatingAdmissionPolicy", &["ValidatingAdmissionPolicy '"]),
];

/// The text that the API server adds before the message of a denial by one of Mullion's webhooks
/// (staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors).
const DENIED_BY_MULLION: &str = ".mullion.dev\" denied the request: ";

/// Whether `by` is a known name.
pub fn is_known(by: &str) -> bool {
    by == "server" || by.contains('.') || PLUGINS.iter().any(|(name, _)| *name == by)
}

/// The differences of a response from the expected one.
pub fn compare_answer(answer: &Answer, with: &With) -> Vec<String> {
    let mut wrong = Vec::new();
    match with.rejection() {
        Some(_) if !answer.rejected() => wrong.push("expected a rejection, and it was accepted".to_owned()),
        Some(expected) => {
            if with.denied.is_some() && !answer.message().contains(DENIED_BY_MULLION) {
                wrong.push(format!("expected a denial by Mullion; it was rejected with {}", answer.message()));
            }
            compare_rejection(answer, expected, &mut wrong);
        }
        None if answer.rejected() => {
            wrong.push(format!("rejected: {} {}", answer.status, answer.message()));
        }
        None => {
            if let Some(stored) = &with.stored {
                wrong.extend(mismatches(stored, Some(&answer.body)).iter().map(ToString::to_string));
            }
        }
    }
    compare_warnings(&answer.warnings, with, &mut wrong);
    wrong
}

fn compare_rejection(answer: &Answer, expected: &Rejection, wrong: &mut Vec<String>) {
    let message = answer.message();
    let mut miss = |what: String| wrong.push(format!("{what}; it was rejected with {} {message}", answer.status));
    if let Some(by) = &expected.by
        && !is_by(message, by)
    {
        miss(format!("expected a rejection by {by}"));
    }
    if let Some(status) = expected.status
        && u64::from(answer.status) != status
    {
        miss(format!("expected status {status}"));
    }
    for text in &expected.message {
        if !message.contains(text) {
            miss(format!("expected the text {text:?}"));
        }
    }
    let causes = answer.body["details"]["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let reported: Vec<String> =
        causes.iter().map(|cause| format!("{} {}", text(&cause["reason"]), text(&cause["field"]))).collect();
    for cause in &expected.causes {
        if !reported.contains(cause) {
            miss(format!("expected the cause {cause:?} among {reported:?}"));
        }
    }
    if expected.causes_only {
        for cause in reported.iter().filter(|cause| !expected.causes.contains(cause)) {
            miss(format!("the cause {cause:?} is not expected"));
        }
    }
}

fn is_by(message: &str, by: &str) -> bool {
    let webhook = ["admission webhook \"", "failed calling webhook \""].iter().any(|words| message.contains(words));
    let plugin = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
    match PLUGINS.iter().find(|(name, _)| *name == by) {
        Some((_, texts)) => !webhook && plugin(texts),
        None if by == "server" => !webhook && !PLUGINS.iter().any(|(_, texts)| plugin(texts)),
        None => message.contains(&format!("webhook \"{by}\"")),
    }
}

/// Whether a warning is Mullion's: it begins with a rule's code, or contains Mullion.
fn is_ours(warning: &str) -> bool {
    let code = warning.strip_prefix("MUL").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    code || warning.contains("Mullion")
}

fn compare_warnings(warnings: &[String], with: &With, wrong: &mut Vec<String>) {
    if let Some(expected) = &with.warned {
        if expected.is_empty() {
            let ours = warnings.iter().filter(|warning| is_ours(warning));
            wrong.extend(ours.map(|warning| format!("expected no warning, found {warning:?}")));
        }
        for text in expected {
            if !warnings.iter().any(|warning| warning.contains(text)) {
                wrong.push(format!("expected a warning with {text:?}, found {warnings:?}"));
            }
        }
    }
    for text in with.unwarned.iter().flatten() {
        let such = warnings.iter().filter(|warning| warning.contains(text));
        wrong.extend(such.map(|warning| format!("expected no warning with {text:?}, found {warning:?}")));
    }
}

/// The differences of the exit status and output of a program from the expected ones.
pub fn compare_output(output: &ToolOutput, with: &With) -> Vec<String> {
    let mut wrong = Vec::new();
    let all = format!("{}\n{}", output.stdout.trim(), output.stderr.trim());
    let all = all.trim();
    if output.success == with.fails.is_some() {
        let how = if output.success { "expected it to fail, and it did not" } else { "it failed" };
        wrong.push(format!("{how}:\n{all}"));
    }
    for text in with.prints.iter().chain(&with.fails).flatten() {
        if !all.contains(text) {
            wrong.push(format!("expected {text:?} in its output:\n{all}"));
        }
    }
    // kubectl prints `Warning: …`; Helm logs the same after a time and a place.
    let lines = output.stderr.lines().filter(|line| line.starts_with("Warning:") || line.contains("warnings.go"));
    let printed: Vec<String> = lines.map(|line| line.trim_start_matches("Warning:").trim().to_owned()).collect();
    compare_warnings(&printed, with, &mut wrong);
    wrong
}
