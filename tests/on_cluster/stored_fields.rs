//! Fields that older API servers do not store.

use mullion_cluster::Release;
use serde_json::Value;

/// Fields that older releases do not have or drop, and the first release that stores them by default, or with the feature gate
/// that the shared control plane enables (`pkg/features/kube_features.go`; `dropDisabledFields` in `pkg/api/pod/util.go`). `*` is any member.
const STORED_SINCE: [(&str, Release); 17] = [
    ("/spec/securityContext/supplementalGroupsPolicy", Release::v1(33)), // SupplementalGroupsPolicy
    ("/spec/securityContext/seLinuxChangePolicy", Release::v1(33)),      // SELinuxChangePolicy
    ("/spec/*/*/lifecycle/stopSignal", Release::v1(33)),                 // ContainerStopSignals
    ("/spec/*/*/resizePolicy", Release::v1(33)),                         // InPlacePodVerticalScaling
    ("/spec/hostUsers", Release::v1(33)),                                // UserNamespacesSupport
    ("/spec/*/*/securityContext/procMount", Release::v1(33)),            // ProcMountType
    ("/spec/*/*/volumeMounts/*/recursiveReadOnly", Release::v1(33)),     // RecursiveReadOnlyMounts
    ("/spec/resources", Release::v1(34)),                                // PodLevelResources
    ("/spec/resourceClaims", Release::v1(34)),                           // DynamicResourceAllocation
    ("/spec/*/*/restartPolicyRules", Release::v1(35)),                   // ContainerRestartRules
    ("/spec/volumes/*/image", Release::v1(35)),                          // ImageVolume
    ("/spec/*/*/volumeMounts/*/bindMountOptions", Release::v1(37)),      // VolumeBindMountOptions
    ("/spec/volumes/*/emptyDir/mode", Release::v1(37)),                  // EmptyDirVolumeMode
    ("/spec/volumes/*/*/defaultUser", Release::v1(37)),                  // AtomicWriteVolumeUserFields
    ("/spec/volumes/*/*/items/*/user", Release::v1(37)),                 // the same
    ("/spec/volumes/*/projected/sources/*/*/user", Release::v1(37)),     // the same
    ("/spec/volumes/*/projected/sources/*/*/items/*/user", Release::v1(37)), // the same
];

/// Whether a release stores every field of the object.
pub fn stores(release: Release, object: &Value) -> bool {
    STORED_SINCE.iter().all(|(path, since)| release >= *since || !has(object, path.trim_start_matches('/')))
}

fn has(value: &Value, path: &str) -> bool {
    let (token, rest) = path.split_once('/').map_or((path, None), |(token, rest)| (token, Some(rest)));
    let below = |value: &Value| rest.is_none_or(|rest| has(value, rest));
    match value {
        Value::Object(members) if token == "*" => members.values().any(below),
        Value::Array(items) if token == "*" => items.iter().any(below),
        _ => value.get(token).is_some_and(below),
    }
}
