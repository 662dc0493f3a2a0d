//! The RegistryPolicy: how Mullion queries registries, for the whole cluster. `detect.registry.lookup` of each
//! PodPolicy sets whether Mullion queries them, because that may differ between namespaces.

use std::path::PathBuf;
use std::time::Duration;

use mullion_engine::model::image::ImageRef;
use mullion_engine::model::settings::Glob;
use mullion_engine::{policy_object, policy_words};
use serde::{Deserialize, Serialize};
use serde_json::Value;

policy_object! {
    /// `kind: RegistryPolicy`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct RegistryPolicy {
        /// Registries that Mullion may query, as image references begin with them, with the port if they have one;
        /// Docker Hub is `docker.io`. `*` matches any characters. Listed registries may have private addresses, and no
        /// others are queried. Empty: Mullion queries every registry that has a public address. Loopback, link-local
        /// and cloud metadata addresses are never allowed. Token services and targets of redirects do not have to be
        /// listed; their addresses follow the same rule.
        #[key(
            "registries": List(&Text(RegistryPattern)),
            example: Some("[docker.io, mcr.microsoft.com, \"*.corp.example\", \"registry.local:5000\"]")
        )]
        pub registries: Vec<Glob> = Vec::new(),
        /// Registries without TLS, exactly as image references begin with them. Mullion queries all others over TLS
        /// only.
        #[key("plainHTTP": List(&Text(Registry)), example: Some("[\"registry.local:5000\"]"))]
        pub plain_http: Vec<String> = Vec::new(),
        /// PEM files with certificate authorities to trust in addition to the system's, as paths in the webhook's pod.
        #[key("caFiles", example: Some("[/etc/mullion/registry-ca/ca.pem]"))]
        pub ca_files: Vec<PathBuf> = Vec::new(),
        /// Which credentials Mullion sends to registries.
        #[key("pullSecrets", example: Some("Pods"))]
        pub pull_secrets: PullSecretsMode = PullSecretsMode::default(),
        /// How long results of registries are kept: a whole number with `s`, `m`, `h` or `d`, up to a year.
        #[key("lifetimes")]
        pub lifetimes: Lifetimes = Lifetimes::default(),
        /// How long one look-up may take, all its requests together: a whole number with `s`, `m`, `h` or `d`. Pods
        /// never wait that long, see `detect.registry.lookup`.
        #[key("timeout", example: Some("30s"))]
        #[serde(with = "span")]
        pub timeout: Duration = Duration::from_secs(10),
    }
}

policy_words! {
    /// The credentials that are sent to registries.
    pub enum PullSecretsMode = Never {
        /// None: Mullion knows only images that can be pulled without credentials.
        Never,
        /// Those of each pod's own `imagePullSecrets`, for that pod's images. The webhook must be allowed to read these
        /// Secrets.
        Pods,
    }
}

policy_object! {
    /// `lifetimes` of a RegistryPolicy.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct Lifetimes {
        /// How long the result for a tag is valid, because tags move. Then Mullion queries the registry again.
        #[key("tag", example: Some("1h"))]
        #[serde(with = "span")]
        pub tag: Duration = Duration::from_secs(5 * 60),
        /// How long the result for a digest is kept. It never changes; the limit frees memory.
        #[key("digest", default_value: Some(|| Value::from("24h")), example: Some("7d"))]
        #[serde(with = "span")]
        pub digest: Duration = Duration::from_secs(24 * 60 * 60),
        /// How long Mullion waits before it repeats a failed look-up.
        #[key("error", example: Some("1m"))]
        #[serde(with = "span")]
        pub error: Duration = Duration::from_secs(5),
    }
}

/// Units of a duration, and their seconds.
const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 60 * 60), ('d', 24 * 60 * 60)];

/// The longest duration. A longer one is probably a typing error.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Reads `90s`, `5m`, `24h`, `7d`: one number and its unit, up to a year. The error is the reason.
pub(crate) fn parse_span(text: &str) -> Result<Duration, &'static str> {
    let mut unit = text.chars();
    let last = unit.next_back();
    let number = unit.as_str();
    let Some((_, seconds)) = UNITS.iter().find(|(unit, _)| Some(*unit) == last) else {
        return Err("it does not end in one of the units s, m, h and d");
    };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("the part before the unit is not one whole number");
    }
    let span = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*seconds)).map(Duration::from_secs);
    match span.filter(|span| *span <= LONGEST) {
        None => Err("it is longer than a year"),
        Some(Duration::ZERO) => Err("it must be longer than zero"),
        Some(span) => Ok(span),
    }
}

/// Whether a text is a registry as at the beginning of an image reference: `registry.local:5000`, `10.0.0.7`, `[::1]:5000`.
pub(crate) fn is_registry(text: &str) -> bool {
    let reference = format!("{text}/a");
    let found = ImageRef::parse(&reference);
    found.is_ok_and(|image| image.registry() == Some(text) && image.repository() == "a")
}

/// The duration in the longest unit that gives a whole number.
fn render_span(span: Duration) -> String {
    let seconds = span.as_secs();
    let (unit, length) =
        UNITS.into_iter().rev().find(|(_, length)| seconds.is_multiple_of(*length)).unwrap_or(('s', 1));
    format!("{}{unit}", seconds / length)
}

/// Durations as in policy files.
mod span {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::render_span(*span))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::parse_span(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn spans_are_a_number_and_a_unit() {
        for (text, seconds) in
            [("1s", 1), ("90s", 90), ("5m", 300), ("24h", 86_400), ("7d", 604_800), ("365d", 31_536_000)]
        {
            assert_eq!(parse_span(text), Ok(Duration::from_secs(seconds)), "{text}");
            assert_eq!(parse_span(&render_span(Duration::from_secs(seconds))), parse_span(text), "{text}");
        }
        for bad in [
            "",
            "s",
            "5",
            "5 m",
            "5min",
            "-5m",
            "+5m",
            "1.5h",
            "1h30m",
            "0s",
            "366d",
            "99999999999999999999h",
            "５m",
            "m5",
        ] {
            assert!(parse_span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn registries_are_hosts() {
        for good in
            ["registry.local:5000", "localhost", "localhost:5000", "10.0.0.7", "10.0.0.7:80", "[::1]:5000", "docker.io"]
        {
            assert!(is_registry(good), "{good}");
        }
        for bad in [
            "",
            "registry",
            "http://registry.local",
            "registry.local/",
            "registry.local/team",
            "a b",
            "registry.local:x",
            "*.local",
            ":5000",
        ] {
            assert!(!is_registry(bad), "{bad}");
        }
    }
}
