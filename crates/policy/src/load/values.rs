//! Forms of text in policy files: which texts each form accepts, and what to write instead of others.

use mullion_engine::model::cluster::Taint;
use mullion_engine::model::dns_name::{DNS_LABEL_LIMIT, DNS_SUBDOMAIN_LIMIT, is_dns_label, is_dns_subdomain};
use mullion_engine::model::foreign_text::visible;
use mullion_engine::model::schema::TextFormat;
use mullion_engine::model::settings::MAX_PATTERN;
use mullion_engine::model::text::shown;
use mullion_engine::model::windows::Build;

use crate::policy_date::PolicyDate;
use crate::registry_policy::{is_registry, parse_span};

/// A name of lower-case parts with dots between them, with other allowed characters.
macro_rules! domain {
    ($($other:literal)?) => {
        concat!(
            "[a-z0-9", $($other,)? "]([-a-z0-9", $($other,)? "]*[a-z0-9", $($other,)? "])?",
            r"(\.[a-z0-9", $($other,)? "]([-a-z0-9", $($other,)? "]*[a-z0-9", $($other,)? "])?)*"
        )
    };
}

/// A label's value, or its key without the domain.
macro_rules! label {
    ($($other:literal)?) => {
        concat!("[A-Za-z0-9", $($other,)? "]([-A-Za-z0-9_.", $($other,)? "]{0,61}[A-Za-z0-9", $($other,)? "])?")
    };
}

/// A path segment of an image, with no more than two stars in a row.
macro_rules! segment {
    () => {
        r"((\*\*?)?[-A-Za-z0-9_.:@]+(\*\*?[-A-Za-z0-9_.:@]+)*(\*\*?)?|\*\*?)"
    };
}

/// The longest line that an admin can add to a denial, in bytes, because denials are displayed in terminals and stored
/// in Events.
const MAX_LINE: usize = 256;

/// Why a text does not have the form, and what to write instead.
pub(crate) struct Malformed {
    pub(crate) why: String,
    pub(crate) hint: Option<String>,
}

/// The form as a regular expression for the JSON Schema: not stricter than [`check_text`], and as strict as
/// possible without look-ahead. Rules do not have a form of their own.
pub(crate) fn text_pattern(form: TextFormat) -> Option<&'static str> {
    match form {
        TextFormat::Any | TextFormat::Rule | TextFormat::TranslatedRule => None,
        TextFormat::Name => Some(concat!("^", domain!(), "$")),
        TextFormat::ShortName => Some(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
        TextFormat::Namespaces => Some(r"^([-a-z0-9]{1,63}|[-a-z0-9]*\*[-a-z0-9*]*)$"),
        TextFormat::Build => Some(r"^10\.0\.(0|[1-9][0-9]*)$"),
        TextFormat::LabelKey => Some(concat!("^(", domain!(), "/)?", label!(), "$")),
        TextFormat::LabelValue => Some(concat!("^(", label!(), ")?$")),
        TextFormat::Image => Some(concat!("^", segment!(), "(/", segment!(), ")*$")),
        TextFormat::TaintPattern => Some(concat!("^(", domain!("*"), "/)?", label!("*"), "=(", label!("*"), ")?$")),
        TextFormat::Taint => Some(concat!(
            "^(",
            domain!(),
            "/)?",
            label!(),
            "(=(",
            label!(),
            ")?)?:(NoSchedule|PreferNoSchedule|NoExecute)$"
        )),
        TextFormat::Version => Some(r"^[0-9]+\.[0-9]+(\.[0-9]+)?$"),
        TextFormat::Registry => {
            Some(r"^(\[[0-9A-Fa-f:.]+\](:[0-9]+)?|[-A-Za-z0-9.]+:[0-9]+|localhost|[-a-z0-9]*[.A-Z][-A-Za-z0-9.]*)$")
        }
        TextFormat::RegistryPattern => Some(concat!(
            r"^(\[[0-9A-Fa-f:.]+\](:[0-9]+)?|[-A-Za-z0-9.]+:[0-9]+|localhost|[-a-z0-9]*[.A-Z][-A-Za-z0-9.]*",
            r"|[-A-Za-z0-9.*]*\*[-A-Za-z0-9.*]*(:[0-9*]+)?|[-A-Za-z0-9.]+:[0-9]*\*[0-9*]*)$"
        )),
        TextFormat::Path => Some(r"^/"),
        TextFormat::Span => Some(r"^0*[1-9][0-9]*[smhd]$"),
        TextFormat::Line => {
            Some(r"^[^\u0000-\u001f\u007f-\u009f]*[^\u0000-\u0020\u007f-\u00a0][^\u0000-\u001f\u007f-\u009f]*$")
        }
        TextFormat::Date => Some(concat!(
            "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
            r"([Tt ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))?$"
        )),
    }
}

