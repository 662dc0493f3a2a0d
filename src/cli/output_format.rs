//! The output formats of commands that print either text or JSON Lines.

use clap::ValueEnum;

/// Text, or JSON Lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people
    Text,
    /// JSON Lines
    Json,
}
