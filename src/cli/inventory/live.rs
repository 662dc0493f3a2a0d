//! A live cluster, read object by object into an inventory.

use std::collections::BTreeSet;

use anyhow::bail;
use jiff::Timestamp;
use mullion_engine::model::text::list_with;
use mullion_policy::PolicySet;
use mullion_survey::InventoryReader;
use mullion_survey::inventory::{KINDS, KindReading, POLICIES_IN_FORCE, PROVISIONER_KINDS, plural_of};
use mullion_survey::report::Unread;
use serde_json::Value;

use crate::cli::inventory::InventoryArgs;
use crate::cli::inventory::saved::{SavedInventory, keep};
use crate::cli::io_handles::Io;
use crate::cli::live::policies_of_the_cluster;
use crate::cli::policy_files::PolicySelection;
use crate::cli::progress::Progress;
use crate::cluster::connect::ClusterConnection;
use crate::cluster::reading::{
    Absence, ClusterReader, Item, Kind, ListQuery, NAMESPACES, NODES, PROVISIONERS, RUNTIME_CLASSES, SURVEY, WORKLOADS,
};
use crate::telemetry::in_words;

/// Reads the selected objects of the cluster into `reader`, and returns its policies if they are selected and can be read.
/// Kinds that cannot be read are part of the inventory; a cluster that does not respond is an error.
pub(crate) async fn read_cluster(
    connection: &ClusterConnection,
    args: &InventoryArgs,
    selection: &PolicySelection,
    reader: &mut InventoryReader,
    saved: &mut Option<SavedInventory>,
    io: &mut Io<'_>,
) -> anyhow::Result<Option<PolicySet>> {
    let context = connection.context.as_str();
    let objects = ClusterReader::new(connection);
    let policies = policies_of_the_cluster(&objects, context, selection).await?;
    io.eprintln(format_args!("context {context}{}{}", scope(args), policies.clause))?;
    reader.begin_input(context);
    args.excluded().into_iter().for_each(|excluded| reader.unread(excluded));
    if let Some(reason) = policies.not_read {
        reader.unread(Unread::new(POLICIES_IN_FORCE, reason, "what they decide; the built-in ones decide"));
    }
    for kind in KINDS.iter().filter(|kind| kind.reading == KindReading::OnlyInDumps) {
        reader.unread(Unread::new(kind.plural, "read only from dumps", kind.missing));
    }
    let mut progress = Progress::new("objects read");
    let groups = served_groups(&connection.client).await;
    let provisioners = PROVISIONERS.iter().filter(|kind| groups.contains(kind.group));
    for kind in kinds().chain(provisioners) {
        for query in queries(args, kind) {
            let before = reader.len();
            let mut unreadable = Vec::new();
            let mut visit = |object: Item<Value>| -> anyhow::Result<()> {
                match object {
                    Ok(object) => keep(object, None, reader, saved),
                    Err(object) => unreadable.push(object),
                }
                Ok(())
            };
            let listed = if let (&NAMESPACES, Some(name)) = (kind, query.namespace) {
                match objects.get(kind, None, name).await? {
                    Ok(object) => visit(Ok(object)).map(|()| Ok(1))?,
                    Err(unread) if unread.absence == Absence::NotFound => bail!(
                        "there is no namespace {name} in context {context}; correct -n, or list them with kubectl get namespaces"
                    ),
                    Err(unread) => Err(unread),
                }
            } else {
                let mut shown = |done: usize, all: Option<usize>| -> anyhow::Result<()> {
                    Ok(progress.so_far(io, before + done, all.map(|all| before + all))?)
                };
                objects.list(kind, query, &mut visit, &mut shown).await?
            };
            for object in unreadable {
                io.eprintln(format_args!("{} {} not read: {object}", kind.name, object.head.full_name()))?;
                let namespace = Some(object.head.namespace.as_str()).filter(|namespace| !namespace.is_empty());
                let reason = format!("an object cannot be read: {object}");
                reader.unread(Unread { reason, ..unread_kind(kind, namespace, Absence::Unreadable) });
            }
            match listed {
                Ok(_) => reader.listed(plural_of(kind.name).unwrap_or(kind.plural)),
                Err(unread) => {
                    io.eprintln(format_args!("{}: {unread}", unread.kind))?;
                    reader.unread(unread_kind(kind, query.namespace, unread.absence));
                }
            }
        }
    }
    progress.end(io)?;
    match connection.client.apiserver_version().await {
        Ok(version) => reader.kubernetes(&version.git_version),
        Err(error) => io.eprintln(format_args!("the version of the API server: {}", in_words(&error)))?,
    }
    reader.taken_at(&Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    for problem in reader.end_input().problems {
        io.eprintln(format_args!("{context}: {problem}"))?;
    }
    Ok(policies.in_force.map(|policies| policies.set))
}

/// The kinds that are read. Events come first, because the API server keeps them for an hour, and reading a large cluster
/// takes time.
fn kinds() -> impl Iterator<Item = &'static Kind> {
    SURVEY.iter().chain([&NODES, &NAMESPACES, &RUNTIME_CLASSES]).chain(&WORKLOADS)
}

