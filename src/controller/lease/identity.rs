//! The identity of this process in the leader lease.

use std::hash::{BuildHasher as _, RandomState};
use std::{env, fs, process};

/// Returns the name of the host (in a cluster, of the pod) and a random number.
pub(crate) fn create_identity() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| env::var("HOSTNAME").ok()).unwrap_or_default();
    let host = if host.trim().is_empty() { "unknown-host" } else { host.trim() };
    // The standard library's keys come from the system's random numbers.
    format!("{host}_{:016x}", RandomState::new().hash_one(process::id()))
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn identities_are_unique() {
        let (one, other) = (create_identity(), create_identity());
        assert_ne!(one, other);
        assert!(one.rsplit_once('_').is_some_and(|(host, number)| !host.is_empty() && number.len() == 16), "{one}");
    }
}
