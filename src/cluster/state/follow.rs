//! The ConfigMap as it changes.

use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use tokio::sync::watch as channel;
use tokio::task::JoinHandle;

use crate::cluster::state::document::{NAME, State};
use crate::cluster::state::store::{complain, understood};
use crate::cluster::watch;

/// The newest state, kept up to date. Dropping it ends the watch.
#[derive(Debug)]
pub struct Follower {
    /// `None` until the ConfigMap, or that there is none, has been read once.
    pub state: channel::Receiver<Option<Arc<State>>>,
    task: JoinHandle<()>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Follows the ConfigMap of `namespace` (`list`, `watch` on it). Failures are logged and tried again.
pub fn follow(client: Client, namespace: &str, streaming: bool) -> Follower {
    let (say, state) = channel::channel(None);
    let config = Config::default().fields(&format!("metadata.name={NAME}"));
    let mut changes = watch::changes::<ConfigMap>(Api::namespaced(client, namespace), config, streaming);
    let namespace = namespace.to_owned();
    let task = tokio::spawn(async move {
        // Said once for as long as it stands.
        let mut problems = Vec::new();
        let mut read = |map: &ConfigMap| {
            let (state, found) = understood(map);
            if found != problems {
                complain(&namespace, &found);
                problems = found;
            }
            state
        };
        // What a list that is still arriving held.
        let mut arriving = State::default();
        while let Some(event) = changes.next().await {
            let newest = match event {
                Event::Init => {
                    arriving = State::default();
                    continue;
                }
                Event::InitApply(map) => {
                    arriving = read(&map);
                    continue;
                }
                Event::InitDone => std::mem::take(&mut arriving),
                Event::Apply(map) => read(&map),
                Event::Delete(_) => State::default(),
            };
            say.send_if_modified(|standing| {
                let news = standing.as_deref() != Some(&newest);
                if news {
                    *standing = Some(Arc::new(newest));
                }
                news
            });
        }
    });
    Follower { state, task }
}