/// The scope, for the first line.
fn scope(args: &InventoryArgs) -> String {
    let label = if args.source.selected_namespaces().len() == 1 { "namespace" } else { "namespaces" };
    let mut scope = String::new();
    if !args.source.selected_namespaces().is_empty() {
        scope = format!(", {label} {}", list_with(args.source.selected_namespaces(), "and"));
    }
    if let Some(labels) = &args.selector {
        scope.extend([", labels ", labels]);
    }
    scope
}

/// The requests for one kind: one for each namespace, or one for everything.
fn queries<'a>(args: &'a InventoryArgs, kind: &Kind) -> Vec<ListQuery<'a>> {
    // Budgets, autoscalers and Events do not have the labels of the workloads that they are about.
    let labels = args.selector.as_deref().filter(|_| WORKLOADS.contains(kind));
    if args.source.selected_namespaces().is_empty() || !(kind.is_namespaced() || kind == &NAMESPACES) {
        return vec![ListQuery { labels, ..ListQuery::default() }];
    }
    let of = |namespace: &'a String| ListQuery { namespace: Some(namespace), labels, ..ListQuery::default() };
    args.source.selected_namespaces().iter().map(of).collect()
}

/// The groups of APIs that the API server has. Every user may read them by default; without them no kind of another group is
/// read.
async fn served_groups(client: &kube::Client) -> BTreeSet<String> {
    let groups = client.list_api_groups().await.map(|list| list.groups).unwrap_or_default();
    groups.into_iter().map(|group| group.name).collect()
}

fn unread_kind(kind: &Kind, namespace: Option<&str>, absence: Absence) -> Unread {
    let plural = plural_of(kind.name).unwrap_or(kind.plural);
    let reason = match absence {
        Absence::Forbidden => "forbidden",
        Absence::NotFound => "not served by this API server",
        Absence::Failed => "failed",
        Absence::Unreadable => "unreadable",
    };
    let known = KINDS.into_iter().chain(PROVISIONER_KINDS.into_iter().map(|(_, kind)| kind));
    let missing = known.into_iter().find(|known| known.plural == plural).map_or("", |known| known.missing);
    Unread { namespace: namespace.map(str::to_owned), ..Unread::new(plural, reason, missing) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An inventory stores nothing of a kind that is not in its list, and what it lacks of one that is not read is not
    /// reported, except for the kinds of dumps.
    #[test]
    fn the_kinds_that_are_read_are_those_of_an_inventory() {
        let read: BTreeSet<(&str, &str)> = kinds().map(|kind| (kind.name, kind.plural)).collect();
        let of_clusters = KINDS.iter().filter(|kind| kind.reading != KindReading::OnlyInDumps);
        assert_eq!(read, of_clusters.map(|kind| (kind.kind, kind.plural)).collect());
    }
}
