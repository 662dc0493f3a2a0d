//! A group of processes that never outlives the program that started it.
//!
//! A small shell (`supervisor.sh`) holds the reading end of a pipe; the writing end exists only in this process.
//! Whatever ends this process (a drop, a panic, Ctrl-C, `exit`, even `SIGKILL`) closes the pipe; the shell then stops
//! the group in order, keeps the logs if requested, and removes the folder. There is no other way to stop.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// Seconds between `SIGTERM` and `SIGKILL` for each rank, in stopping order.
///
/// The API server ends after `SIGTERM` only when its last watch is gone: 61.8 s were measured with idle watches. It has
/// no state of its own, so it gets one second. etcd and the others ended within a tenth of a second; the program under
/// test finishes what it has begun, which takes time on a busy machine.
const GRACE: [u64; 3] = [1, 30, 5];

/// How long a drop waits for the shell before it kills the group itself: the ranks' grace and time to remove a folder.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much of a log's end an error message shows.
const TAIL_LINES: usize = 20;
const TAIL_BYTES: u64 = 16 * 1024;

/// When a process is stopped, relative to the others of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// The API server: without etcd it would ignore `SIGTERM`.
    First,
    /// All clients of the API server.
    Middle,
    /// etcd.
    Last,
}

/// A process of a group and the file for its output.
#[derive(Debug)]
struct Member {
    name: String,
    child: Child,
    log: PathBuf,
}

/// Processes with a folder of their own; dropping it stops them all and removes the folder.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
    members: Vec<Member>,
    shell: Child,
    /// The only writing end of the pipe; `None` once closed.
    orders: Option<ChildStdin>,
    kept: Option<PathBuf>,
}

