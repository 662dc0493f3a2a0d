//! Credentials from pull secrets, read and matched as in the kubelet (Kubernetes: pkg/credentialprovider/keyring.go).

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use http::HeaderValue;
use mullion_engine::model::image::{DOCKER_HUB, ImageRef};
use mullion_engine::model::settings::covers;
use serde::Deserialize;

/// The entry for Docker Hub if no other entry matches (keyring.go, `defaultRegistryHost`).
const DEFAULT_REGISTRY: &str = "index.docker.io";

/// The logins of one or several pull secrets. Cloning is cheap; the Debug output hides them.
#[derive(Clone)]
pub struct Credentials(Arc<Set>);

/// Identifies credentials within this process without revealing them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CredentialsKey(u64, u64);

/// Why a pull secret cannot be used. Quotes only the name of a registry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// Not the JSON of a docker configuration.
    #[error(
        "line {line}, column {column} is not valid in a docker configuration; expected \
         {{\"auths\": {{\"<registry>\": {{\"auth\": \"<base64 of user:password>\"}}}}}}"
    )]
    Json {
        /// From 1.
        line: usize,
        /// From 1; 0 at the end of a line.
        column: usize,
    },
    /// `auth` is not base64, or contains no colon.
    #[error("auths[{registry:?}].auth is not base64 of user:password")]
    Auth {
        /// The key under `auths`.
        registry: String,
    },
}

/// One user and password, as the value of an `Authorization` header.
pub(crate) struct Login {
    basic: HeaderValue,
    key: CredentialsKey,
}

struct Set {
    /// In reverse order of `location`, so that longer paths come first.
    entries: Vec<Entry>,
    key: CredentialsKey,
}

#[derive(Clone)]
struct Entry {
    /// Host, port and path without scheme.
    location: Box<str>,
    login: Arc<Login>,
}

/// `auths` of a `kubernetes.io/dockerconfigjson` Secret.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    auths: BTreeMap<String, RawLogin>,
}

#[derive(Deserialize)]
struct RawLogin {
    #[serde(default)]
    auth: String,
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Credentials(..)")
    }
}

impl Credentials {
    /// No credentials.
    pub fn anonymous() -> Self {
        Self::new(Vec::new())
    }

    /// `.dockerconfigjson` of a Secret of type `kubernetes.io/dockerconfigjson`.
    pub fn from_dockerconfigjson(document: &[u8]) -> Result<Self, CredentialsError> {
        let document: Document = serde_json::from_slice(document).map_err(|error| unreadable(&error))?;
        Self::from_auths(document.auths)
    }

    /// `.dockercfg` of a Secret of type `kubernetes.io/dockercfg`: the value of `auths` in the newer form. OpenShift
    /// still uses it for its own registry.
    pub(crate) fn from_dockercfg(document: &[u8]) -> Result<Self, CredentialsError> {
        Self::from_auths(serde_json::from_slice(document).map_err(|error| unreadable(&error))?)
    }

