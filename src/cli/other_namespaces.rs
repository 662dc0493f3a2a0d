//! Objects of files in another namespace than that of `-n`, which only replaces a missing one.

use std::collections::BTreeMap;
use std::io;

use mullion_engine::model::text::{counted, list_within};

use crate::cli::input::Inputs;
use crate::cli::io_handles::Io;
use crate::cli::live::LiveArguments;

/// The maximum length of the names of namespaces.
const NAMES: usize = 100;

/// The number of workloads in each other namespace.
#[derive(Debug)]
pub(crate) struct OtherNamespaces<'a> {
    wanted: Option<&'a str>,
    found: BTreeMap<String, usize>,
}

impl<'a> OtherNamespaces<'a> {
    /// Those besides the namespace of the command line; none without one, and with `-A`.
    pub(crate) fn besides(inputs: &'a Inputs, live: &LiveArguments) -> Self {
        let wanted = inputs.namespace.as_deref().filter(|_| !live.all_namespaces);
        Self { wanted, found: BTreeMap::new() }
    }

    /// Counts a workload.
    pub(crate) fn add(&mut self, namespace: &str) {
        if self.wanted.is_some_and(|wanted| wanted != namespace) {
            *self.found.entry(namespace.to_owned()).or_default() += 1;
        }
    }

    /// Reports them on stderr.
    pub(crate) fn report(&self, io: &mut Io<'_>) -> io::Result<()> {
        let Some(wanted) = self.wanted.filter(|_| !self.found.is_empty()) else { return Ok(()) };
        let names: Vec<&str> = self.found.keys().map(String::as_str).collect();
        io.eprintln(format_args!(
            "-n {wanted} is for objects without a namespace; {} in another one, and reviewed there: {}",
            match self.found.values().sum() {
                1 => "1 workload is".to_owned(),
                all => format!("{} are", counted(all, "workload")),
            },
            list_within(&names, names.len(), ", ", NAMES)
        ))
    }
}
