//! The record in the Lease: parsed when it is read, and built when it is written.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use serde::Deserialize;

use crate::cluster::slim_metadata;

/// The name of the Lease.
pub(crate) const LEASE_NAME: &str = "mullion-controller";

/// A Lease as it is read: with everything that an update must contain so that it stays.
#[derive(Deserialize)]
pub(crate) struct ReadLease {
    #[serde(deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    spec: Option<LeaseSpec>,
}

impl From<ReadLease> for Lease {
    fn from(ReadLease { metadata, spec }: ReadLease) -> Self {
        Self { metadata, spec }
    }
}

/// The fields of a Lease that the election uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LeaseRecord {
    /// `metadata.resourceVersion`, which a write must contain.
    pub(crate) version: String,
    /// `metadata.uid`, which differs if the Lease was deleted and created again.
    pub(crate) uid: Option<String>,
    /// `None` if it is missing or empty.
    pub(crate) holder: Option<String>,
    /// `None` if it is missing, zero or negative.
    pub(crate) duration: Option<Duration>,
    pub(crate) acquire_time: Option<Timestamp>,
    pub(crate) renew_time: Option<Timestamp>,
    pub(crate) transitions: i32,
}

impl LeaseRecord {
    /// The record of any Lease, including an invalid one.
    pub(crate) fn of(lease: &Lease) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            version: lease.metadata.resource_version.clone().unwrap_or_default(),
            uid: lease.metadata.uid.clone(),
            holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
            duration: seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs),
            acquire_time: spec.acquire_time.map(|time| time.0),
            renew_time: spec.renew_time.map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or(0),
        }
    }

    /// Whether both are equal except for the version, which labels and annotations change too.
    pub(crate) fn has_same_claim(&self, other: &Self) -> bool {
        let version = self.version.clone();
        *self == Self { version, ..other.clone() }
    }
}

/// All fields about the holder, to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeaseClaim {
    /// Empty to release the lease.
    pub(crate) holder: String,
    pub(crate) duration: Duration,
    pub(crate) acquire_time: Timestamp,
    pub(crate) renew_time: Timestamp,
    pub(crate) transitions: i32,
}

impl LeaseClaim {
    /// Releases the lease in `record` as client-go does: no holder, and a duration of one second, because the API
    /// server rejects a duration of zero.
    pub(crate) fn release(record: &LeaseRecord, wall: Timestamp) -> Self {
        let wall = micros(wall);
        let duration = Duration::from_secs(1);
        Self { holder: String::new(), duration, acquire_time: wall, renew_time: wall, transitions: record.transitions }
    }

    /// Sets the fields in a Lease; its other fields stay.
    pub(crate) fn set_in(&self, lease: &mut Lease) {
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.holder.clone()),
            lease_duration_seconds: Some(i32::try_from(self.duration.as_secs()).unwrap_or(i32::MAX)),
            acquire_time: Some(MicroTime(self.acquire_time)),
            renew_time: Some(MicroTime(self.renew_time)),
            lease_transitions: Some(self.transitions),
            ..lease.spec.take().unwrap_or_default()
        });
    }
}

/// The time as the API server returns it: `MicroTime` has six digits after the point.
pub(crate) fn micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;

    fn lease(spec: &Value) -> Lease {
        serde_json::from_value(json!({"metadata": {"resourceVersion": "7", "uid": "u"}, "spec": spec})).unwrap()
    }

    #[test]
    fn invalid_leases_are_read() {
        for (spec, holder, seconds) in [
            (json!(null), None, None),
            (json!({}), None, None),
            (json!({"holderIdentity": "", "leaseDurationSeconds": 1}), None, Some(1)),
            (json!({"holderIdentity": "a", "leaseDurationSeconds": -15}), Some("a"), None),
            (json!({"holderIdentity": "a", "leaseDurationSeconds": 0}), Some("a"), None),
            (json!({"holderIdentity": "a", "leaseDurationSeconds": i32::MAX}), Some("a"), Some(2_147_483_647)),
        ] {
            let record = LeaseRecord::of(&lease(&spec));
            assert_eq!(record.holder.as_deref(), holder, "{spec}");
            assert_eq!(record.duration, seconds.map(Duration::from_secs), "{spec}");
        }
    }

    #[test]
    fn written_claims_are_read_again() {
        let wall: Timestamp = "2026-01-02T03:04:05.123456789Z".parse().unwrap();
        let claim = LeaseClaim {
            holder: "me".to_owned(),
            duration: Duration::from_secs(15),
            acquire_time: micros(wall),
            renew_time: micros(wall),
            transitions: 3,
        };
        let mut lease = lease(&json!({"holderIdentity": "other", "strategy": "OldestEmulationVersion"}));
        claim.set_in(&mut lease);
        let sent = serde_json::to_value(&lease).unwrap();
        assert_eq!(sent["spec"]["renewTime"], "2026-01-02T03:04:05.123456Z");
        assert_eq!(sent["spec"]["strategy"], "OldestEmulationVersion");
        let record = LeaseRecord::of(&serde_json::from_value(sent).unwrap());
        assert_eq!(record.holder.as_deref(), Some("me"));
        assert_eq!((record.renew_time, record.transitions), (Some(claim.renew_time), 3));

        LeaseClaim::release(&record, wall).set_in(&mut lease);
        let sent = serde_json::to_value(&lease).unwrap();
        assert_eq!(
            (&sent["spec"]["holderIdentity"], &sent["spec"]["leaseDurationSeconds"], &sent["spec"]["leaseTransitions"]),
            (&json!(""), &json!(1), &json!(3))
        );
    }

    #[test]
    fn labels_do_not_change_the_claim() {
        let one = LeaseRecord::of(&lease(&json!({"holderIdentity": "a"})));
        let relabelled = LeaseRecord { version: "8".to_owned(), ..one.clone() };
        assert!(one.has_same_claim(&relabelled));
        assert!(!one.has_same_claim(&LeaseRecord { transitions: 1, ..relabelled.clone() }));
        assert!(!one.has_same_claim(&LeaseRecord { uid: Some("another".to_owned()), ..relabelled }));
    }
}
