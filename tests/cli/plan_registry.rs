//! `mullion plan --registry` and `--registry-cache`, with a registry that the test simulates.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::json;

use super::*;

/// A registry without TLS. It has these documents by path below `/v2/`; others do not exist.
struct PlayedRegistry {
    host: String,
    /// Paths of the requests.
    seen: Arc<Mutex<Vec<String>>>,
}

impl PlayedRegistry {
    fn start(documents: BTreeMap<String, String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let paths = Arc::clone(&seen);
        // The thread ends with the process.
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                respond_to(&connection.unwrap(), &documents, &paths);
            }
        });
        Self { host, seen }
    }

    /// The paths since the last call.
    fn seen(&self) -> Vec<String> {
        let mut seen = std::mem::take(&mut *self.seen.lock().unwrap());
        seen.sort();
        seen
    }
}

fn respond_to(connection: &TcpStream, documents: &BTreeMap<String, String>, paths: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
    let Some(path) = lines.next().and_then(|line| Some(line.split(' ').nth(1)?.trim_start_matches("/v2/").to_owned()))
    else {
        return;
    };
    lines.find(String::is_empty);
    let (status, body) = documents.get(&path).map_or(("404 Not Found", ""), |body| ("200 OK", body.as_str()));
    paths.lock().unwrap().push(path);
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut connection = connection;
    // A client that rejects the length closes the connection.
    drop(connection.write_all(&[head.as_bytes(), body.as_bytes()].concat()));
}

fn sum(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().fold("sha256:".to_owned(), |sum, byte| format!("{sum}{byte:02x}"))
}

/// Adds an index with one image for Windows, and returns the path of the image's manifest.
fn add_index(documents: &mut BTreeMap<String, String>, name: &str, tag: &str, os_version: &str, bytes: u64) -> String {
    let layer = json!({"digest": format!("sha256:{}", "a".repeat(64)), "size": bytes});
    let config = json!({"mediaType": "application/vnd.oci.image.config.v1+json", "digest": layer["digest"], "size": 2});
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer]}).to_string();
    let platform = json!({"os": "windows", "architecture": "amd64", "os.version": os_version});
    let index = json!({"schemaVersion": 2, "manifests": [{"digest": sum(&manifest), "size": 2, "platform": platform}]});
    let path = format!("{name}/manifests/{}", sum(&manifest));
    documents.insert(path.clone(), manifest);
    documents.insert(format!("{name}/manifests/{tag}"), index.to_string());
    path
}

/// A registry, a closed port, policies that list both, and a dump of workloads that move from 2019 to 2025.
struct Fixture {
    dir: TempDir,
    registry: PlayedRegistry,
    closed: String,
}

impl Fixture {
    fn new(documents: BTreeMap<String, String>) -> Self {
        let registry = PlayedRegistry::start(documents);
        // The port is free again once the listener is gone.
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let dir = dir();
        let hosts = format!("[\"{}\", \"{closed}\"]", registry.host);
        let policy = format!(
            "apiVersion: mullion.dev/v1alpha1\nkind: RegistryPolicy\nmetadata: {{name: default}}\nspec:\n  registries: {hosts}\n  plainHTTP: {hosts}\n"
        );
        write(&dir, "policies/registries.yaml", policy);
        Self { dir, registry, closed }
    }

    /// Writes a dump of a node with 2019 and a Deployment for each image.
    fn dump(&self, images: &[(&str, String)]) -> String {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w", "labels":
            {"kubernetes.io/os": "windows", "node.kubernetes.io/windows-build": "10.0.17763"}}});
        let deployments = images.iter().map(|(name, image)| {
            let spec = json!({"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [{"name": "a", "image": image}]});
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": name},
                "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}})
        });
        let items: Vec<Value> = [node].into_iter().chain(deployments).collect();
        write(&self.dir, "dump.json", json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// Runs without the logins of the user who runs the test.
    fn plan(&self, args: &[&str]) -> Ran {
        let policies = self.path("policies");
        let fixed = ["plan", "--to", "ltsc2025", "-o", "json", "--today", "2026-11-23", "--policies", &policies];
        finish(spawn(&[&fixed[..], args].concat(), &[("DOCKER_CONFIG", &self.path("nowhere"))]), b"")
    }
}

fn report(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err))
}

