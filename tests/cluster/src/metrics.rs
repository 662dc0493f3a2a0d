//! Numbers in the text of `/metrics`.

use std::iter::Sum;
use std::str::FromStr;

use anyhow::{Context as _, Result};

/// The value of one series, named with its labels as in `name{label="value"}`; `None` if the text does not have it.
///
/// # Errors
/// The value is not an `N`.
pub fn metric<N: FromStr>(text: &str, series: &str) -> Result<Option<N>> {
    let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.map(|value| value.parse().ok().with_context(|| format!("{series} {value}"))).transpose()
}

/// The sum of all series whose lines begin like this; 0 if there is none.
pub fn sum_of_metrics<N: FromStr + Sum>(text: &str, beginning: &str) -> N {
    let lines = text.lines().filter(|line| line.starts_with(beginning));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<N>().ok()).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use super::*;

    #[test]
    fn series() {
        let text = "# TYPE a counter\na_total{k=\"x\"} 2\na_total{k=\"y\"} 3\na_totals 9\nb 4\nc 1.5\n# EOF\n";
        assert_eq!(metric(text, "a_total{k=\"x\"}").unwrap(), Some(2));
        assert_eq!(metric(text, "b").unwrap(), Some(4));
        assert_eq!(metric::<u64>(text, "a_total").unwrap(), None);
        assert_eq!(metric::<u64>(text, "c").unwrap_err().to_string(), "c 1.5");
        assert_eq!((sum_of_metrics(text, "a_total{"), sum_of_metrics(text, "d")), (5, 0));
    }
}
