//! Tags with placeholders: the patterns that a row matches, and the templates that it proposes.
//!
//! A pattern has at most one placeholder without a fixed form (`{version}`, `{any}`), so that a match takes linear time.

use serde::Deserialize;

use crate::model::text::{shown, strip_word};
use crate::model::windows::release_names;

/// A tag that a row matches, ignoring case: `{version}-nanoserver-{release}`.
///
/// `{release}` is any name of a Windows release in tags, `{version}` one or more characters and `{any}` zero or more,
/// `{date}` eight digits, `{number}` one or more digits, `{arch}` nothing, `-amd64` or `-arm64`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct TagPattern(Vec<Part>);

/// A tag that a row proposes: `{version}-nanoserver-ltsc2022`.
///
/// `{version}` and `{arch}` are what the pattern matched; `{amd64}` is the same as `{arch}` for images that exist for no
/// other architecture. `{tag}` is the whole tag, `{retagged}` the tag with the name of its release replaced in its own
/// spelling.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct TagTemplate(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Placeholder(Placeholder),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placeholder {
    Release,
    Version,
    Any,
    Date,
    Number,
    Arch,
    Amd64,
    Tag,
    Retagged,
}

const IN_PATTERNS: &[(&str, Placeholder)] = &[
    ("release", Placeholder::Release),
    ("version", Placeholder::Version),
    ("any", Placeholder::Any),
    ("date", Placeholder::Date),
    ("number", Placeholder::Number),
    ("arch", Placeholder::Arch),
];

const IN_TEMPLATES: &[(&str, Placeholder)] = &[
    ("version", Placeholder::Version),
    ("arch", Placeholder::Arch),
    ("amd64", Placeholder::Amd64),
    ("tag", Placeholder::Tag),
    ("retagged", Placeholder::Retagged),
];

/// What the placeholders of a pattern matched in a tag.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TagCaptures<'a> {
    /// `{version}`; empty if the pattern has none.
    pub version: &'a str,
    /// `{arch}`: empty, `-amd64` or `-arm64`.
    pub arch: &'a str,
}

fn parse(text: &str, known: &[(&str, Placeholder)]) -> Result<Vec<Part>, String> {
    let list = || known.iter().map(|(name, _)| format!("`{{{name}}}`")).collect::<Vec<_>>().join(", ");
    let error = |what: &str| format!("`{}` {what}; the placeholders are {}", shown(text), list());
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((literal, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or_else(|| error("has a `{` without `}`"))?;
        let (_, placeholder) =
            known.iter().find(|(known, _)| *known == name).ok_or_else(|| error("has an unknown placeholder"))?;
        if !literal.is_empty() {
            parts.push(Part::Literal(literal.to_owned()));
        }
        parts.push(Part::Placeholder(*placeholder));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(rest.to_owned()));
    }
    let of_a_tag = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_literal = |part: &Part| matches!(part, Part::Literal(text) if !text.bytes().all(of_a_tag));
    if parts.is_empty() || parts.iter().any(is_literal) {
        return Err(error("is not a tag"));
    }
    Ok(parts)
}

impl TryFrom<String> for TagPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let parts = parse(&text, IN_PATTERNS)?;
        let open = |part: &&Part| matches!(part, Part::Placeholder(Placeholder::Version | Placeholder::Any));
        if parts.iter().filter(open).count() > 1 {
            return Err(format!("`{}` has more than one of `{{version}}` and `{{any}}`; write one", shown(&text)));
        }
        Ok(Self(parts))
    }
}

impl TryFrom<String> for TagTemplate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        parse(&text, IN_TEMPLATES).map(Self)
    }
}

impl TagPattern {
    /// The parts of the tag that the placeholders match, if the pattern matches the whole tag.
    pub fn captures<'a>(&self, tag: &'a str) -> Option<TagCaptures<'a>> {
        captures(&self.0, tag)
    }
}

fn captures<'a>(parts: &[Part], tag: &'a str) -> Option<TagCaptures<'a>> {
    let Some((first, rest)) = parts.split_first() else { return tag.is_empty().then(TagCaptures::default) };
    let placeholder = match first {
        Part::Literal(text) => return captures(rest, strip_word(tag, text)?),
        Part::Placeholder(placeholder) => *placeholder,
    };
    let digits = tag.bytes().take_while(u8::is_ascii_digit).count();
    match placeholder {
        Placeholder::Date => captures(rest, tag.get(8..).filter(|_| digits == 8)?),
        Placeholder::Number => captures(rest, tag.get(digits..).filter(|_| digits > 0)?),
        Placeholder::Release => release_names(tag).find_map(|after| captures(rest, after)),
        Placeholder::Arch => ["-amd64", "-arm64", ""].into_iter().find_map(|arch| {
            let after = strip_word(tag, arch)?;
            let arch = tag.get(..arch.len())?;
            Some(TagCaptures { arch, ..captures(rest, after)? })
        }),
        Placeholder::Any => (0..=tag.len()).find_map(|length| captures(rest, tag.get(length..)?)),
        Placeholder::Version => (1..=tag.len()).find_map(|length| {
            let (version, after) = tag.split_at_checked(length)?;
            Some(TagCaptures { version, ..captures(rest, after)? })
        }),
        Placeholder::Amd64 | Placeholder::Tag | Placeholder::Retagged => None,
    }
}

