//! Look-ups and their results, and the log of the process.

use std::io;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use mullion::registry::{AddressRule, Credentials, LookupError, RegistryClient, RegistryOutcome, RegistrySettings};
use mullion_engine::model::image::{ImageRef, Platforms};
use serde_json::json;
use tokio::time::Instant;
use tracing_subscriber::filter::LevelFilter;

/// Far longer than any response takes: it only limits a failing test.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub type Answer = Result<Arc<Platforms>, LookupError>;

/// All events of Mullion and its libraries in this process, at every level.
static LOG: LazyLock<Arc<Mutex<Vec<u8>>>> = LazyLock::new(|| {
    let log = Arc::new(Mutex::new(Vec::new()));
    let writer = Writer(Arc::clone(&log));
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    log
});

#[derive(Clone)]
struct Writer(Arc<Mutex<Vec<u8>>>);

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn log() -> String {
    String::from_utf8_lossy(&LOG.lock().unwrap()).into_owned()
}

/// With these hosts over plain HTTP, and with any address, because the registries of the tests are on loopback.
pub fn settings(plain_http: &[&str]) -> RegistrySettings {
    LazyLock::force(&LOG);
    RegistrySettings {
        addresses: AddressRule::Any,
        plain_http: plain_http.iter().map(|&host| host.to_owned()).collect(),
        timeout: PATIENCE,
        ..RegistrySettings::default()
    }
}

pub fn registries(plain_http: &[&str]) -> RegistryClient {
    RegistryClient::new(settings(plain_http)).unwrap()
}

pub fn login(registry: &str, user: &str, password: &str) -> Credentials {
    let config = json!({"auths": {registry: {"username": user, "password": password}}});
    Credentials::from_dockerconfigjson(config.to_string().as_bytes()).unwrap()
}

pub async fn ask(registries: &RegistryClient, image: &str) -> Answer {
    ask_as(registries, image, &Credentials::anonymous()).await
}

pub async fn ask_as(registries: &RegistryClient, image: &str, credentials: &Credentials) -> Answer {
    registries.resolve(&ImageRef::parse(image).unwrap(), credentials, Instant::now() + PATIENCE).await
}

pub fn counted(registries: &RegistryClient, outcome: RegistryOutcome) -> u64 {
    registries.count_of(outcome)
}

/// `os/architecture os.version`, one word for each entry.
pub fn shown(platforms: &Platforms) -> Vec<String> {
    let one = |platform: &mullion_engine::model::image::Platform| {
        let version = platform.os_version.as_deref().map(|version| format!(":{version}")).unwrap_or_default();
        format!("{}/{}{version}", platform.os, platform.architecture)
    };
    platforms.entries.iter().map(one).collect()
}

/// The text of a malformed answer.
pub fn malformed(answer: &Answer) -> &str {
    match answer {
        Err(LookupError::Malformed(reason)) => reason,
        other => panic!("{other:?} instead of a malformed answer"),
    }
}

pub fn unreachable(answer: &Answer) -> &str {
    match answer {
        Err(LookupError::Unreachable(reason)) => reason,
        other => panic!("{other:?} instead of an unreachable registry"),
    }
}
