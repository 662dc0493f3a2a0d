//! Kubernetes quantities (`500m`, `128Mi`, `1.5e3`), exactly.
//!
//! The grammar is that of `k8s.io/apimachinery/pkg/api/resource`, `ParseQuantity`.

use serde_json::Value;

/// A quantity in billionths of its unit (bytes, CPUs): the finest step of Kubernetes, to which it rounds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

/// The parts of a quantity's text. The API server requires no digit: `Mi` is 0.
struct ParsedQuantity<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    scale: Scale,
}

/// A suffix as powers of two and of ten.
#[derive(Debug, Clone, Copy)]
struct Scale {
    two: u32,
    ten: i64,
}

/// Suffixes (apimachinery, pkg/api/resource/suffix.go); besides these an exponent, as in `1e-3`.
const SUFFIXES: [(&str, Scale); 16] = [
    ("", Scale { two: 0, ten: 0 }),
    ("n", Scale { two: 0, ten: -9 }),
    ("u", Scale { two: 0, ten: -6 }),
    ("m", Scale { two: 0, ten: -3 }),
    ("k", Scale { two: 0, ten: 3 }),
    ("M", Scale { two: 0, ten: 6 }),
    ("G", Scale { two: 0, ten: 9 }),
    ("T", Scale { two: 0, ten: 12 }),
    ("P", Scale { two: 0, ten: 15 }),
    ("E", Scale { two: 0, ten: 18 }),
    ("Ki", Scale { two: 10, ten: 0 }),
    ("Mi", Scale { two: 20, ten: 0 }),
    ("Gi", Scale { two: 30, ten: 0 }),
    ("Ti", Scale { two: 40, ten: 0 }),
    ("Pi", Scale { two: 50, ten: 0 }),
    ("Ei", Scale { two: 60, ten: 0 }),
];

/// The finest step, as a power of ten.
const NANO: i64 = 9;

/// Whether the API server's `ParseQuantity` accepts `text`.
pub(crate) fn is_quantity(text: &str) -> bool {
    ParsedQuantity::parse(text).is_some()
}

/// The suffix that equals `unit` ignoring case. A wrong unit never stands for a thousandth or less, because a lone `m`
/// is a valid suffix.
pub(crate) fn suffix_like(unit: &str) -> Option<&'static str> {
    let like = |suffix: &&str| suffix.eq_ignore_ascii_case(unit) && !matches!(*suffix, "n" | "u" | "m");
    SUFFIXES.iter().map(|(suffix, _)| *suffix).find(like)
}

impl Quantity {
    /// A number of MiB of memory.
    pub(crate) const fn mebibytes(count: u32) -> Self {
        Self((count as i128) << 20).times(1_000_000_000)
    }

    /// A number of thousandths of a CPU.
    pub(crate) const fn milli(count: u32) -> Self {
        Self(count as i128).times(1_000_000)
    }

    const fn times(self, factor: i128) -> Self {
        Self(self.0 * factor)
    }

