//! The audit log of an API server.

use std::path::PathBuf;

use anyhow::Result;
use mullion_cluster::Builder;
use serde_json::{Value, json};

/// An audit log and its policy.
pub struct AuditLog(tempfile::TempDir);

impl AuditLog {
    /// Of what `rules` of an audit `Policy` say, once a request is answered.
    pub fn of(rules: &Value) -> Result<Self> {
        let log = Self(tempfile::tempdir()?);
        let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": rules});
        std::fs::write(log.policy(), policy.to_string())?;
        Ok(log)
    }

    /// A control plane whose API server writes it.
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
