//! `mullion policy schema`: the JSON Schema of policy files.

use clap::Args;

use super::super::{Io, Outcome};

/// Arguments of `policy schema`.
#[derive(Debug, Clone, Args)]
pub struct Schema {}

/// Answers.
pub fn run(_args: &Schema, _io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    anyhow::bail!("not built yet")
}
