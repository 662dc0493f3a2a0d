//! The tables that are part of Mullion, as text.

/// Each is a file of facts with one table. The table of images is in the engine, because its rules also need it.
pub(super) const PARTS: [(&str, &str); 4] = [
    ("facts/dates.yaml", include_str!("../../facts/dates.yaml")),
    ("facts/constraints.yaml", include_str!("../../facts/constraints.yaml")),
    ("facts/changes.yaml", include_str!("../../facts/changes.yaml")),
    ("facts/commands.yaml", include_str!("../../facts/commands.yaml")),
];
