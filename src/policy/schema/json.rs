//! The table as a JSON Schema.
