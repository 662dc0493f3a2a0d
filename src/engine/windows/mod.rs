//! Windows releases, builds and which host runs which image.
//!
//! A build is the third number of `10.0.B`. Everything here compares builds as integers: as text, `10.0.9200` is greater than `10.0.20348`.

mod build;
mod compat;
mod release;
mod runtime;
mod support;

pub use build::{Build, BuildError};
pub use compat::{
    CompatRow, CompatTable, ExtraRelease, Generation, LTSC, STABLE_ABI_FROM, compatible_hosts, floor, runs, runs_any,
    table,
};
pub use release::{
    Channel, RELEASES, Release, is_image_build, known_host_builds, release, release_build, release_name,
    server_releases,
};
pub use runtime::{SINGLE_RULE_UP_TO, generation_for, generation_of};
pub use support::{CHECKED, SUPPORT, Support, out_of_support, support_of};
