//! Authorization after a response 401: `WWW-Authenticate`, and tokens (distribution: docs/content/spec/auth/token.md).

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderValue, Method, Uri};
use serde::Deserialize;

use crate::registry::client::{HttpClient, whole_uri};
use crate::registry::credentials::Login;
use crate::registry::outcome::LookupError;
use crate::registry::source::LookupFailure;

/// The size limit of a token, which is a JWT of some kB.
const MAX_TOKEN: usize = 256 << 10;

/// A challenge of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Challenge {
    /// User and password.
    Basic,
    /// A token of a token service.
    Bearer {
        /// The address of the token service.
        realm: Uri,
        /// The name of the registry in the token service.
        service: Option<String>,
    },
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

/// The `Authorization` that a challenge leads to.
pub(crate) async fn authorization(
    client: &HttpClient,
    challenge: Challenge,
    repository: &str,
    login: Option<&Login>,
) -> Result<HeaderValue, LookupFailure> {
    match challenge {
        Challenge::Basic => login.map(|login| login.basic().clone()).ok_or_else(|| LookupError::Denied.into()),
        Challenge::Bearer { realm, service } => token(client, &realm, service.as_deref(), repository, login).await,
    }
}

async fn token(
    client: &HttpClient,
    realm: &Uri,
    service: Option<&str>,
    repository: &str,
    login: Option<&Login>,
) -> Result<HeaderValue, LookupFailure> {
    let unusable = |what: &str| LookupError::malformed(format!("its token service {what}"));
    let uri = token_uri(realm, service, repository).ok_or_else(|| unusable("has no usable address"))?;
    // If a token service does not respond, the registry does not count as unresponsive, because other images may not
    // need the service.
    let not_silent = |failure: LookupFailure| LookupFailure { silent: false, ..failure };
    let answer =
        client.send(&Method::GET, uri, "application/json", login.map(Login::basic)).await.map_err(not_silent)?;
    let body = client.body(answer, MAX_TOKEN).await.map_err(|failure| match failure.error {
        // 404 of the token service does not mean that the image is absent.
        LookupError::Absent => unusable("returns 404").into(),
        _ => failure,
    })?;
    let answer: TokenAnswer = serde_json::from_slice(&body).map_err(|_| unusable("returns no JSON of a token"))?;
    let token = answer.token.or(answer.access_token).filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| unusable("returns no token"))?;
    let mut value =
        HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| unusable("returns an unusable token"))?;
    // Hides the value in Debug output.
    value.set_sensitive(true);
    Ok(value)
}

/// The address that returns a token to pull from that repository; `None` if it is too long.
pub fn token_uri(realm: &Uri, service: Option<&str>, repository: &str) -> Option<Uri> {
    let mut text = realm.to_string();
    let mut separator = if realm.query().is_some() { '&' } else { '?' };
    let scope = format!("repository:{repository}:pull");
    for (key, value) in [("service", service), ("scope", Some(scope.as_str()))] {
        if let Some(value) = value {
            text.push(separator);
            text.push_str(key);
            text.push('=');
            encode(&mut text, value);
            separator = '&';
        }
    }
    whole_uri(&text)
}

fn encode(out: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            let digits = [byte >> 4, byte & 15].into_iter().filter_map(|digit| char::from_digit(digit.into(), 16));
            out.extend(digits.map(|digit| digit.to_ascii_uppercase()));
        }
    }
}

/// The token service if there is one, else user and password; `None` for other challenges.
pub fn challenge(headers: &HeaderMap) -> Option<Challenge> {
    let mut basic = false;
    for value in headers.get_all(WWW_AUTHENTICATE) {
        for (scheme, parameters) in challenges(value.to_str().unwrap_or_default()) {
            let parameter = |name: &str| {
                parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
            };
            if scheme.eq_ignore_ascii_case("bearer") {
                if let Some(realm) = parameter("realm").and_then(whole_uri) {
                    return Some(Challenge::Bearer { realm, service: parameter("service").map(str::to_owned) });
                }
            } else if scheme.eq_ignore_ascii_case("basic") {
                basic = true;
            }
        }
    }
    basic.then_some(Challenge::Basic)
}

