//! The built program, and a webhook in Go that does nothing, each as a process of its own.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mullion_cluster::free_port;
use tokio::net::TcpStream;

use crate::load::Identity;

/// A running server, which ends when this is dropped.
pub struct Program {
    child: Child,
    pub address: SocketAddr,
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Program {
    /// Mullion's webhook with the nodes and namespaces in `snapshot`, and the policies in a folder.
    pub async fn mullion(identity: &Identity, snapshot: &Path, policies: Option<&PathBuf>) -> Self {
        let address: SocketAddr = ([127, 0, 0, 1], free_port().unwrap()).into();
        let child = Command::new(env!("CARGO_BIN_EXE_mullion"))
            .args(["webhook", "--bind", &address.to_string(), "--admin-bind", "127.0.0.1:0", "--tls-dir"])
            .arg(identity.folder.path())
            .arg("--snapshot")
            .arg(snapshot)
            .args(policies.iter().flat_map(|policies| [Path::new("--policies"), policies]))
            .env("MULLION_LOG", "off")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let program = Self { child, address };
        while TcpStream::connect(address).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        program
    }

    /// The webhook of `benches/webhook/do_nothing`, which needs Go.
    pub fn do_nothing(identity: &Identity) -> Self {
        let program = identity.folder.path().join("do-nothing");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/webhook/do_nothing");
        let built = Command::new("go").current_dir(source).args(["build", "-o"]).arg(&program).arg(".").status();
        assert!(built.expect("go is installed").success(), "the webhook in Go is built");
        let mut child = Command::new(program).arg(identity.folder.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Self { child, address: address.trim().parse().unwrap() }
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}