impl Group {
    /// Creates a folder (with `logs/` in it) in the system's folder for temporary files and starts the shell that
    /// guards it.
    pub(crate) fn new() -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("mullion-cluster-")
            .tempdir()
            .context("make a folder for a group of processes")?;
        fs::create_dir(folder.path().join("logs"))
            .with_context(|| format!("make logs/ in {}", folder.path().display()))?;
        let mut shell = Command::new("sh")
            .args(["-c", include_str!("supervisor.sh"), "mullion-cluster-supervisor"])
            .arg(folder.path())
            .args(GRACE.map(|seconds| seconds.to_string()))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("start `sh`, which stops the processes of a control plane: is a POSIX shell in PATH?")?;
        let orders = shell.stdin.take();
        Ok(Self { folder: folder.keep(), members: Vec::new(), shell, orders, kept: None })
    }

    /// The group's folder: absolute, for its owner only.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a process in the group's folder with stdout and stderr in `logs/<name>.log`, so that the terminal's
    /// Ctrl-C does not reach it.
    pub(crate) fn start(&mut self, rank: Rank, name: &str, command: &mut Command) -> Result<()> {
        ensure!(self.orders.is_some(), "the group of processes is stopped already");
        let log = self.folder.join("logs").join(format!("{name}.log"));
        let out = File::options().append(true).create(true).open(&log);
        let out = out.with_context(|| format!("create {}", log.display()))?;
        let err = out.try_clone().with_context(|| format!("share {}", log.display()))?;
        let child = command
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {name} ({})", command.get_program().display()))?;
        let verb = match rank {
            Rank::First => "first",
            Rank::Middle => "middle",
            Rank::Last => "last",
        };
        let pid = child.id();
        self.members.push(Member { name: name.to_owned(), child, log });
        self.order(&format!("{verb} {pid}"))
    }

    /// Kills a member of the first rank, and starts it again with the same log.
    pub(crate) fn restart(&mut self, name: &str, command: &mut Command) -> Result<()> {
        self.kill(name)?;
        let at = self.members.iter().position(|member| member.name == name);
        let at = at.with_context(|| format!("no process called {name} was started here"))?;
        self.forget(name)?;
        self.start(Rank::First, name, command)?;
        if let Some(range) = self.members.get_mut(at..) {
            range.rotate_right(1);
        }
        Ok(())
    }

    /// Removes an ended member of the first or the middle rank from the group; its log stays.
    pub(crate) fn forget(&mut self, name: &str) -> Result<()> {
        let at = self.members.iter().position(|member| member.name == name);
        let at = at.with_context(|| format!("no process called {name} was started here"))?;
        let ended = self.members.remove(at);
        // Another process may get the number.
        self.order(&format!("gone {}", ended.child.id()))
    }

    /// The process id of a member.
    pub(crate) fn pid(&self, name: &str) -> Option<u32> {
        self.members.iter().find(|member| member.name == name).map(|member| member.child.id())
    }

    /// An error with the end of the log of the first process that has ended; `Ok` while all run.
    pub(crate) fn check(&mut self) -> Result<()> {
        for member in &mut self.members {
            if let Some(status) =
                member.child.try_wait().with_context(|| format!("ask for the state of {}", member.name))?
            {
                bail!("{} ended early ({status}). Its log ends with:\n{}", member.name, tail(&member.log));
            }
        }
        Ok(())
    }

    /// The path of a member's log.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.folder.join("logs").join(format!("{name}.log"))
    }

    /// The members' process ids in the order of their start.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.child.id()).collect()
    }

    /// How a member ended, if it did.
    pub(crate) fn ended(&mut self, name: &str) -> Result<Option<ExitStatus>> {
        match self.members.iter_mut().find(|member| member.name == name) {
            Some(member) => member.child.try_wait().with_context(|| format!("ask for the state of {name}")),
            None => bail!("no process called {name} was started here"),
        }
    }

    /// Sends a member `SIGKILL` and waits for its end.
    pub(crate) fn kill(&mut self, name: &str) -> Result<()> {
        if let Some(member) = self.members.iter_mut().find(|member| member.name == name) {
            member.child.kill().with_context(|| format!("kill {name}"))?;
            member.child.wait().with_context(|| format!("wait for the end of {name}"))?;
        }
        Ok(())
    }

    /// Requests that the logs are copied to `target/cluster-logs/` when the group stops; returns the folder that will
    /// contain them.
    pub(crate) fn keep_logs(&mut self) -> PathBuf {
        if let Some(kept) = &self.kept {
            return kept.clone();
        }
        let kept = self.kept_folder();
        // Without the shell, nothing can copy them; the caller's own error is more important.
        if self.order(&format!("logs {}", kept.display())).is_ok() {
            self.kept = Some(kept.clone());
        }
        kept
    }

    fn kept_folder(&self) -> PathBuf {
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy();
        logs_folder().join(format!("{}-{}", std::process::id(), name.trim_start_matches("mullion-cluster-")))
    }

    /// Stops everything and waits for it; returns how each member ended, in the order of their start.
    pub(crate) fn stop(&mut self) -> Vec<(String, Option<ExitStatus>)> {
        let patience = Instant::now() + PATIENCE;
        self.orders = None; // closes the pipe
        // The shell detects that a process is gone only after this process has waited for it, so it must be polled.
        let mut shell_ended = false;
        while !shell_ended && Instant::now() < patience {
            shell_ended = !matches!(self.shell.try_wait(), Ok(None));
            for member in &mut self.members {
                member.child.try_wait().ok();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // Only if the shell was killed or hangs; this does nothing to a process that has ended.
        self.shell.kill().ok();
        self.shell.wait().ok();
        for member in &mut self.members {
            if let Ok(None) = member.child.try_wait() {
                member.child.kill().ok();
                member.child.wait().ok();
            }
        }
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).ok();
        }
        self.members.iter_mut().map(|member| (member.name.clone(), member.child.try_wait().ok().flatten())).collect()
    }

    fn order(&mut self, line: &str) -> Result<()> {
        let orders = self.orders.as_mut().context("the group of processes is stopped already")?;
        writeln!(orders, "{line}").context("the shell that stops the processes has ended: was it killed?")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.close();
    }
}

impl Group {
    /// Sends every member `SIGKILL`; [`Group::close`] waits for their end.
    pub(crate) fn kill_all(&mut self) {
        for member in &mut self.members {
            member.child.kill().ok();
        }
    }

    /// The work of a drop. After this, nothing can be started.
    pub(crate) fn close(&mut self) {
        if self.orders.is_none() {
            return;
        }
        if std::thread::panicking() {
            self.keep_logs();
        }
        self.stop();
        if let Some(kept) = &self.kept {
            announce(kept);
        }
    }
}

#[allow(clippy::print_stderr, reason = "the user who ran the failing test needs the path of the logs")]
fn announce(kept: &Path) {
    eprintln!("the logs are in {}", kept.display());
}

/// Where the logs of groups are kept.
fn logs_folder() -> PathBuf {
    target_folder().join("cluster-logs")
}

