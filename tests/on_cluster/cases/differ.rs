//! `changes`: differences between the object stored with Mullion and third-party webhooks, and the object stored without them.

use serde_json::{Value, json};

/// Removes the fields that always differ between namespaces, and those that controllers write in the meantime.
pub fn comparable(object: &Value, namespace: &str, of_status: bool) -> Value {
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let mut text = object.to_string().replace(namespace, "{namespace}");
    if !uid.is_empty() {
        text = text.replace(&uid, "{uid}"); // a Job's selector has it too
    }
    let mut object: Value = serde_json::from_str(&token_volume_named_alike(text)).unwrap_or_default();
    for key in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"] {
        object["metadata"].as_object_mut().map(|metadata| metadata.remove(key));
    }
    if object["metadata"]["generateName"].is_string() {
        object["metadata"]["name"] = json!("{generated}");
    }
    // Not removed by index, which would add a null if there are none.
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove("deployment.kubernetes.io/revision"); // set by the Deployment controller, some time later
        if annotations.is_empty() {
            object["metadata"].as_object_mut().map(|metadata| metadata.remove("annotations"));
        }
    }
    if let Some(top) = object.as_object_mut()
        && !of_status
    {
        top.remove("status");
    }
    object
}

/// `kube-api-access-x7k2p` differs in every pod.
fn token_volume_named_alike(text: String) -> String {
    const VOLUME: &str = "\"kube-api-access-";
    let Some(at) = text.find(VOLUME) else { return text };
    let name: String = text[at + 1..].chars().take_while(|letter| *letter != '"').collect();
    text.replace(&name, "kube-api-access")
}
