//! A rule of the catalogue: its code, name, default action and texts.

use serde::Serialize;

use crate::model::settings::Action;

/// A rule with its page: code, name, default action, summary, why, instead; then other fields that differ from those of
/// a rule without a repair.
macro_rules! rule {
    (
        $code:literal, $name:literal, $default:expr, $summary:literal, $why:literal, $instead:literal,
        $($key:ident: $value:expr),+ $(,)?
    ) => {
        $crate::rules::rule::Rule {
            $($key: $value,)*
            ..rule!($code, $name, $default, $summary, $why, $instead)
        }
    };
    ($code:literal, $name:literal, $default:expr, $summary:literal, $why:literal, $instead:literal $(,)?) => {
        $crate::rules::rule::Rule {
            code: $code,
            name: $name,
            default: $default,
            depends: None,
            summary: $summary,
            why: $why,
            instead: $instead,
            repair: false,
            translation: None,
            hint: false,
            since: "0.1",
            // An absolute path, because families are files and folders.
            page: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/rules/pages/", $code, ".md")),
        }
    };
}

pub(crate) use rule;

/// The author of a later change, which is unknown because the API server's request does not contain it.
pub(crate) const OTHERS: &str = "another webhook or policy";

/// One check of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// `MUL201`; never reused.
    pub code: &'static str,
    /// `run-as-user`.
    pub name: &'static str,
    /// One line, lower case, no period.
    pub summary: &'static str,
    /// The action of its findings if no policy sets one, for the worst value of its field.
    #[serde(rename = "action")]
    pub default: Action,
    /// The default actions as a clause, if they depend on something else than the value of the field.
    #[serde(skip)]
    pub depends: Option<&'static str>,
    /// Whether there is a repair. Only then may a policy set `Repair`.
    pub repair: bool,
    /// What replaces a value if a policy lists the rule under `rules.translate`, as a clause; `None`: Windows has no
    /// equivalent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub translation: Option<&'static str>,
    /// Whether pods run as intended anyway, and the rule suggests something better. Then pods of controllers get no
    /// label, because nearly all of them would have it.
    pub hint: bool,
    /// Why Windows cannot do it: the message of its findings.
    pub why: &'static str,
    /// What to write instead, as a clause.
    pub instead: &'static str,
    /// The version of Mullion that first contains it, or in which it was tightened: `0.1`. Policies written for an
    /// earlier version get its findings as warnings.
    pub since: &'static str,
    /// Its page, below what the catalogue contains about it: Markdown with the headings in `report/rule_page.rs`.
    #[serde(skip)]
    pub page: &'static str,
}