impl TagTemplate {
    /// The tag, filled with what the pattern captured; `retagged` is called for `{retagged}`. `None` if there is no
    /// such tag.
    pub fn fill(&self, tag: &str, captured: &TagCaptures<'_>, retagged: impl Fn() -> Option<String>) -> Option<String> {
        let mut filled = String::new();
        for part in &self.0 {
            match part {
                Part::Literal(text) => filled.push_str(text),
                Part::Placeholder(Placeholder::Version) if captured.version.is_empty() => return None,
                Part::Placeholder(Placeholder::Version) => filled.push_str(captured.version),
                Part::Placeholder(Placeholder::Amd64) if captured.arch.eq_ignore_ascii_case("-arm64") => return None,
                Part::Placeholder(Placeholder::Arch | Placeholder::Amd64) => filled.push_str(captured.arch),
                Part::Placeholder(Placeholder::Tag) => filled.push_str(tag),
                Part::Placeholder(Placeholder::Retagged) => filled.push_str(&retagged()?),
                Part::Placeholder(
                    Placeholder::Release | Placeholder::Any | Placeholder::Date | Placeholder::Number,
                ) => return None,
            }
        }
        Some(filled)
    }

    /// Whether the tag contains a part of the old tag that a row without `versions` does not cover.
    pub fn has_version(&self) -> bool {
        let of_version =
            |placeholder| matches!(placeholder, Placeholder::Version | Placeholder::Tag | Placeholder::Retagged);
        self.0.iter().any(|part| matches!(part, Part::Placeholder(one) if of_version(*one)))
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> TagPattern {
        TagPattern::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn tags() {
        let cases = [
            ("{release}{arch}", "ltsc2019", Some(("", ""))),
            ("{release}{arch}", "LTSC2025-arm64", Some(("", "-arm64"))),
            ("{release}{arch}", "ltsc2019-arm", None),
            ("{release}-KB{number}{arch}", "1809-KB4489899-amd64", Some(("", "-amd64"))),
            ("10.0.{number}.{number}{arch}", "10.0.17763.8389", Some(("", ""))),
            ("{version}-nanoserver-{release}", "8.0-nanoserver-1809", Some(("8.0", ""))),
            ("{version}-nanoserver-{release}", "-nanoserver-1809", None),
            ("{version}-nanoserver-{release}", "8.0-nanoserver-1810", None),
            ("{any}nanoserver", "nanoserver", Some(("", ""))),
            ("4.8-{date}-windowsservercore-{release}", "4.8-20260714-windowsservercore-ltsc2019", Some(("", ""))),
            ("4.8-{date}-windowsservercore-{release}", "4.8-202607-windowsservercore-ltsc2019", None),
            ("windows-{release}-{version}", "windows-2022-5.1.2", Some(("5.1.2", ""))),
            ("{any}-windows-ltsc-{release}", "3.8.0-windows-ltsc-2022", Some(("", ""))),
        ];
        for (text, tag, expected) in cases {
            let expected = expected.map(|(version, arch)| TagCaptures { version, arch });
            assert_eq!(pattern(text).captures(tag), expected, "{text} {tag}");
        }
    }

    #[test]
    fn errors_name_the_placeholders() {
        for bad in ["", "{", "{version", "{versions}", "{version}-{any}", "{amd64}", "a b", "é"] {
            assert!(TagPattern::try_from(bad.to_owned()).is_err(), "{bad}");
        }
        let error = TagTemplate::try_from("{date}".to_owned()).unwrap_err();
        assert!(error.contains("{date}") && error.contains("`{retagged}`"), "{error}");
    }

    #[test]
    fn images_of_one_architecture() {
        let template = TagTemplate::try_from("ltsc2022{amd64}".to_owned()).unwrap();
        let fill = |arch| template.fill("", &TagCaptures { version: "", arch }, || None);
        assert_eq!(fill("-amd64").as_deref(), Some("ltsc2022-amd64"));
        assert_eq!((fill("").as_deref(), fill("-arm64")), (Some("ltsc2022"), None));
    }

    proptest! {
        #[test]
        fn any_tag_is_matched_or_not(tag in ".*", near in "(ltsc|2022|1809|20H2|KB1|10.0.17763|nanoserver|é|[-._]){0,9}") {
            for text in ["{release}{arch}", "{version}-nanoserver-{release}", "{any}-KB{number}", "10.0.{number}.{date}"] {
                let _: Option<_> = pattern(text).captures(&tag);
                let _: Option<_> = pattern(text).captures(&near);
            }
        }

        #[test]
        fn any_text_is_a_pattern_or_an_error(text in ".*", near in "(\\{version\\}|\\{release\\}|\\{any\\}|a|[{}-]){0,6}") {
            for text in [text, near] {
                // An error quotes a part of the text; its length is bounded.
                let errors = [TagPattern::try_from(text.clone()).err(), TagTemplate::try_from(text).err()];
                prop_assert!(errors.into_iter().flatten().all(|error| error.len() < 1_000));
            }
        }
    }
}
