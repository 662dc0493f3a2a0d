//! Owner references for objects created at run time: they belong to the service account of the controller.
//!
//! ConfigMap `mullion-state`, Lease `mullion-controller` and the Secrets `mullion-ca` and `mullion-tls` are not in any
//! manifest. When their owner is deleted, the garbage collector deletes them, whichever tool removed the release: Helm,
//! Argo CD or `kubectl delete -f`.
//!
//! Name and uid of the service account come from a `SelfSubjectReview`, which every authenticated user may create
//! (cluster role `system:basic-user`). Users of a kubeconfig, and service accounts of other namespaces, do not own
//! these objects, because the garbage collector treats an owner in another namespace as deleted.
//!
//! An existing object without Mullion's reference gets it with the next write. If the admission plugin
//! `OwnerReferencesPermissionEnforcement` is on, as on OpenShift, that requires permission to `delete` the object. An
//! owner that is set at creation does not require it, as long as `blockOwnerDeletion` is unset, so it is unset
//! (`Validate` in `plugin/pkg/admission/gc/gc_admission.go`). Therefore a rejected reference is not fatal: the object
//! is written without it, and new objects are created with an owner.

use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Client;
use mullion_snapshot::MANAGED_BY;

use crate::cluster::reading::{KindApi, SELF_SUBJECT_REVIEWS};

/// The prefix of a ServiceAccount's user name, `system:serviceaccount:NAMESPACE:NAME`.
const USER_PREFIX: &str = "system:serviceaccount:";
const KIND: &str = "ServiceAccount";

/// The owner of objects that this process creates. Clones share the last response of the API server.
#[derive(Debug, Clone)]
pub(crate) struct Owner(Source);

#[derive(Debug, Clone)]
enum Source {
    Known(Option<OwnerReference>),
    Cluster(Arc<ClusterOwner>),
}

#[derive(Debug)]
struct ClusterOwner {
    api: KindApi,
    namespace: String,
    last: Mutex<Answer>,
}

/// The last response of the API server.
#[derive(Debug, Clone, Default, PartialEq)]
enum Answer {
    #[default]
    None,
    /// Not a service account of the namespace, or unknown because of a missing permission.
    NoAccount,
    Account(Box<OwnerReference>),
}

impl Owner {
    /// No owner: the objects stay until a person deletes them.
    pub(crate) fn none() -> Self {
        Self(Source::Known(None))
    }

    /// The ServiceAccount among these owners of another object of Mullion's; no owner if there is no ServiceAccount.
    pub(crate) fn among(references: &[OwnerReference]) -> Self {
        let found = references.iter().find(|reference| is_service_account(reference));
        Self(Source::Known(found.map(|found| reference(&found.name, &found.uid))))
    }

    /// The ServiceAccount of `client`, if it is one of `namespace`.
    pub(crate) fn of_client(client: Client, namespace: &str) -> Self {
        Self(Source::Cluster(Arc::new(ClusterOwner {
            api: KindApi::all(client, &SELF_SUBJECT_REVIEWS),
            namespace: namespace.to_owned(),
            last: Mutex::default(),
        })))
    }

    /// The reference for an object that is created now. Each call queries the API server, because the ServiceAccount
    /// can be deleted and created again while the process runs. An error can be temporary.
    pub(crate) async fn reference(&self) -> kube::Result<Option<OwnerReference>> {
        let cluster = match &self.0 {
            Source::Known(known) => return Ok(known.clone()),
            Source::Cluster(cluster) => cluster,
        };
        let review = SelfSubjectReview::default();
        let found = match cluster.api.create::<SelfSubjectReview>(&review).await {
            Ok(review) => {
                let review = review.map_err(|unreadable| kube::Error::Service(unreadable.into()))?;
                let user = review.status.and_then(|status| status.user_info).unwrap_or_default();
                service_account(&cluster.namespace, &user.username.unwrap_or_default(), &user.uid.unwrap_or_default())
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 403..=405) => {
                if cluster.last() != Answer::NoAccount {
                    tracing::warn!(
                        error = status.message,
                        "cannot read which service account this is: objects created now are not deleted when Mullion is \
                         uninstalled; allow create on selfsubjectreviews of authentication.k8s.io, as ClusterRole \
                         system:basic-user does for all users"
                    );
                }
                None
            }
            Err(error) => return Err(error),
        };
        let answer = found.clone().map_or(Answer::NoAccount, |found| Answer::Account(Box::new(found)));
        *cluster.last.lock().unwrap_or_else(PoisonError::into_inner) = answer;
        Ok(found)
    }

    /// The metadata of an object that is created now.
    pub(crate) async fn metadata(&self, name: &str) -> kube::Result<ObjectMeta> {
        Ok(ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())].into()),
            owner_references: self.reference().await?.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        })
    }

    /// The owners that an object with the owners `present` should have; `None` if they are correct.
    pub(crate) async fn corrected(&self, present: &[OwnerReference]) -> kube::Result<Option<Vec<OwnerReference>>> {
        let last = match &self.0 {
            Source::Cluster(cluster) => cluster.last(),
            Source::Known(_) => Answer::None,
        };
        let correct = match last {
            Answer::None => false,
            Answer::NoAccount => true,
            Answer::Account(ours) => with_reference(present, &ours).is_none(),
        };
        if correct {
            return Ok(None);
        }
        Ok(self.reference().await?.and_then(|ours| with_reference(present, &ours)))
    }
}

