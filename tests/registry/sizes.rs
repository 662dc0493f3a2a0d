//! The bytes that a node pulls: of the entry that it takes, with the checks of every other response.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{Method, Response};
use mullion::registry::{Credentials, ImageAnswer, LookupError, RegistryClient, RegistrySettings};
use mullion_engine::model::image::ImageRef;
use mullion_engine::model::windows::Build;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::hostile::{response, sum};
use crate::scripted::{Scripted, Seen};
use crate::support::{PATIENCE, settings};

const LTSC2025: Build = Build::new(26100);

/// Documents by path below `/v2/a/`; everything else is absent.
type Documents = BTreeMap<String, String>;

fn layer(digit: char, size: u64) -> Value {
    json!({"digest": format!("sha256:{}", digit.to_string().repeat(64)), "size": size})
}

/// Adds an image with these layers, and returns the descriptor of its manifest with its platform.
fn add_image(documents: &mut Documents, os_version: &str, layers: &[Value]) -> Value {
    let config = json!({"os": "windows", "architecture": "amd64", "os.version": os_version}).to_string();
    let manifest = json!({
        "schemaVersion": 2,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": sum(&config), "size": config.len()},
        "layers": layers,
    })
    .to_string();
    let digest = sum(&manifest);
    let size = manifest.len();
    documents.insert(format!("blobs/{}", sum(&config)), config);
    documents.insert(format!("manifests/{digest}"), manifest);
    let platform = json!({"os": "windows", "architecture": "amd64", "os.version": os_version});
    json!({"digest": digest, "size": size, "platform": platform})
}

fn two_builds() -> (Documents, Value) {
    let mut documents = Documents::new();
    let older = add_image(&mut documents, "10.0.20348.4294", &[layer('a', 1_000), layer('b', 20)]);
    let newer = add_image(&mut documents, "10.0.26100.6899", &[layer('c', 2_000), layer('b', 20)]);
    (documents, json!({"schemaVersion": 2, "manifests": [older, newer]}))
}

/// The report for nodes of `host`, and the requests.
async fn asked(documents: Documents, host: Option<Build>) -> (Result<ImageAnswer, LookupError>, Vec<String>) {
    let answer = move |seen: &Seen| -> Response<Body> {
        let path = seen.uri.path().trim_start_matches("/v2/a/").to_owned();
        documents.get(&path).map_or_else(|| response(404, &[], ""), |text| response(200, &[], text.clone()))
    };
    let server = Scripted::start(answer).await;
    let settings = RegistrySettings { pull_host: host, ..settings(&[&server.host()]) };
    let registries = RegistryClient::new(settings).unwrap();
    let text = format!("{}/a:1", server.host());
    let image = ImageRef::parse(&text).unwrap();
    let found = registries.resolve_answer(&image, &Credentials::anonymous(), Instant::now() + PATIENCE).await;
    let seen = server.seen();
    assert!(seen.iter().all(|seen| seen.method == Method::GET));
    (found, seen.iter().map(|seen| seen.uri.path().to_owned()).collect())
}

#[tokio::test]
async fn one_more_request_tells_the_size_of_the_entry_that_a_node_takes() {
    for (host, bytes, requests) in [
        (Some(LTSC2025), Some(2_020), 2),
        (Some(Build::new(20348)), Some(1_020), 2),
        (Some(Build::new(17763)), None, 1),
        (None, None, 1),
    ] {
        let (mut documents, index) = two_builds();
        documents.insert("manifests/1".to_owned(), index.to_string());
        let (found, seen) = asked(documents, host).await;
        let found = found.unwrap();
        assert_eq!((found.pull_bytes, found.platforms.entries.len(), seen.len()), (bytes, 2, requests), "{host:?}");
    }
}

#[tokio::test]
async fn a_single_manifest_is_pulled_by_every_node() {
    let mut documents = Documents::new();
    // A foreign layer, as in images for 2019, is pulled too.
    let foreign = json!({"digest": format!("sha256:{}", "d".repeat(64)), "size": 300, "urls": ["https://r.example/d"],
        "mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"});
    let manifest = add_image(&mut documents, "10.0.17763.8389", &[foreign, layer('a', 7)]);
    let digest = manifest["digest"].as_str().unwrap();
    documents.insert("manifests/1".to_owned(), documents[&format!("manifests/{digest}")].clone());
    let (found, seen) = asked(documents, Some(LTSC2025)).await;
    assert_eq!((found.unwrap().pull_bytes, seen.len()), (Some(307), 2), "{seen:?}");
}

type Change<'a> = (&'a str, Option<&'a str>);

/// If a registry reports wrong data about an entry, there is no result; the image itself is not absent.
#[tokio::test]
async fn hostile_entries() {
    let long = "x".repeat((4 << 20) + 1);
    let cases: [Change<'_>; 3] =
        [("does not exist", None), ("digest differs", Some("{}")), ("longer than", Some(&long))];
    for (expected, body) in cases {
        let (mut documents, index) = two_builds();
        let path = format!("manifests/{}", index["manifests"][1]["digest"].as_str().unwrap());
        match body {
            Some(body) => documents.insert(path, body.to_owned()),
            None => documents.remove(&path),
        };
        documents.insert("manifests/1".to_owned(), index.to_string());
        match asked(documents, Some(LTSC2025)).await.0 {
            Err(LookupError::Malformed(reason)) => assert!(reason.contains(expected), "{reason}"),
            other => panic!("{expected}: {other:?}"),
        }
    }
    // Entries of its own choice: too many layers, a negative size, no digest.
    for layers in [
        vec![layer('a', 1); 1_001],
        vec![json!({"digest": layer('a', 1)["digest"], "size": -1})],
        vec![json!({"size": 1})],
    ] {
        let mut documents = Documents::new();
        let entry = add_image(&mut documents, "10.0.26100.1", &layers);
        documents.insert("manifests/1".to_owned(), json!({"schemaVersion": 2, "manifests": [entry]}).to_string());
        let found = asked(documents, Some(LTSC2025)).await.0;
        assert!(matches!(found, Err(LookupError::Malformed(_))), "{found:?}");
    }
    // The sum of huge sizes does not overflow.
    let mut documents = Documents::new();
    let entry = add_image(&mut documents, "10.0.26100.1", &[layer('a', u64::MAX), layer('b', u64::MAX)]);
    documents.insert("manifests/1".to_owned(), json!({"schemaVersion": 2, "manifests": [entry]}).to_string());
    assert_eq!(asked(documents, Some(LTSC2025)).await.0.unwrap().pull_bytes, Some(u64::MAX));
}

#[tokio::test]
async fn a_nested_index_has_no_size() {
    let (mut documents, inner) = two_builds();
    let inner = inner.to_string();
    let platform = json!({"os": "windows", "architecture": "amd64", "os.version": "10.0.26100.1"});
    let outer = json!({"schemaVersion": 2, "manifests": [{"digest": sum(&inner), "size": 1, "platform": platform}]});
    documents.insert(format!("manifests/{}", sum(&inner)), inner);
    documents.insert("manifests/1".to_owned(), outer.to_string());
    assert_eq!(asked(documents, Some(LTSC2025)).await.0.unwrap().pull_bytes, None);
}