/// The maximum length, if [`text_pattern`] does not limit it.
pub(crate) fn max_length(form: TextFormat) -> Option<usize> {
    match form {
        TextFormat::Name => Some(DNS_SUBDOMAIN_LIMIT),
        TextFormat::ShortName => Some(DNS_LABEL_LIMIT),
        TextFormat::Image => Some(MAX_PATTERN),
        TextFormat::Line => Some(MAX_LINE),
        _ => None,
    }
}

/// Checks whether `text` has the form. Names of rules are data and are looked up elsewhere.
pub(crate) fn check_text(form: TextFormat, text: &str) -> Result<(), Malformed> {
    let is = |ok: bool, why: &str| if ok { Ok(()) } else { Err(Malformed::new(why)) };
    match form {
        TextFormat::Any | TextFormat::Rule | TextFormat::TranslatedRule => {
            is(!text.is_empty() || form == TextFormat::Any, "it is empty")
        }
        TextFormat::Name => is(
            is_dns_subdomain(text),
            "names of Kubernetes objects have no other characters, and begin and end with a letter or digit",
        ),
        TextFormat::ShortName => is(
            is_dns_label(text),
            "it becomes a part of names and labels, which have no other characters, and begin and end with a letter or digit",
        ),
        TextFormat::Namespaces => namespaces(text),
        TextFormat::Build => {
            text.parse::<Build>().map(|_| ()).map_err(|error| Malformed::new(visible(&error.to_string())))
        }
        TextFormat::LabelKey => label_key(text),
        TextFormat::LabelValue => is(
            label_value(text),
            "values have at most 63 letters, digits, `-`, `_` and `.`, and begin and end with a letter or digit",
        ),
        TextFormat::Image => image(text),
        TextFormat::TaintPattern => taint_pattern(text),
        TextFormat::Taint => taint(text),
        TextFormat::Version => version(text),
        TextFormat::Registry => registry(text),
        TextFormat::RegistryPattern => registry_pattern(text),
        TextFormat::Path => is(text.starts_with('/'), "it does not start with `/`; a relative path has no base here"),
        TextFormat::Span => parse_span(text).map(|_| ()).map_err(Malformed::new),
        TextFormat::Line => line(text),
        TextFormat::Date => PolicyDate::parse(text).map(|_| ()).map_err(Malformed::new),
    }
}

impl Malformed {
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

fn ends_well(text: &str) -> bool {
    let well = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    well(text.chars().next()) && well(text.chars().next_back())
}

fn label_value(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    text.is_empty() || (text.len() <= 63 && text.bytes().all(allowed) && ends_well(text))
}

fn label_key(text: &str) -> Result<(), Malformed> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if let Some(prefix) = prefix
        && check_text(TextFormat::Name, prefix).is_err()
    {
        return Err(Malformed::new("the part before the `/` is not a domain name"));
    }
    if name.is_empty() || !label_value(name) {
        return Err(Malformed::new(
            "keys have at most 63 letters, digits, `-`, `_` and `.`, begin and end with a letter or digit, and may have a domain and `/` before that",
        ));
    }
    Ok(())
}

fn namespaces(text: &str) -> Result<(), Malformed> {
    if text.is_empty() {
        return Err(Malformed::new("it is empty"));
    }
    if text.len() > 63 && !text.contains('*') {
        return Err(Malformed::new("namespace names have at most 63 characters"));
    }
    match text.chars().find(|c| !(c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '*'))) {
        None => Ok(()),
        Some(c @ ('?' | '[' | ']' | '{' | '}' | '!' | '|' | '^' | '$' | '(' | ')')) => {
            Err(Malformed::new(format!("`{c}` has no meaning here, and namespace names do not contain it"))
                .hint("`*` is the only wildcard; write several entries for alternatives"))
        }
        Some(c) if c.is_ascii_uppercase() => Err(Malformed::new("namespace names have no upper-case letters")
            .hint(format!("write `{}`", shown(&text.to_ascii_lowercase())))),
        Some(c @ (' ' | ',')) => Err(Malformed::new(format!("namespace names do not contain `{c}`"))
            .hint("write several entries for several names: `[a, b]`")),
        Some(c) => Err(Malformed::new(format!("namespace names do not contain `{}`", c.escape_debug()))),
    }
}

fn image(text: &str) -> Result<(), Malformed> {
    if text.is_empty() {
        return Err(Malformed::new("it is empty"));
    }
    if text.len() > MAX_PATTERN {
        return Err(Malformed::new(format!(
            "it has {} characters; image names have at most {MAX_PATTERN}",
            text.len()
        )));
    }
    if let Some((_, rest)) = text.split_once("://") {
        return Err(Malformed::new("image references have no scheme").hint(format!("write `{}`", shown(rest))));
    }
    if text.contains("***") {
        return Err(Malformed::new("`***` means the same as `**`").hint("write `**`"));
    }
    if text.starts_with('/') || text.ends_with('/') || text.contains("//") {
        return Err(Malformed::new("it has an empty path segment, and matches no image").hint(
            if text.ends_with('/') {
                format!("write `{}**` for everything below", shown(text))
            } else {
                "remove the extra `/`".to_owned()
            },
        ));
    }
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | ':' | '@' | '*');
    match text.chars().find(|c| !allowed(c)) {
        None => Ok(()),
        Some(c) => Err(Malformed::new(format!("image references do not contain `{}`", c.escape_debug()))
            .hint("`*` and `**` are the only wildcards; write several entries for alternatives")),
    }
}

