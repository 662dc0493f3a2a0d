//! Facts from what others wrote: the parsed value, or why it is not used.
//!
//! Users who may annotate a namespace, taint a node or create a RuntimeClass decide how long these values are. They are
//! parsed once, when the snapshot is built, and each has a limit. A value beyond its limit is a fact of its own: it is
//! never cut, and never taken for an absent one.

use std::fmt;

use crate::model::text::{counted, shorten, shown, thousands};

/// How much of a parser's error is kept, in characters. It can quote the value.
const QUOTED_ERROR: usize = 160;

/// A value that someone else wrote.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Fact<T> {
    /// The parsed value.
    Parsed(T),
    /// Why it is not used.
    Unusable(Unusable),
}

/// Why a value is not used.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Unusable {
    /// It cannot be parsed; contains the parser's error.
    Unreadable(Box<str>),
    /// It exceeds a limit.
    TooLarge(Excess),
}

/// A size beyond its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Excess {
    /// The size.
    pub size: usize,
    /// The largest size that is used.
    pub limit: usize,
    /// What is counted, in the singular: `byte`, `taint`.
    pub unit: &'static str,
}

/// An unusable value of an object in the snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableFact {
    /// The kind of the object: `Namespace`.
    pub kind: &'static str,
    /// Its name, shortened; empty if the value is of all objects of the kind.
    pub name: String,
    /// The value: `annotation openshift.io/node-selector`.
    pub value: String,
    /// Why it is not used.
    pub why: Unusable,
}

impl<T> Fact<T> {
    /// The parsed value, if it is used.
    pub fn parsed(&self) -> Option<&T> {
        match self {
            Self::Parsed(value) => Some(value),
            Self::Unusable(_) => None,
        }
    }

    /// Why it is not used, if it is not.
    pub fn unusable(&self) -> Option<&Unusable> {
        match self {
            Self::Parsed(_) => None,
            Self::Unusable(why) => Some(why),
        }
    }
}

impl<T: Default> Default for Fact<T> {
    fn default() -> Self {
        Self::Parsed(T::default())
    }
}

impl Unusable {
    /// An error of a parser.
    pub(crate) fn unreadable(error: &impl ToString) -> Self {
        Self::Unreadable(shorten(&error.to_string(), QUOTED_ERROR).into())
    }

    /// A text that is too long to be parsed.
    pub(crate) fn check_length(text: &str, limit: usize) -> Result<(), Self> {
        Self::check(text.len(), limit, "byte")
    }

    /// An error if `size` exceeds `limit`.
    pub(crate) fn check(size: usize, limit: usize, unit: &'static str) -> Result<(), Self> {
        if size <= limit { Ok(()) } else { Err(Self::TooLarge(Excess { size, limit, unit })) }
    }
}

impl<T> From<Result<T, Unusable>> for Fact<T> {
    fn from(result: Result<T, Unusable>) -> Self {
        result.map_or_else(Self::Unusable, Self::Parsed)
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "is unreadable: {why}"),
            Self::TooLarge(excess) => write!(f, "is too large to use: {excess}"),
        }
    }
}

impl fmt::Display for Excess {
    /// `250,000 bytes, limit 24,448`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, limit, unit } = self;
        let plural = counted(*size, unit);
        let noun = plural.trim_start_matches(|c: char| c.is_ascii_digit());
        write!(f, "{}{noun}, limit {}", thousands(*size), thousands(*limit))
    }
}

impl UnusableFact {
    /// The value of the object of that kind and name.
    pub(crate) fn new(kind: &'static str, name: &str, value: String, why: &Unusable) -> Self {
        Self { kind, name: shown(name), value, why: why.clone() }
    }
}

impl fmt::Display for UnusableFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, value, why } = self;
        if name.is_empty() { write!(f, "{value} {why}") } else { write!(f, "{value} of {kind} {name} {why}") }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn texts_name_size_and_limit() {
        let fact = Fact::<()>::from(Unusable::check_length(&"x".repeat(250_000), 24_448));
        assert_eq!(
            fact.unusable().map(ToString::to_string).as_deref(),
            Some("is too large to use: 250,000 bytes, limit 24,448")
        );
        assert_eq!(Fact::from(Unusable::check(2, 2, "taint").map(|()| 7)).parsed(), Some(&7));
        let long = Unusable::unreadable(&"x\n".repeat(9_000)).to_string();
        assert!(long.chars().count() < 200 && !long.contains('\n'), "{long}");
    }
}
