//! Telling controllers to leave the cluster alone, and waiting until they do.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use kube::api::ListParams;
use serde::Deserialize;
use tokio::time::Instant;

use crate::cluster::owner_references::Owner;
use crate::cluster::state::document::{NAME, State};
use crate::cluster::state::store::Store;
use crate::cluster::write_params::MANAGER;
use crate::controller::lease;
use crate::controller::withdraw::calls::{Calls, Patience};
use crate::controller::withdraw::plan::is_vacant;
use crate::controller::withdraw::{Hearing, Left, Options, Report, Step, Told};
use crate::controller::withdrawn::{CONDITION, acknowledged};

/// How long a controller may take to stop: requests under way get 10 s of it.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(500);
/// How often a ConfigMap is written that cannot be written.
const TRIES: usize = 3;

/// What is known after telling.
pub(crate) struct Stopped {
    /// What each `mullion-state` holds.
    pub(crate) states: Vec<State>,
    /// Whether every controller said that it has stopped.
    pub(crate) for_sure: bool,
}

/// Sets `withdrawn` in every `mullion-state`, and waits for the controllers.
pub(crate) async fn stop(calls: &Calls, options: &Options, report: &mut Report, say: &mut dyn FnMut(Step)) -> Stopped {
    let Namespaces { names, found } = namespaces(calls, options, say).await;
    let mut states = Vec::new();
    let mut asked = Vec::new();
    for namespace in names {
        match reach(calls, options.dry_run, &namespace).await {
            Ok(Some((store, state))) => {
                states.push(state);
                asked.push((namespace, store));
            }
            Ok(None) => report.controllers.push(Told { namespace, controller: Hearing::Never }),
            Err(why) => {
                report.controllers.push(Told { namespace: namespace.clone(), controller: Hearing::Untold });
                if found {
                    report.left.push(Left {
                        what: format!("the controller of namespace {namespace}"),
                        why: format!("it could not be told to stop: {why:#}"),
                        help: stop_it(&namespace),
                    });
                }
            }
        }
    }
    if !options.dry_run && !asked.is_empty() {
        let names: Vec<&str> = asked.iter().map(|(namespace, _)| namespace.as_str()).collect();
        say(Step::Note(format!("withdrawn in ConfigMap {NAME} of namespace {}", names.join(", "))));
    }
    let heard = join_all(asked.iter().map(|(namespace, store)| async move {
        if options.dry_run { Hearing::Unasked } else { hear(calls, namespace, store).await }
    }));
    for (controller, (namespace, _)) in heard.await.into_iter().zip(&asked) {
        if controller == Hearing::Silent {
            report.left.push(Left {
                what: format!("the controller of namespace {namespace}"),
                why: format!("it holds lease {namespace}/{} and did not say that it has stopped", lease::NAME),
                help: stop_it(namespace),
            });
        }
        report.controllers.push(Told { namespace: namespace.clone(), controller });
    }
    report.controllers.sort_by(|one, other| one.namespace.cmp(&other.namespace));
    let for_sure = report.controllers.iter().all(|told| told.controller == Hearing::Stopped);
    Stopped { states, for_sure }
}

/// Takes `withdrawn` out of every `mullion-state`.
pub(crate) async fn resume(calls: &Calls, options: &Options, report: &mut Report, say: &mut dyn FnMut(Step)) {
    for namespace in namespaces(calls, options, say).await.names {
        let store = Store::new(calls.client.clone(), &namespace);
        let written = match store.read().await {
            Ok(state) if state.withdrawn.is_none() => Ok(Hearing::AtWork),
            Ok(_) if options.dry_run => Ok(Hearing::Unasked),
            Ok(_) => store.update(|state| state.withdrawn = None).await.map(|_| Hearing::Resumed),
            Err(why) => Err(why),
        };
        let controller = written.unwrap_or_else(|why| {
            report.left.push(Left {
                what: format!("ConfigMap {namespace}/{NAME}"),
                why: format!("it still says that Mullion is withdrawn: {why:#}"),
                help: "see to that, and run mullion withdraw --undo again".to_owned(),
            });
            Hearing::Untold
        });
        report.controllers.push(Told { namespace, controller });
    }
}