fn without_scheme(text: &str) -> Result<(), Malformed> {
    let Some((_, rest)) = text.split_once("://") else { return Ok(()) };
    Err(Malformed::new("registries have no scheme here").hint(format!("write `{}`", shown(rest.trim_end_matches('/')))))
}

fn registry(text: &str) -> Result<(), Malformed> {
    if is_registry(text) {
        return Ok(());
    }
    without_scheme(text)?;
    if text.contains('*') {
        return Err(Malformed::new("wildcards are not allowed here: list each registry without TLS separately"));
    }
    if let Some((host, _)) = text.split_once('/').filter(|(host, _)| is_registry(host)) {
        return Err(Malformed::new("TLS depends on the registry, not on the repository")
            .hint(format!("write `{}`", shown(host))));
    }
    Err(Malformed::new("image references begin with a domain that has a dot, with host:port, or with localhost"))
}

fn registry_pattern(text: &str) -> Result<(), Malformed> {
    without_scheme(text)?;
    if let Some((host, _)) = text.split_once('/') {
        return Err(
            Malformed::new("a registry is listed with all its repositories").hint(format!("write `{}`", shown(host)))
        );
    }
    if !text.contains('*') {
        return registry(text);
    }
    let (host, port) = text.split_once(':').unwrap_or((text, "*"));
    let host_fits = host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'*'));
    let port_fits = port.bytes().all(|b| b.is_ascii_digit() || b == b'*');
    if !host_fits || host.is_empty() || !port_fits || port.is_empty() {
        return Err(Malformed::new("only the name of a host and its port may contain `*`")
            .hint("write `*.corp.example` or `*.corp.example:5000`"));
    }
    Ok(())
}

fn taint_pattern(text: &str) -> Result<(), Malformed> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(Malformed::new("it has no `=`").hint(format!("write `{}=*` for any value", shown(text))));
    };
    if let Some((value, effect)) = value.split_once(':') {
        return Err(Malformed::new(format!(
            "an effect such as `{}` is not allowed here: taints match by key and value",
            shown(effect)
        ))
        .hint(format!("write `{}={}`", shown(key), shown(value))));
    }
    let plain = |text: &str| text.replace('*', "a");
    if key.is_empty() || label_key(&plain(key)).is_err() {
        return Err(Malformed::new(format!("`{}` is not a valid taint key", shown(key))));
    }
    if !label_value(&plain(value)) {
        return Err(Malformed::new(format!("`{}` is not a valid taint value", shown(value))));
    }
    Ok(())
}

fn taint(text: &str) -> Result<(), Malformed> {
    let Some(taint) = Taint::parse(text) else {
        return Err(Malformed::new("it does not end in `:NoSchedule`, `:PreferNoSchedule` or `:NoExecute`")
            .hint("write it as in `kubectl taint`: `os=windows:NoSchedule`"));
    };
    label_key(&taint.key)?;
    if !label_value(&taint.value) {
        return Err(Malformed::new(format!("`{}` is not a valid taint value", shown(&taint.value))));
    }
    Ok(())
}

fn line(text: &str) -> Result<(), Malformed> {
    if text.trim().is_empty() {
        return Err(Malformed::new("it is empty"));
    }
    if text.len() > MAX_LINE {
        return Err(Malformed::new(format!("it has {} bytes", text.len())));
    }
    // Line and paragraph separators, and the characters that change the direction of the text after them.
    let acts = |c: &char| {
        c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    match text.chars().find(acts) {
        None => Ok(()),
        Some('\n' | '\r') => Err(Malformed::new("it has several lines").hint("write one line, without `|`")),
        Some(c) => Err(Malformed::new(format!("it contains the control character `{}`", c.escape_default()))),
    }
}

fn version(text: &str) -> Result<(), Malformed> {
    let parts: Vec<_> = text.split('.').collect();
    let number =
        |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u32>().is_ok();
    if matches!(parts.len(), 2 | 3) && parts.iter().all(number) {
        return Ok(());
    }
    let hint = match text.strip_prefix('v') {
        Some(rest) if version(rest).is_ok() => format!("write \"{rest}\""),
        _ => "write major and minor number: \"0.1\"".to_owned(),
    };
    Err(Malformed::new("it is not a version").hint(hint))
}
