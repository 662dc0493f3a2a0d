//! Dates and times in policy files: the end of an exemption, and the date of a test.
//!
//! | form | is |
//! |---|---|
//! | `2027-03-31` | a day in UTC |
//! | `2027-03-31T18:00:00Z`, `2027-03-31T20:00:00+02:00` | a moment, as in RFC 3339; a space may stand for the `T`, as in YAML |

use mullion_engine::model::schema::{PolicyValue, TextFormat, ValueShape};
use serde::Deserialize;

/// A day or a moment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PolicyDate {
    /// The text as written.
    pub text: String,
    /// Its first second, in seconds since 1970.
    pub start: i64,
    /// The first second after it: for a day, that of the next day in UTC; for a moment, the moment itself.
    pub end: i64,
}

/// Seconds of a day.
pub(crate) const DAY: i64 = 24 * 60 * 60;

impl PolicyValue for PolicyDate {
    const SHAPE: ValueShape = ValueShape::Text(TextFormat::Date);
}

impl TryFrom<String> for PolicyDate {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl PolicyDate {
    /// Parses a text. The error is the reason why it is not a date or time.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let (date, time) = match text.find(['T', 't', ' ']) {
            Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
            None => (text, None),
        };
        let midnight = parse_day(date)? * DAY;
        let (start, end) = match time {
            None => (midnight, midnight + DAY),
            Some(time) => {
                let moment = midnight + parse_time(time)?;
                (moment, moment)
            }
        };
        Ok(Self { text: text.to_owned(), start, end })
    }
}

/// The number of a day of the Gregorian calendar, from 1970-01-01.
fn parse_day(text: &str) -> Result<i64, &'static str> {
    const FORM: &str = "it is not a date as year-month-day";
    let [year, month, day] = numbers(text, '-', [4, 2, 2]).ok_or(FORM)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return Err("there is no such month"),
    };
    if !(1..=days).contains(&day) {
        return Err("the month has no such day");
    }
    // Years begin in March, so that the leap day is the last day: https://howardhinnant.github.io/date_algorithms.html
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    Ok(era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468)
}

/// Seconds from midnight in UTC.
fn parse_time(text: &str) -> Result<i64, &'static str> {
    const FORM: &str = "the time is not hours:minutes:seconds with Z or an offset such as +02:00";
    let (clock, offset) = if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        (clock, 0)
    } else {
        let at = text.rfind(['+', '-']).ok_or("the time has no offset: write Z for UTC")?;
        let [hours, minutes] = numbers(text.get(at + 1..).unwrap_or_default(), ':', [2, 2]).ok_or(FORM)?;
        if hours > 23 || minutes > 59 {
            return Err("there is no such offset");
        }
        let offset = (hours * 60 + minutes) * 60;
        (text.get(..at).unwrap_or_default(), if text.get(at..=at) == Some("-") { -offset } else { offset })
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hours, minutes, seconds] = numbers(clock, ':', [2, 2, 2]).ok_or(FORM)?;
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(FORM);
    }
    if hours > 23 || minutes > 59 || seconds > 59 {
        return Err("there is no such time of day");
    }
    Ok((hours * 60 + minutes) * 60 + seconds - offset)
}

/// Numbers of these lengths, with `separator` between them.
fn numbers<const N: usize>(text: &str, separator: char, lengths: [usize; N]) -> Option<[i64; N]> {
    let parts: Vec<&str> = text.split(separator).collect();
    let fits = |(part, length): (&&str, &usize)| part.len() == *length && part.bytes().all(|b| b.is_ascii_digit());
    (parts.len() == N && parts.iter().zip(&lengths).all(fits)).then_some(())?;
    let numbers: Vec<i64> = parts.iter().filter_map(|part| part.parse().ok()).collect();
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn days_and_moments_are_read() {
        for (text, start, end) in [
            ("1970-01-01", 0, DAY),
            ("2027-03-31", 1_806_451_200, 1_806_537_600),
            ("2024-02-29", 1_709_164_800, 1_709_251_200),
            ("2000-03-01", 951_868_800, 951_955_200),
            ("0000-03-01", -62_162_035_200, -62_162_035_200 + DAY),
            ("2027-03-31T18:00:00Z", 1_806_516_000, 1_806_516_000),
            ("2027-03-31t18:00:00.25z", 1_806_516_000, 1_806_516_000),
            ("2027-03-31 20:00:00+02:00", 1_806_516_000, 1_806_516_000),
            ("2027-03-31T12:30:00-05:30", 1_806_516_000, 1_806_516_000),
        ] {
            let read = PolicyDate::parse(text).unwrap();
            assert_eq!((read.start, read.end, read.text.as_str()), (start, end, text), "{text}");
        }
    }

    #[test]
    fn other_texts_are_rejected_with_a_reason() {
        for (text, why) in [
            ("", "not a date"),
            ("2027", "not a date"),
            ("2027-3-31", "not a date"),
            ("31.03.2027", "not a date"),
            ("+027-03-31", "not a date"),
            ("2027-13-01", "no such month"),
            ("2027-00-01", "no such month"),
            ("2027-02-29", "no such day"),
            ("1900-02-29", "no such day"),
            ("2027-04-31", "no such day"),
            ("2027-04-00", "no such day"),
            ("2027-03-31T18:00:00", "no offset"),
            ("2027-03-31T18:00Z", "hours:minutes:seconds"),
            ("2027-03-31T18:00:00.Z", "hours:minutes:seconds"),
            ("2027-03-31T24:00:00Z", "no such time"),
            ("2027-03-31T18:00:60Z", "no such time"),
            ("2027-03-31T18:00:00+24:00", "no such offset"),
            ("2027-03-31T", "no offset"),
            ("2027-03-31é", "not a date"),
        ] {
            let error = PolicyDate::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_day_follows_the_day_before(year in 1_i64..9999, month in 1_i64..13, day in 1_i64..29) {
            let of = |year, month, day| PolicyDate::parse(&format!("{year:04}-{month:02}-{day:02}")).unwrap();
            let one = of(year, month, day);
            prop_assert_eq!(one.end - one.start, DAY);
            if day < 28 {
                prop_assert_eq!(of(year, month, day + 1).start, one.end);
            }
            let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            let length = (of(next_year, next_month, 1).start - of(year, month, 1).start) / DAY;
            prop_assert!((28..=31).contains(&length) && (month == 2) == (length < 30), "{} days", length);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,30}|[0-9TZ:+. -]{0,30}") {
            let _read = PolicyDate::parse(&text);
        }
    }
}
