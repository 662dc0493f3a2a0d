//! Look-ups in a real registry.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use mullion::registry::{Credentials, LookupError, RegistryClient, RegistryOutcome};
use mullion_cluster::ServingCert;
use mullion_engine::model::image::{ImageRef, Platforms};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::scripted::{Scripted, Seen};
use crate::server::Registry;
use crate::support::{ask, ask_as, counted, login, malformed, registries, settings, shown, unreachable};

const USER: &str = "anna";
pub const PASSWORD: &str = "correct horse";
/// bcrypt of [`PASSWORD`] with the least work.
const HTPASSWD: &str = "anna:$2b$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2\n";

const LTSC2022: &str = "windows/amd64:10.0.20348.2655";
const LTSC2019: &str = "windows/amd64:10.0.17763.6293";

#[tokio::test]
async fn single_manifests() {
    let registry = Registry::open();
    registry.push("team/web:2022", LTSC2022);
    registry.push("team/web:plain", "windows/amd64");
    registry.push("team/web:odd", "windows/amd64:not a version");
    registry.push("team/web:linux", "linux/arm64");
    let registries = registries(&[&registry.host()]);
    let digest = format!("team/web@{}", registry.digest("team/web:2022"));
    for (image, expected) in [
        ("team/web:2022", LTSC2022),
        (&digest, LTSC2022),
        ("team/web:plain", "windows/amd64"),
        ("team/web:odd", "windows/amd64:not a version"),
        ("team/web:linux", "linux/arm64"),
    ] {
        let platforms = ask(&registries, &format!("{}/{image}", registry.host())).await.unwrap();
        assert_eq!((shown(&platforms), platforms.index), (vec![expected.to_owned()], false), "{image}");
    }
    // The previous tag had the same digest.
    assert_eq!((counted(&registries, RegistryOutcome::Found), counted(&registries, RegistryOutcome::Hit)), (4, 1));
    for image in ["team/web:absent", "team/absent:1", &format!("team/web@sha256:{}", "0".repeat(64))] {
        let answer = ask(&registries, &format!("{}/{image}", registry.host())).await;
        assert_eq!(answer, Err(LookupError::Absent), "{image}");
    }
}

#[tokio::test]
async fn indexes() {
    let registry = Registry::open();
    let children = [
        ("a:2022", LTSC2022),
        ("a:2019", LTSC2019),
        ("a:amd64", "linux/amd64"),
        ("a:arm64", "linux/arm64"),
        ("a:bare", "windows/amd64"),
    ];
    for (image, platform) in children {
        registry.push(image, platform);
    }
    registry.index("a:windows", &["a:2022", "a:2019"]);
    registry.index("a:mixed", &["a:amd64", "a:arm64", "a:2022", "a:bare"]);
    let registries = registries(&[&registry.host()]);
    for (image, expected) in [
        ("a:windows", vec![LTSC2022, LTSC2019]),
        ("a:mixed", vec!["linux/amd64", "linux/arm64", LTSC2022, "windows/amd64"]),
    ] {
        let platforms = ask(&registries, &format!("{}/{image}", registry.host())).await.unwrap();
        let (mut found, mut expected) = (shown(&platforms), expected);
        // crane does not keep the order of the children.
        found.sort();
        expected.sort_unstable();
        assert_eq!(found, expected);
        assert!(platforms.index);
    }
    // A child by its own digest is a single manifest.
    let child = registry.manifest("a:windows")["manifests"][0]["digest"].as_str().unwrap().to_owned();
    assert!(!ask(&registries, &format!("{}/a@{child}", registry.host())).await.unwrap().index);
}

#[tokio::test]
async fn attestations_and_entries_without_platform() {
    let registry = Registry::open();
    registry.push("a:2022", LTSC2022);
    registry.push("a:linux", "linux/amd64");
    registry.index("a:index", &["a:2022", "a:linux"]);
    let mut index = registry.manifest("a:index");
    let entries = index["manifests"].as_array_mut().unwrap();
    for entry in entries.iter_mut() {
        entry.as_object_mut().unwrap().remove("platform");
    }
    // In the form that BuildKit writes.
    entries.push(json!({
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": format!("sha256:{}", "a".repeat(64)),
        "size": 566,
        "annotations": {
            "vnd.docker.reference.digest": entries[0]["digest"],
            "vnd.docker.reference.type": "attestation-manifest",
        },
        "platform": {"architecture": "unknown", "os": "unknown"},
    }));
    registry.put("a", "attested", &index);
    let registries = registries(&[&registry.host()]);
    let platforms = ask(&registries, &format!("{}/a:attested", registry.host())).await.unwrap();
    let mut found = shown(&platforms);
    found.sort();
    assert_eq!((found, platforms.index), (vec!["linux/amd64".to_owned(), LTSC2022.to_owned()], true));
}