/// The only container of a workload.
fn container<'r>(report: &'r Value, name: &str) -> &'r Value {
    let workloads = report["workloads"].as_array().unwrap();
    &workloads.iter().find(|workload| workload["name"] == name).unwrap()["containers"][0]
}

/// Four images: the proposed tag exists, it does not exist, the registry is down, the registry is not listed.
fn four_images() -> (Fixture, String) {
    let mut documents = BTreeMap::new();
    add_index(&mut documents, "web", "1-ltsc2019", "10.0.17763.8389", 1_000);
    add_index(&mut documents, "web", "1-ltsc2025", "10.0.26100.6899", 2_000);
    add_index(&mut documents, "old", "1-ltsc2019", "10.0.17763.8389", 1_000);
    let fixture = Fixture::new(documents);
    let (host, closed) = (&fixture.registry.host, &fixture.closed);
    let dump = fixture.dump(&[
        ("confirmed", format!("{host}/web:1-ltsc2019")),
        ("refuted", format!("{host}/old:1-ltsc2019")),
        ("unreachable", format!("{closed}/far:1")),
        ("unlisted", "other.example/app:1".to_owned()),
    ]);
    (fixture, dump)
}

#[test]
fn a_registry_confirms_and_refutes_tags() {
    let (fixture, dump) = four_images();
    let without = report(&fixture.plan(&[&dump]));
    assert_eq!(fixture.registry.seen(), [""; 0], "nothing is asked without --registry");
    for name in ["confirmed", "refuted"] {
        let container = container(&without, name);
        assert_eq!(
            (&container["verdict"], &container["proposal"]["confidence"]),
            (&json!("anotherTag"), &json!("guess"))
        );
        assert_eq!(container["pullBytes"], Value::Null, "no bytes without a registry");
    }
    let ran = fixture.plan(&[&dump, "--registry"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let with = report(&ran);
    let confirmed = container(&with, "confirmed");
    assert_eq!(confirmed["proposal"]["confidence"], "registry");
    assert_eq!(confirmed["proposal"]["image"], format!("{}/web:1-ltsc2025", fixture.registry.host));
    assert_eq!(confirmed["pullBytes"], 2_000);
    let refuted = container(&with, "refuted");
    assert_eq!((&refuted["verdict"], &refuted["proposal"]), (&json!("rebuild"), &Value::Null));
    let lines: Vec<&str> = ran.err.lines().collect();
    let (host, closed) = (&fixture.registry.host, &fixture.closed);
    let has = |start: &str, text: &str| lines.iter().any(|line| line.contains(start) && line.contains(text));
    assert!(has(&format!("{host}/old:1-ltsc2025: "), "the registry has no such image"), "{lines:?}");
    assert!(has(&format!("{closed}/far:1: "), "the registry cannot be reached"), "{lines:?}");
    assert!(has("other.example/app:1: ", "spec.registries of the RegistryPolicy does not list"), "{lines:?}");
    let unknown = with["unknown"].to_string();
    for text in ["the registry cannot be reached", "spec.registries of the RegistryPolicy does not list other.example"]
    {
        assert!(unknown.contains(text), "{text}: {unknown}");
    }
}

#[test]
fn a_cache_gives_the_same_report_without_a_registry() {
    let (fixture, dump) = four_images();
    let cache = fixture.path("images.json");
    let first = fixture.plan(&[&dump, "--registry", "--registry-cache", &cache]);
    assert!(first.code == 0 && fixture.registry.seen().len() >= 4, "{}", first.err);
    let offline = fixture.plan(&[&dump, "--registry-cache", &cache]);
    assert_eq!((offline.code, fixture.registry.seen().len(), offline.err.as_str()), (0, 0, ""));
    assert_eq!(offline.out, first.out);
    // The file is also an object of a dump; only the number of files in the header differs.
    let from_dump = report(&fixture.plan(&[&dump, &cache]));
    assert_eq!(from_dump["workloads"], report(&first)["workloads"]);
    assert_eq!(from_dump["unknown"], report(&first)["unknown"]);
    // Known images are not queried again; absent and failed ones are.
    let again = fixture.plan(&[&dump, "--registry", "--registry-cache", &cache]);
    assert_eq!((again.out, fixture.registry.seen()), (first.out, vec!["old/manifests/1-ltsc2025".to_owned()]));
    let file: Value = serde_json::from_str(&fs::read_to_string(&cache).unwrap()).unwrap();
    assert_eq!(file["kind"], "ImagePlatforms");
    assert_eq!(file["sizes"][format!("{}/web:1-ltsc2025", fixture.registry.host)], json!({"10.0.26100": 2_000}));
    assert!(file["takenAt"].as_str().unwrap().ends_with('Z'));
    assert!(!Path::new(&format!("{cache}.partial")).exists());
}

#[test]
fn caches_that_cannot_be_used_are_errors() {
    let fixture = Fixture::new(BTreeMap::new());
    let dump = fixture.dump(&[("a", "other.example/app:1".to_owned())]);
    let missing = fixture.path("missing.json");
    let wrong = write(&fixture.dir, "wrong.json", "kind: ImagePlatforms\nimages:\n  a:1: {index: [{os: 7}]}\n");
    let other = write(&fixture.dir, "other.json", "kind: List\nitems: []\n");
    let folder = fixture.path("policies");
    let below_nothing = fixture.path("nosuch/images.json");
    let cases: [(&[&str], &str); 6] = [
        (&["--registry-cache", &missing], "missing.json: there is no such file; --registry makes one"),
        (&["--registry-cache", &wrong], "wrong.json:3:"),
        (&["--registry", "--registry-cache", &wrong], "wrong.json:3:"),
        (&["--registry-cache", &other], "it is not an object of kind ImagePlatforms"),
        (&["--registry-cache", &folder], "policies: "),
        (&["--registry", "--registry-cache", &below_nothing], "the file cannot be written"),
    ];
    for (args, expected) in cases {
        let ran = fixture.plan(&[&[dump.as_str()], args].concat());
        assert!(ran.code == 2 && ran.out.is_empty() && ran.err.contains(expected), "{args:?}: {}", ran.err);
    }
    assert_eq!(fs::read_to_string(&wrong).unwrap(), "kind: ImagePlatforms\nimages:\n  a:1: {index: [{os: 7}]}\n");
}

/// What a malicious registry reports neither confirms nor refutes anything.
#[test]
fn hostile_registries_confirm_nothing() {
    let mut documents = BTreeMap::new();
    let forged = add_index(&mut documents, "forged", "1-ltsc2025", "10.0.26100.1", 1);
    documents.insert(forged, "{}".to_owned());
    documents.insert("large/manifests/1-ltsc2025".to_owned(), " ".repeat((4 << 20) + 1));
    documents.insert("page/manifests/1-ltsc2025".to_owned(), "<html>".to_owned());
    let fixture = Fixture::new(documents);
    let host = &fixture.registry.host;
    let cases = [("forged", "digest differs"), ("large", "longer than"), ("page", "HTML page")];
    let dump = fixture.dump(&cases.map(|(name, _)| (name, format!("{host}/{name}:1-ltsc2019"))));
    let ran = fixture.plan(&[&dump, "--registry"]);
    let report = report(&ran);
    for (name, expected) in cases {
        let line = ran.err.lines().find(|line| line.contains(&format!("{host}/{name}:1-ltsc2025: "))).unwrap();
        assert!(line.contains(expected), "{line}");
        let container = container(&report, name);
        assert_eq!((&container["proposal"]["confidence"], &container["pullBytes"]), (&json!("guess"), &Value::Null));
    }
}
