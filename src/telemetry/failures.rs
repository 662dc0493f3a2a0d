//! What went wrong, in words for people.

use std::error::Error;

/// An error and what is behind it, in one line. What the API server answered is given in its own words, once: kube's
/// errors print the whole `Status` as well, as Rust prints a struct (kube-client, `src/error.rs`, `Error::Api`).
pub(crate) fn in_words(error: &(dyn Error + 'static)) -> String {
    let mut parts = Vec::new();
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(kube::Error::Api(status)) = error.downcast_ref() {
            parts.push(format!("{} {}: {}", status.code, status.reason, status.message));
            break;
        }
        let mut text = error.to_string();
        at = error.source();
        if let Some(behind) = at {
            // Some errors say what is behind them, too.
            text = text.replace(&behind.to_string(), "");
        }
        let text = text.trim().trim_end_matches(':').trim_end();
        if !text.is_empty() {
            parts.push(text.to_owned());
        }
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use anyhow::anyhow;
    use kube::core::Status;
    use kube::runtime::watcher;
    use serde_json::json;

    use super::*;

    fn refused() -> kube::Error {
        let status: Status = serde_json::from_value(json!({
            "status": "Failure", "code": 403, "reason": "Forbidden", "message": "nodes is forbidden: no",
        }))
        .unwrap();
        kube::Error::Api(Box::new(status))
    }

    #[test]
    fn everything_is_said_once() {
        let own = "403 Forbidden: nodes is forbidden: no";
        assert_eq!(in_words(&refused()), own);
        let started = watcher::Error::WatchStartFailed(refused());
        assert_eq!(in_words(&started), format!("failed to start watching object: {own}"));
        let read = anyhow::Error::new(refused()).context("cannot read it");
        assert_eq!(in_words(read.as_ref()), format!("cannot read it: {own}"));
        let silent = kube::Error::Service("connection refused".into());
        assert_eq!(in_words(&silent), "ServiceError: connection refused");
        assert_eq!(in_words(anyhow!("late").as_ref()), "late");
    }
}