#[tokio::test]
async fn artifacts_are_not_images() {
    let registry = Registry::open();
    let digest = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    registry.put_blob("charts/web", digest, "{}");
    let config = |media_type: &str| json!({"mediaType": media_type, "digest": digest, "size": 2});
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config("application/vnd.cncf.helm.config.v1+json"),
        "layers": [config("application/vnd.cncf.helm.chart.content.v1.tar+gzip")],
    });
    registry.put("charts/web", "1", &manifest);
    let registries = registries(&[&registry.host()]);
    let platforms = ask(&registries, &format!("{}/charts/web:1", registry.host())).await.unwrap();
    assert_eq!(*platforms, Platforms::default());
}

#[tokio::test]
async fn a_tag_that_moves_is_looked_up_after_its_lifetime() {
    let registry = Registry::open();
    registry.push("a:1", LTSC2019);
    let mut settings = settings(&[&registry.host()]);
    settings.tag_lifetime = Duration::ZERO;
    let registries = RegistryClient::new(settings).unwrap();
    let image = format!("{}/a:1", registry.host());
    for expected in [LTSC2019, LTSC2019, LTSC2022] {
        registry.push("a:1", expected);
        assert_eq!(shown(&ask(&registries, &image).await.unwrap()), [expected]);
    }
}

#[tokio::test]
async fn an_image_is_looked_up_in_the_background() {
    let registry = Registry::open();
    registry.push("a:1", LTSC2022);
    let registries = registries(&[&registry.host()]);
    let text = format!("{}/a:1", registry.host());
    let (image, anonymous) = (ImageRef::parse(&text).unwrap(), Credentials::anonymous());
    assert!(registries.known(&image, &anonymous).is_none());
    registries.want(image, anonymous.clone());
    while registries.under_way() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(shown(&registries.known(&image, &anonymous).unwrap()), [LTSC2022]);
}

#[tokio::test]
async fn tls_with_an_authority_of_the_settings() {
    let certificate = ServingCert::for_loopback().unwrap();
    let file = |name: &str| certificate.folder().join(name);
    let registry = Registry::start(&json!({}), &json!({"certificate": file("tls.crt"), "key": file("tls.key")}));
    let push = ["--insecure", "append", "-f", "/dev/null", "-t", &format!("{}/a:1", registry.host())];
    registry.crane(&push);
    let image = format!("{}/a:1", registry.host());

    let strange = ask(&registries(&[]), &image).await;
    assert!(unreachable(&strange).contains("UnknownIssuer"), "{strange:?}");
    let mut trusting = settings(&[]);
    trusting.ca_files.push(file("ca.crt"));
    let platforms = ask(&RegistryClient::new(trusting).unwrap(), &image).await.unwrap();
    assert!(!platforms.index);
    // Listed for plain HTTP by mistake: the registry responds that the request is not TLS.
    assert!(ask(&registries(&[&registry.host()]), &image).await.is_err());

    for wrong in [file("none.crt"), file("tls.key")] {
        let mut settings = settings(&[]);
        settings.ca_files.push(wrong.clone());
        let error = RegistryClient::new(settings).unwrap_err().to_string();
        assert!(error.contains(wrong.to_str().unwrap()) && error.contains("PEM"), "{error}");
    }
}

pub struct Private {
    pub registry: Registry,
    /// The folder with the password file, for a registry with basic authentication. The field keeps it from being
    /// deleted.
    _htpasswd: TempDir,
}

/// A registry with one user, with `a:1` in it.
pub fn basic() -> Private {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("htpasswd");
    fs::write(&path, HTPASSWD).unwrap();
    let registry = Registry::start(&json!({"htpasswd": {"realm": "private", "path": path}}), &json!({}));
    registry.push_as(Some((USER, PASSWORD)), "a:1", LTSC2022);
    Private { registry, _htpasswd: folder }
}

