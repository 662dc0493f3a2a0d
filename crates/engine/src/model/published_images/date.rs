//! A day, written `YYYY-MM-DD`.

use std::fmt;

use serde::Deserialize;

use crate::model::text::shown;

/// A day, written `YYYY-MM-DD`: these texts sort in the order of the days.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Date(String);

impl TryFrom<String> for Date {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let two = |range: std::ops::RangeInclusive<u8>, part: &str| {
            part.len() == 2
                && part.bytes().all(|byte| byte.is_ascii_digit())
                && part.parse().is_ok_and(|n| range.contains(&n))
        };
        let mut parts = text.split('-');
        let year = parts.next().is_some_and(|year| year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit()));
        let fits = year
            && parts.next().is_some_and(|month| two(1..=12, month))
            && parts.next().is_some_and(|day| two(1..=31, day))
            && parts.next().is_none();
        if fits { Ok(Self(text)) } else { Err(format!("`{}` is not a date; write YYYY-MM-DD", shown(&text))) }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn only_days_are_dates() {
        for good in ["2025-10-14", "2031-12-31"] {
            assert_eq!(Date::try_from(good.to_owned()).map(|date| date.to_string()), Ok(good.to_owned()));
        }
        for bad in [
            "",
            "2025-10",
            "2025-13-01",
            "2025-10-32",
            "2025-1-1",
            "25-10-14",
            "2025-10-14-1",
            "2025-+1-01",
            "é025-10-14",
        ] {
            assert!(Date::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
