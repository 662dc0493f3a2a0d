//! The program under test as a process of its own.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::process::{Group, Rank, tail};
use crate::process_memory::ProcessMemory;
use crate::wait::{Seen, wait_for};

const NAME: &str = "mullion";
const READY_DEADLINE: Duration = Duration::from_secs(180);

/// How to start a [`MullionProcess`].
#[derive(Debug)]
pub struct MullionBuilder {
    binary: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    admin: Option<SocketAddr>,
    deadline: Duration,
}

impl MullionBuilder {
    /// Adds arguments, such as `["webhook", "--tls-dir", …]`.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable, such as `("KUBECONFIG", plane.kubeconfig())`.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// The address of `/readyz`, with a port from [`crate::free_port`]. Without it, the start does not wait for readiness.
    #[must_use]
    pub fn admin(mut self, address: SocketAddr) -> Self {
        self.admin = Some(address);
        self
    }

    /// How long `/readyz` may take until it returns 200, instead of three minutes.
    #[must_use]
    pub fn ready_within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Starts the program and waits until it is ready.
    ///
    /// # Errors
    /// If it ended early or was not ready in time: the message shows the end of its log and where the log is kept.
    pub async fn start(self) -> Result<MullionProcess> {
        let mut group = Group::new()?;
        // The program runs in the group's folder, so a relative path would be another file.
        let binary = std::path::absolute(&self.binary)?;
        group.start(Rank::Middle, NAME, Command::new(&binary).args(&self.arguments).envs(self.environment))?;
        let process = MullionProcess { group: Mutex::new(group) };
        if let Some(admin) = self.admin
            && let Err(why) = process.ready(admin, self.deadline).await
        {
            let kept = process.keep_logs();
            let log = process.group().log(NAME);
            return Err(why.context(format!(
                "start {} (its log is kept in {}); it ends with:\n{}",
                binary.display(),
                kept.display(),
                tail(&log)
            )));
        }
        Ok(process)
    }
}

/// A running `mullion`. Dropping it sends `SIGTERM`, and `SIGKILL` after thirty seconds.
#[derive(Debug)]
pub struct MullionProcess {
    group: Mutex<Group>,
}

impl MullionProcess {
    /// Options for a binary, such as `env!("CARGO_BIN_EXE_mullion")`.
    pub fn builder(binary: impl AsRef<Path>) -> MullionBuilder {
        let binary = binary.as_ref().to_path_buf();
        MullionBuilder { binary, arguments: Vec::new(), environment: Vec::new(), admin: None, deadline: READY_DEADLINE }
    }

    /// The process id.
    pub fn pid(&self) -> Option<u32> {
        self.group().pids().first().copied()
    }

    /// Its resident memory.
    pub fn memory(&self) -> Result<ProcessMemory> {
        ProcessMemory::of(self.pid().context("the program has ended")?)
    }

    /// What the program has printed so far, to stdout and stderr.
    pub fn log(&self) -> Result<String> {
        let path = self.group().log(NAME);
        let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// How the program ended, if it did.
    pub fn ended(&self) -> Result<Option<ExitStatus>> {
        self.group().ended(NAME)
    }

    /// Sends `SIGKILL` and waits for the end; the log stays readable.
    pub fn kill(&self) -> Result<()> {
        self.group().kill(NAME)
    }

    /// Sends `SIGTERM` (`SIGKILL` after thirty seconds), waits for the end, and returns its exit status and its output.
    pub async fn stop(self) -> Result<(ExitStatus, String)> {
        let mut group = self.group.into_inner().unwrap_or_else(PoisonError::into_inner);
        tokio::task::spawn_blocking(move || {
            // The folder is removed with the process, but the open file stays readable.
            let log = fs::File::open(group.log(NAME)).with_context(|| format!("open {}", group.log(NAME).display()))?;
            let Some((_, Some(status))) = group.stop().pop() else {
                bail!("{NAME} did not end, not even by SIGKILL");
            };
            Ok((status, std::io::read_to_string(log).context("read the log after the end")?))
        })
        .await?
    }

    /// Keeps the log in `target/cluster-logs/` at the end, as after a panic; returns the folder that will contain it.
    pub fn keep_logs(&self) -> PathBuf {
        self.group().keep_logs()
    }

    async fn ready(&self, admin: SocketAddr, deadline: Duration) -> Result<()> {
        wait_for(&format!("http://{admin}/readyz to answer 200"), deadline, async || {
            if let Err(ended) = self.group().check() {
                return Seen::Hopeless(ended);
            }
            match status_line(admin, "/readyz").await {
                Ok(line) if line.split(' ').nth(1) == Some("200") => Seen::Done(()),
                Ok(line) => Seen::NotYet(format!("{line:?}")),
                Err(error) => Seen::NotYet(format!("{error:#}")),
            }
        })
        .await
    }

    fn group(&self) -> MutexGuard<'_, Group> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first line of the response to a plain HTTP GET.
pub(crate) async fn status_line(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await.context("connect")?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(64 * 1024).read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    answer.lines().next().map(str::to_owned).context("an empty answer")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    async fn admin(answer: &'static str) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 1024];
                let _read = stream.read(&mut request).await;
                stream.write_all(answer.as_bytes()).await.ok();
            }
        });
        address
    }

    fn sh(script: &str) -> MullionBuilder {
        MullionProcess::builder("/bin/sh").args(["-c", script])
    }

    #[tokio::test]
    async fn it_starts_and_stops_on_sigterm() {
        let address = admin("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let process = sh("trap 'echo stopping; exit 3' TERM; echo $GREETING; while :; do sleep 0.01; done")
            .env("GREETING", "hello")
            .admin(address)
            .start()
            .await
            .unwrap();
        wait_for("the greeting", READY_DEADLINE, async || process.log().unwrap().contains("hello").then_some(()))
            .await
            .unwrap();
        assert!(process.ended().unwrap().is_none());
        let (status, log) = process.stop().await.unwrap();
        assert_eq!((status.code(), log.as_str()), (Some(3), "hello\nstopping\n"));
    }

    #[tokio::test]
    async fn killing_leaves_the_log() {
        let process = sh("echo hello; exec sleep 1000").start().await.unwrap();
        wait_for("the greeting", READY_DEADLINE, async || process.log().unwrap().contains("hello").then_some(()))
            .await
            .unwrap();
        process.kill().unwrap();
        assert!(process.ended().unwrap().is_some());
        assert_eq!(process.log().unwrap(), "hello\n");
    }

    #[tokio::test]
    async fn an_early_end_or_no_readiness_is_an_error_with_the_log() {
        let address = admin("HTTP/1.1 503 Service Unavailable\r\n\r\n").await;
        let early = sh("echo no such flag; exit 2").admin(address).start().await.unwrap_err();
        assert!(format!("{early:#}").contains("no such flag"), "{early:#}");
        let late = sh("exec sleep 1000").admin(address).ready_within(Duration::from_secs(2)).start().await.unwrap_err();
        assert!(format!("{late:#}").contains("503 Service Unavailable"), "{late:#}");
        for error in [early, late] {
            let text = error.to_string();
            let kept = text.split_once("its log is kept in ").unwrap().1.split_once(')').unwrap().0;
            assert!(Path::new(kept).join("mullion.log").is_file());
            fs::remove_dir_all(kept).unwrap();
        }
    }
}
