//! Whether the controller reports stuck pods.

use clap::ValueEnum;

/// What the controller does about pods that can never start where they are. It evicts none in any mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum RepairMode {
    /// Nothing
    #[value(name = "Disabled")]
    Disabled,
    /// Count them, and write an Event on their owners once a day
    #[default]
    #[value(name = "Report")]
    Report,
}
