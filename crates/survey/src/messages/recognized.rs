//! Reduces a message to the phrases of Kubernetes that it contains, and to the images and numbers that stand in them.
//! Anyone who may create an Event can write a message, and a kubelet puts the output of probes and hooks into it.

use std::sync::LazyLock;

use mullion_engine::model::declared_features::DECLARED_FEATURES;

use crate::messages::classify::{BEFORE_BUILD, BEFORE_HOST, BEFORE_IMAGE, OPERATIONS, unescape};
use crate::messages::table::PATTERNS;

/// The maximum number of bytes of a reduced message.
const MAX_BYTES: usize = 1024;

/// What stands in place of other words.
pub(crate) const OMITTED: &str = "…";

/// Phrases that no pattern needs, and that show a reader of the report why a pod does not start.
const EXPLANATIONS: &[&str] = &[
    // kube-scheduler pkg/scheduler/framework/types.go and its plugins.
    "nodes are available",
    "node(s) had untolerated taint",
    "node(s) had untolerated taint(s)",
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't match pod affinity rules",
    "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't match pod topology spread constraints",
    "node(s) didn't have free ports for the requested pod ports",
    "node(s) were unschedulable",
    "node(s) had volume node affinity conflict",
    "pod has unbound immediate PersistentVolumeClaims",
    "Too many pods",
    "Insufficient cpu",
    "Insufficient memory",
    "Insufficient ephemeral-storage",
    // kube-apiserver: admission plugins and webhooks.
    "is forbidden",
    "exceeded quota",
    "violates PodSecurity",
    "error looking up service account",
    "admission webhook",
    "denied the request",
    "failed calling webhook",
    "unable to validate against any security context constraint",
    // kubelet: pulls, volumes, hooks and restarts; codes of gRPC.
    "Back-off",
    "ErrImagePull",
    "ImagePullBackOff",
    "rpc error: code = Unknown desc =",
    "rpc error: code = NotFound desc =",
    "rpc error: code = PermissionDenied desc =",
    "rpc error: code = Unavailable desc =",
    "rpc error: code = DeadlineExceeded desc =",
    "MountVolume.SetUp failed",
    "MountVolume.MountDevice failed",
    "Unable to attach or mount volumes",
    "timed out waiting for the condition",
    "restarting failed container",
    "references non-existent secret key",
    "failed to get sandbox runtime",
];

/// Every phrase in lower case.
static PHRASES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let of_patterns = PATTERNS.iter().flat_map(|pattern| pattern.all.iter().chain(pattern.any));
    let operations = OPERATIONS.iter().map(|(text, _)| text);
    let features = DECLARED_FEATURES.iter().map(|feature| &feature.name);
    let phrases = of_patterns.chain(operations).chain(EXPLANATIONS).chain(features);
    let mut all: Vec<String> = phrases.map(|phrase| phrase.to_ascii_lowercase()).collect();
    all.sort_unstable();
    all.dedup();
    all
});

/// What precedes the name of a handler.
const BEFORE_HANDLER: &str = "no runtime for \"";

/// The recognized phrases of a message in their order, each once, with `…` for what is between them. It
/// [means](crate::messages::translate) what the message means. A message without one is `…`.
pub(crate) fn recognized_text(message: &str) -> String {
    let plain = unescape(message);
    let lower = plain.to_ascii_lowercase();
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for phrase in PHRASES.iter() {
        spans.extend(lower.match_indices(phrase.as_str()).map(|(at, found)| {
            let counted = if phrase.starts_with("node") { count_before(&lower, at) } else { 0 };
            (at - counted, at + found.len())
        }));
    }
    for before in BEFORE_IMAGE.into_iter().chain([BEFORE_HANDLER]) {
        spans.extend(quoted(&plain, before));
    }
    for before in BEFORE_HOST.into_iter().chain([BEFORE_BUILD]) {
        spans.extend(lower.match_indices(before).map(|(at, before)| {
            let start = at + before.len();
            (at, start + version_length(lower.get(start..).unwrap_or_default()))
        }));
    }
    spans.sort_unstable();
    join(&plain, &spans)
}

/// The texts of these spans, of which some overlap.
fn join(plain: &str, spans: &[(usize, usize)]) -> String {
    let is_punctuation = |text: &str| text.bytes().all(|byte| matches!(byte, b' ' | b',' | b'.' | b':' | b';'));
    let between = |from: usize, to: usize| plain.get(from..to).unwrap_or_default();
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &(start, end) in spans {
        match parts.last_mut() {
            Some((_, last)) if start <= *last || is_punctuation(between(*last, start)) => *last = end.max(*last),
            _ => parts.push((start, end)),
        }
    }
    let mut text = String::new();
    let mut end = 0;
    let mut seen: Vec<&str> = Vec::new();
    for (start, stop) in parts {
        let part = between(start, stop);
        if seen.contains(&part) || text.len() + part.len() + 2 * OMITTED.len() + 2 > MAX_BYTES {
            continue;
        }
        seen.push(part);
        if start > end {
            text += if text.is_empty() { "… " } else { " … " };
        }
        text += part;
        end = stop;
    }
    if is_punctuation(between(end, plain.len())) {
        text += between(end, plain.len()).trim_end();
    } else {
        text += if text.is_empty() { OMITTED } else { " …" };
    }
    text
}

/// The bytes of a count before a phrase: `3 ` and `0/12 `.
fn count_before(text: &str, at: usize) -> usize {
    const LONGEST: usize = 12;
    let before = text.get(..at).unwrap_or_default();
    let Some(count) = before.strip_suffix(' ') else { return 0 };
    let digits = count.bytes().rev().take_while(|byte| byte.is_ascii_digit() || *byte == b'/').count();
    if (1..=LONGEST).contains(&digits) { digits + 1 } else { 0 }
}

/// The spans of a phrase and the quoted name after it.
fn quoted(plain: &str, before: &str) -> Vec<(usize, usize)> {
    let is_name = |name: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/@-".contains(&byte);
        let is_digest = |end: &str| end.starts_with("sha256:");
        !name.is_empty()
            && name.len() <= 512
            && name.bytes().all(known)
            // Not `user:password@registry/image`.
            && name.split_once('@').is_none_or(|(_, end)| is_digest(end))
    };
    let span = |(at, before): (usize, &str)| {
        let start = at + before.len();
        let (name, _) = plain.get(start..)?.split_once('"')?;
        is_name(name).then(|| (at, start + name.len() + 1))
    };
    plain.match_indices(before).filter_map(span).collect()
}

/// The bytes of `10.0.17763`, `windows(10.0.17763)/amd64` and `windows/amd64 10.0.17763` at the beginning of a text.
fn version_length(text: &str) -> usize {
    const LONGEST: usize = 40;
    let digits = |text: &str| text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    if text.starts_with("10.0.") {
        return Some(digits(text)).filter(|length| *length <= LONGEST).unwrap_or_default();
    }
    let Some(rest) = text.strip_prefix("windows") else { return 0 };
    let Some(at) = rest.find("10.0.").filter(|at| *at <= 16) else { return 0 };
    let between = rest.get(..at).unwrap_or_default();
    let version = rest.get(at..).unwrap_or_default();
    let length = digits(version);
    let known = between.is_empty() || ["(", "/amd64 ", "/arm64 "].contains(&between);
    if known && length <= LONGEST { "windows".len() + at + length } else { 0 }
}