fn stop_it(namespace: &str) -> String {
    format!("run kubectl -n {namespace} scale deployment {MANAGER} --replicas=0, and mullion withdraw again")
}

struct Namespaces {
    names: BTreeSet<String>,
    /// Whether something of Mullion is there; else it is a guess.
    found: bool,
}

/// Where a lease or a memory of Mullion is; the client's own namespace, where none is found or nobody may look.
async fn namespaces(calls: &Calls, options: &Options, say: &mut dyn FnMut(Step)) -> Namespaces {
    if let Some(only) = &options.namespace {
        return Namespaces { names: [only.clone()].into(), found: true };
    }
    let own = calls.client.default_namespace().to_owned();
    let mut names = BTreeSet::new();
    let mut unread = false;
    for (path, name) in [("/apis/coordination.k8s.io/v1/leases", lease::NAME), ("/api/v1/configmaps", NAME)] {
        let selected = ListParams::default().fields(&format!("metadata.name={name}"));
        let each = |object: Object| names.extend([object.metadata.namespace]);
        if let Err(why) = calls.list(Patience::Short, path, &selected, each).await {
            unread = true;
            say(Step::Note(format!(
                "controllers are looked for in namespace {own} alone: {why}; name another with --lease-namespace"
            )));
        }
    }
    let found = !names.is_empty();
    if unread || !found {
        names.insert(own);
    }
    Namespaces { names, found }
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    namespace: String,
}

/// Tells the controllers of a namespace; what is kept there. `None` where nothing says that one ever worked.
async fn reach(calls: &Calls, dry_run: bool, namespace: &str) -> anyhow::Result<Option<(Store, State)>> {
    let leases: Api<Lease> = Api::namespaced(calls.client.clone(), namespace);
    let (owner, worked) = match calls.again(Patience::Short, || leases.get_opt(lease::NAME)).await {
        Ok(Some(lease)) => (Owner::among(&lease.metadata.owner_references.unwrap_or_default()), true),
        Ok(None) => (Owner::none(), false),
        // There may be one.
        Err(_) => (Owner::none(), true),
    };
    let store = Store::new(calls.client.clone(), namespace).owned_by(owner);
    if dry_run || !worked {
        let state = store.read().await?;
        if dry_run || !state.found {
            return Ok((worked || state.found).then_some((store, state)));
        }
    }
    let state = tell(calls, &store).await?;
    Ok(Some((store, state)))
}

async fn tell(calls: &Calls, store: &Store) -> anyhow::Result<State> {
    let mut tries = 0;
    loop {
        // To the nanosecond: it tells one withdrawal from the next.
        let now = Timestamp::now().to_string();
        let told = store
            .update(|state| {
                if state.withdrawn.is_none() {
                    state.withdrawn = Some(now.clone());
                    // What was said of an earlier time is no answer.
                    state.conditions.retain(|condition| condition.r#type != CONDITION);
                }
            })
            .await;
        tries += 1;
        if told.is_ok() || tries >= TRIES || !calls.pause(LOOK).await {
            return told;
        }
    }
}

async fn hear(calls: &Calls, namespace: &str, store: &Store) -> Hearing {
    let leases: Api<Lease> = Api::namespaced(calls.client.clone(), namespace);
    let start = Instant::now();
    // Not by the time that the lease says: the holder's clock may be another than ours.
    let mut unchanged = (LeaseSpec::default(), start);
    loop {
        if store.read().await.is_ok_and(|state| acknowledged(&state)) {
            return Hearing::Stopped;
        }
        match calls.again(Patience::Short, || leases.get_opt(lease::NAME)).await {
            Ok(None) => return Hearing::Nobody,
            Ok(Some(lease)) => {
                let spec = lease.spec.unwrap_or_default();
                if spec != unchanged.0 {
                    unchanged = (spec, Instant::now());
                }
                let (spec, since) = &unchanged;
                if is_vacant(spec.holder_identity.as_deref(), spec.lease_duration_seconds, since.elapsed()) {
                    return Hearing::Nobody;
                }
            }
            Err(_) => {}
        }
        if start.elapsed() > PATIENCE || !calls.pause(LOOK).await {
            return Hearing::Silent;
        }
    }
}