    /// The quantity in a field: a string, or a number as YAML allows. `None` if the API server would reject it, or if
    /// it is larger or finer than 128 bits can hold.
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    /// The quantity in `text`; `None` as for [`of`](Self::of).
    pub fn parse(text: &str) -> Option<Self> {
        let ParsedQuantity { negative, whole, fraction, scale } = ParsedQuantity::parse(text)?;
        let fraction = fraction.trim_end_matches('0');
        let mut digits: u128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            digits = digits.checked_mul(10)?.checked_add(u128::from(digit - b'0'))?;
        }
        let Scale { two, ten } = scale;
        let binary = digits.checked_mul(1_u128.checked_shl(two)?)?;
        let power = ten.checked_add(NANO)?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        let factor = u32::try_from(power.unsigned_abs()).ok().and_then(|power| 10_u128.checked_pow(power));
        let nano = match (power.is_negative(), factor) {
            (_, _) if binary == 0 => 0,
            (false, factor) => binary.checked_mul(factor?)?,
            (true, Some(factor)) => binary.div_ceil(factor),
            // So far below the finest step that only rounding up gives a result.
            (true, None) => 1,
        };
        let nano = i128::try_from(nano).ok()?;
        Some(Self(if negative { -nano } else { nano }))
    }

    /// In thousandths of its unit, rounded up; 0 for a negative quantity, the largest number for one that does not fit.
    pub fn thousandths(self) -> u64 {
        self.rounded_up(1_000_000)
    }

    /// In its unit, rounded up; for a quantity that does not fit, as in [`thousandths`](Self::thousandths).
    pub fn units(self) -> u64 {
        self.rounded_up(1_000_000_000)
    }

    fn rounded_up(self, step: u128) -> u64 {
        let nano = u128::try_from(self.0).unwrap_or_default();
        u64::try_from(nano.div_ceil(step)).unwrap_or(u64::MAX)
    }

    /// Whether it is zero. A limit of zero is no limit.
    pub(crate) const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl<'a> ParsedQuantity<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim_matches(' ');
        let (negative, number) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let digits = |text: &'a str| text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let (whole, rest) = digits(number);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
        let known = SUFFIXES.iter().find(|(known, _)| *known == suffix).map(|(_, scale)| *scale);
        let scale = match known {
            Some(scale) => scale,
            // One sign and then digits, as in Go.
            None => Scale { two: 0, ten: suffix.strip_prefix(['e', 'E'])?.parse().ok()? },
        };
        (!text.is_empty()).then_some(Self { negative, whole, fraction, scale })
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const ONE: i128 = 1_000_000_000;

    #[test]
    fn every_form_has_its_value() {
        for (text, nano) in [
            ("0", 0),
            ("0Mi", 0),
            ("Mi", 0),
            (".", 0),
            (" 1 ", ONE),
            ("-0", 0),
            ("0e999", 0),
            ("1", ONE),
            ("+1", ONE),
            ("-1", -ONE),
            ("007", 7 * ONE),
            (".5", ONE / 2),
            ("5.", 5 * ONE),
            ("1.500000000000000000000000000000000000000000000000000000", ONE * 3 / 2),
            ("1n", 1),
            ("1u", 1_000),
            ("250m", ONE / 4),
            ("0.25", ONE / 4),
            ("1k", 1_000 * ONE),
            ("1M", 1_000_000 * ONE),
            ("1G", 1_000_000_000 * ONE),
            ("1T", 1_000_000_000_000 * ONE),
            ("1P", 1_000_000_000_000_000 * ONE),
            ("1E", 1_000_000_000_000_000_000 * ONE),
            ("1Ki", 1024 * ONE),
            ("1Mi", 1_048_576 * ONE),
            ("0.5Gi", 536_870_912 * ONE),
            ("1Ti", 1_099_511_627_776 * ONE),
            ("1Pi", 1_125_899_906_842_624 * ONE),
            ("1Ei", 1_152_921_504_606_846_976 * ONE),
            ("1e3", 1_000 * ONE),
            ("1E3", 1_000 * ONE),
            ("1.5e+3", 1_500 * ONE),
            ("12e-3", 12 * ONE / 1_000),
            // Rounded up to the finest step.
            ("0.1n", 1),
            ("1e-10", 1),
            ("1e-2000000000", 1),
        ] {
            assert_eq!(Quantity::parse(text), Some(Quantity(nano)), "{text}");
        }
    }

    #[test]
    fn texts_without_a_value() {
        let long = "9".repeat(100_000);
        for text in [
            "",
            " ",
            "..",
            "1..2",
            "1.2.3",
            "1 Mi",
            "1mi",
            "1K",
            "1ki",
            "1KiB",
            "1e",
            "1e1.5",
            "1ee1",
            "0x10",
            "١",
            "1µ",
            "--1",
            "+-1",
            "1e99999999999",
            "1e400",
            &long,
        ] {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
        for value in [json!(null), json!(true), json!([1]), json!({})] {
            assert_eq!(Quantity::of(&value), None, "{value}");
        }
    }

    #[test]
    fn numbers_count_as_they_are_written() {
        assert_eq!(Quantity::of(&json!(134_217_728)), Some(Quantity::mebibytes(128)));
        assert_eq!(Quantity::of(&json!(0.1)), Some(Quantity::milli(100)));
        assert_eq!(Quantity::of(&json!("128Mi")), Some(Quantity::mebibytes(128)));
        assert_eq!(Quantity::of(&json!(1e20)), Quantity::parse("100E"));
    }

    #[test]
    fn whole_numbers_are_rounded_up() {
        for (text, thousandths, units) in [
            ("250m", 250, 1),
            ("1.0001", 1001, 2),
            ("2Gi", 2_147_483_648_000, 2_147_483_648),
            ("-1", 0, 0),
            ("0", 0, 0),
            ("100E", u64::MAX, u64::MAX),
        ] {
            let quantity = Quantity::parse(text).unwrap();
            assert_eq!((quantity.thousandths(), quantity.units()), (thousandths, units), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _: Option<Quantity> = Quantity::parse(&text);
        }

        #[test]
        fn units_agree(count in 0_u32..1_000_000) {
            prop_assert_eq!(Quantity::parse(&format!("{count}Mi")), Some(Quantity::mebibytes(count)));
            prop_assert_eq!(Quantity::parse(&format!("{count}m")), Some(Quantity::milli(count)));
            prop_assert_eq!(Quantity::parse(&format!("{count}e-3")), Some(Quantity::milli(count)));
            prop_assert_eq!(Quantity::parse(&format!("{}.{:03}", count / 1000, count % 1000)), Some(Quantity::milli(count)));
            prop_assert_eq!(Quantity::mebibytes(count) < Quantity::mebibytes(count + 1), true);
        }
    }

    #[test]
    fn quantities_read_as_the_server_reads_them() {
        // Each was sent to a Kubernetes 1.36 API server as a memory limit.
        for good in [
            "0",
            "00",
            "1",
            "+1",
            "-1",
            "1.",
            ".5",
            ".",
            "+.",
            "-",
            "1k",
            "1n",
            "1u",
            "1m",
            "1Ki",
            "1Pi",
            "1E",
            "1e3",
            "1E3",
            "1e+3",
            "1e-3",
            "1E+9",
            " 1Gi ",
            "Mi",
            "m",
            "+Gi",
            "e3",
            ".e3",
            "E",
            "1e9223372036854775807",
        ] {
            assert!(is_quantity(good), "{good:?}");
        }
        for bad in [
            "",
            " ",
            "512MB",
            "1 Gi",
            "1gi",
            "1GiB",
            "1K",
            "0x10",
            "1_000",
            "1e",
            "1e-",
            "1e+",
            "1ee",
            "1e1.5",
            "1E5i",
            "5i",
            "1p",
            "--1",
            "1.2.3",
            "..",
            "1m5",
            "1Gi5",
            "1k-",
            "5e5e",
            "1\u{b5}",
            "\u{663}",
            "1e99999999999999999999",
            "1e--1",
            "\t1",
        ] {
            assert!(!is_quantity(bad), "{bad:?}");
        }
    }
}
