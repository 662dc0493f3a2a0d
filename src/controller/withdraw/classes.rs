//! Deletes Mullion's RuntimeClasses that no object uses.

use std::collections::BTreeMap;

use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use mullion_engine::model::text::list_with;
use serde::de::IgnoredAny;

use crate::cluster::reading::{Item, KindApi, PODS, RUNTIME_CLASSES};
use crate::cluster::{SlimRuntimeClass, delete_params};
use crate::controller::withdraw::calls::{CallFailure, Calls, FEW, UNLIMITED};
use crate::controller::withdraw::report::{Remainder, WithdrawReport};
use crate::controller::withdraw::users::{ClassUsers, all_kinds, find_users};

const OURS: &str = "app.kubernetes.io/managed-by=mullion";
/// How often the deletion is restarted because a class changed meanwhile.
const ROUNDS: usize = 3;

type Classes = BTreeMap<String, SlimRuntimeClass>;

/// Deletes the classes without users.
pub(crate) async fn delete_unused(calls: &Calls, dry_run: bool, report: &mut WithdrawReport) {
    for _ in 0..ROUNDS {
        match delete_round(calls, dry_run, report).await {
            Ok(false) => {}
            Ok(true) => break,
            Err(remainder) => {
                report.left.push(remainder);
                break;
            }
        }
    }
}

/// Runs one round, and returns whether no class changed meanwhile.
async fn delete_round(calls: &Calls, dry_run: bool, report: &mut WithdrawReport) -> Result<bool, Remainder> {
    let mut ours = Classes::new();
    let mut unreadable = Vec::new();
    let each = |class: Item<SlimRuntimeClass>| match class {
        Ok(class) => {
            if let (Some(name), None) = (&class.metadata.name, &class.metadata.deletion_timestamp) {
                ours.insert(name.clone(), class);
            }
        }
        Err(class) => unreadable.push(class),
    };
    let read = calls.list(UNLIMITED, &RUNTIME_CLASSES, &ListParams::default().labels(OURS), each).await;
    read.map_err(|why| Remainder::of("RuntimeClasses", format!("they cannot be read: {why}")))?;
    for class in unreadable {
        report
            .left
            .push(Remainder::of(format!("RuntimeClass {}", class.head.name), format!("it cannot be read: {class}")));
    }
    if ours.is_empty() {
        return Ok(true);
    }
    let users = find_users(calls, all_kinds(), &ours.keys().cloned().collect()).await;
    let users = users.map_err(|why| Remainder::of(names(&ours), format!("their users cannot be read: {why}")))?;
    let api = KindApi::all(calls.client.clone(), &RUNTIME_CLASSES);
    let (mut complete, mut deleted) = (true, Classes::new());
    for (name, class) in ours {
        if let Some(users) = users.get(&name) {
            report.classes.insert(name, users.clone());
            continue;
        }
        if !dry_run {
            let params = delete_params(&class.metadata);
            match calls.retry(FEW, || api.delete(&name, &params)).await {
                Ok(()) => drop(deleted.insert(name.clone(), class)),
                Err(CallFailure::Rejected(status)) if status.code == 404 => {}
                Err(CallFailure::Rejected(status)) if status.code == 409 => {
                    complete = false;
                    continue;
                }
                Err(why) => {
                    return Err(Remainder::of(format!("RuntimeClass {name}"), format!("it cannot be deleted: {why}")));
                }
            }
        }
        report.classes.insert(name, ClassUsers::default());
    }
    if !deleted.is_empty() {
        restore(calls, deleted, report).await?;
    }
    Ok(complete)
}

/// Creates the classes of pods that were created during the deletion. Without its class such a pod could never start,
/// because the kubelet reads the class for every sandbox.
async fn restore(calls: &Calls, deleted: Classes, report: &mut WithdrawReport) -> Result<(), Remainder> {
    let users = find_users(calls, [&PODS], &deleted.keys().cloned().collect()).await.map_err(|why| {
        Remainder::of(names(&deleted), format!("they are deleted, and new users cannot be read: {why}"))
    })?;
    let api = KindApi::all(calls.client.clone(), &RUNTIME_CLASSES);
    for (name, users) in users {
        let Some(SlimRuntimeClass { metadata, handler, overhead, scheduling }) = deleted.get(&name).cloned() else {
            continue;
        };
        let ObjectMeta { labels, annotations, .. } = metadata;
        let metadata = ObjectMeta { name: Some(name.clone()), labels, annotations, ..ObjectMeta::default() };
        let class = RuntimeClass { metadata, handler, overhead, scheduling };
        match calls.retry(FEW, || api.create::<IgnoredAny>(&class)).await {
            Ok(_) => {}
            Err(CallFailure::Rejected(status)) if status.code == 409 => {}
            Err(why) => {
                let why = format!("a pod used it during the deletion, and it cannot be created again: {why}");
                return Err(Remainder::of(format!("RuntimeClass {name}"), why));
            }
        }
        report.classes.insert(name, users);
    }
    Ok(())
}

fn names(classes: &Classes) -> String {
    format!("RuntimeClasses {}", list_with(classes.keys(), "and"))
}
