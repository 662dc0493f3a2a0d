//! `mullion policy diff`: which subjects a change of policy files would have decided differently.

use clap::Args;

use super::super::{Io, Outcome};

/// Arguments of `policy diff`.
#[derive(Debug, Clone, Args)]
pub struct Diff {}

/// Answers.
pub fn run(_args: &Diff, _io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    anyhow::bail!("not built yet")
}
