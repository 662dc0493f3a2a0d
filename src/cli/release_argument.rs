//! Windows releases in arguments.

use anyhow::anyhow;
use mullion_engine::model::text::shown;
use mullion_engine::model::windows::{Build, ExtraRelease, build_of_release};

/// The build that the value of `option` names: a release, or a build with or without `10.0.` and a revision.
pub(crate) fn release_argument(option: &str, text: &str, extra: &[ExtraRelease]) -> anyhow::Result<Build> {
    build_of_release(text, extra).map_err(|error| anyhow!("{option} {}: {error}", shown(text)))
}
