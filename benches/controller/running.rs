//! The built program as a controller or a webhook of an API server.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mullion_cluster::free_port;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::rate::patches;
use crate::{resident, thread_times};

/// A running program, which ends when this is dropped.
pub struct Running {
    child: Child,
    admin: String,
    leads: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Running {
    pub fn controller(kubeconfig: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mullion"));
        command.args(["controller", "--kubeconfig"]).arg(kubeconfig);
        Self::start(command, true)
    }

    /// A webhook with the certificate in a folder.
    pub fn webhook(kubeconfig: &Path, certificate: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mullion"));
        let bind = format!("127.0.0.1:{}", free_port().unwrap());
        command.args(["webhook", "--bind", &bind, "--kubeconfig"]).arg(kubeconfig).arg("--tls-dir").arg(certificate);
        Self::start(command, false)
    }

    fn start(mut command: Command, leads: bool) -> Self {
        let admin = format!("127.0.0.1:{}", free_port().unwrap());
        command.args(["--admin-bind", &admin]).env("MULLION_LOG", "off").stderr(Stdio::null());
        Self { child: command.spawn().unwrap(), admin, leads }
    }

    /// Processor time so far, of all its threads.
    pub fn processor(&self) -> Duration {
        thread_times::of(self.child.id())
    }

    /// The response of its admin port: status line, headers and body; empty while the port is not open.
    async fn get(&self, path: &str) -> String {
        let Ok(mut stream) = TcpStream::connect(&self.admin).await else { return String::new() };
        let request = format!("GET {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    pub async fn patches(&self) -> usize {
        patches(&self.get("/metrics").await)
    }

    /// Waits until it has read the cluster. A controller that does not lead is ready before.
    pub async fn wait_until_synced(&self) {
        let leads = |metrics: &str| metrics.lines().any(|line| line == "mullion_leader 1");
        while (self.leads && !leads(&self.get("/metrics").await))
            || !self.get("/readyz").await.starts_with("HTTP/1.1 200")
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn wait_for_patches(&self, count: usize) {
        while self.patches().await < count {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Prints its resident set now, and its maximum so far.
    pub fn print_memory(&self, what: &str) {
        let [now, peak] = resident::of(self.child.id());
        println!("{what:48} {now:8.1} {peak:8.1}");
    }
}
