//! Arguments of `mullion verify`.

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};

use crate::cli::cluster_arguments::ClusterArguments;
use crate::cli::output_file::OutputFileArgs;
use crate::cli::time_limit::time_limit;
use crate::cli::verify::scenarios::{Images, is_image};
use crate::cli::verify::table::{CHECKS, CheckId};

/// Arguments of `verify`.
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n\
    \x20 mullion verify --context prod --pre\n\
    \x20 mullion verify --context prod --dry-run\n\
    \x20 mullion verify --context prod -o json --output-file verify.json\n\
    \x20 mullion verify --print-rbac\n\n\
    The command creates two namespaces mullion-verify-… with a few small pods, and deletes them on every way out. \
    No pod is created that no node has room for.\n\nExit code: 0 if no check failed; 1 if one failed; 2 if the checks could not run, or for wrong usage.")]
pub struct VerifyArgs {
    /// Check what an installation needs: release, rights, names and fleet
    #[arg(long, conflicts_with_all = ["dry_run", "host_process", "allow_scale_up", "keep"])]
    pub pre: bool,
    /// Create nothing: only ask what the API server would store, in the namespace of the context. Other checks are not tried
    #[arg(long, conflicts_with_all = ["host_process", "allow_scale_up", "keep"])]
    pub dry_run: bool,
    /// Run only this check, and those that it needs; may be given more than once
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(check_names()), hide_possible_values = true)]
    pub check: Vec<String>,
    /// Image of the pods, for nodes without access to the internet: windows=REF or linux=REF. A Windows repository without a
    /// tag gets the tag of each build
    #[arg(long, value_name = "OS=REF", value_parser = image)]
    pub image: Vec<(String, String)>,
    /// Also create pods for which no node has room. A cluster autoscaler can add nodes for them
    #[arg(long)]
    pub allow_scale_up: bool,
    /// Also create a HostProcess pod
    #[arg(long)]
    pub host_process: bool,
    /// Leave the namespaces at the end. `mullion verify --cleanup` removes them
    #[arg(long)]
    pub keep: bool,
    /// Remove the namespaces of earlier runs, and of runs that are not finished, and check nothing
    #[arg(long, conflicts_with_all = ["pre", "dry_run", "check", "image", "allow_scale_up", "host_process", "keep"])]
    pub cleanup: bool,
    /// Print a cluster role with the rights that the checks need, and check nothing
    #[arg(long, conflicts_with_all = ["cleanup", "image", "allow_scale_up", "keep"])]
    pub print_rbac: bool,
    /// Namespace of Mullion. Default: the namespace of the Service that the webhook configurations named mullion call
    #[arg(short, long, value_name = "NS")]
    pub namespace: Option<String>,
    /// Time limit: 90s, 5m, 1h
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = time_limit)]
    pub timeout: Duration,
    /// Output format; JSON is one object
    #[arg(short, long, value_enum, default_value_t = VerifyFormat::Text)]
    pub output: VerifyFormat,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// Where the output goes.
    #[command(flatten)]
    pub output_file: OutputFileArgs,
}

/// The output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VerifyFormat {
    /// A line for each check, as it ends
    Text,
    /// One JSON object
    Json,
    /// JUnit XML
    Junit,
}

impl VerifyArgs {
    /// The images; the last one of each operating system counts.
    pub(super) fn images(&self) -> Images {
        let of = |os: &str| self.image.iter().rev().find(|(name, _)| name == os).map(|(_, image)| image.clone());
        Images { linux: of("linux"), windows: of("windows") }
    }

    /// The names of `--check`, with those that they need.
    pub(super) fn selected(&self) -> Vec<String> {
        let mut names = self.check.clone();
        // Checks come after those that they need.
        for check in CHECKS.iter().rev().filter(|check| check.id != CheckId::Cleanup) {
            if names.iter().any(|name| name == check.name) {
                names.extend(check.needs.iter().map(|needed| needed.name().to_owned()));
            }
        }
        names
    }
}

/// The names that `--check` accepts.
fn check_names() -> Vec<&'static str> {
    CHECKS.iter().filter(|check| check.id != CheckId::Cleanup).map(|check| check.name).collect()
}

/// `windows=REF` or `linux=REF`.
fn image(text: &str) -> Result<(String, String), String> {
    let (os, image) = text.split_once('=').unwrap_or((text, ""));
    if !["linux", "windows"].contains(&os) {
        return Err("write windows=REF or linux=REF".to_owned());
    }
    if !is_image(image) {
        return Err("the part after = is not an image reference".to_owned());
    }
    Ok((os.to_owned(), image.to_owned()))
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: VerifyArgs,
    }

    fn parse(arguments: &[&str]) -> Result<VerifyArgs, clap::Error> {
        Program::try_parse_from(["verify"].iter().chain(arguments)).map(|program| program.args)
    }

    #[test]
    fn a_check_brings_those_that_it_needs() {
        let args = parse(&["--check", "linux-pod,denials", "--image", "linux=a/b:1", "--image", "linux=a/c"]).unwrap();
        let mut names = args.selected();
        names.sort();
        names.dedup();
        assert_eq!(names, ["changes-stored", "denials", "linux-pod", "webhook-called"]);
        assert_eq!(args.images().linux(), "a/c");
        for wrong in [
            &["--check", "all"][..],
            &["--check", "cleanup"],
            &["--image", "a/b"],
            &["--image", "linux="],
            &["--image", "mac=a"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        for wrong in
            [&["--pre", "--dry-run"][..], &["--cleanup", "--keep"], &["--dry-run", "--keep"], &["--timeout", "0s"]]
        {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
