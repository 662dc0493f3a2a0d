//! Whose the objects are that a controller makes at run time: its service account's, as their `ownerReferences` say.
//!
//! ConfigMap `mullion-state`, Lease `mullion-controller` and the Secrets `mullion-ca` and `mullion-tls` stand in no
//! manifest. With their owner gone the garbage collector takes them, whatever it was that took the release away: Helm,
//! Argo CD or `kubectl delete -f`.
//!
//! Name and uid of the service account come from a `SelfSubjectReview`, which every authenticated user may create
//! (cluster role `system:basic-user`). Users of a kubeconfig, and service accounts of other namespaces, own nothing: an
//! owner of another namespace counts as gone.
//!
//! What exists without our reference gets it with the next write. Where the admission plugin
//! `OwnerReferencesPermissionEnforcement` is on, as on OpenShift, that takes the right to `delete` the object; to name
//! an owner in a creation takes none, and `blockOwnerDeletion`, which would, is left out (`Validate` in
//! `plugin/pkg/admission/gc/gc_admission.go`). So a refusal is no reason not to work: of a former release's objects the
//! garbage collector takes care, and the next ones are made with an owner.

use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PostParams;
use kube::{Api, Client};
use mullion_snapshot::objects::MANAGED_BY;

/// What a ServiceAccount's user is called: `system:serviceaccount:NAMESPACE:NAME`.
const USER: &str = "system:serviceaccount:";
const KIND: &str = "ServiceAccount";

/// Who owns what this process makes. Clones share.
#[derive(Debug, Clone)]
pub struct Owner(Source);

#[derive(Debug, Clone)]
enum Source {
    Known(Option<OwnerReference>),
    Asked(Arc<Asked>),
}

#[derive(Debug)]
struct Asked {
    api: Api<SelfSubjectReview>,
    namespace: String,
    last: Mutex<Answer>,
}

/// The last one.
#[derive(Debug, Clone, Default, PartialEq)]
enum Answer {
    #[default]
    None,
    /// No service account of the namespace, or one that cannot be known.
    Nobody,
    Account(Box<OwnerReference>),
}

impl Owner {
    /// Nobody: what is made belongs to whoever deletes it.
    pub fn nobody() -> Self {
        Self(Source::Known(None))
    }

    /// The ServiceAccount among these owners of another object of Mullion's; nobody, where there is none.
    pub fn among(references: &[OwnerReference]) -> Self {
        let found = references.iter().find(|reference| is_service_account(reference));
        Self(Source::Known(found.map(|found| reference(&found.name, &found.uid))))
    }

    /// The ServiceAccount that `client` is, if it is one of `namespace`.
    pub fn asked(client: Client, namespace: &str) -> Self {
        Self(Source::Asked(Arc::new(Asked {
            api: Api::all(client),
            namespace: namespace.to_owned(),
            last: Mutex::default(),
        })))
    }

    /// The reference for what is made now. The API server is asked each time: under a process that runs, its
    /// ServiceAccount may be deleted and made anew. An error is one that may pass.
    pub async fn ask(&self) -> kube::Result<Option<OwnerReference>> {
        let asked = match &self.0 {
            Source::Known(known) => return Ok(known.clone()),
            Source::Asked(asked) => asked,
        };
        let found = match asked.api.create(&PostParams::default(), &SelfSubjectReview::default()).await {
            Ok(review) => {
                let user = review.status.and_then(|status| status.user_info).unwrap_or_default();
                service_account(&asked.namespace, &user.username.unwrap_or_default(), &user.uid.unwrap_or_default())
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 403..=405) => {
                if asked.last() != Answer::Nobody {
                    tracing::warn!(
                        error = status.message,
                        "it cannot be asked which service account this is: what is made now does not go by itself when \
                         Mullion is uninstalled; allow create on selfsubjectreviews of authentication.k8s.io, as \
                         ClusterRole system:basic-user does for everybody"
                    );
                }
                None
            }
            Err(error) => return Err(error),
        };
        let answer = found.clone().map_or(Answer::Nobody, |found| Answer::Account(Box::new(found)));
        *asked.last.lock().unwrap_or_else(PoisonError::into_inner) = answer;
        Ok(found)
    }

    /// The metadata of an object that is made now.
    pub(crate) async fn metadata(&self, name: &str) -> kube::Result<ObjectMeta> {
        Ok(ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())].into()),
            owner_references: self.ask().await?.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        })
    }

    /// The owners that an object with the owners `standing` should have; `None` where they are right.
    pub async fn wanted(&self, standing: &[OwnerReference]) -> kube::Result<Option<Vec<OwnerReference>>> {
        let last = match &self.0 {
            Source::Asked(asked) => asked.last(),
            Source::Known(_) => Answer::None,
        };
        let right = match last {
            Answer::None => false,
            Answer::Nobody => true,
            Answer::Account(ours) => with(standing, &ours).is_none(),
        };
        if right {
            return Ok(None);
        }
        Ok(self.ask().await?.and_then(|ours| with(standing, &ours)))
    }
}

