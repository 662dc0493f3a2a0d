//! RuntimeClasses: those of ours that nothing names go.

use std::collections::BTreeMap;

use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::ListParams;

use crate::controller::withdraw::calls::{Calls, Failure, Patience};
use crate::controller::withdraw::users::{Users, all_users, pod_users};
use crate::controller::withdraw::{Class, Left, Report};
use crate::controller::{delete_params, post_params};

const CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";
const OURS: &str = "app.kubernetes.io/managed-by=mullion";
/// How often it begins anew because a class changed meanwhile.
const ROUNDS: usize = 3;

/// Deletes what nothing names.
pub(crate) async fn delete(calls: &Calls, dry_run: bool, report: &mut Report) {
    let mut outcomes = BTreeMap::new();
    for _ in 0..ROUNDS {
        match round(calls, dry_run, &mut outcomes).await {
            Ok(settled) if !settled => {}
            Ok(_) => break,
            Err(left) => {
                report.left.push(left);
                break;
            }
        }
    }
    report.classes.extend(outcomes.into_values());
}

/// Whether nothing has changed meanwhile.
async fn round(calls: &Calls, dry_run: bool, outcomes: &mut BTreeMap<String, Class>) -> Result<bool, Left> {
    let mut ours: BTreeMap<String, RuntimeClass> = BTreeMap::new();
    let each = |class: RuntimeClass| {
        if let (Some(name), None) = (&class.metadata.name, &class.metadata.deletion_timestamp) {
            ours.insert(name.clone(), class);
        }
    };
    let read = calls.list(Patience::Long, CLASSES, &ListParams::default().labels(OURS), each).await;
    read.map_err(|why| left("RuntimeClasses", format!("they cannot be read: {why}")))?;
    if ours.is_empty() {
        return Ok(true);
    }
    let users = all_users(calls, &ours.keys().cloned().collect()).await.map_err(|(kind, why)| {
        let names: Vec<&str> = ours.keys().map(String::as_str).collect();
        left(&format!("RuntimeClasses {}", names.join(", ")), format!("who names them cannot be told: {kind}: {why}"))
    })?;
    let (named, free): (Vec<_>, Vec<_>) = ours.into_iter().partition(|(name, _)| users.of(name).is_some());
    outcomes.extend(named.into_iter().map(|(name, _)| (name.clone(), kept(name, &users))));
    let api: Api<RuntimeClass> = Api::all(calls.client.clone());
    let (mut settled, mut gone) = (true, BTreeMap::new());
    for (name, class) in free {
        if !dry_run {
            let how = delete_params(&class.metadata);
            match calls.again(Patience::Short, || api.delete(&name, &how)).await {
                Ok(_) => drop(gone.insert(name.clone(), class)),
                Err(Failure::Refused(status)) if status.code == 404 => {}
                Err(Failure::Refused(status)) if status.code == 409 => {
                    settled = false;
                    continue;
                }
                Err(why) => return Err(left(&format!("RuntimeClass {name}"), format!("it cannot be deleted: {why}"))),
            }
        }
        let class = Class { name: name.clone(), deleted: true, named_by: Vec::new(), names: 0 };
        outcomes.insert(name, class);
    }
    if !gone.is_empty() {
        restore(calls, &api, gone, outcomes).await?;
    }
    Ok(settled)
}

/// A pod that was made while its class was being deleted could never start: the kubelet looks the class up for every
/// sandbox. It gets its class back.
async fn restore(
    calls: &Calls,
    api: &Api<RuntimeClass>,
    gone: BTreeMap<String, RuntimeClass>,
    outcomes: &mut BTreeMap<String, Class>,
) -> Result<(), Left> {
    let users = pod_users(calls, &gone.keys().cloned().collect()).await.map_err(|(kind, why)| {
        let names: Vec<&str> = gone.keys().map(String::as_str).collect();
        let why = format!("they are gone, and whether one was named just then cannot be told: {kind}: {why}");
        left(&format!("RuntimeClasses {}", names.join(", ")), why)
    })?;
    for (name, class) in gone.into_iter().filter(|(name, _)| users.of(name).is_some()) {
        let ObjectMeta { labels, annotations, .. } = class.metadata;
        let metadata = ObjectMeta { name: Some(name.clone()), labels, annotations, ..ObjectMeta::default() };
        let class = RuntimeClass { metadata, ..class };
        let params = post_params();
        match calls.again(Patience::Short, || api.create(&params, &class)).await {
            Ok(_) => {}
            Err(Failure::Refused(status)) if status.code == 409 => {}
            Err(why) => {
                let why = format!("a pod named it while it was deleted, and it cannot be made again: {why}");
                return Err(left(&format!("RuntimeClass {name}"), why));
            }
        }
        outcomes.insert(name.clone(), kept(name, &users));
    }
    Ok(())
}

fn kept(name: String, users: &Users) -> Class {
    let (named_by, names) = users.of(&name).unwrap_or_default();
    Class { name, deleted: false, named_by, names }
}

fn left(what: &str, why: String) -> Left {
    Left { what: what.to_owned(), why, help: "see to that, and run mullion withdraw again".to_owned() }
}
