//! Dates and times in policy files: the end of an exemption, and the date of a test.
//!
//! | form | is |
//! |---|---|
//! | `2027-03-31` | a day in UTC |
//! | `2027-03-31T18:00:00Z`, `2027-03-31T20:00:00+02:00` | a moment, as in RFC 3339; a space may stand for the `T`, as in YAML |

use jiff::civil::{Date, Time, date};
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
        let (day, time) = match text.split_once(['T', 't', ' ']) {
            Some((day, time)) => (day, Some(time)),
            None => (text, None),
        };
        if !has_form(day, "0000-00-00") {
            return Err("it is not a date as year-month-day");
        }
        let day: Date = day.parse().map_err(|_| "there is no such day")?;
        let midnight = day.duration_since(date(1970, 1, 1)).as_secs();
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

/// Seconds from midnight in UTC.
fn parse_time(text: &str) -> Result<i64, &'static str> {
    const FORM: &str = "the time is not hours:minutes:seconds with Z or an offset such as +02:00";
    let end = text.find(['Z', 'z', '+', '-']).ok_or("the time has no offset: write Z for UTC")?;
    let (clock, offset) = text.split_at(end);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    if !has_form(clock, "00:00:00") || fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(FORM);
    }
    // jiff reads a leap second as the second before it.
    let time = seconds(clock).filter(|_| !clock.ends_with("60")).ok_or("there is no such time of day")?;
    let offset = match offset.split_at(1) {
        ("Z" | "z", "") => 0,
        (sign @ ("+" | "-"), offset) if has_form(offset, "00:00") => {
            let offset = seconds(offset).ok_or("there is no such offset")?;
            if sign == "-" { -offset } else { offset }
        }
        _ => return Err(FORM),
    };
    Ok(time - offset)
}

/// Seconds from midnight to a time of day.
fn seconds(text: &str) -> Option<i64> {
    Some(text.parse::<Time>().ok()?.duration_since(Time::midnight()).as_secs())
}

/// Whether the text has a digit for each `0` of the form, and its other characters.
fn has_form(text: &str, form: &str) -> bool {
    let fits = |(byte, form): (u8, u8)| if form == b'0' { byte.is_ascii_digit() } else { byte == form };
    text.len() == form.len() && text.bytes().zip(form.bytes()).all(fits)
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
            ("2027-13-01", "no such day"),
            ("2027-00-01", "no such day"),
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
        fn no_text_panics(text in "\\PC{0,30}|[0-9TZ:+. -]{0,30}") {
            let _read = PolicyDate::parse(&text);
        }
    }
}
