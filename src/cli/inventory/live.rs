//! A live cluster, read object by object into an inventory.

use jiff::Timestamp;
use mullion_survey::InventoryReader;
use mullion_survey::inventory::KINDS;
use mullion_survey::report::Unread;

use crate::cli::async_runtime::block_on;
use crate::cli::cluster_arguments::ClusterArguments;
use crate::cli::inventory::saved::{SavedInventory, keep};
use crate::cli::io_handles::Io;
use crate::cli::progress::Progress;
use crate::cluster::reading::{
    Absence, ClusterReader, ListQuery, NAMESPACES, NODES, RUNTIME_CLASSES, SURVEY, WORKLOADS,
};
use crate::telemetry::in_words;

/// Reads the cluster into `reader`, and returns the name of its context. Kinds that cannot be read are part of the
/// inventory; a cluster that does not respond is an error.
pub(crate) fn read(
    cluster: &ClusterArguments,
    reader: &mut InventoryReader,
    saved: &mut Option<SavedInventory>,
    io: &mut Io<'_>,
) -> anyhow::Result<String> {
    block_on(async {
        let connection = cluster.connect().await?;
        let context = connection.context.clone();
        io.eprintln(format_args!("context {context}"))?;
        reader.begin(&context);
        let objects = ClusterReader::new(&connection);
        let mut progress = Progress::new("objects read");
        // Events come first, because the API server keeps them for an hour, and reading a large cluster takes time.
        let kinds = SURVEY.iter().chain([&NODES, &NAMESPACES, &RUNTIME_CLASSES]).chain(&WORKLOADS);
        for kind in kinds {
            let before = reader.len();
            let listed = objects
                .list(
                    kind,
                    ListQuery::default(),
                    &mut |object| {
                        keep(object, None, reader, saved);
                        Ok(())
                    },
                    &mut |done, all| Ok(progress.so_far(io, before + done, all.map(|all| before + all))?),
                )
                .await?;
            match listed {
                Ok(_) => reader.listed(kind.plural),
                Err(unread) => {
                    io.eprintln(format_args!("{}: {unread}", unread.kind))?;
                    reader.unread(unread_kind(kind.plural, unread.absence));
                }
            }
        }
        progress.end(io)?;
        match connection.client.apiserver_version().await {
            Ok(version) => reader.kubernetes(&version.git_version),
            Err(error) => io.eprintln(format_args!("the version of the API server: {}", in_words(&error)))?,
        }
        reader.taken_at(&Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        for problem in reader.end().problems {
            io.eprintln(format_args!("{context}: {problem}"))?;
        }
        Ok(context)
    })
}

fn unread_kind(plural: &str, absence: Absence) -> Unread {
    let reason = match absence {
        Absence::Forbidden => "forbidden",
        Absence::NotFound => "not served by this API server",
        Absence::Failed => "failed",
    };
    let missing = KINDS.iter().find(|kind| kind.plural == plural).map_or("", |kind| kind.missing);
    Unread { kind: plural.to_owned(), namespace: None, reason: reason.to_owned(), missing: missing.to_owned() }
}
