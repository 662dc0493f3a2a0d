//! The audit log of an API server.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use mullion_cluster::Builder;
use serde_json::{Value, json};

/// An audit log and its policy.
pub struct AuditLog(tempfile::TempDir);

impl AuditLog {
    /// A log by the `rules` of an audit `Policy`, for completed requests.
    pub fn of(rules: &Value) -> Result<Self> {
        let log = Self(tempfile::tempdir()?);
        let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": rules});
        std::fs::write(log.policy(), policy.to_string())?;
        Ok(log)
    }

    /// A control plane with an API server that writes it.
    pub fn written_by(&self, plane: Builder) -> Builder {
        plane
            .api_server_flag(format!("--audit-policy-file={}", self.policy().display()))
            .api_server_flag(format!("--audit-log-path={}", self.path().display()))
    }

    /// The file: a JSON object per line.
    pub fn path(&self) -> PathBuf {
        self.0.path().join("audit.log")
    }

    fn policy(&self) -> PathBuf {
        self.0.path().join("policy.json")
    }
}

/// Fails if a request, a line of the log at level `Request`, changes or deletes an object unconditionally, without the
/// version that was read. Only the count of an Event may be set unconditionally.
pub fn ensure_conditional(request: &Value) -> Result<()> {
    let sent = &request["requestObject"];
    // The body was never read.
    if sent.is_null() && request["responseStatus"]["code"].as_i64().is_none_or(|code| code >= 300) {
        return Ok(());
    }
    let conditional = match request["verb"].as_str() {
        Some("patch" | "update") => {
            let members = sent.as_object().map(|sent| sent.keys().map(String::as_str).collect::<Vec<_>>());
            let counts = request["objectRef"]["resource"] == "events" && members.is_some_and(|all| all == ["series"]);
            counts || sent["metadata"]["resourceVersion"].is_string()
        }
        Some("delete") => sent["preconditions"]["resourceVersion"].is_string(),
        Some("deletecollection") => false,
        _ => true,
    };
    ensure!(conditional, "neither resourceVersion nor preconditions: {request}");
    Ok(())
}
