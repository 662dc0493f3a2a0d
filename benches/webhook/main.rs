//! The webhook compared with the budgets of its design: `cargo bench --bench webhook`, about an hour and a half,
//! most of it for `growth`.
//!
//! | part | what it prints |
//! |---|---|
//! | reviews | time of `review` and `respond`, and of the whole handler (JSON in, JSON out), for four pods in two snapshots, and under 500 policies |
//! | stages | time of each part of the handler |
//! | snapshot | time to make a new snapshot after one change among 20,000 nodes |
//! | lookups | the handler's time, and how long reviews wait, with a registry that hangs, for every look-up mode |
//! | growth | time of the handler for every shape of object at n and 4n items and at 3 MiB, and the size of the answer: the worst; `growth all` prints every shape, `growth /mutate tolerations` those with these words |
//! | throughput | processor time of a review over HTTPS, of the built program and of a webhook in Go that allows everything (needs Go) |
//! | memory | resident set of the built program with 20,000 nodes, at the start and after 100,000 reviews, and with 500 policies |
//!
//! `cargo bench --bench webhook -- reviews` runs only the parts on the command line. Figures are printed and not
//! asserted, because they depend on the machine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::needless_pass_by_value,
    reason = "a benchmark: it ends where it cannot go on, and prints rounded figures"
)]
#![allow(unreachable_pub, reason = "modules of one program")]

mod fleet;
mod growth;
mod load;
mod lookups;
mod memory;
#[path = "../support/parts.rs"]
mod parts;
mod program;
#[path = "../support/resident.rs"]
mod resident;
mod reviews;
mod stages;
#[path = "../policies/texts.rs"]
#[allow(dead_code, reason = "of the policies' benchmark, which measures other files too")]
mod texts;
#[path = "../support/thread_times.rs"]
mod thread_times;
mod throughput;

use parts::Parts;

/// The allocator of the program in the image.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let wanted = Parts::wanted();
    mullion::server::tls::install_crypto();
    if wanted.has("reviews") {
        reviews::run();
    }
    if wanted.has("stages") {
        stages::run();
    }
    if wanted.has("snapshot") {
        reviews::snapshot();
    }
    if wanted.has("lookups") {
        lookups::run();
    }
    if wanted.has("growth") {
        let words: Vec<String> = wanted.0.iter().filter(|word| *word != "growth").cloned().collect();
        growth::run(&words);
    }
    if wanted.has("throughput") {
        throughput::run();
    }
    if wanted.has("memory") {
        memory::run();
    }
}
