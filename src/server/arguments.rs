//! Parsers for values of flags that webhook and controller share.

use std::time::Duration;

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().map_err(|error| format!("{error}; expected a number of seconds, as in 5 or 0.5"))?;
    Duration::try_from_secs_f64(number).map_err(|error| format!("{error}; expected a number of seconds, as in 5"))
}

pub(crate) fn positive_seconds(text: &str) -> Result<Duration, String> {
    seconds(text).and_then(
        |found| {
            if found.is_zero() { Err("expected more than zero seconds".to_owned()) } else { Ok(found) }
        },
    )
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn seconds_are_numbers_that_make_a_duration() {
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        for bad in ["", "5s", "-1", "nan", "inf", "1e300"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert!(positive_seconds("0").is_err(), "tokio's interval panics on it");
    }
}
