//! Corrections of malformed quantities.

use crate::model::quantity::{is_quantity, suffix_like};

/// The quantity that a malformed one probably means: `512M` for `512MB`, `1Gi` for `1 GiB`.
pub(crate) fn nearest_quantity(text: &str) -> Option<String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|at| *at > 0)?;
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let unit = unit.strip_suffix("ytes").unwrap_or(&unit);
    let unit = unit.strip_suffix('b').unwrap_or(unit);
    let meant = format!("{number}{}", suffix_like(unit)?);
    is_quantity(&meant).then_some(meant)
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn intended_quantities_are_found() {
        for (written, meant) in [
            ("512MB", Some("512M")),
            ("512mb", Some("512M")),
            ("1 Gi", Some("1Gi")),
            ("1.5 GiB", Some("1.5Gi")),
            ("1K", Some("1k")),
            ("4g", Some("4G")),
            ("100 bytes", Some("100")),
            ("1.2.3", None),
            ("lots", None),
            ("MB", None),
            ("", None),
            ("1é", None),
        ] {
            assert_eq!(nearest_quantity(written).as_deref(), meant, "{written:?}");
        }
    }
}
