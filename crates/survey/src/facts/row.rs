//! The common part of the rows of all tables: the source of a row, and checks that its type alone cannot do.

use jiff::civil::Date;
use mullion_engine::model::published_images::PublishedTags;
use mullion_engine::model::text::{list, nearest_word, shown};
use serde::de::DeserializeOwned;

/// The providers that a row can contain, as in the reports. A row of another provider would never apply.
pub const PROVIDERS: [&str; 6] = ["AKS", "EKS", "GKE", "OpenShift", "RKE2", "Rancher"];

/// A row of a table.
pub(crate) trait FactsRow: DeserializeOwned {
    /// The day of its source, and that of the last comparison with it, if the row has one of its own. `None` for rows that have
    /// none.
    fn days(&self) -> Option<(Date, Option<Date>)> {
        None
    }

    /// What is wrong with it: the actual and the expected value.
    fn check(&self) -> Result<(), String>;

    /// A name that no other row of the table has.
    fn name(&self) -> Option<&str> {
        None
    }
}

/// The order of rows matters for images, because the first match counts. `PublishedTags` checks its own members.
impl FactsRow for PublishedTags {
    fn check(&self) -> Result<(), String> {
        if self.repositories.is_empty() {
            return Err("repositories is empty, so the row is about no image; name one".to_owned());
        }
        check_source(&self.source)
    }
}

/// A day of a table: year-month-day. jiff also reads one without hyphens, or with a time.
pub(crate) fn parse_day(text: &str) -> Option<Date> {
    text.parse().ok().filter(|day: &Date| text.len() == 10 && day.to_string() == text)
}

pub(super) fn check_source(source: &str) -> Result<(), String> {
    // YAML interprets the rest of a line after ` #` as a comment.
    if source.ends_with(',') || source.ends_with(" and") {
        return Err(format!(
            "source ends with `{}`; put quotes around a text that contains ` #`",
            source.rsplit(' ').next().unwrap_or_default()
        ));
    }
    if source.is_empty() {
        return Err("source is empty; name a page, or a repository with its file".to_owned());
    }
    Ok(())
}

/// A clause: the report adds the period.
pub(super) fn check_clause(member: &str, text: &str) -> Result<(), String> {
    match text {
        "" => Err(format!("{member} is empty; write a clause without a full stop")),
        text if text.ends_with('.') => Err(format!("{member} ends with a full stop; write a clause without one")),
        _ => Ok(()),
    }
}

/// A sentence.
pub(super) fn check_sentence(member: &str, text: &str) -> Result<(), String> {
    if text.ends_with('.') {
        return Ok(());
    }
    Err(format!("{member} does not end with a full stop; write a whole sentence"))
}

pub(super) fn check_provider(provider: Option<&str>) -> Result<(), String> {
    let Some(provider) = provider.filter(|provider| !PROVIDERS.contains(provider)) else { return Ok(()) };
    let hint = nearest_word(provider, PROVIDERS).map(|known| format!("; did you mean {known}?")).unwrap_or_default();
    Err(format!("unknown provider `{}`; the providers are {}{hint}", shown(provider), list(PROVIDERS)))
}