    /// All credentials together; of two for the same place the earlier one is tried first.
    pub fn merged<'a>(several: impl IntoIterator<Item = &'a Self>) -> Self {
        Self::new(several.into_iter().flat_map(|credentials| credentials.0.entries.iter().cloned()).collect())
    }

    /// Equal for equal credentials, within this process.
    pub fn key(&self) -> CredentialsKey {
        self.0.key
    }

    fn from_auths(auths: BTreeMap<String, RawLogin>) -> Result<Self, CredentialsError> {
        let mut entries = Vec::new();
        for (registry, auth) in auths {
            let login = match auth.auth.trim() {
                "" => (auth.username, auth.password),
                encoded => decode(encoded).ok_or_else(|| CredentialsError::Auth { registry: registry.clone() })?,
            };
            // Credential helpers write such entries, and store the login elsewhere.
            if login.0.is_empty() && login.1.is_empty() {
                continue;
            }
            if let Some(login) = Login::new(&login.0, &login.1) {
                entries.push(Entry { location: location(&registry).into(), login: Arc::new(login) });
            }
        }
        Ok(Self::new(entries))
    }

    fn new(mut entries: Vec<Entry>) -> Self {
        // The sort is stable: of equal places the earlier one stays first.
        entries.sort_by(|left, right| right.location.cmp(&left.location));
        let key = CredentialsKey::of(entries.iter().map(|entry| (&*entry.location, entry.login.key)));
        Self(Arc::new(Set { entries, key }))
    }

    /// The logins for an image, in the order in which they are tried.
    pub(crate) fn logins<'a>(&'a self, image: &ImageRef<'a>) -> impl Iterator<Item = &'a Arc<Login>> {
        let image = *image;
        let named = move |entry: &&Entry| matches(&entry.location, &image);
        let any = self.0.entries.iter().any(|entry| named(&entry));
        let hub = !any && image.normalized_registry() == DOCKER_HUB;
        let chosen = move |entry: &&Entry| if any { named(entry) } else { hub && &*entry.location == DEFAULT_REGISTRY };
        self.0.entries.iter().filter(chosen).map(|entry| &entry.login)
    }

    /// The key of the logins that would be used for an image: equal for all credentials that have no login for it, so
    /// that public images are looked up once.
    pub(crate) fn key_for(&self, image: &ImageRef<'_>) -> CredentialsKey {
        CredentialsKey::of(self.logins(image).map(|login| login.key))
    }
}

impl Login {
    fn new(user: &str, password: &str) -> Option<Self> {
        let text = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        let mut basic = HeaderValue::try_from(text).ok()?;
        // Hides the value in Debug output.
        basic.set_sensitive(true);
        Some(Self { basic, key: CredentialsKey::of([(user, password)]) })
    }

    pub(crate) fn basic(&self) -> &HeaderValue {
        &self.basic
    }
}

impl CredentialsKey {
    /// `SipHash` twice with random keys of the process: 128 bits, for which an attacker cannot find a second
    /// input.
    fn of<T: std::hash::Hash>(parts: impl IntoIterator<Item = T>) -> Self {
        use std::hash::{Hash as _, Hasher as _};
        static KEYS: LazyLock<(RandomState, RandomState)> = LazyLock::new(|| (RandomState::new(), RandomState::new()));
        let (mut first, mut second) = (KEYS.0.build_hasher(), KEYS.1.build_hasher());
        for part in parts {
            // A number before each part, so that one part differs from two shorter ones.
            (1_u8, &part).hash(&mut first);
            (2_u8, &part).hash(&mut second);
        }
        Self(first.finish(), second.finish())
    }
}

fn unreadable(error: &serde_json::Error) -> CredentialsError {
    CredentialsError::Json { line: error.line(), column: error.column() }
}

fn decode(encoded: &str) -> Option<(String, String)> {
    let engine = if encoded.ends_with('=') { STANDARD } else { STANDARD_NO_PAD };
    let text = String::from_utf8(engine.decode(encoded).ok()?).ok()?;
    text.split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()))
}

/// A key of `auths` without scheme, without `/v1/` or `/v2/` at the front of the path, and without a lone slash
/// (keyring.go, `Add`).
fn location(key: &str) -> String {
    let rest = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let (host, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let path = if path.starts_with("/v1/") || path.starts_with("/v2/") { path.get(3..).unwrap_or("") } else { path };
    if path == "/" { host.to_owned() } else { format!("{host}{path}") }
}

/// keyring.go, `URLsMatch`: the same port, the same number of labels, each a glob, and the path as a prefix of letters.
fn matches(location: &str, image: &ImageRef<'_>) -> bool {
    let (place, path) = match location.split_once('/') {
        Some((place, path)) => (place, path),
        None => (location, ""),
    };
    let (pattern, pattern_port) = split_port(place);
    let (host, port) = split_port(image.normalized_registry());
    pattern_port == port
        && pattern.split('.').count() == host.split('.').count()
        && image.normalized_repository().starts_with(path)
        && pattern.split('.').zip(host.split('.')).all(|(pattern, label)| glob(pattern, label))
}

fn split_port(place: &str) -> (&str, &str) {
    match place.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (place, ""),
    }
}

