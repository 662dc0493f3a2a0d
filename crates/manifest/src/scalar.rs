//! YAML scalars: how `kubectl` reads them, and how to write a string so that every YAML reader reads it as one.
//!
//! `kubectl` parses YAML with sigs.k8s.io/yaml, which resolves plain scalars by YAML 1.1 as `resolve.go` of go-yaml v2
//! does: `y`, `yes` and `on` are booleans, a leading zero is octal, underscores in numbers are skipped, base 60 is
//! text.

use serde_json::{Number, Value};

/// The type that a tag requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// No tag: a plain scalar is resolved, a quoted one is a string.
    None,
    /// `!`, `!!str` and every tag that is not of the core schema.
    Str,
    /// `!!null`.
    Null,
    /// `!!bool`.
    Bool,
    /// `!!int`.
    Int,
    /// `!!float`.
    Float,
    /// `!!binary`: an error, because its bytes need not be text.
    Binary,
}

/// The value of a scalar that is unquoted, or has a tag.
pub(crate) fn resolve(text: &str, tag: Tag) -> Result<Value, String> {
    let value = match tag {
        Tag::None => return plain(text),
        Tag::Str => return Ok(Value::String(text.to_owned())),
        Tag::Binary => {
            return Err("`!!binary` has no JSON form".to_owned());
        }
        Tag::Null | Tag::Bool | Tag::Int | Tag::Float => plain(text)?,
    };
    match (tag, &value) {
        (Tag::Null, Value::Null) | (Tag::Bool, Value::Bool(_)) | (Tag::Float, Value::Number(_)) => Ok(value),
        (Tag::Int, Value::Number(number)) if !number.is_f64() => Ok(value),
        _ => {
            let wanted = match tag {
                Tag::Null => "null",
                Tag::Bool => "a boolean",
                Tag::Int => "an integer",
                _ => "a number",
            };
            Err(format!("`{text}` is tagged as {wanted} and is not one"))
        }
    }
}

/// The value of an untagged plain scalar.
fn plain(text: &str) -> Result<Value, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf"
        | "-.INF" => {
            return Err(format!("`{text}` is a number that JSON cannot hold"));
        }
        _ => match number(text) {
            Some(number) => Value::Number(number),
            None => Value::String(text.to_owned()),
        },
    })
}

/// The number in an unquoted scalar, if it is one.
fn number(text: &str) -> Option<Number> {
    if !text.starts_with(['+', '-', '.', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
        return None;
    }
    // Go parses `.5_0` as a number and `._0` as text.
    if text.starts_with("._") {
        return None;
    }
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    integer(&digits).or_else(|| float(&digits))
}

/// An integer in Go's notation with base 0: `0x`, `0o`, `0b`, a leading zero for octal.
fn integer(text: &str) -> Option<Number> {
    let (negative, magnitude) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let (base, digits) = match magnitude.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, magnitude.get(2..)?),
        [b'0', b'o' | b'O', ..] => (8, magnitude.get(2..)?),
        [b'0', b'b' | b'B', ..] => (2, magnitude.get(2..)?),
        [b'0', _, ..] => (8, magnitude.get(1..)?),
        _ => (10, magnitude),
    };
    // `from_str_radix` accepts a sign of its own, so `--1` must be rejected before.
    if !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, base).ok()?;
    if negative { 0_i64.checked_sub_unsigned(magnitude).map(Number::from) } else { Some(Number::from(magnitude)) }
}

/// A float in decimal notation. Like Go's encoder, one without a fraction becomes an integer: `1.0` reaches the API server as `1`.
fn float(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    if exponent.is_some_and(|e| e.is_empty() || !digits(e)) {
        return None;
    }
    let value: f64 = text.strip_prefix('+').unwrap_or(text).parse().ok()?;
    // 2^53: every integer up to here is exact.
    if value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0 {
        #[expect(clippy::cast_possible_truncation, reason = "no fraction and within 2^53, checked above")]
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value) // None for an overflow: Go leaves `1e400` a string
}

