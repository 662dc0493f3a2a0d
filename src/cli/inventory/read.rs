//! Reads a cluster or dumps into an inventory, with policies and facts.

use std::path::Path;

use anyhow::ensure;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use mullion_engine::model::text::list_first;
use mullion_policy::PolicySet;
use mullion_survey::report::Source;
use mullion_survey::{Facts, Inventory, InventoryReader};

use crate::cli::facts::read_facts;
use crate::cli::inventory::saved::SavedInventory;
use crate::cli::inventory::{InventoryArgs, dumps, live};
use crate::cli::io_handles::Io;
use crate::cli::policy_files;

/// The result of reading.
pub(crate) struct ClusterInput {
    /// The context of the kubeconfig, or the names of the files.
    pub(crate) cluster: String,
    pub(crate) source: Source,
    pub(crate) inventory: Inventory,
    pub(crate) policies: PolicySet,
    pub(crate) facts: Facts,
    /// The file that replaces built-in tables.
    pub(crate) facts_file: Option<String>,
    pub(crate) today: Date,
    /// The number of inputs and objects that could not be read; they are reported.
    pub(crate) unreadable: usize,
}

/// The maximum number of inputs that the report lists.
const NAMED: usize = 3;

/// Reads what the arguments select; `None` if it contains no object, which is reported. `command`: for messages.
pub(crate) fn read(command: &str, args: &InventoryArgs, io: &mut Io<'_>) -> anyhow::Result<Option<ClusterInput>> {
    let files = args.files()?;
    let is_live = files.is_empty();
    ensure!(
        is_live || !args.names_a_cluster(),
        "{command}: either files or a cluster; without files, --context, -l and the like select what is read of a cluster"
    );
    let facts = args.facts.as_deref().map_or_else(|| Ok(Facts::built_in()), read_facts)?;
    let policies = policy_files::load(&args.policies)?;
    let mut saved = args.save.as_deref().map(SavedInventory::create).transpose()?;
    let mut reader = InventoryReader::default();
    let (cluster, unreadable) = if is_live {
        (live::read(args, &mut reader, &mut saved, io)?, 0)
    } else {
        let names: Vec<String> = files.iter().map(|path| shown_name(path)).collect();
        let namespaces = args.selected_namespaces();
        let unreadable = dumps::read(command, &files, args.links.into(), &mut reader, &mut saved, namespaces, io)?;
        for outside in live::outside(args) {
            reader.unread(outside);
        }
        (list_first(&names, NAMED), unreadable)
    };
    if reader.is_empty() {
        io.eprintln(format_args!("nothing to {command}: there is no object of a cluster in the input"))?;
        return Ok(None);
    }
    if let Some(saved) = saved {
        saved.finish(&reader.saved_end())?;
    }
    Ok(Some(ClusterInput {
        cluster,
        source: if is_live { Source::Cluster } else { Source::Dump },
        inventory: reader.finish(),
        policies,
        facts,
        facts_file: args.facts.as_ref().map(|path| path.display().to_string()),
        today: args.today.unwrap_or_else(|| Timestamp::now().to_zoned(TimeZone::UTC).date()),
        unreadable,
    }))
}

fn shown_name(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() }
}
