//! Reads objects once, for commands. A kind that may not be read is recorded, and the caller continues with the next kind.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use anyhow::{anyhow, bail};
use kube::Client;
use kube::api::ListParams;
use kube::core::Status;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::cluster::connect::ClusterConnection;
use crate::cluster::reading::kind_api::KindApi;
use crate::cluster::reading::kinds::Kind;
use crate::cluster::reading::object::{HeadedItem, Item, Unreadable};
use crate::telemetry::in_words;
use crate::value_hash::hash_of;

/// The number of objects in one request, as in kubectl (`--chunk-size`).
const PAGE: u32 = 500;
/// The limit of one page, with its body and the retries of kube's client. The API server ends a list after a minute.
const DEADLINE: Duration = Duration::from_secs(120);
/// How often a list is restarted because its version is gone: etcd keeps versions for 5 minutes.
const RESTARTS: u32 = 3;

/// A selection of objects of a kind.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ListQuery<'a> {
    /// The namespace; `None` for all.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) labels: Option<&'a str>,
    pub(crate) fields: Option<&'a str>,
}

/// Objects that were not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnreadObjects {
    /// In the plural, as `kubectl get` accepts it.
    pub(crate) kind: &'static str,
    /// The namespace, if only one was requested.
    pub(crate) namespace: Option<String>,
    pub(crate) absence: Absence,
    /// The message of the API server.
    pub(crate) message: String,
}

/// Why objects were not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absence {
    /// The user does not have permission.
    Forbidden,
    /// The API server does not have the kind, or does not have this object.
    NotFound,
    /// Any other error of the API server.
    Failed,
    /// One object is too large, or not as expected. The others were read.
    Unreadable,
}

impl Absence {
    /// The reason as a clause.
    pub(crate) fn clause(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::NotFound => "unknown to this API server",
            Self::Failed => "the API server failed",
            Self::Unreadable => "unreadable",
        }
    }
}

impl UnreadObjects {
    /// One object that cannot be read.
    pub(crate) fn unreadable(kind: &'static Kind, Unreadable { head, why }: &Unreadable) -> Self {
        Self {
            kind: kind.plural,
            namespace: Some(head.namespace.clone()).filter(|namespace| !namespace.is_empty()),
            absence: Absence::Unreadable,
            message: format!("{} {}: {why}", kind.name, head.full_name()),
        }
    }
}

impl fmt::Display for UnreadObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Reads a cluster.
#[derive(Clone, Copy)]
pub(crate) struct ClusterReader<'a> {
    client: &'a Client,
    context: &'a str,
}

impl<'a> ClusterReader<'a> {
    pub(crate) fn new(connection: &'a ClusterConnection) -> Self {
        Self { client: &connection.client, context: &connection.context }
    }

