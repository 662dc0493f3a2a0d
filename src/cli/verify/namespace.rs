//! The namespaces of a run: one for its objects, and one that is exempt from Mullion. Both have a random name and a label
//! with the same value, and [`RunNamespaces::remove`] deletes only what has both.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use kube::api::DeleteParams;
use mullion_engine::model::names::{IGNORE_ANNOTATION, POD_SECURITY_ENFORCE_LABEL};
use mullion_engine::model::text::shorten;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::cli::verify::requests::{Refused, create};
use crate::cluster::reading::{Absence, ClusterReader, KindApi, ListQuery, NAMESPACES, PODS};
use crate::cluster::{await_answer, delete_params};
use crate::controller::random_value;
use crate::telemetry::in_words;

/// The label of namespaces of runs; its value is the random part of their names.
pub(super) const LABEL: &str = "mullion.dev/verify";
/// The beginning of their names.
pub(super) const PREFIX: &str = "mullion-verify-";
/// The end of the name of the exempt namespace.
const EXEMPT: &str = "-exempt";
/// The number of random characters: two runs at the same time do not meet.
const RANDOM: usize = 10;
/// How long a deletion may take.
const GONE: Duration = Duration::from_secs(60);
/// After this time, pods that remain are deleted without the confirmation of their kubelets. Their containers do nothing.
const FORCE: Duration = Duration::from_secs(20);
/// How long a namespace may take to appear whose creation was interrupted.
const APPEARS: Duration = Duration::from_secs(3);
/// How often a deletion is looked at.
const INTERVAL: Duration = Duration::from_millis(500);
/// The number of namespaces that `--cleanup` removes at the same time.
const AT_ONCE: usize = 8;
/// The longest message of a leftover, in characters.
const MAX_MESSAGE: usize = 300;

/// The namespaces of a run.
pub(super) struct RunNamespaces<'a> {
    client: &'a Client,
    reader: ClusterReader<'a>,
    /// The random part.
    id: String,
    /// Whether their creation was tried: from then on they may exist.
    tried: Cell<bool>,
    /// Whether the API server has not answered the last creation, as when a signal interrupted it: the namespace may still
    /// appear.
    unanswered: Cell<bool>,
    /// Why the namespace does not have the Pod Security label that all its pods need.
    without_label: RefCell<Option<String>>,
}

impl<'a> RunNamespaces<'a> {
    /// Names that nothing has. `None` if no random number is available.
    pub(super) fn new(client: &'a Client, reader: ClusterReader<'a>) -> Option<Self> {
        let id = random_value()?.get(..RANDOM)?.to_owned();
        Some(Self {
            client,
            reader,
            id,
            tried: Cell::default(),
            unanswered: Cell::default(),
            without_label: RefCell::default(),
        })
    }

    /// The namespace of the objects.
    pub(super) fn main(&self) -> String {
        format!("{PREFIX}{}", self.id)
    }

    /// The namespace that is exempt.
    pub(super) fn exempt(&self) -> String {
        format!("{PREFIX}{}{EXEMPT}", self.id)
    }

    /// The labels with which the main namespace is created.
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        let labels = [(LABEL, self.id.as_str()), (POD_SECURITY_ENFORCE_LABEL, "privileged")];
        labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    /// Why the namespace does not have the Pod Security label that all its pods need.
    pub(super) fn without_pod_security_label(&self) -> Option<String> {
        self.without_label.borrow().clone()
    }

    /// Creates both namespaces.
    pub(super) async fn create(&self) -> Result<(), String> {
        self.tried.set(true);
        let mut labels = self.labels();
        if let Err(refused) = self.create_one(&self.main(), &labels, &json!({})).await {
            // Many clusters reserve this label for administrators.
            labels.remove(POD_SECURITY_ENFORCE_LABEL);
            let again = self.create_one(&self.main(), &labels, &json!({})).await;
            again.map_err(|_| refused.message())?;
            *self.without_label.borrow_mut() = Some(refused.message());
        }
        let exempt = json!({IGNORE_ANNOTATION: "true"});
        self.create_one(&self.exempt(), &labels, &exempt).await.map_err(|refused| refused.message())
    }

    async fn create_one(
        &self,
        name: &str,
        labels: &BTreeMap<String, String>,
        annotations: &Value,
    ) -> Result<(), Refused> {
        let metadata = json!({"name": name, "labels": labels, "annotations": annotations});
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        self.unanswered.set(true);
        let answer = create(self.client, &NAMESPACES, "", &object, false).await;
        self.unanswered.set(false);
        answer.map(drop)
    }

    /// Deletes both namespaces, and waits until they are gone. Returns what remains; `None` if none was created.
    pub(super) async fn remove(&self) -> Option<Vec<String>> {
        if !self.tried.get() {
            return None;
        }
        if self.unanswered.get() {
            sleep(APPEARS).await;
        }
        let names = [self.main(), self.exempt()];
        let ends = names.iter().map(|name| remove(self.client, self.reader, name, |label| label == self.id));
        let ends = names.iter().zip(join_all(ends).await);
        let remaining =
            ends.filter_map(|(name, end)| Some(format!("namespace {name}: {}", shorten(&end.err()?, MAX_MESSAGE))));
        Some(remaining.collect())
    }
}

/// Namespaces of runs, by label and name, and what could not be removed of them.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    pub(super) removed: Vec<String>,
    pub(super) remaining: Vec<String>,
}

