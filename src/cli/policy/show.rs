//! `mullion policy show`: what holds for a namespace or a pod, and which file and line set it.

use clap::Args;

use super::super::{Io, Outcome};

/// Arguments of `policy show`.
#[derive(Debug, Clone, Args)]
pub struct Show {}

/// Answers.
pub fn run(_args: &Show, _io: &mut Io<'_>) -> anyhow::Result<Outcome> {
    anyhow::bail!("not built yet")
}