/// `target` of the repository, or `CARGO_TARGET_DIR`.
pub(crate) fn target_folder() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate::tools::repository().join("target"), PathBuf::from);
    std::path::absolute(&target).unwrap_or(target)
}

/// The end of a log, for an error message.
pub(crate) fn tail(log: &Path) -> String {
    let mut bytes = Vec::new();
    let read = File::open(log).and_then(|mut file| {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        file.read_to_end(&mut bytes)
    });
    if let Err(error) = read {
        return format!("  (cannot read {}: {error})", log.display());
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    let last = lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default();
    if last.is_empty() {
        "  (nothing)".to_owned()
    } else {
        last.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
    }
}

/// A free loopback port, chosen by the kernel, which the kernel does not choose again within the next minute.
///
/// A connection of the port was closed from its side, and the kernel remembers that for 60 s (`TIME_WAIT`). Until then
/// only a process that requests the port by number gets it, with `SO_REUSEADDR`, as Rust's and Go's libraries do.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("ask the kernel for a free port on 127.0.0.1")?;
    let address = listener.local_addr().context("read the port that the kernel chose")?;
    let client = TcpStream::connect(address).context("connect to a port of our own")?;
    let (server, _) = listener.accept().context("take a connection of our own")?;
    drop(server); // first, because the side that closes first keeps the port in memory
    drop(client);
    Ok(address.port())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
    use std::collections::BTreeSet;

    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn ranks_are_stopped_in_order_and_the_folder_goes() {
        let order = tempfile::NamedTempFile::new().unwrap();
        let mut group = Group::new().unwrap();
        // Prints its name on SIGTERM; "ready" means that the trap is set.
        let script = |name| {
            let path = order.path().display();
            sh(&format!("trap 'echo {name} >> {path}; exit 0' TERM; echo ready; while :; do sleep 0.01; done"))
        };
        for (rank, name) in [(Rank::Last, "etcd"), (Rank::First, "api"), (Rank::Middle, "other")] {
            group.start(rank, name, &mut script(name)).unwrap();
            while fs::read_to_string(group.log(name)).unwrap() != "ready\n" {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        group.check().unwrap();
        let ended = group.stop();
        assert!(ended.iter().all(|(_, status)| status.is_some_and(|status| status.success())), "{ended:?}");
        assert_eq!(fs::read_to_string(order.path()).unwrap(), "api\nother\netcd\n");
        assert!(!group.folder().exists());
    }

    #[test]
    fn a_process_deaf_to_sigterm_is_killed() {
        let mut group = Group::new().unwrap();
        group.start(Rank::First, "deaf", &mut sh("trap '' TERM; echo ready; while :; do sleep 0.01; done")).unwrap();
        while fs::read_to_string(group.log("deaf")).unwrap() != "ready\n" {
            std::thread::sleep(Duration::from_millis(5));
        }
        let ended = group.stop();
        assert_eq!(ended[0].1.unwrap().to_string(), "signal: 9 (SIGKILL)");
    }

    #[test]
    fn a_restarted_process_takes_the_place_and_the_log_of_the_first() {
        let mut group = Group::new().unwrap();
        let script = |text: &str| sh(&format!("echo {text}; exec sleep 1000"));
        group.start(Rank::First, "api", &mut script("one")).unwrap();
        group.start(Rank::Middle, "other", Command::new("sleep").arg("1000")).unwrap();
        while fs::read_to_string(group.log("api")).unwrap() != "one\n" {
            std::thread::sleep(Duration::from_millis(5));
        }
        let before = group.pids();
        group.restart("api", &mut script("two")).unwrap();
        while fs::read_to_string(group.log("api")).unwrap() != "one\ntwo\n" {
            std::thread::sleep(Duration::from_millis(5));
        }
        group.check().unwrap();
        let after = group.pids();
        assert!(before[0] != after[0] && before[1] == after[1], "{before:?} {after:?}");
        assert!(group.restart("nobody", &mut script("three")).is_err());
        assert!(group.stop().iter().all(|(_, status)| status.is_some()));
    }

    #[test]
    fn without_its_shell_a_group_still_stops() {
        let mut group = Group::new().unwrap();
        group.start(Rank::Middle, "sleep", Command::new("sleep").arg("1000")).unwrap();
        group.shell.kill().unwrap();
        group.shell.wait().unwrap();
        let ended = group.stop();
        assert!(ended[0].1.is_some());
        assert!(!group.folder().exists());
    }

    #[test]
    fn an_early_end_shows_the_last_words() {
        let mut group = Group::new().unwrap();
        group.start(Rank::Middle, "talker", &mut sh("for i in 1 2 3; do echo line $i; done; exit 7")).unwrap();
        let error = loop {
            if let Err(error) = group.check() {
                break error.to_string();
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(
            error.contains("talker ended early (exit status: 7)") && error.ends_with("  line 1\n  line 2\n  line 3"),
            "{error}"
        );
    }

    /// Not a test by itself: the program that `however_the_program_ends_its_group_ends` kills.
    #[test]
    #[ignore = "runs for ever; another test starts it"]
    fn program_to_be_killed() {
        let mut group = Group::new().unwrap();
        group.start(Rank::Middle, "sleep", Command::new("sleep").arg("1000")).unwrap();
        let (pids, folder) = (group.pids(), group.folder().to_path_buf());
        // Not `println!`, which waits in the test harness' buffer.
        writeln!(std::io::stdout(), "\nready {} {}", pids[0], folder.display()).unwrap();
        std::thread::sleep(Duration::from_secs(1000));
    }

    #[test]
    fn however_the_program_ends_its_group_ends() {
        use std::io::BufRead as _;
        for signal in ["INT", "TERM", "KILL"] {
            // A shell without job control starts background processes with SIGINT ignored, including tests in CI.
            let mut program = Command::new("env")
                .arg("--default-signal=INT")
                .arg(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact", "process::tests::program_to_be_killed", "--nocapture"])
                .stdout(Stdio::piped())
                .process_group(0)
                .spawn()
                .unwrap();
            let mut lines = std::io::BufReader::new(program.stdout.take().unwrap()).lines();
            let ready = lines.find_map(|line| line.unwrap().strip_prefix("ready ").map(str::to_owned)).unwrap();
            let (pid, folder) = ready.split_once(' ').unwrap();
            assert!(Path::new(folder).is_dir());
            // To the whole process group, as a terminal does.
            let killed =
                Command::new("sh").args(["-c", &format!("kill -s {signal} -- -{}", program.id())]).status().unwrap();
            assert!(killed.success());
            program.wait().unwrap();
            let end = Instant::now() + Duration::from_secs(120);
            while runs(pid) || Path::new(folder).exists() {
                assert!(
                    Instant::now() < end,
                    "{signal}: process {pid} runs: {}, {folder} is there: {}",
                    runs(pid),
                    Path::new(folder).exists()
                );
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// Whether a process exists and is not a zombie.
    fn runs(pid: &str) -> bool {
        let state = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap().stdout;
        !state.is_empty() && !state.starts_with(b"Z")
    }

    #[test]
    fn a_panic_keeps_the_logs() {
        let kept = std::thread::spawn(|| {
            let mut group = Group::new().unwrap();
            group.start(Rank::Middle, "talker", &mut sh("echo last words")).unwrap();
            while group.check().is_ok() {}
            std::panic::resume_unwind(Box::new(group.kept_folder()));
        });
        let kept = *kept.join().unwrap_err().downcast::<PathBuf>().unwrap();
        assert_eq!(fs::read_to_string(kept.join("talker.log")).unwrap(), "last words\n");
        fs::remove_dir_all(kept).unwrap();
    }

    #[test]
    fn a_free_port_is_kept_for_who_knows_its_number() {
        let ports: BTreeSet<u16> = (0..100).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.len(), 100);
        // The kernel has 28,000 to choose from: without that memory some of these ports would be among so many.
        for _ in 0..10_000 {
            let other = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
            assert!(!ports.contains(&other), "{other} is given twice");
        }
        for port in ports {
            TcpListener::bind(("127.0.0.1", port)).unwrap();
        }
    }

    #[test]
    fn a_tail_is_short_even_if_the_log_is_not() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "x".repeat(100_000) + &"\nlast".repeat(50)).unwrap();
        assert_eq!(tail(file.path()), vec!["  last"; TAIL_LINES].join("\n"));
        fs::write(file.path(), b"\xff\xfe").unwrap();
        assert_eq!(tail(file.path()).lines().count(), 1);
        assert!(tail(Path::new("/nonexistent/log")).contains("cannot read /nonexistent/log"));
    }
}
