//! CNCF's registry as a process, and crane to fill it.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mullion_cluster::{Tool, Tools};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The time limit for the start of a registry; it takes a twentieth of a second.
const START: Duration = Duration::from_secs(60);

/// A registry that keeps everything in memory and ends with this process, even after a kill.
pub struct Registry {
    pub address: SocketAddr,
    folder: TempDir,
    /// A shell that stops the registry when this process's end of its standard input closes.
    shell: Child,
}

impl Registry {
    /// Without any authentication.
    pub fn open() -> Self {
        Self::start(&json!({}), &json!({}))
    }

    /// `auth` and `tls` as in the registry's configuration file.
    pub fn start(auth: &Value, tls: &Value) -> Self {
        let tools = Tools::locate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut http = json!({"addr": "127.0.0.1:0", "secret": "of no use"});
        if tls != &json!({}) {
            http["tls"] = tls.clone();
        }
        let mut config = json!({
            "version": "0.1",
            "log": {"level": "info", "accesslog": {"disabled": true}},
            "storage": {"inmemory": {}},
            "http": http,
            // Indexes may refer to manifests that do not exist: attestations need none here.
            "validation": {"manifests": {"indexes": {"platforms": "none"}}},
        });
        if auth != &json!({}) {
            config["auth"] = auth.clone();
        }
        // JSON is YAML.
        fs::write(folder.path().join("config.yml"), config.to_string()).unwrap();
        let log = folder.path().join("log");
        let shell = Command::new("sh")
            .args(["-c", r#""$0" serve "$1" & cat >/dev/null; kill $!; wait"#])
            .arg(tools.path(Tool::Registry))
            .arg(folder.path().join("config.yml"))
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdin(Stdio::piped())
            .stdout(File::create(&log).unwrap())
            .stderr(File::options().append(true).open(&log).unwrap())
            .spawn()
            .unwrap();
        Self { address: listening(&log), folder, shell }
    }

    /// `127.0.0.1:port`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Runs crane, with `login` (user, password) for this registry; returns its output.
    pub fn crane_as(&self, login: Option<(&str, &str)>, arguments: &[&str]) -> String {
        let auths = login.map_or_else(
            || json!({}),
            |(user, password)| json!({self.host(): {"username": user, "password": password}}),
        );
        fs::write(self.folder.path().join("config.json"), json!({"auths": auths}).to_string()).unwrap();
        let output = Command::new(Tools::locate().unwrap().path(Tool::Crane))
            .args(arguments)
            .env("DOCKER_CONFIG", self.folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "crane {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn crane(&self, arguments: &[&str]) -> String {
        self.crane_as(None, arguments)
    }

    /// Pushes an image of one layer for a platform in the format of `--set-platform`: `windows/amd64:10.0.20348.2655`.
    pub fn push_as(&self, login: Option<(&str, &str)>, image: &str, platform: &str) {
        let target = format!("{}/{image}", self.host());
        let layer = self.layer();
        self.crane_as(login, &["append", "-f", layer.to_str().unwrap(), "-t", &target]);
        self.crane_as(login, &["mutate", "--set-platform", platform, &target, "-t", &target]);
    }

    pub fn push(&self, image: &str, platform: &str) {
        self.push_as(None, image, platform);
    }

    /// Creates an index from pushed images.
    pub fn index(&self, image: &str, of: &[&str]) {
        let target = format!("{}/{image}", self.host());
        let children: Vec<_> = of.iter().map(|child| format!("{}/{child}", self.host())).collect();
        let mut arguments = vec!["index", "append", "-t", &target];
        for child in &children {
            arguments.extend(["-m", child]);
        }
        self.crane(&arguments);
    }

    pub fn digest(&self, image: &str) -> String {
        self.crane(&["digest", &format!("{}/{image}", self.host())]).trim().to_owned()
    }

    pub fn manifest(&self, image: &str) -> Value {
        serde_json::from_str(&self.crane(&["manifest", &format!("{}/{image}", self.host())])).unwrap()
    }

    /// Pushes a manifest unchanged.
    pub fn put(&self, repository: &str, tag: &str, manifest: &Value) {
        let media_type = manifest["mediaType"].as_str().unwrap();
        let body = manifest.to_string();
        self.send(&format!(
            "PUT /v2/{repository}/manifests/{tag} HTTP/1.1\r\nHost: registry\r\nConnection: close\r\n\
             Content-Type: {media_type}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
    }

    /// Pushes a small blob.
    pub fn put_blob(&self, repository: &str, digest: &str, body: &str) {
        let head = "Host: registry\r\nConnection: close\r\nContent-Length:";
        let answer = self.send(&format!("POST /v2/{repository}/blobs/uploads/ HTTP/1.1\r\n{head} 0\r\n\r\n"));
        let location = answer.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap();
        let path = location.strip_prefix("http://registry").unwrap_or(location);
        let separator = if path.contains('?') { '&' } else { '?' };
        self.send(&format!("PUT {path}{separator}digest={digest} HTTP/1.1\r\n{head} {}\r\n\r\n{body}", body.len()));
    }

    fn send(&self, request: &str) -> String {
        let mut connection = TcpStream::connect(self.address).unwrap();
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 20"), "{request}\n{answer}");
        answer
    }

    fn layer(&self) -> PathBuf {
        // An empty tar file: two blocks of zeros.
        let path = self.folder.path().join("layer.tar");
        fs::write(&path, [0; 1024]).unwrap();
        path
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        self.shell.wait().ok();
    }
}

/// The registry prints its address.
fn listening(log: &Path) -> SocketAddr {
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(log).unwrap();
        let address = text.split_once("listening on ").and_then(|(_, rest)| {
            let end = rest.find(|letter: char| !letter.is_ascii_digit() && !".:".contains(letter))?;
            rest[..end].parse().ok()
        });
        if let Some(address) = address {
            return address;
        }
        assert!(start.elapsed() < START, "the registry does not start: {text}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
