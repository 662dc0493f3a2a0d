//! Parameters of writes, by which the API server records Mullion as the field manager.

use kube::api::{PatchParams, PostParams};

/// Who writes, in managedFields and events.
pub(crate) const MANAGER: &str = "mullion-controller";

/// For patches by Mullion.
pub(crate) fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

/// For objects that Mullion makes or replaces.
pub(crate) fn post_params() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}
