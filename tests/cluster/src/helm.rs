//! Helm commands that need no cluster, in processes that run one command after the other (`tools/cmd/helm-batch`).
//!
//! `helm template` takes 61 ms of processor time, 39 ms of them for its start. A process starts when none is idle, so
//! there are at most as many as threads that run commands. Its stdin ends with this process, even if that is killed, and
//! then it ends too.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::tools::{Tool, Tools};

/// The result of a Helm command.
#[derive(Debug, Deserialize, PartialEq, Eq)]
pub struct HelmOutput {
    /// Whether Helm's exit status is 0.
    pub succeeded: bool,
    /// What Helm printed on stdout.
    pub stdout: String,
    /// What Helm printed on stderr.
    pub stderr: String,
}

/// Runs `helm <arguments>`.
///
/// # Errors
/// The process could not be started, or ended: not the failure of the command.
pub fn helm(arguments: &[OsString]) -> Result<HelmOutput> {
    static IDLE: Mutex<Vec<HelmBatch>> = Mutex::new(Vec::new());
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut process = idle.map_or_else(HelmBatch::start, Ok)?;
    let output = process.run(arguments).context("run a command in helm-batch")?;
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(process);
    Ok(output)
}

struct HelmBatch {
    child: Child,
    outputs: BufReader<ChildStdout>,
}

impl HelmBatch {
    fn start() -> Result<Self> {
        let mut command = Tools::locate()?.command(Tool::HelmBatch);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start helm-batch")?;
        let outputs = BufReader::new(child.stdout.take().context("its stdout")?);
        Ok(Self { child, outputs })
    }

    fn run(&mut self, arguments: &[OsString]) -> Result<HelmOutput> {
        let arguments: Option<Vec<&str>> = arguments.iter().map(|argument| argument.to_str()).collect();
        let mut request = serde_json::to_string(&arguments.context("an argument that is not UTF-8")?)?;
        request.push('\n');
        self.child.stdin.as_mut().context("its stdin")?.write_all(request.as_bytes())?;
        let mut output = String::new();
        self.outputs.read_line(&mut output)?;
        serde_json::from_str(&output).with_context(|| format!("it printed {output:?}"))
    }
}
