//! Parameters of writes, by which the API server records Mullion as the field manager.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PatchParams, PostParams, Preconditions};

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

/// Parameters for deleting an object exactly as it was read: no later version of it, and no other object of its name.
pub(crate) fn delete_params(metadata: &ObjectMeta) -> DeleteParams {
    let (uid, resource_version) = (metadata.uid.clone(), metadata.resource_version.clone());
    DeleteParams { preconditions: Some(Preconditions { uid, resource_version }), ..DeleteParams::default() }
}
