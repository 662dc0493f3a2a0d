//! Reads a cluster or dumps into an inventory, with policies and facts.

use std::io;
use std::path::Path;

use anyhow::ensure;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use mullion_engine::model::text::list_first;
use mullion_policy::PolicySet;
use mullion_survey::facts::FactsTable;
use mullion_survey::report::Source;
use mullion_survey::{Facts, Inventory, InventoryReader, SurveyContext};

use crate::cli::facts::read_facts;
use crate::cli::inventory::dump_scope::DumpScope;
use crate::cli::inventory::saved::SavedInventory;
use crate::cli::inventory::{InventoryArgs, dumps, live};
use crate::cli::io_handles::Io;
use crate::cli::policy_files::PolicySelection;
use crate::cluster::connect::ClusterConnection;
use crate::report::ReportFormat;

/// The result of reading.
pub(crate) struct ClusterInput {
    /// The context of the kubeconfig, or the names of the files.
    pub(crate) cluster: String,
    /// The connection to the cluster; `None` for dumps.
    pub(crate) connection: Option<ClusterConnection>,
    pub(crate) inventory: Inventory,
    pub(crate) policies: PolicySet,
    /// Whether the command line names them, or they are those in force in the cluster.
    pub(crate) policies_given: bool,
    pub(crate) facts: Facts,
    /// The file that replaces built-in tables.
    pub(crate) facts_file: Option<String>,
    pub(crate) today: Date,
    /// The number of inputs and objects that could not be read; they are reported.
    pub(crate) unreadable: usize,
}

impl ClusterInput {
    /// What a survey has besides the objects.
    pub(crate) fn context(&self) -> SurveyContext<'_> {
        SurveyContext {
            cluster: &self.cluster,
            source: if self.connection.is_some() { Source::Cluster } else { Source::Dump },
            today: self.today,
            mullion: env!("CARGO_PKG_VERSION"),
            policies: &self.policies,
            facts: &self.facts,
        }
    }

    /// Prints on stderr how old these tables are. For a format that has only rows; the others have it in their summary.
    pub(crate) fn print_age(&self, tables: &[FactsTable], format: ReportFormat, io: &mut Io<'_>) -> io::Result<()> {
        match self.facts.age(tables, self.today).filter(|_| format == ReportFormat::Csv) {
            Some(age) => io.eprintln(age.sentence()),
            None => Ok(()),
        }
    }
}

/// The maximum number of inputs that the report lists.
const NAMED: usize = 3;

/// Reads what the arguments select; `None` if it contains no object, which is reported. `command`: for messages.
pub(crate) async fn read_inventory(
    command: &str,
    args: &InventoryArgs,
    io: &mut Io<'_>,
) -> anyhow::Result<Option<ClusterInput>> {
    let files = args.files()?;
    let is_live = files.is_empty();
    ensure!(
        is_live || !args.source.cluster.names_a_cluster(),
        "{command}: either files or a cluster; without files, --context and the like select the cluster that is read"
    );
    let selection = PolicySelection::new(command, &args.source.policies)?;
    if !is_live {
        selection.ensure_no_cluster(command, "files are read; remove them, or name files of policies")?;
    }
    let facts = args.facts.as_deref().map_or_else(|| Ok(Facts::built_in()), read_facts)?;
    let policies = selection.load()?;
    let mut saved = args.save.as_deref().map(SavedInventory::create).transpose()?;
    let mut reader = InventoryReader::default();
    let (cluster, connection, in_force, unreadable) = if is_live {
        let connection = args.source.cluster.connect().await?;
        let in_force = live::read_cluster(&connection, args, &selection, &mut reader, &mut saved, io).await?;
        (connection.context.clone(), Some(connection), in_force, 0)
    } else {
        let names: Vec<String> = files.iter().map(|path| shown_name(path)).collect();
        let scope = DumpScope::new(command, args)?;
        let unreadable =
            dumps::read_dumps(command, &files, args.source.links.into(), &mut reader, &mut saved, &scope, io)?;
        args.excluded().into_iter().for_each(|excluded| reader.unread(excluded));
        (list_first(&names, NAMED), None, None, unreadable)
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
        connection,
        inventory: reader.finish(),
        policies_given: selection != PolicySelection::Default || in_force.is_some(),
        policies: in_force.unwrap_or(policies),
        facts,
        facts_file: args.facts.as_ref().map(|path| path.display().to_string()),
        today: args.today.unwrap_or_else(|| Timestamp::now().to_zoned(TimeZone::UTC).date()),
        unreadable,
    }))
}

fn shown_name(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() }
}
