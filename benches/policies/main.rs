//! Policies compared with their budget, 500 policies and 10,000 image patterns: `cargo bench --bench policies`, some
//! two minutes.
//!
//! | part | what it prints |
//! |---|---|
//! | load | time from files to a set in force, for several shapes of files; what an unchanged directory costs every 10 s |
//! | decide | time of one review under few and under many policies, for pods that match none, some or all of them |
//! | hostile | the same for pods with labels such that each matches other policies |
//! | memory | resident set of a process that loads a set, that reviews under it, and that loads repeatedly |
//! | otherwise | matching one of 10,000 patterns, compared with a scan, globset, and policies one after another |
//!
//! `cargo bench --bench policies -- load` runs only the parts on the command line. Compared cases run in turns for some
//! rounds, so that other load of the machine affects all of them. Figures are printed and not asserted, because they
//! depend on the machine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a benchmark: it ends where it cannot go on, and prints rounded figures"
)]
#![allow(unreachable_pub, reason = "modules of one program")]

mod decide;
#[path = "../webhook/fleet.rs"]
#[allow(dead_code, reason = "of the webhook's benchmark, which measures other pods too")]
mod fleet;
mod load;
mod memory;
mod otherwise;
#[path = "../support/parts.rs"]
mod parts;
mod process;
#[path = "../support/resident.rs"]
mod resident;
mod rounds;
mod texts;

use parts::Parts;

fn main() {
    let wanted = Parts::wanted();
    if let [part, name] = wanted.0.as_slice()
        && part == process::CHILD
    {
        return memory::child(name);
    }
    if wanted.has("load") {
        load::run();
    }
    if wanted.has("decide") {
        decide::run();
    }
    if wanted.has("hostile") {
        decide::hostile();
    }
    if wanted.has("memory") {
        memory::run();
    }
    if wanted.has("otherwise") {
        otherwise::run();
    }
}