/// `*` and `?`, without the classes of Go's `filepath.Match`, which hosts do not need.
fn glob(pattern: &str, text: &str) -> bool {
    let equal = |text: &str, piece: &str| {
        text.len() == piece.len() && text.bytes().zip(piece.bytes()).all(|(letter, of)| of == b'?' || letter == of)
    };
    let find = |rest: &str, piece: &str| {
        let starts = 0..=rest.len().checked_sub(piece.len())?;
        starts.into_iter().find(|at| rest.get(*at..at + piece.len()).is_some_and(|part| equal(part, piece)))
    };
    covers(pattern, text, find, equal)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use serde_json::json;

    use super::*;

    fn config(auths: &[(&str, &str)]) -> Credentials {
        let auths: BTreeMap<_, _> =
            auths.iter().map(|(place, login)| (*place, json!({"auth": STANDARD.encode(login)}))).collect();
        Credentials::from_dockerconfigjson(json!({ "auths": auths }).to_string().as_bytes()).unwrap()
    }

    fn chosen(credentials: &Credentials, image: &str) -> Vec<String> {
        let image = ImageRef::parse(image).unwrap();
        let plain = |login: &Arc<Login>| {
            let encoded = login.basic.to_str().unwrap().strip_prefix("Basic ").unwrap().to_owned();
            String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()
        };
        credentials.logins(&image).map(plain).collect()
    }

    #[test]
    fn locations_match_as_in_the_kubelet() {
        let cases: &[(&[&str], &str, &[&str])] = &[
            (&["https://index.docker.io/v1/"], "nginx", &["https://index.docker.io/v1/"]),
            (&["https://index.docker.io/v1/"], "acme/app", &["https://index.docker.io/v1/"]),
            (&["https://index.docker.io/v1/"], "index.docker.io/acme/app", &["https://index.docker.io/v1/"]),
            (&["docker.io", "https://index.docker.io/v1/"], "nginx", &["docker.io"]),
            (&["docker.io/acme", "docker.io"], "nginx", &["docker.io"]),
            (&["docker.io/library/nginx"], "nginx", &["docker.io/library/nginx"]),
            (&["index.docker.io"], "quay.io/acme/app", &[]),
            (&["quay.io"], "quay.io/acme/app", &["quay.io"]),
            (&["https://quay.io/v2/"], "quay.io/acme/app", &["https://quay.io/v2/"]),
            (&["http://quay.io/v2/acme"], "quay.io/acme/app", &["http://quay.io/v2/acme"]),
            (
                &["quay.io", "quay.io/acme", "quay.io/acme/app"],
                "quay.io/acme/app",
                &["quay.io/acme/app", "quay.io/acme", "quay.io"],
            ),
            (&["quay.io/other"], "quay.io/acme/app", &[]),
            (&["quay.io:5000"], "quay.io/acme/app", &[]),
            (&["quay.io:5000"], "quay.io:5000/app", &["quay.io:5000"]),
            (&["quay.io"], "quay.io:5000/app", &[]),
            (&["*.example.com"], "eu.example.com/app", &["*.example.com"]),
            (&["*.example.com"], "example.com/app", &[]),
            (&["*.example.com"], "a.b.example.com/app", &[]),
            (&["e?-*.example.com"], "eu-west.example.com/app", &["e?-*.example.com"]),
            (&["e?-*.example.com"], "eu.example.com/app", &[]),
            (&["[::1]:5000"], "[::1]:5000/app", &["[::1]:5000"]),
            (&["[::1]"], "[::1]:5000/app", &[]),
            (&[""], "quay.io/acme/app", &[]),
            (&["quay.io.evil.com", "evil.quay.io"], "quay.io/app", &[]),
        ];
        for &(places, image, expected) in cases {
            let logins: Vec<_> = places.iter().map(|place| format!("user:{place}")).collect();
            let auths: Vec<_> = places.iter().zip(&logins).map(|(place, login)| (*place, login.as_str())).collect();
            let expected: Vec<_> = expected.iter().map(|place| format!("user:{place}")).collect();
            assert_eq!(chosen(&config(&auths), image), expected, "{places:?} {image}");
        }
    }

    #[test]
    fn keys_depend_on_the_logins_that_are_used() {
        let quay = config(&[("quay.io", "anna:one")]);
        let both = config(&[("quay.io", "anna:one"), ("ghcr.io", "anna:two")]);
        let other = config(&[("quay.io", "berta:one")]);
        let key = |credentials: &Credentials, image| credentials.key_for(&ImageRef::parse(image).unwrap());
        assert_eq!(key(&quay, "quay.io/a"), key(&both, "quay.io/a"));
        assert_ne!(key(&quay, "quay.io/a"), key(&other, "quay.io/a"));
        assert_ne!(key(&quay, "quay.io/a"), key(&Credentials::anonymous(), "quay.io/a"));
        assert_eq!(key(&quay, "nginx"), key(&Credentials::anonymous(), "nginx"));
        assert_eq!(quay.key(), config(&[("quay.io", "anna:one")]).key());
        assert_ne!(quay.key(), both.key());
        assert_ne!(config(&[("q", "ab:c")]).key(), config(&[("q", "a:bc")]).key());
    }

    #[test]
    fn several_are_tried_in_their_order() {
        let first = config(&[("quay.io", "anna:one"), ("quay.io/acme", "anna:two")]);
        let second = config(&[("quay.io", "berta:three")]);
        let merged = Credentials::merged([&first, &second]);
        assert_eq!(chosen(&merged, "quay.io/acme/app"), ["anna:two", "anna:one", "berta:three"]);
        assert_eq!(chosen(&Credentials::merged([]), "quay.io/acme/app"), Vec::<String>::new());
    }

    #[test]
    fn all_forms_of_a_login_are_read() {
        let read = |text: &str| Credentials::from_dockerconfigjson(text.as_bytes()).map(|it| chosen(&it, "quay.io/a"));
        let plain =
            r#"{"auths": {"quay.io": {"username": "anna", "password": "p:w", "email": "x"}}, "credsStore": "x"}"#;
        assert_eq!(read(plain), Ok(vec!["anna:p:w".to_owned()]));
        // base64 without padding, with white space around it, and with another password, which it overrides.
        for auth in ["YTpiYw==", "YTpiYw", " YTpiYw== "] {
            let text = format!(r#"{{"auths": {{"quay.io": {{"auth": "{auth}", "username": "x", "password": "y"}}}}}}"#);
            assert_eq!(read(&text), Ok(vec!["a:bc".to_owned()]), "{auth}");
        }
        assert_eq!(read(r#"{"auths": {"quay.io": {}}}"#), Ok(vec![]));
        assert_eq!(read("{}"), Ok(vec![]));
        let old = Credentials::from_dockercfg(br#"{"quay.io": {"auth": "YTpiYw=="}}"#).unwrap();
        assert_eq!(chosen(&old, "quay.io/a"), ["a:bc"]);
    }

    #[test]
    fn errors_do_not_quote_a_bad_secret() {
        let secret = "c3VwZXItc2VjcmV0";
        for text in [
            format!(r#"{{"auths": "{secret}"}}"#),
            format!(r#"{{"auths": {{"quay.io": "{secret}"}}}}"#),
            format!(r#"{{"auths": {{"quay.io": {{"auth": "{secret}"}}}}}}"#),
            format!(r#"{{"auths": {{"quay.io": {{"auth": "{secret}!"}}}}}}"#),
            format!(r#"{{"auths": {{"quay.io": {{"password": ["{secret}"]}}}}}}"#),
            secret.to_owned(),
            format!(r#"{{"auths": {{"quay.io": {{"auth": "{secret}"#),
            "\u{0}".repeat(1000),
            String::new(),
        ] {
            let error = Credentials::from_dockerconfigjson(text.as_bytes()).expect_err(&text);
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains(secret) && !shown.contains("super-secret"), "{shown}");
        }
        let good = config(&[("quay.io", "anna:super-secret")]);
        let shown = format!("{good:?} {:?} {:?}", good.key(), good.0.entries[0].login.basic);
        assert!(!shown.contains("super-secret") && !shown.contains("c3VwZXI"), "{shown}");
    }

    #[test]
    fn globs_end() {
        assert!(!glob(&"*a".repeat(30), &"a".repeat(60).replace("aa", "ab")));
        assert!(glob("*", "") && glob("**a**", "a") && !glob("", "a") && glob("", ""));
    }
}
