//! Windows builds as a list in a message.

use crate::model::windows::build::Build;

/// `10.0.17763, 10.0.20348`.
pub(crate) fn list<'b>(builds: impl IntoIterator<Item = &'b Build>) -> String {
    builds.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
