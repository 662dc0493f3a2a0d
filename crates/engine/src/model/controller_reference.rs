//! The owner reference of the controller of an object.

use serde_json::Value;

use crate::model::json_pointer::member;

/// The entry of `metadata.ownerReferences` with `controller: true`; the API server accepts at most one
/// (`ValidateOwnerReferences`). The author of an object writes it, so it proves nothing by itself.
pub fn controller_reference(object: &Value) -> Option<&Value> {
    let owners = member(object, "/metadata/ownerReferences")?.as_array()?;
    owners.iter().find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))
}
