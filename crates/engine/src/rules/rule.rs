//! A rule of the catalogue: its code, name, default action and texts.

use crate::model::settings::Action;
use crate::rules::entry::CatalogueEntry;

/// One check of the catalogue.
pub type Rule = CatalogueEntry<RuleDetails>;

/// What the catalogue contains about a rule besides its code, name and texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleDetails {
    /// The action of its findings if no policy sets one, for the worst value of its field.
    pub default: Action,
    /// The default actions as a clause, if they depend on something else than the value of the field.
    pub depends: Option<&'static str>,
    /// Whether there is a repair. Only then may a policy set `Repair`.
    pub repair: bool,
    /// What replaces a value if a policy lists the rule under `rules.translate`, as a clause; `None`: Windows has no
    /// equivalent.
    pub translation: Option<&'static str>,
    /// Whether pods run as intended anyway, and the rule suggests something better. Then pods of controllers get no
    /// label, because nearly all of them would have it.
    pub hint: bool,
    /// Whether it is about the pod as a whole: which fields are missing, and which containers, images and constraints are
    /// together. A part of an object does not show that. A patch for another kind may also have fields that its own kind
    /// does not know.
    pub about_whole: bool,
    /// The version of Mullion that first contains it, or in which it was tightened: `0.1`. Policies written for an
    /// earlier version get its findings as warnings.
    pub since: &'static str,
    /// Its page, below what the catalogue contains about it: Markdown with the headings in `report/rule_page.rs`.
    pub page: &'static str,
}

/// A rule with its page. The comment is the summary; members after `instead` are those that differ from the defaults.
macro_rules! rule {
    (
        $(#[doc = $summary:literal])+
        {
            code: $code:literal,
            name: $name:literal,
            default: $default:ident,
            why: $why:literal,
            instead: $instead:literal,
            $($key:ident: $value:expr,)*
        } $(or { $($other:ident: $usual:expr),+ })?
    ) => {
        $crate::rules::entry::CatalogueEntry {
            code: $code,
            name: $name,
            summary: concat!($($summary),+).trim_ascii_start(),
            why: $why,
            instead: $instead,
            details: $crate::rules::rule::RuleDetails {
                $($key: $value,)*
                ..$crate::rules::rule::RuleDetails {
                    $($($other: $usual,)+)?
                    ..$crate::rules::rule::RuleDetails {
                        default: $crate::model::settings::Action::$default,
                        depends: None,
                        repair: false,
                        translation: None,
                        hint: false,
                        about_whole: false,
                        since: "0.1",
                        // An absolute path, because families are files and folders.
                        page: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/rules/pages/", $code, ".md")),
                    }
                }
            },
        }
    };
}

/// Declares the rules of a family, each by a name, and `RULES`: all of them, in order of code.
macro_rules! rules {
    ($($(#[doc = $summary:literal])+ $rule:ident { $($members:tt)+ })+) => {
        $(
            $(#[doc = $summary])+
            pub(crate) static $rule: $crate::rules::rule::Rule =
                $crate::rules::rule::rule! { $(#[doc = $summary])+ { $($members)+ } };
        )+

        /// The rules of this file, in order of code.
        pub(crate) static RULES: &[&$crate::rules::rule::Rule] = &[$(&$rule),+];
    };
}

pub(crate) use {rule, rules};

/// The author of a later change, which is unknown because the API server's request does not contain it.
pub(crate) const OTHERS: &str = "another webhook or policy";
