//! Errors of the Kubernetes API as text for people.

use std::error::Error;

use kube::core::Status;

/// An error and its causes, in one line. The message of the API server appears once: kube's errors also print the whole
/// `Status`, as Rust prints a struct (kube-client, `src/error.rs`, `Error::Api`).
pub(crate) fn in_words(error: &(dyn Error + 'static)) -> String {
    let mut parts = Vec::new();
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(kube::Error::Api(status)) = error.downcast_ref() {
            parts.push(status_text(status));
            break;
        }
        let mut text = error.to_string();
        at = error.source();
        if let Some(behind) = at {
            // Some errors also print their cause.
            text = text.replace(&behind.to_string(), "");
        }
        let text = text.trim().trim_end_matches(':').trim_end();
        if !text.is_empty() {
            parts.push(text.to_owned());
        }
    }
    parts.join(": ")
}

/// The API server's message, and what to do if a permission is missing. Messages of RBAC contain the user, "cannot" and
/// the resource (`forbiddenMessage` in apiserver `pkg/endpoints/handlers/responsewriters/errors.go`); those of quotas
/// and webhooks do not.
pub(crate) fn status_text(status: &Status) -> String {
    let Status { code, reason, message, .. } = status;
    let right_missing = *code == 403 && message.contains("\" cannot ") && message.contains(" resource \"");
    let remedy = if right_missing { "; allow that, as the roles of the chart do (rbac.create)" } else { "" };
    format!("{code} {reason}: {message}{remedy}")
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use anyhow::anyhow;
    use serde_json::json;

    use super::*;

    /// An error that prints its cause, as some of kube's do.
    #[derive(Debug, thiserror::Error)]
    #[error("failed to start watching object: {0}")]
    struct Started(#[source] kube::Error);

    fn forbidden() -> kube::Error {
        let status: Status = serde_json::from_value(json!({
            "status": "Failure", "code": 403, "reason": "Forbidden", "message": "nodes is forbidden: no",
        }))
        .unwrap();
        kube::Error::Api(Box::new(status))
    }

    #[test]
    fn each_cause_appears_once() {
        let own = "403 Forbidden: nodes is forbidden: no";
        assert_eq!(in_words(&forbidden()), own);
        let started = Started(forbidden());
        assert_eq!(in_words(&started), format!("failed to start watching object: {own}"));
        let read = anyhow::Error::new(forbidden()).context("cannot read it");
        assert_eq!(in_words(read.as_ref()), format!("cannot read it: {own}"));
        let unreachable = kube::Error::Service("connection refused".into());
        assert_eq!(in_words(&unreachable), "ServiceError: connection refused");
        assert_eq!(in_words(anyhow!("late").as_ref()), "late");
    }

    #[test]
    fn a_missing_right_comes_with_a_remedy() {
        let by = |code: u16, message: &str| {
            let status = json!({"status": "Failure", "code": code, "reason": "Forbidden", "message": message});
            in_words(&kube::Error::Api(Box::new(serde_json::from_value(status).unwrap())))
        };
        let rbac = "nodes is forbidden: User \"system:serviceaccount:mullion-system:mullion-webhook\" cannot watch \
                    resource \"nodes\" in API group \"\" at the cluster scope";
        assert!(by(403, rbac).ends_with("cluster scope; allow that, as the roles of the chart do (rbac.create)"));
        assert!(by(403, "secrets \"x\" is forbidden: exceeded quota: q").ends_with("exceeded quota: q"));
        assert!(by(409, rbac).ends_with("cluster scope"));
    }
}