type Parameters = Vec<(String, String)>;

/// `Scheme key=value, key="quoted", Other key=value` (RFC 9110, 11.6.1): a word without `=` starts the next challenge.
fn challenges(text: &str) -> Vec<(String, Parameters)> {
    let mut found: Vec<(String, Parameters)> = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find([' ', '\t', ',', '=', '"']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let value = after.trim_start_matches([' ', '\t']).strip_prefix('=');
        match (word, value, found.last_mut()) {
            // The end, or not a challenge: the challenges so far are used.
            ("", _, _) | (_, Some(_), None) => return found,
            (word, Some(value), Some((_, parameters))) => {
                let (value, after) = parameter_value(value.trim_start_matches([' ', '\t']));
                parameters.push((word.to_owned(), value));
                rest = after;
            }
            (word, None, _) => {
                found.push((word.to_owned(), Vec::new()));
                rest = after;
            }
        }
    }
}

/// A value and the text after it.
fn parameter_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = text.split_at(text.find([' ', '\t', ',']).unwrap_or(text.len()));
        return (value.to_owned(), rest);
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, quoted.get(at + 1..).unwrap_or_default()),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            letter => value.push(letter),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn of(values: &[&str]) -> Option<Challenge> {
        let values = values.iter().map(|value| (WWW_AUTHENTICATE, HeaderValue::from_str(value).unwrap()));
        challenge(&values.collect())
    }

    fn bearer(realm: &str, service: Option<&str>) -> Challenge {
        Challenge::Bearer { realm: realm.parse().unwrap(), service: service.map(str::to_owned) }
    }

    #[test]
    fn challenges_of_registries_are_parsed() {
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:library/nginx:pull""#;
        assert_eq!(of(&[hub]), Some(bearer("https://auth.docker.io/token", Some("registry.docker.io"))));
        assert_eq!(of(&[r#"Basic realm="Registry Realm""#]), Some(Challenge::Basic));
        let both = r#"Basic realm="a, b", Bearer realm="https://r.example/token?x=y" , service=r"#;
        assert_eq!(of(&[both]), Some(bearer("https://r.example/token?x=y", Some("r"))));
        let apart = [r#"BASIC realm="a""#, r#"bearer Realm = "https://r.example/\t""#];
        assert_eq!(of(&apart), Some(bearer("https://r.example/t", None)));
        // No usable token service, but user and password are possible.
        assert_eq!(of(&[r#"Bearer realm="/token", Basic realm="a""#]), Some(Challenge::Basic));
        for useless in
            ["", "Negotiate", "Bearer", r#"Bearer realm="ftp://r.example""#, "=", r#"realm="https://r.example""#]
        {
            assert_eq!(of(&[useless]), None, "{useless}");
        }
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[r#"Bearer realm="https://user:password@r.example/token""#]), None);
    }

    #[test]
    fn token_addresses_are_encoded() {
        let uri = |realm: &str, service| token_uri(&realm.parse().unwrap(), service, "a/b").unwrap().to_string();
        assert_eq!(
            uri("https://r.example/t", Some("a&b c")),
            "https://r.example/t?service=a%26b%20c&scope=repository%3Aa%2Fb%3Apull"
        );
        assert_eq!(uri("https://r.example/t?x=y", None), "https://r.example/t?x=y&scope=repository%3Aa%2Fb%3Apull");
    }

    proptest! {
        #[test]
        fn any_header_is_parsed_without_a_panic(text in r#"([a-z]{1,3}|[ ,="\\]|realm="https://r/"){0,30}"#) {
            drop(challenges(&text));
        }
    }
}
