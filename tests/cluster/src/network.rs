//! A network of the test program, in which a control plane reaches pods by their addresses.
//!
//! ```text
//! network namespace of the test program          one more for each pod and node
//!   bridge mullionN  10.(128+N).0.1/16  ─── veth ───  eth0 10.(128+N).x.y
//!                    10.96.N.1/32: the API server, as Service `kubernetes` has it
//! ```
//!
//! This does not need root: the program runs as the root of a user namespace, and cannot reach the machine's own
//! network. There is no kube-proxy: the API server itself picks endpoints (`--enable-aggregator-routing`), and its
//! Service's address is its own.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::Sysctl;

use crate::process::{Group, Rank};
use crate::wait::{Seen, wait_for};

/// Set for the program that runs inside.
const INSIDE: &str = "MULLION_CLUSTER_OWN_NETWORK";
/// User, network and mount namespace; the caller becomes root in them.
const NAMESPACES: [&str; 4] = ["--user", "--map-root-user", "--net", "--mount"];
/// The time limit for a process to get its own network namespace.
const DEADLINE: Duration = Duration::from_secs(120);

/// Runs the calling program again in namespaces of its own; call it first in `main`, before any thread starts.
///
/// The process stays the same: arguments, exit code and signals are those of the program. Inside, this function
/// returns.
///
/// # Errors
/// If users of the machine cannot create namespaces; the error contains what to check.
pub fn own_network() -> Result<()> {
    if env::var_os(INSIDE).is_some() {
        return ip(["link", "set", "lo", "up"]);
    }
    let tried = Command::new("unshare").args(NAMESPACES).args(["--", "true"]).output();
    let tried = tried.context("run `unshare` (package util-linux)")?;
    ensure!(
        tried.status.success(),
        "no user and network namespaces here ({}): they are needed to give pods addresses without root. \
         See `sysctl user.max_user_namespaces kernel.unprivileged_userns_clone kernel.apparmor_restrict_unprivileged_userns`",
        String::from_utf8_lossy(&tried.stderr).trim()
    );
    let program = env::current_exe().context("find the running program")?;
    let arguments = env::args_os().skip(1);
    let mut command = Command::new("unshare");
    command.args(NAMESPACES).arg("--").arg(program).args(arguments).env(INSIDE, "yes");
    Err(command.exec()).context("run the program again in a network of its own")
}

/// The addresses of one control plane: the API server's Service, and pods.
#[derive(Debug)]
pub struct Network {
    number: u8,
    taken: AtomicU16,
}

impl Network {
    /// Creates a network that is separate from those of other control planes of this program, which runs in its
    /// [`own_network`].
    pub fn up() -> Result<Self> {
        static NUMBER: AtomicU8 = AtomicU8::new(0);
        ensure!(env::var_os(INSIDE).is_some(), "call mullion_cluster::own_network() first in main()");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        ensure!(number < 100, "a hundred control planes in one program");
        let network = Self { number, taken: AtomicU16::new(1) };
        let bridge = network.bridge();
        ip(["link", "add", &bridge, "type", "bridge"])
            .context("make a bridge: the kernel needs CONFIG_BRIDGE and CONFIG_VETH")?;
        ip(["address", "add", &format!("{}/16", network.gateway()), "dev", &bridge])?;
        ip(["address", "add", &format!("{}/32", network.api_server()), "dev", &bridge])?;
        ip(["link", "set", &bridge, "up"])?;
        Ok(network)
    }

    fn bridge(&self) -> String {
        format!("mullion{}", self.number)
    }

    /// The first address, through which pods reach other addresses.
    fn gateway(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 128 + self.number, 0, 1)
    }

    /// The first address of the Services, which is that of Service `kubernetes`.
    pub(crate) fn api_server(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 96, self.number, 1)
    }

    /// Arguments of the API server for this network.
    pub(crate) fn api_server_flags(&self) -> Vec<String> {
        let address = self.api_server();
        vec![
            format!("--bind-address={address}"),
            format!("--advertise-address={address}"),
            format!("--service-cluster-ip-range=10.96.{}.0/24", self.number),
            "--enable-aggregator-routing=true".to_owned(),
        ]
    }

    /// A network namespace with the next free address, which lasts as long as the process `name` of the group.
    pub(crate) async fn sandbox(&self, group: &Mutex<Group>, name: &str, sysctls: &[Sysctl]) -> Result<Sandbox> {
        let [high, low] =
            self.taken.fetch_add(1, Ordering::Relaxed).checked_add(1).context("no address is left")?.to_be_bytes();
        let address = Ipv4Addr::new(10, 128 + self.number, high, low);
        let pid = {
            let mut group = group.lock().unwrap_or_else(PoisonError::into_inner);
            // An earlier attempt was canceled, or failed.
            group.kill(name).ok();
            group.forget(name).ok();
            group.start(Rank::Middle, name, Command::new("unshare").args(["--net", "--", "sleep", "infinity"]))?;
            group.pid(name).context("a process without an id")?
        };
        let sandbox = Sandbox { address, net: PathBuf::from(format!("/proc/{pid}/ns/net")) };
        let ours = fs::read_link("/proc/self/ns/net").context("read /proc/self/ns/net")?;
        wait_for(&format!("a network namespace for {name}"), DEADLINE, async || match fs::read_link(&sandbox.net) {
            Ok(net) if net != ours => Seen::Done(()),
            Ok(_) => Seen::NotYet("the one of this program".to_owned()),
            Err(error) => Seen::NotYet(error.to_string()),
        })
        .await?;
        // The cables of all networks end in the one namespace of this program. A name has at most 15 letters.
        let cable = format!("veth{}-{high}-{low}", self.number);
        let pid = pid.to_string();
        ip(["link", "add", &cable, "master", &self.bridge(), "type", "veth", "peer", "name", "eth0", "netns", &pid])?;
        ip(["link", "set", &cable, "up"])?;
        let inside = format!(
            "ip link set lo up; ip address add {address}/16 dev eth0; ip link set eth0 up; ip route add default via {}; \
             while [ $# -gt 0 ]; do echo \"$2\" >\"/proc/sys/$1\"; shift 2; done",
            self.gateway()
        );
        let mut settings = Vec::new();
        for sysctl in sysctls {
            ensure!(sysctl.name.starts_with("net."), "the sysctl {} is not simulated", sysctl.name);
            settings.extend([sysctl.name.replace('.', "/"), sysctl.value.clone()]);
        }
        let mut setup = Command::new("nsenter");
        setup.arg(sandbox.enter()).args(["--", "sh", "-ec", &inside, "sandbox"]).args(settings);
        run(&mut setup)?;
        Ok(sandbox)
    }
}

/// The network namespace of a pod or a node.
#[derive(Clone, Debug)]
pub(crate) struct Sandbox {
    pub(crate) address: Ipv4Addr,
    net: PathBuf,
}

impl Sandbox {
    /// The argument with which `nsenter` enters it.
    pub(crate) fn enter(&self) -> String {
        format!("--net={}", self.net.display())
    }
}

fn ip<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Result<()> {
    run(Command::new("ip").args(arguments))
}

fn run(command: &mut Command) -> Result<()> {
    let done = command
        .output()
        .with_context(|| format!("run {} (packages iproute2, util-linux)", command.get_program().display()))?;
    if !done.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(())
}
