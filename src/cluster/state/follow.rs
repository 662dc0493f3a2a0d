//! The ConfigMap as it changes.

use std::sync::Arc;

use futures::StreamExt as _;
use kube::Client;
use tokio::sync::watch as channel;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::reading::{CONFIG_MAPS, Event, KindApi, Selection, changes};
use crate::cluster::state::document::{MullionState, NAME};
use crate::cluster::state::store::{StateMap, complain, understood};

/// ConfigMap `mullion-state`, as it changes; `None` until it has been read once, or its absence is known.
pub(crate) type StateReceiver = channel::Receiver<Option<Arc<MullionState>>>;

/// The newest state, kept up to date. Dropping it ends the watch.
#[derive(Debug)]
pub struct StateFollower {
    pub state: StateReceiver,
    _task: AbortOnDropHandle<()>,
}

/// Follows the ConfigMap of `namespace` (`list`, `watch` on it). Failures are logged and retried.
pub fn follow(client: Client, namespace: &str, streaming: bool) -> StateFollower {
    let (say, state) = channel::channel(None);
    let maps = KindApi::namespaced(client, &CONFIG_MAPS, namespace);
    let mut changes = changes(maps, Selection::name(NAME), streaming);
    let namespace = namespace.to_owned();
    let task = tokio::spawn(async move {
        // Logged once for as long as it lasts.
        let mut problems = Vec::new();
        let mut read = |map: &StateMap| {
            let (state, found) = understood(map);
            if found != problems {
                complain(&namespace, &found);
                problems = found;
            }
            state
        };
        // The ConfigMap of a list that is not complete yet.
        let mut arriving = MullionState::default();
        while let Some(event) = changes.next().await {
            let newest = match event {
                Event::Init => {
                    arriving = MullionState::default();
                    continue;
                }
                Event::InitApply(map) => {
                    arriving = read(&map);
                    continue;
                }
                Event::InitDone => std::mem::take(&mut arriving),
                Event::Apply(map) => read(&map),
                Event::Delete(_) => MullionState::default(),
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
    StateFollower { state, _task: AbortOnDropHandle::new(task) }
}
