//! A container of a pod.

use serde_json::Value;

use crate::model::json_pointer::member_below;

/// One container with its position.
#[derive(Debug, Clone, Copy)]
pub struct Container<'a> {
    /// The name of the list: one of [`CONTAINER_LISTS`](crate::model::names::CONTAINER_LISTS).
    pub list: &'static str,
    /// Position in that list.
    pub index: usize,
    pub(super) value: &'a Value,
}

impl<'a> Container<'a> {
    /// Pointer of the container below the pod: `/spec/containers/0`.
    pub fn pointer(&self) -> String {
        format!("/spec/{}/{}", self.list, self.index)
    }

    /// The value at `pointer` below the container; null counts as absent.
    pub fn get(&self, pointer: &str) -> Option<&'a Value> {
        member_below(self.list, self.value, pointer).filter(|value| !value.is_null())
    }

    /// The items of the list at `pointer` below the container.
    pub fn items(&self, pointer: &str) -> &'a [Value] {
        self.get(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Its name; empty if it does not have one.
    pub fn name(&self) -> &'a str {
        self.get("/name").and_then(Value::as_str).unwrap_or_default()
    }

    /// Its image reference.
    pub fn image(&self) -> Option<&'a str> {
        self.get("/image").and_then(Value::as_str).filter(|image| !image.is_empty())
    }
}
