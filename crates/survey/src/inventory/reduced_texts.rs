//! Texts of objects, reduced to what the survey and the engine read of them. Each function returns its own result
//! unchanged, because a saved inventory is reduced again when it is read, and the reader finds the same in it.

use mullion_engine::detect::{is_windows_path, is_windows_shell, windows_path_start};
use mullion_engine::model::DecisionAnnotation;
use mullion_engine::model::cluster::{NodeSelector, SELECTOR_PAIRS};
use mullion_engine::model::foreign_text::visible;
use mullion_engine::model::image::ImageRef;
use mullion_engine::model::names::DECISION_ANNOTATION;
use mullion_engine::model::quantity::Quantity;
use mullion_engine::model::settings::match_length;
use mullion_engine::model::text::prefix;
use mullion_engine::rules::{catalogue, recognized_host_path};
use serde_json::{Value, json};

use crate::messages::{OMITTED, recognized_text};

/// The maximum number of bytes of a message of the cluster that are read: the limit of Events.
pub const KEPT_MESSAGE: usize = 1024;

/// The mount path of a service account, under which every pod has a volume mounted.
pub const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Programs whose names are kept from a command line, in lower case without `.exe`, and the file extension of a script
/// that one of them runs: what a Windows release changed or removed. Nothing else of the words around them is kept.
const PROGRAMS: [&str; 6] = ["powershell", "pwsh", "wmic", "cscript", "wscript", ".vbs"];

/// Reduces a text.
pub(crate) type Reduce = fn(&str) -> String;

/// The text if it passes, else `…`.
fn text_if(passes: bool, text: &str) -> String {
    if passes || text.is_empty() { text.to_owned() } else { OMITTED.to_owned() }
}

fn has_only(text: &str, other: &[u8], longest: usize) -> bool {
    text.len() <= longest && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || other.contains(&byte))
}

/// A word that the API defines, such as `NoSchedule` or `FailedScheduling`: ASCII letters.
pub(crate) fn word(text: &str) -> String {
    text_if(text.len() <= 128 && text.bytes().all(|byte| byte.is_ascii_alphabetic()), text)
}

/// The name of a feature of nodes: letters, digits and slashes (`validateNodeDeclaredFeatureName` of the API server).
pub(crate) fn feature(text: &str) -> String {
    text_if(has_only(text, b"/", 253), text)
}

/// The types of keys that need a feature of the node.
pub(crate) fn key_type(text: &str) -> String {
    text_if(text.starts_with("MLDSA") && has_only(text, b"", 16), text)
}

/// A time: digits, `T`, `Z` and separators.
pub(crate) fn time(text: &str) -> String {
    text_if(text.len() <= 40 && text.bytes().all(|byte| byte.is_ascii_digit() || b"TZ:.+-".contains(&byte)), text)
}

/// A quantity.
pub(crate) fn quantity(text: &str) -> String {
    text_if(Quantity::parse(text).is_some(), text)
}

/// A number, or a percentage such as `25%`.
pub(crate) fn percentage(text: &str) -> String {
    let number = text.strip_suffix('%').unwrap_or(text);
    text_if(number.len() <= 10 && number.bytes().all(|byte| byte.is_ascii_digit()), text)
}

/// The group and version of an API.
pub(crate) fn api_version(text: &str) -> String {
    text_if(has_only(text, b"./-", 300), text)
}

/// Only that the text is there.
pub(crate) fn presence(text: &str) -> String {
    text_if(false, text)
}

/// `true`, the only value that is read.
pub(crate) fn only_true(text: &str) -> String {
    text_if(text == "true", text)
}

/// Signals that Windows has.
pub(crate) fn stop_signal(text: &str) -> String {
    text_if(["SIGTERM", "SIGKILL"].contains(&text), text)
}

/// The medium of an emptyDir volume: `Memory`, `HugePages-2Mi`.
pub(crate) fn medium(text: &str) -> String {
    match text.strip_prefix("HugePages") {
        None => text_if(text == "Memory", text),
        Some(size) if size.strip_prefix('-').and_then(Quantity::parse).is_some() => text.to_owned(),
        Some(_) => "HugePages".to_owned(),
    }
}

