//! Objects that attackers may store: with owners of fields that are nested deeper than parsers read, and with much text.

use anyhow::{Context as _, Result};
use kube::Client;
use serde_json::{Value, json};

/// The levels of the owners of fields: more than the 128 that `serde_json` reads into values.
const LEVELS: usize = 400;
/// Stands for the owners of fields in an object. Values cannot have their depth.
pub const DEEP: &str = "DEEP";

/// The text of an object of `api_version`, with owners of fields instead of each [`DEEP`]. The API server drops owners
/// with other API versions.
#[must_use]
pub fn with_deep_owners(api_version: &str, object: &Value) -> String {
    let fields = format!("{}{{}}{}", "{\"f:a\":".repeat(LEVELS), "}".repeat(LEVELS));
    let entry = format!(
        "[{{\"manager\":\"a\",\"operation\":\"Update\",\"apiVersion\":\"{api_version}\",\"time\":\"2026-01-01T00:00:00Z\",\
         \"fieldsType\":\"FieldsV1\",\"fieldsV1\":{fields}}}]"
    );
    object.to_string().replace(&format!("\"{DEEP}\""), &entry)
}

/// Whether the text of a stored object has owners of fields of that depth.
#[must_use]
pub fn has_deep_owners(text: &str) -> bool {
    text.contains(&"{\"f:a\":".repeat(130))
}

/// The `number`th of large pods: a command of 1.2 MB, or of 400,000 values of three bytes, which take ten times as many
/// when they are parsed. Half of the pods run on `node`.
#[must_use]
pub fn large_pod(number: usize, node: &str) -> Value {
    let command = if number % 4 < 2 { vec![String::new(); 400_000] } else { vec!["x".repeat(1_200_000)] };
    let (place, value) =
        if number.is_multiple_of(2) { ("nodeName", json!(node)) } else { ("nodeSelector", json!({"no": "node"})) };
    let containers = json!([{"name": "c", "image": "redis:7", "command": command}]);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("large-{number}")},
        "spec": {"containers": containers, place: value}})
}

/// Creates an object from its text at the path of its collection.
///
/// # Errors
/// What the API server answers.
pub async fn create_text(client: &Client, path: &str, text: String) -> Result<()> {
    let request = http::Request::post(path).header("content-type", "application/json").body(text.into_bytes())?;
    client.request_text(request).await.map(drop).with_context(|| format!("POST {path}"))
}