    /// Calls `visit` with every object of a kind, once and without `managedFields`, and `progress` after each page with
    /// the number of objects so far and, if it is known, of all objects. An error is one that would also occur for
    /// every other kind.
    pub(crate) async fn list(
        &self,
        kind: &'static Kind,
        query: ListQuery<'_>,
        visit: &mut dyn FnMut(Item<Value>) -> anyhow::Result<()>,
        progress: &mut dyn FnMut(usize, Option<usize>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Result<usize, UnreadObjects>> {
        let mut params = ListParams::default().limit(PAGE);
        params.label_selector = query.labels.map(str::to_owned);
        params.field_selector = query.fields.map(str::to_owned);
        let api = self.api(kind, query.namespace);
        let (mut seen, mut restarts) = (BTreeSet::new(), 0);
        loop {
            let mut visited = Ok(());
            let each = |HeadedItem { head, item }: HeadedItem<Map<String, Value>>| {
                // A list that was restarted returns objects again.
                let id = if head.uid.is_empty() { head.full_name() } else { head.uid };
                if visited.is_ok() && seen.insert(hash_of(&id)) {
                    visited = visit(item.map(|object| whole(kind, object)));
                }
            };
            let page = self.answer(api.page_with_heads(&params, each)).await?;
            visited?;
            let metadata = match page {
                Ok(metadata) => metadata,
                Err(status) if status.code == 410 && params.continue_token.is_some() && restarts < RESTARTS => {
                    restarts += 1;
                    // The token with which the API server continues at a newer version; without a token, the list
                    // starts again.
                    let token = status.metadata.and_then(|metadata| metadata.continue_);
                    params.continue_token = token.filter(|token| !token.is_empty());
                    continue;
                }
                Err(status) => return Ok(Err(unread(kind, query.namespace, &status, seen.len()))),
            };
            let remaining = metadata.remaining_item_count;
            params.continue_token = metadata.next_page();
            let more = params.continue_token.is_some();
            progress(seen.len(), if more { remaining.map(|more| seen.len() + more) } else { Some(seen.len()) })?;
            if !more {
                return Ok(Ok(seen.len()));
            }
        }
    }

    /// One object, without `managedFields`.
    pub(crate) async fn get(
        &self,
        kind: &'static Kind,
        namespace: Option<&str>,
        name: &str,
    ) -> anyhow::Result<Result<Value, UnreadObjects>> {
        let api = self.api(kind, namespace);
        Ok(match self.answer(api.get_existing::<Map<String, Value>>(name)).await? {
            Ok(Ok(object)) => Ok(whole(kind, object)),
            Ok(Err(unreadable)) => Err(UnreadObjects::unreadable(kind, &unreadable)),
            Err(status) => Err(unread(kind, namespace, &status, 0)),
        })
    }

    fn api(&self, kind: &'static Kind, namespace: Option<&str>) -> KindApi {
        match namespace {
            Some(namespace) => KindApi::namespaced(self.client.clone(), kind, namespace),
            None => KindApi::all(self.client.clone(), kind),
        }
    }

    /// The response, or the error of the API server. The outer error means that there was no response, or that the API
    /// server accepts no request.
    async fn answer<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> anyhow::Result<Result<T, Box<Status>>> {
        let context = self.context;
        let Ok(response) = timeout(DEADLINE, request).await else {
            bail!("context {context:?}: no complete response within {} s; try again", DEADLINE.as_secs());
        };
        match response {
            Ok(response) => Ok(Ok(response)),
            Err(kube::Error::Api(status)) if status.code == 401 => Err(anyhow!(
                "context {context:?}: the API server does not accept the credentials (401): {}; log in again, or check the \
                 user of the context",
                status.message
            )),
            Err(kube::Error::Api(status)) => Ok(Err(status)),
            Err(error) => Err(anyhow!(
                "context {context:?}: no response of the API server: {}; check its address and that this computer reaches \
                 it, for example with kubectl version",
                in_words(&error)
            )),
        }
    }
}

/// The object with its type, and without what only the API server needs.
fn whole(kind: &Kind, mut object: Map<String, Value>) -> Value {
    object.insert("apiVersion".to_owned(), Value::String(kind.api_version()));
    object.insert("kind".to_owned(), Value::String(kind.name.to_owned()));
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    Value::Object(object)
}

fn unread(kind: &Kind, namespace: Option<&str>, status: &Status, read: usize) -> UnreadObjects {
    let absence = match status.code {
        403 => Absence::Forbidden,
        404 => Absence::NotFound,
        _ => Absence::Failed,
    };
    let message = if status.message.is_empty() { &status.reason } else { &status.message };
    let partly = if read > 0 { format!("only the first {read} were read: ") } else { String::new() };
    let code = if absence == Absence::Failed { format!("{} ", status.code) } else { String::new() };
    UnreadObjects {
        kind: kind.plural,
        namespace: namespace.map(str::to_owned),
        absence,
        message: format!("{partly}{code}{message}"),
    }
}