/// The profile of the former annotation for `AppArmor`.
pub(crate) fn app_armor_profile(text: &str) -> String {
    text_if(["runtime/default", "unconfined"].contains(&text), text)
}

/// An image without credentials and query. Only those of a malformed reference could have them.
pub(crate) fn image(text: &str) -> String {
    if ImageRef::parse(text).is_ok() {
        return text.to_owned();
    }
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = text.find("://").map_or(("", text), |at| text.split_at(at + "://".len()));
    let (name, digest) = match rest.rfind('@').map(|at| rest.split_at(at)) {
        Some((name, digest)) if is_digest(digest) => (name, digest),
        _ => (rest, ""),
    };
    let name = name.rsplit('@').next().unwrap_or_default();
    format!("{scheme}{name}{digest}")
}

/// `@sha256:…`, of any length.
fn is_digest(text: &str) -> bool {
    let digest = text.strip_prefix('@').and_then(|text| text.split_once(':'));
    digest.is_some_and(|(algorithm, digits)| {
        ["sha256", "sha512"].contains(&algorithm) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// The path of a mount or of a working directory: a drive, the beginning of a path of Windows, or that of a service account.
pub(crate) fn container_path(text: &str) -> String {
    let start = windows_path_start(text);
    let is_drive = matches!(text.as_bytes(), [letter, b':'] if letter.is_ascii_alphabetic());
    if text == SERVICE_ACCOUNT || is_drive || start == text {
        return text.to_owned();
    }
    start.to_owned() + OMITTED
}

/// The part of a path of the node that the findings about it read.
pub(crate) fn host_path(text: &str) -> String {
    recognized_host_path(text)
}

/// The default path of a termination message.
pub(crate) fn termination_message_path(text: &str) -> String {
    text_if(text == "/dev/termination-log", text)
}

/// The ranges of identifiers, and the level, that OpenShift assigns to a namespace.
pub(crate) fn openshift_range(text: &str) -> String {
    text_if(text.len() <= 1024 && text.bytes().all(|byte| byte.is_ascii_digit() || b"/-, :sc.".contains(&byte)), text)
}

/// The pairs of the node selector of a namespace. One that is too large to use becomes another one.
pub(crate) fn node_selector(text: &str) -> String {
    let Ok(selector) = NodeSelector::parse(text) else { return ",".repeat(SELECTOR_PAIRS) };
    selector.pairs().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// The tolerations in a JSON list.
pub(crate) fn tolerations(text: &str) -> String {
    let Ok(Value::Array(items)) = serde_json::from_str(text) else { return presence(text) };
    let only = |item: &Value| {
        let of = |name: &&str| {
            Some(((*name).to_owned(), item.get(*name).filter(|value| !value.is_object() && !value.is_array())?.clone()))
        };
        let members = ["key", "operator", "value", "effect", "tolerationSeconds"];
        if item.is_object() { Value::Object(members.iter().filter_map(of).collect()) } else { Value::Null }
    };
    Value::Array(items.iter().map(only).collect()).to_string()
}

/// `Windows 10` of `Windows 10 Pro`, and whether it is of the Long-Term Servicing Channel. Nothing of another system.
pub(crate) fn client_product(text: &str) -> String {
    let name = text.strip_prefix("Microsoft ").unwrap_or(text);
    let Some(client) = ["Windows 10", "Windows 11"].into_iter().find(|client| name.starts_with(client)) else {
        return String::new();
    };
    let is_ltsc = ["LTSC", "LTSB"].iter().any(|word| name.contains(word));
    if is_ltsc { format!("{client} LTSC") } else { client.to_owned() }
}

/// The operating system of `mullion.dev/os`.
pub(crate) fn scope_os(text: &str) -> String {
    text_if(["windows", "linux", "any"].contains(&text), text)
}

/// The rules of `mullion.dev/allow`.
pub(crate) fn rule_names(text: &str) -> String {
    let is_rule = |word: &&str| catalogue().any(|rule| match_length(word, rule.code, rule.name) > 0);
    text.split(',').map(str::trim).filter(is_rule).collect::<Vec<_>>().join(",")
}

/// `mullion.dev/decision` without its sentence.
pub(crate) fn decision(text: &str) -> String {
    let object = json!({"metadata": {"annotations": {DECISION_ANNOTATION: text}}});
    let Some(mut annotation) = DecisionAnnotation::of(&object) else { return presence(text) };
    annotation.because.clear();
    serde_json::to_string(&annotation).unwrap_or_default()
}

/// The name of an application: `web` of `web:apps/Deployment:shop/web`.
pub(crate) fn before_colon(text: &str) -> String {
    text.split(':').next().unwrap_or_default().to_owned()
}

/// A message: only [recognized phrases](recognized_text).
///
/// hcsshim and docker add the whole configuration of the process as `(extra info: {"CommandLine": …, "Environment":
/// …})`; runc quotes the command after `exec: `. A phrase in these is not one of the message.
pub(crate) fn message(text: &str) -> String {
    let text = text.split("extra info:").next().unwrap_or_default().trim_end_matches(['(', ' ']);
    let text = match text.split_once("exec: \"") {
        Some((before, rest)) => {
            let after = rest.split_once("\": ").map_or("", |(_, after)| after);
            &format!("{before}exec: \"…\": {after}")
        }
        None => text,
    };
    recognized_text(prefix(&visible(text), KEPT_MESSAGE))
}

/// A command whose first word is a program.
pub(crate) fn command(words: &Value) -> Value {
    strip_command(words, true)
}

/// The arguments of a program.
pub(crate) fn arguments(words: &Value) -> Value {
    strip_command(words, false)
}

/// From a command line, keeps the name of a Windows shell, if that is its program, or the beginning of a Windows path:
/// the words that are evidence for Windows. The names of [`PROGRAMS`] that occur in it follow.
fn strip_command(words: &Value, has_program: bool) -> Value {
    let texts = || words.as_array().into_iter().flatten().filter_map(Value::as_str);
    let shell = texts().next().filter(|program| has_program && is_windows_shell(program));
    let first = match shell {
        Some(program) => program.rsplit(['/', '\\']).next().map(str::to_owned),
        None => texts().find(|text| is_windows_path(text)).map(|path| windows_path_start(path).to_owned()),
    };
    let mut programs = program_names(words);
    let shell = first.as_deref().map(str::to_ascii_lowercase).unwrap_or_default();
    programs.retain(|program| *program != shell.strip_suffix(".exe").unwrap_or(&shell));
    // A program that is only an argument must not become the first word, which is evidence for Windows.
    let first = first.or_else(|| (has_program && !programs.is_empty()).then(String::new));
    let kept = first.into_iter().chain(programs.into_iter().map(str::to_owned));
    Value::Array(kept.map(Value::String).collect())
}

/// The [`PROGRAMS`] that a command line contains, in any word: `wmic` of `cmd /c "wmic os get caption"`.
pub fn program_names(words: &Value) -> Vec<&'static str> {
    let texts = words.as_array().into_iter().flatten().filter_map(Value::as_str);
    let is_separator = |letter: char| !letter.is_alphanumeric() && !matches!(letter, '.' | '_' | '-');
    let names: Vec<&str> = texts.flat_map(|text| text.split(is_separator)).filter(|name| !name.is_empty()).collect();
    let is = |name: &str, program: &str| {
        if program.starts_with('.') {
            let start = name.len().checked_sub(program.len());
            return start.and_then(|start| name.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(program));
        }
        let rest = name.get(..program.len()).filter(|start| start.eq_ignore_ascii_case(program));
        let rest = rest.and_then(|start| name.get(start.len()..));
        rest.is_some_and(|rest| rest.is_empty() || rest.eq_ignore_ascii_case(".exe"))
    };
    PROGRAMS.into_iter().filter(|program| names.iter().any(|name| is(name, program))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_have_no_credentials_and_no_query() {
        for (text, expected) in [
            ("", ""),
            ("registry.example.com:5000/web:1", "registry.example.com:5000/web:1"),
            ("r.example/web@sha256:11", "r.example/web@sha256:11"),
            ("docker-pullable://r.example/web@sha256:11", "docker-pullable://r.example/web@sha256:11"),
            ("A:B:C", "A:B:C"),
            ("user:s3cret@r.example/web:1", "r.example/web:1"),
            ("https://user:s3cret@r.example/web@sha256:11?token=s3cret", "https://r.example/web@sha256:11"),
            ("https://user:s3c@ret@r.example/web#s3cret", "https://r.example/web"),
            ("r.example/web@sha256:s3cret", "sha256:s3cret"),
        ] {
            assert_eq!(image(text), expected);
            assert_eq!(image(expected), expected);
        }
    }

    #[test]
    fn texts_are_reduced_once() {
        let table: [(Reduce, &str, &str); 18] = [
            (word, "NoSchedule", "NoSchedule"),
            (word, "s3cret", "…"),
            (time, "2026-11-22T10:00:00Z", "2026-11-22T10:00:00Z"),
            (time, "soon", "…"),
            (quantity, "512Mi", "512Mi"),
            (quantity, "s3cret", "…"),
            (percentage, "25%", "25%"),
            (percentage, "s3cret%", "…"),
            (medium, "HugePages-2Mi", "HugePages-2Mi"),
            (medium, "HugePages-s3cret", "HugePages"),
            (medium, "s3cret", "…"),
            (container_path, "D:", "D:"),
            (container_path, r"D:\s3cret", r"D:\…"),
            (container_path, "/s3cret", "…"),
            (openshift_range, "1000650000/10000", "1000650000/10000"),
            (tolerations, r#"[{"key":"a","more":"s3cret"},"s3cret"]"#, r#"[{"key":"a"},null]"#),
            (tolerations, "s3cret", "…"),
            (decision, "s3cret", "…"),
        ];
        for (reduce, text, expected) in table {
            assert_eq!((reduce(text).as_str(), reduce(expected).as_str()), (expected, expected), "{text}");
        }
        // Too many pairs are still too many.
        let pairs = "a=s3cret,".repeat(100);
        assert!(NodeSelector::parse(&pairs).is_err() && NodeSelector::parse(&node_selector(&pairs)).is_err());
        assert!(!node_selector(&pairs).contains("s3cret"));
    }

    #[test]
    fn of_command_lines_only_evidence_and_known_programs_are_kept() {
        // Words, what is kept of them as a command, and what is kept of them as arguments.
        let cases: [(&[&str], &[&str], &[&str]); 12] = [
            (&[], &[], &[]),
            (&["app.exe", "--password", "s3cret"], &[], &[]),
            (&["powershell.exe", "-Command", "s3cret"], &["powershell.exe"], &["powershell"]),
            (&[r"C:\Windows\System32\cmd.exe", "/c", "wmic os get s3cret"], &["cmd.exe", "wmic"], &[r"C:\", "wmic"]),
            (
                &["cmd", "/S", "/C", r"cscript //nologo C:\s3cret\job.VBS"],
                &["cmd", "cscript", ".vbs"],
                &["cscript", ".vbs"],
            ),
            (&["CScript.EXE", "job.vbs"], &["", "cscript", ".vbs"], &["cscript", ".vbs"]),
            (&["sh", "-c", "pwsh -File s3cret.ps1"], &["", "pwsh"], &["pwsh"]),
            (&["-Command", "Invoke-WmiMethod; 'wmic.exe s3cret'"], &["", "wmic"], &["wmic"]),
            (&[r"C:\app\s3cret.exe", "token=wscript"], &[r"C:\", "wscript"], &[r"C:\", "wscript"]),
            (&["npipe://s3cret"], &["npipe:"], &["npipe:"]),
            // Parts of other words.
            (&["mywmic", "wmic2", "powershell-yaml", "pwsh.s3cret", "wmic-s3cret"], &[], &[]),
            (&["é.vb", "ſwmic", "s3cret.vbs"], &["", ".vbs"], &[".vbs"]),
        ];
        for (words, command, args) in cases {
            for (has_program, expected) in [(true, command), (false, args)] {
                let stripped = strip_command(&json!(words), has_program);
                assert_eq!(stripped, json!(expected), "{words:?} {has_program}");
                // A saved inventory is stripped again.
                assert_eq!(strip_command(&stripped, has_program), json!(expected), "again: {words:?} {has_program}");
            }
        }
    }
}
