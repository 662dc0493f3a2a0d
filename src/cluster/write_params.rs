//! Parameters of writes, by which the API server records Mullion as the field manager.

use kube::api::{PatchParams, PostParams};

/// The field manager in managedFields, and the reporter of events.
pub(crate) const MANAGER: &str = "mullion-controller";

/// Parameters of Mullion's patches.
pub(crate) fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

/// Parameters for objects that Mullion creates or replaces.
pub(crate) fn post_params() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}
