//! Windows releases, builds and which host runs which image.
//!
//! A build is the third number of `10.0.B`. All code compares builds as integers, because as text, `10.0.9200` is greater than `10.0.20348`.

mod build;
mod compat;
mod named_release;
mod release;
mod release_labels;
mod release_names;
mod runtime;
mod support;

pub use build::Build;
pub use compat::{Generation, STABLE_ABI_FROM, floor, runs, table};
pub(crate) use compat::{LTSC, runs_any};
pub use named_release::{UnknownRelease, build_of_release};
pub use release::{ExtraRelease, RELEASES, known_host_builds, release_name};
pub(crate) use release::{is_image_build, server_releases};
pub(crate) use release_labels::named_build;
pub use release_labels::{names_build, provider_release, provider_release_labels};
pub(crate) use release_names::{LTSC_NAMES, VERSIONS, YEAR_LIKE, YEARS, release_names};
pub(crate) use runtime::SINGLE_RULE_UP_TO;
pub use runtime::generation_for;
pub(crate) use support::out_of_support;
pub use support::support_of;