impl Asked {
    fn last(&self) -> Answer {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Without `controller` and `blockOwnerDeletion`: nobody waits for these objects.
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

/// The user as an owner of objects in `namespace`. Certificates and impersonation may bring the name without a uid.
fn service_account(namespace: &str, user: &str, uid: &str) -> Option<OwnerReference> {
    let (of, name) = user.strip_prefix(USER)?.split_once(':')?;
    (of == namespace && !name.is_empty() && !uid.is_empty()).then(|| reference(name, uid))
}

/// `standing` with ours in place of every other ServiceAccount, an earlier one most often; `None` where ours is there.
pub(crate) fn with(standing: &[OwnerReference], ours: &OwnerReference) -> Option<Vec<OwnerReference>> {
    if standing.iter().any(|reference| reference.uid == ours.uid) {
        return None;
    }
    let others = standing.iter().filter(|reference| !is_service_account(reference)).cloned();
    Some(others.chain([ours.clone()]).collect())
}

/// Writes an object with these owners, and as they stand where they are refused, which is said about `what`.
pub(crate) async fn written<T, F>(
    what: &str,
    owners: Option<Vec<OwnerReference>>,
    write: impl Fn(Option<Vec<OwnerReference>>) -> F,
) -> kube::Result<T>
where
    F: Future<Output = kube::Result<T>>, // `AsyncFn` would read better, but what awaits such a future is not `Send`
{
    let asked = owners.is_some();
    match write(owners).await {
        Err(kube::Error::Api(status)) if status.code == 403 && asked => {
            let written = write(None).await?;
            not_adopted(what, &status.message);
            Ok(written)
        }
        answer => answer,
    }
}

/// Says that an object could not be given its owner, for which `why` is the API server's word.
pub(crate) fn not_adopted(what: &str, why: &str) {
    tracing::warn!(
        why,
        "{what} cannot be given its owner, and does not go by itself when Mullion is uninstalled; delete it once, and \
         it is made anew with one"
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
    fn only_a_service_account_of_the_namespace_owns() {
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
    fn earlier_service_accounts_make_way_and_others_stay() {
        let (ours, earlier) = (reference("a", "new"), reference("a", "old"));
        let other = OwnerReference { kind: "ConfigMap".to_owned(), uid: "x".to_owned(), ..earlier.clone() };
        assert_eq!(with(&[], &ours), Some(vec![ours.clone()]));
        assert_eq!(with(std::slice::from_ref(&ours), &ours), None);
        assert_eq!(with(&[other.clone(), ours.clone()], &ours), None);
        assert_eq!(with(&[earlier, other.clone()], &ours), Some(vec![other.clone(), ours]));
        assert!(matches!(Owner::among(&[other]).0, Source::Known(None)));
    }

    /// An API server that gives these answers, and then 500.
    fn answers(answers: Vec<(u16, Value)>) -> Client {
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

    fn is(uid: &str) -> (u16, Value) {
        let user = json!({"username": "system:serviceaccount:own:a", "uid": uid});
        (201, json!({"metadata": {}, "status": {"userInfo": user}}))
    }

    #[tokio::test]
    async fn what_is_ours_asks_nobody_and_a_new_service_account_is_found_out() {
        let owner = Owner::asked(answers(vec![is("1"), is("2")]), "own");
        let first = owner.wanted(&[]).await.unwrap().unwrap();
        assert_eq!(first, [reference("a", "1")]);
        assert_eq!(owner.wanted(&first).await.unwrap(), None, "known");
        // Deleted and made anew under this process: what others have adopted is not taken back.
        let adopted = [reference("a", "2")];
        assert_eq!(owner.wanted(&adopted).await.unwrap(), None);
        assert!(owner.wanted(&[]).await.is_err(), "it is not known now, and may be later");
    }

    #[tokio::test]
    async fn who_may_not_ask_owns_nothing() {
        let refused = json!({"status": "Failure", "message": "no", "reason": "Forbidden", "code": 403});
        let owner = Owner::asked(answers(vec![(403, refused), is("1")]), "own");
        assert_eq!(owner.wanted(&[]).await.unwrap(), None);
        assert_eq!(owner.wanted(&[reference("a", "0")]).await.unwrap(), None, "not asked again for what stands");
        assert_eq!(owner.ask().await.unwrap(), Some(reference("a", "1")), "but for what is made");
    }
}