impl ClusterOwner {
    fn last(&self) -> Answer {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The reference has no `controller` and no `blockOwnerDeletion`, because the deletion of the owner need not wait for
/// these objects.
fn reference(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: KIND.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    }
}

fn is_service_account(reference: &OwnerReference) -> bool {
    reference.api_version == "v1" && reference.kind == KIND
}

/// The user as an owner of objects in `namespace`. Certificates and impersonation can have the name without a uid.
fn service_account(namespace: &str, user: &str, uid: &str) -> Option<OwnerReference> {
    let (of, name) = user.strip_prefix(USER_PREFIX)?.split_once(':')?;
    (of == namespace && !name.is_empty() && !uid.is_empty()).then(|| reference(name, uid))
}

/// `present` with Mullion's reference instead of every other ServiceAccount, usually an earlier one; `None` if
/// Mullion's is there.
pub(crate) fn with_reference(present: &[OwnerReference], ours: &OwnerReference) -> Option<Vec<OwnerReference>> {
    if present.iter().any(|reference| reference.uid == ours.uid) {
        return None;
    }
    let others = present.iter().filter(|reference| !is_service_account(reference)).cloned();
    Some(others.chain([ours.clone()]).collect())
}

/// Writes an object with these owners. If the API server rejects them, writes it without a change of owners and logs a
/// warning about `what`.
pub(crate) async fn write_with_owners<T, F>(
    what: &str,
    owners: Option<Vec<OwnerReference>>,
    write: impl Fn(Option<Vec<OwnerReference>>) -> F,
) -> kube::Result<T>
where
    F: Future<Output = kube::Result<T>>, // `AsyncFn` would read better, but what awaits such a future is not `Send`
{
    let changes_owners = owners.is_some();
    match write(owners).await {
        Err(kube::Error::Api(status)) if status.code == 403 && changes_owners => {
            let object = write(None).await?;
            warn_not_adopted(what, &status.message);
            Ok(object)
        }
        answer => answer,
    }
}

/// Logs that the API server rejected the owner of an object, with its message as `why`.
pub(crate) fn warn_not_adopted(what: &str, why: &str) {
    tracing::warn!(
        why,
        "cannot set the owner of {what}, so it is not deleted when Mullion is uninstalled; delete it once, and it is \
         created again with an owner"
    );
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_a_service_account_of_the_namespace_is_an_owner() {
        let ours = Some(reference("mullion-controller", "u"));
        for (user, uid, owner) in [
            ("system:serviceaccount:own:mullion-controller", "u", ours),
            ("system:serviceaccount:own:mullion-controller", "", None),
            ("system:serviceaccount:other:mullion-controller", "u", None),
            ("system:serviceaccount:own:", "u", None),
            ("system:serviceaccount:own", "u", None),
            ("system:serviceaccounts:own", "u", None),
            ("system:node:own", "u", None),
            ("admin", "u", None),
            ("", "", None),
        ] {
            assert_eq!(service_account("own", user, uid), owner, "{user} {uid}");
        }
        let owner = serde_json::to_value(reference("a", "u")).unwrap();
        assert_eq!(owner, json!({"apiVersion": "v1", "kind": "ServiceAccount", "name": "a", "uid": "u"}));
    }

    #[test]
    fn earlier_service_accounts_are_replaced_and_other_owners_kept() {
        let (ours, earlier) = (reference("a", "new"), reference("a", "old"));
        let other = OwnerReference { kind: "ConfigMap".to_owned(), uid: "x".to_owned(), ..earlier.clone() };
        assert_eq!(with_reference(&[], &ours), Some(vec![ours.clone()]));
        assert_eq!(with_reference(std::slice::from_ref(&ours), &ours), None);
        assert_eq!(with_reference(&[other.clone(), ours.clone()], &ours), None);
        assert_eq!(with_reference(&[earlier, other.clone()], &ours), Some(vec![other.clone(), ours]));
        assert!(matches!(Owner::among(&[other]).0, Source::Known(None)));
    }

    /// An API server that gives these responses, and then 500.
    fn server(answers: Vec<(u16, Value)>) -> Client {
        let answers = Arc::new(Mutex::new(answers.into_iter()));
        Client::new(
            tower::service_fn(move |request: Request<Body>| {
                assert_eq!(request.uri().path(), "/apis/authentication.k8s.io/v1/selfsubjectreviews");
                let (code, body) = answers.lock().unwrap().next().unwrap_or((500, json!({})));
                let body = Body::from(body.to_string().into_bytes());
                std::future::ready(Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()))
            }),
            "own",
        )
    }

    fn account(uid: &str) -> (u16, Value) {
        let user = json!({"username": "system:serviceaccount:own:a", "uid": uid});
        (201, json!({"metadata": {}, "status": {"userInfo": user}}))
    }

    #[tokio::test]
    async fn a_correct_owner_needs_no_request_and_a_new_service_account_is_detected() {
        let owner = Owner::of_client(server(vec![account("1"), account("2")]), "own");
        let first = owner.corrected(&[]).await.unwrap().unwrap();
        assert_eq!(first, [reference("a", "1")]);
        assert_eq!(owner.corrected(&first).await.unwrap(), None, "known");
        // Deleted and created again while the process runs: an object with the new owner stays unchanged.
        let adopted = [reference("a", "2")];
        assert_eq!(owner.corrected(&adopted).await.unwrap(), None);
        assert!(owner.corrected(&[]).await.is_err(), "an error can be temporary");
    }

    #[tokio::test]
    async fn without_the_right_there_is_no_owner() {
        let forbidden = json!({"status": "Failure", "message": "no", "reason": "Forbidden", "code": 403});
        let owner = Owner::of_client(server(vec![(403, forbidden), account("1")]), "own");
        assert_eq!(owner.corrected(&[]).await.unwrap(), None);
        assert_eq!(
            owner.corrected(&[reference("a", "0")]).await.unwrap(),
            None,
            "no further request for an existing object"
        );
        assert_eq!(owner.reference().await.unwrap(), Some(reference("a", "1")), "a request for a new object");
    }
}
