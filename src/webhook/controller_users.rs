//! The users of the built-in controllers of Kubernetes, and whether one of them was observed.
//!
//! Owner references are trusted only from these users. But a control plane can run its controllers as users that are
//! not in the list. So until this process has received a pod of a listed user that names its controller, it trusts
//! owner references of everyone, as if there were no list. Only such a request ends that, permanently.

use std::sync::atomic::{AtomicBool, Ordering};

use mullion_engine::admission::RequestCategory;
use mullion_engine::model::Requester;

use crate::webhook::envelope::{USERNAME_LIMIT, Username};

/// The users of `--controller-users`. If the list is empty, owner references of everyone are trusted.
#[derive(Debug, Default)]
pub struct ControllerUsers {
    names: Vec<String>,
    seen: AtomicBool,
}

impl ControllerUsers {
    /// A list of these names.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect(), seen: AtomicBool::new(false) }
    }

    /// The requester that this user is.
    pub(crate) fn requester(&self, username: &Username) -> Requester {
        if self.names.iter().any(|name| username.is(name)) {
            Requester::BuiltInController
        } else if username.is_absent() || !self.seen.load(Ordering::Relaxed) {
            Requester::Unknown
        } else {
            Requester::Other
        }
    }

    /// Records a request that was reviewed; returns whether it is the first proof that the list is right.
    pub(crate) fn observe(&self, requester: Requester, category: RequestCategory) -> bool {
        let owned = matches!(category, RequestCategory::OwnedPod { .. });
        let is_first = owned && requester == Requester::BuiltInController && !self.seen.swap(true, Ordering::Relaxed);
        if is_first {
            tracing::info!(
                "a user of --controller-users has created a pod; from now on, owner references are trusted only in pods of these users"
            );
        }
        is_first
    }
}

/// A name for `--controller-users`.
pub(crate) fn username(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > USERNAME_LIMIT || text.contains(|letter: char| letter.is_whitespace()) {
        return Err(format!(
            "expected a username of 1 to {USERNAME_LIMIT} bytes without spaces, as system:kube-controller-manager"
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use mullion_engine::admission::NotReviewed;
    use mullion_engine::model::WorkloadKind;

    use super::*;

    fn user(name: &str) -> Username {
        serde_json::from_value(name.into()).unwrap()
    }

    #[test]
    fn owners_are_believed_from_everybody_until_a_controller_was_seen() {
        let users = ControllerUsers::new(["controller"]);
        let owned = RequestCategory::OwnedPod { by: WorkloadKind::DaemonSet };
        let of_tenant = || users.requester(&user("tenant"));
        for (requester, category) in [
            // A tenant's pod, a bare pod and a template prove nothing about the controllers, even from a listed user.
            (of_tenant(), owned),
            (users.requester(&user("controller")), RequestCategory::Pod),
            (users.requester(&user("controller")), RequestCategory::Skipped(NotReviewed::OtherRequest)),
            (users.requester(&user("")), owned),
        ] {
            assert!(!users.observe(requester, category));
            assert_eq!(of_tenant(), Requester::Unknown, "{requester:?} {category:?}");
        }
        assert!(users.observe(users.requester(&user("controller")), owned));
        for _ in 0..2 {
            assert_eq!(of_tenant(), Requester::Other);
            assert_eq!(users.requester(&user("controller")), Requester::BuiltInController);
            assert_eq!(users.requester(&user("")), Requester::Unknown, "no API server wrote that");
            // No later request reverts it.
            assert!(!users.observe(of_tenant(), owned));
            assert!(!users.observe(of_tenant(), RequestCategory::Pod));
            assert!(!users.observe(users.requester(&user("controller")), owned));
        }
    }

    #[test]
    fn a_name_that_no_user_can_have_is_an_error() {
        for (name, valid) in [
            ("system:kube-controller-manager", true),
            ("system:serviceaccount:kube-system:job-controller", true),
            (&*"u".repeat(USERNAME_LIMIT), true),
            (&*"u".repeat(USERNAME_LIMIT + 1), false),
            ("", false),
            (" a", false),
            ("a\nb", false),
        ] {
            assert_eq!(username(name).is_ok(), valid, "{name}");
        }
    }

    #[test]
    fn without_a_list_all_users_are_equal() {
        let users = ControllerUsers::default();
        let requester = users.requester(&user("system:kube-controller-manager"));
        assert!(!users.observe(requester, RequestCategory::OwnedPod { by: WorkloadKind::DaemonSet }));
        assert_eq!((requester, users.requester(&user("tenant"))), (Requester::Unknown, Requester::Unknown));
    }
}
