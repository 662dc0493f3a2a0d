//! Time limits on the command line.

use std::time::Duration;

use jiff::SignedDuration;

/// Parses a positive time: `90s`, `5m`, `1h`.
pub(crate) fn time_limit(text: &str) -> Result<Duration, String> {
    let parsed: SignedDuration = text.parse().map_err(|error| format!("{error}; write 90s, 5m or 1h"))?;
    let positive = Duration::try_from(parsed).ok().filter(|duration| !duration.is_zero());
    positive.ok_or_else(|| "it must be longer than 0s".to_owned())
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn times() {
        assert_eq!(time_limit("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time_limit("1h30m"), Ok(Duration::from_secs(5400)));
        for bad in ["", "5", "0s", "-5m", "5 parsecs", "1d"] {
            assert!(time_limit(bad).is_err(), "{bad}");
        }
    }
}
