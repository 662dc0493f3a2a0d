//! `WWW-Authenticate` headers, which a registry writes; one header per line.

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderValue, Uri};
use mullion::registry::{Challenge, challenge, token_uri};

use super::Meter;

const REPOSITORY: &str = "team/app";

pub fn run(bytes: &[u8], _: &dyn Meter) {
    let values = bytes.split(|byte| *byte == b'\n').filter_map(|line| HeaderValue::from_bytes(line).ok());
    let headers: HeaderMap = values.map(|value| (WWW_AUTHENTICATE, value)).collect();
    let Some(Challenge::Bearer { realm, service }) = challenge(&headers) else { return };
    assert!(matches!(realm.scheme_str(), Some("http" | "https")), "{realm}");
    assert!(realm.authority().is_some_and(|authority| !authority.as_str().contains('@')), "{realm}");
    let Some(uri) = token_uri(&realm, service.as_deref(), REPOSITORY) else { return };
    let place = |uri: &Uri| (uri.scheme_str().map(str::to_owned), uri.authority().cloned(), uri.path().to_owned());
    assert_eq!(place(&uri), place(&realm), "another place than the realm");
    // The realm's own query comes first; the service adds no parameter.
    let query = uri.query().unwrap_or_default();
    let own = realm.query().unwrap_or_default();
    let added = query.strip_prefix(own).unwrap_or_else(|| panic!("{uri} does not begin as {realm}"));
    let added: Vec<&str> = added.trim_start_matches('&').split('&').collect();
    assert_eq!(added.last(), Some(&"scope=repository%3Ateam%2Fapp%3Apull"), "{uri}");
    assert_eq!(added.len(), 1 + usize::from(service.is_some()), "{uri}");
}