#[tokio::test]
async fn basic_authentication() {
    let private = basic();
    let host = private.registry.host();
    let registries = registries(&[&host]);
    let image = format!("{host}/a:1");
    assert_eq!(ask(&registries, &image).await, Err(LookupError::Denied));
    let right = login(&host, USER, PASSWORD);
    assert_eq!(shown(&ask_as(&registries, &image, &right).await.unwrap()), [LTSC2022]);
    // Without access, the cache has no result either.
    let parsed = ImageRef::parse(&image).unwrap();
    for other in [Credentials::anonymous(), login(&host, USER, "wrong"), login("other.example", USER, PASSWORD)] {
        assert_eq!(registries.known(&parsed, &other), None);
        assert_eq!(ask_as(&registries, &image, &other).await, Err(LookupError::Denied));
    }
    assert!(registries.known(&parsed, &right).is_some());
    // The second of two logins is tried if the first is denied.
    let both = Credentials::merged([&login(&host, USER, "wrong"), &right]);
    assert_eq!(shown(&ask_as(&registries, &image, &both).await.unwrap()), [LTSC2022]);
}

/// A token service with one user that lets everyone pull `public/…`, for a real registry that checks its signatures.
pub async fn token() -> (Registry, Scripted, TempDir) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["tokens.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("roots.pem");
    fs::write(&bundle, certificate.pem()).unwrap();
    let chain = STANDARD.encode(certificate.der());
    let service = Scripted::start(move |seen| issue(seen, &key, &chain)).await;
    let auth = json!({"token": {
        "realm": format!("http://{}/token", local(&service)),
        "service": "the registry",
        "issuer": "tests",
        "rootcertbundle": bundle,
    }});
    let registry = Registry::start(&auth, &json!({}));
    for image in ["private/a:1", "public/a:1"] {
        registry.push_as(Some((USER, PASSWORD)), image, LTSC2022);
    }
    (registry, service, folder)
}

/// The service by name, because crane uses no token service at an address of a private network.
pub fn local(service: &Scripted) -> String {
    format!("localhost:{}", service.address.port())
}

fn issue(seen: &Seen, key: &KeyPair, chain: &str) -> axum::response::Response {
    let expected = format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")));
    let known = match seen.headers.get(header::AUTHORIZATION) {
        None => false,
        Some(value) if *value == expected => true,
        Some(_) => return StatusCode::UNAUTHORIZED.into_response(),
    };
    let query = seen.uri.query().unwrap_or_default().replace("%3A", ":").replace("%2F", "/").replace("%2C", ",");
    let scopes = query.split('&').filter_map(|pair| pair.strip_prefix("scope=repository:"));
    let access: Vec<_> = scopes
        .filter_map(|scope| scope.split_once(':'))
        .filter(|(repository, _)| known || repository.starts_with("public/"))
        .map(|(repository, actions)| {
            let actions: Vec<_> = if known { actions.split(',').collect() } else { vec!["pull"] };
            json!({"type": "repository", "name": repository, "actions": actions})
        })
        .collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let claims = json!({
        "iss": "tests", "sub": USER, "aud": ["the registry"], "exp": now + 300, "nbf": now - 10, "iat": now,
        "jti": "1", "access": access,
    });
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(json!({"typ": "JWT", "alg": "ES256", "x5c": [chain]})), part(claims));
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key.serialize_der()).unwrap();
    let signature = URL_SAFE_NO_PAD.encode(pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap());
    json!({"token": format!("{signed}.{signature}"), "expires_in": 300}).to_string().into_response()
}

#[tokio::test(flavor = "multi_thread")]
async fn token_authentication() {
    let (registry, service, _folder) = token().await;
    let host = registry.host();
    let registries = registries(&[&host, &local(&service)]);
    let (private, public) = (format!("{host}/private/a:1"), format!("{host}/public/a:1"));
    assert_eq!(shown(&ask(&registries, &public).await.unwrap()), [LTSC2022]);
    assert_eq!(ask(&registries, &private).await, Err(LookupError::Denied));
    assert_eq!(ask_as(&registries, &private, &login(&host, USER, "wrong")).await, Err(LookupError::Denied));
    let before = service.seen().len();
    assert_eq!(shown(&ask_as(&registries, &private, &login(&host, USER, PASSWORD)).await.unwrap()), [LTSC2022]);
    // One token serves the manifest and its config.
    let requests = service.seen();
    assert_eq!(requests.len(), before + 1);
    let query = requests[before].uri.query().unwrap();
    assert_eq!(query, "service=the%20registry&scope=repository%3Aprivate%2Fa%3Apull");

    // A token service over plain HTTP that is not listed gets no password.
    let careful = crate::support::registries(&[&host]);
    let denied = ask_as(&careful, &private, &login(&host, USER, PASSWORD)).await;
    assert!(malformed(&denied).contains("plain HTTP"), "{denied:?}");
    assert_eq!(service.seen().len(), before + 1);
}
