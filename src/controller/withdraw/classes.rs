//! RuntimeClasses: those of ours that nothing names go.

use std::collections::BTreeMap;

use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::ListParams;

use crate::cluster::write_params::{delete_params, post_params};
use crate::controller::withdraw::calls::{Calls, FEW, Failure, UNLIMITED};
use crate::controller::withdraw::users::{ClassUsers, KINDS, PODS, find_users};
use crate::controller::withdraw::{Remainder, WithdrawReport};

const CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";
const OURS: &str = "app.kubernetes.io/managed-by=mullion";
/// How often it begins again because a class changed meanwhile.
const ROUNDS: usize = 3;

type Classes = BTreeMap<String, RuntimeClass>;

/// Deletes what nothing names.
pub(crate) async fn delete(calls: &Calls, dry_run: bool, report: &mut WithdrawReport) {
    for _ in 0..ROUNDS {
        match round(calls, dry_run, &mut report.classes).await {
            Ok(settled) if !settled => {}
            Ok(_) => break,
            Err(remainder) => {
                report.left.push(remainder);
                break;
            }
        }
    }
}

/// Whether nothing has changed meanwhile.
async fn round(calls: &Calls, dry_run: bool, outcomes: &mut BTreeMap<String, ClassUsers>) -> Result<bool, Remainder> {
    let mut ours = Classes::new();
    let each = |class: RuntimeClass| {
        if let (Some(name), None) = (&class.metadata.name, &class.metadata.deletion_timestamp) {
            ours.insert(name.clone(), class);
        }
    };
    let read = calls.list(UNLIMITED, CLASSES, &ListParams::default().labels(OURS), each).await;
    read.map_err(|why| Remainder::of("RuntimeClasses", format!("they cannot be read: {why}")))?;
    if ours.is_empty() {
        return Ok(true);
    }
    let users = find_users(calls, &KINDS, &ours.keys().cloned().collect()).await;
    let users = users.map_err(|why| Remainder::of(names(&ours), format!("it is unknown who names them: {why}")))?;
    let api: Api<RuntimeClass> = Api::all(calls.client.clone());
    let (mut settled, mut gone) = (true, Classes::new());
    for (name, class) in ours {
        if let Some(users) = users.get(&name) {
            outcomes.insert(name, users.clone());
            continue;
        }
        if !dry_run {
            let params = delete_params(&class.metadata);
            match calls.again(FEW, || api.delete(&name, &params)).await {
                Ok(_) => drop(gone.insert(name.clone(), class)),
                Err(Failure::Refused(status)) if status.code == 404 => {}
                Err(Failure::Refused(status)) if status.code == 409 => {
                    settled = false;
                    continue;
                }
                Err(why) => {
                    return Err(Remainder::of(format!("RuntimeClass {name}"), format!("it cannot be deleted: {why}")));
                }
            }
        }
        outcomes.insert(name, ClassUsers::default());
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
    gone: Classes,
    outcomes: &mut BTreeMap<String, ClassUsers>,
) -> Result<(), Remainder> {
    let users = find_users(calls, &[PODS], &gone.keys().cloned().collect()).await.map_err(|why| {
        Remainder::of(names(&gone), format!("they are gone, and it is unknown whether one was named just then: {why}"))
    })?;
    for (name, users) in users {
        let Some(RuntimeClass { metadata, handler, overhead, scheduling }) = gone.get(&name).cloned() else { continue };
        let ObjectMeta { labels, annotations, .. } = metadata;
        let metadata = ObjectMeta { name: Some(name.clone()), labels, annotations, ..ObjectMeta::default() };
        let class = RuntimeClass { metadata, handler, overhead, scheduling };
        let params = post_params();
        match calls.again(FEW, || api.create(&params, &class)).await {
            Ok(_) => {}
            Err(Failure::Refused(status)) if status.code == 409 => {}
            Err(why) => {
                let why = format!("a pod named it while it was deleted, and it cannot be made again: {why}");
                return Err(Remainder::of(format!("RuntimeClass {name}"), why));
            }
        }
        outcomes.insert(name, users);
    }
    Ok(())
}

fn names(classes: &Classes) -> String {
    let names: Vec<&str> = classes.keys().map(String::as_str).collect();
    format!("RuntimeClasses {}", names.join(", "))
}
