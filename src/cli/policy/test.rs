//! `mullion policy test`: runs policy test cases.

use clap::Args;

use super::super::{Io, Outcome};

/// Arguments of `policy test`.
#[derive(Debug, Clone, Args)]
pub struct Test {}

/// Answers.
pub fn run(_args: &Test, _io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    anyhow::bail!("not built yet")
}