/// True if `text` must be quoted to stay a string in YAML 1.1 and 1.2, in block and (with `flow`) in flow collections.
pub(crate) fn needs_quotes(text: &str, flow: bool) -> bool {
    let Some(first) = text.chars().next() else {
        return true;
    };
    if text.starts_with(['-', '?', ':']) && !text.chars().nth(1).is_some_and(|c| c.is_ascii_alphanumeric() || c == '-')
    {
        return true;
    }
    if matches!(
        first,
        '[' | ']' | '{' | '}' | ',' | '#' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' | ' ' | '='
    ) || text.starts_with("<<")
        || text.starts_with("---")
        || text.starts_with("...")
        || text.ends_with([' ', ':'])
    {
        return true;
    }
    if text.contains(": ") || text.contains(" #") {
        return true;
    }
    // go-yaml v2 also ends a plain scalar in a flow collection at `?`, so only characters that no reader treats as an
    // indicator are allowed.
    if flow && !text.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '/' | '-' | '+' | '=' | ' ')) {
        return true;
    }
    // Everything else that readers may misinterpret: control characters, line separators, byte-order marks.
    if !text.chars().all(|c| (' '..='~').contains(&c) || (c.is_alphanumeric() && c > '\u{a0}')) {
        return true;
    }
    if !matches!(plain(text), Ok(Value::String(_))) {
        return true;
    }
    // Text for `kubectl`, but a number or a date for other readers: `08`, `12:30:00` (base 60), `2024-01-01`. A version
    // such as `10.0.20348` has two dots and is text for all of them.
    let digits_first = first.is_ascii_digit() || matches!(first, '+' | '-' | '.');
    digits_first
        && text.chars().all(|c| {
            c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | '_' | ':' | 'e' | 'E' | 'T' | 't' | 'Z' | 'z' | ' ')
        })
        && text.matches('.').count() < 2
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_read_as_kubectl_reads_them() {
        // Each line was checked against sigs.k8s.io/yaml 1.6.0.
        let cases: &[(&str, Value)] = &[
            ("", json!(null)),
            ("~", json!(null)),
            ("y", json!(true)),
            ("Off", json!(false)),
            ("oN", json!("oN")),
            ("0644", json!(420)),
            ("0_7", json!(7)),
            ("08", json!(8)),
            ("1_000", json!(1000)),
            ("1__0", json!(10)),
            ("0o17", json!(15)),
            ("0b11", json!(3)),
            ("-0b11", json!(-3)),
            ("0x1F", json!(31)),
            ("-0x1F", json!(-31)),
            ("0x", json!("0x")),
            ("_1", json!("_1")),
            ("+1", json!(1)),
            ("--1", json!("--1")),
            ("-", json!("-")),
            (".", json!(".")),
            (".5", json!(0.5)),
            (".5_0", json!(0.5)),
            ("._0", json!("._0")),
            ("1.", json!(1)),
            ("1.0", json!(1)),
            ("1e3", json!(1000)),
            ("1e21", json!(1e21)),
            ("1e400", json!("1e400")),
            ("1e", json!("1e")),
            ("12:30", json!("12:30")),
            ("10.0.20348", json!("10.0.20348")),
            ("2001-01-01", json!("2001-01-01")),
            ("9223372036854775808", json!(9_223_372_036_854_775_808_u64)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("18446744073709551616", json!(18_446_744_073_709_551_616.0)),
            ("null", json!(null)),
            ("nUll", json!("nUll")),
        ];
        for (text, value) in cases {
            assert_eq!(resolve(text, Tag::None).as_ref(), Ok(value), "{text}");
        }
        for text in [".inf", "-.Inf", ".NaN"] {
            assert!(resolve(text, Tag::None).is_err(), "{text}");
        }
    }

    #[test]
    fn tags_decide() {
        assert_eq!(resolve("5", Tag::Str), Ok(json!("5")));
        assert_eq!(resolve("yes", Tag::Bool), Ok(json!(true)));
        assert_eq!(resolve("3", Tag::Int), Ok(json!(3)));
        assert_eq!(resolve("3", Tag::Float), Ok(json!(3)));
        assert_eq!(resolve("", Tag::Null), Ok(json!(null)));
        assert!(resolve("x", Tag::Int).unwrap_err().contains("integer"));
        assert!(resolve("aGk=", Tag::Binary).is_err());
    }

    #[test]
    fn quotes_where_a_reader_could_go_wrong() {
        for text in [
            "",
            "yes",
            "on",
            "No",
            "y",
            "1",
            "0644",
            "08",
            "1.0",
            "1e3",
            "~",
            "null",
            "true",
            "12:30",
            "12:30:45",
            "2024-01-01",
            "- a",
            "-",
            "a: b",
            "a #b",
            "a:",
            " a",
            "a ",
            "#a",
            "&a",
            "*a",
            "!a",
            "|",
            ">",
            "'a",
            "\"a",
            "%a",
            "@a",
            "`a",
            "{a",
            "[a",
            ",a",
            "? a",
            "a\nb",
            "a\tb",
            "\u{feff}a",
            "a\u{2028}b",
            "a\u{85}b",
            "<<",
            "=",
            "---",
            "...",
            "1_0",
            "+1",
            ".5",
            ".inf",
            "0x1F",
            "0o17",
            "a\u{7f}",
            ".",
        ] {
            assert!(needs_quotes(text, false), "{text:?}");
        }
        for text in [
            "windows",
            "kubernetes.io/os",
            "10.0.20348",
            "a b",
            "C:\\dir",
            "a:b",
            "-a",
            "--flag",
            "a#b",
            "os=windows:NoSchedule",
            "registry.example.com/win/app:1",
            "ü",
            "a'b",
        ] {
            assert!(!needs_quotes(text, false), "{text:?}");
        }
        for text in ["a,b", "a}", "a:b", "[", "a]", "a?b", "?a"] {
            assert!(needs_quotes(text, true), "{text:?}");
        }
    }
}