/// Removes the namespaces of all runs. The outer error is one that would also occur for every other request.
pub(super) async fn remove_leftovers(client: &Client, reader: ClusterReader<'_>) -> anyhow::Result<Leftovers> {
    let mut names = Vec::new();
    let mut visit = |object: Result<Value, _>| {
        if let Ok(object) = object
            && let Some(name) = own_name(&object)
        {
            names.push(name.to_owned());
        }
        Ok(())
    };
    let query = ListQuery { labels: Some(LABEL), ..ListQuery::default() };
    let mut left = Leftovers::default();
    if let Err(unread) = reader.list(&NAMESPACES, query, &mut visit, &mut |_, _| Ok(())).await? {
        left.remaining.push(format!("namespaces were not read: {unread}"));
    }
    for names in names.chunks(AT_ONCE) {
        let ends = names.iter().map(|name| remove(client, reader, name, |_| true));
        for (name, end) in names.iter().zip(join_all(ends).await) {
            match end {
                Ok(()) => left.removed.push(name.clone()),
                Err(why) => left.remaining.push(format!("namespace {name}: {}", shorten(&why, MAX_MESSAGE))),
            }
        }
    }
    Ok(left)
}

/// The name of a namespace of a run: it has both the prefix and the label, and the label is a part of the name. Anything else
/// belongs to someone else.
fn own_name(namespace: &Value) -> Option<&str> {
    let name = namespace.pointer("/metadata/name")?.as_str()?;
    let label = namespace.pointer("/metadata/labels")?.get(LABEL)?.as_str()?;
    let random = name.strip_prefix(PREFIX)?;
    (!label.is_empty() && random.strip_suffix(EXEMPT).unwrap_or(random) == label).then_some(name)
}

/// Deletes a namespace of a run, and waits until it is gone.
async fn remove(
    client: &Client,
    reader: ClusterReader<'_>,
    name: &str,
    is_ours: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let api = KindApi::all(client.clone(), &NAMESPACES);
    let began = Instant::now();
    let (mut deleted, mut forced) = (false, false);
    loop {
        let read = reader.get(&NAMESPACES, None, name).await.map_err(|error| format!("{error:#}"));
        let object = match read {
            Ok(Ok(object)) => object,
            Ok(Err(unread)) if unread.absence == Absence::NotFound => return Ok(()),
            Ok(Err(unread)) if unread.absence != Absence::Failed || began.elapsed() > GONE => {
                return Err(unread.to_string());
            }
            Err(why) if began.elapsed() > GONE => return Err(why),
            // The API server may answer again.
            Ok(Err(_)) | Err(_) => {
                sleep(INTERVAL).await;
                continue;
            }
        };
        let label = object.pointer("/metadata/labels").and_then(|labels| labels.get(LABEL)?.as_str());
        if own_name(&object).is_none() || !label.is_some_and(&is_ours) {
            return Err("it has another label now, so it is left".to_owned());
        }
        if !deleted {
            let metadata = serde_json::from_value(object.pointer("/metadata").cloned().unwrap_or_default());
            let mut params = delete_params(&metadata.map_err(|error| error.to_string())?);
            // Controllers change namespaces all the time; the uid is enough.
            if let Some(preconditions) = &mut params.preconditions {
                preconditions.resource_version = None;
            }
            match await_answer(api.delete(name, &params)).await {
                Ok(()) => {}
                Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
                Err(error) => return Err(in_words(&error)),
            }
            deleted = true;
        }
        if began.elapsed() > GONE {
            return Err(format!("it is being deleted, and is still there after {} s", GONE.as_secs()));
        }
        if began.elapsed() > FORCE && !forced {
            forced = true;
            force_pods(client, reader, name).await;
        }
        sleep(INTERVAL).await;
    }
}

/// Deletes the pods that remain at once. What fails is shown by the namespace that stays.
async fn force_pods(client: &Client, reader: ClusterReader<'_>, namespace: &str) {
    let mut names = Vec::new();
    let mut visit = |object: Result<Value, _>| {
        let name = object.ok().and_then(|pod: Value| Some(pod.pointer("/metadata/name")?.as_str()?.to_owned()));
        names.extend(name);
        Ok(())
    };
    let query = ListQuery { namespace: Some(namespace), ..ListQuery::default() };
    reader.list(&PODS, query, &mut visit, &mut |_, _| Ok(())).await.ok();
    let api = KindApi::namespaced(client.clone(), &PODS, namespace);
    for name in names {
        await_answer(api.delete(&name, &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }))
            .await
            .ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_namespace_with_name_and_label_of_one_run_is_own() {
        let namespace = |name: &str, label: Value| json!({"metadata": {"name": name, "labels": label}});
        let labelled = |name: &str, value: &str| namespace(name, json!({LABEL: value}));
        assert_eq!(own_name(&labelled("mullion-verify-abc", "abc")), Some("mullion-verify-abc"));
        assert_eq!(own_name(&labelled("mullion-verify-abc-exempt", "abc")), Some("mullion-verify-abc-exempt"));
        for other in [
            labelled("mullion-verify-abc", "abd"),
            labelled("mullion-verify-", ""),
            labelled("kube-system", "kube-system"),
            labelled("mullion-system", "abc"),
            namespace("mullion-verify-abc", json!({})),
            namespace("mullion-verify-abc", Value::Null),
        ] {
            assert_eq!(own_name(&other), None, "{other}");
        }
    }
}
