//! The tables as JSON Schema.

mod json_schema;
mod ordered;
mod rules;

pub use json_schema::{render_kind_schema, render_policy_schema, schema_kinds};
