//! Logs without credentials.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mullion::registry::{Credentials, LookupError};

use crate::real::{PASSWORD, basic, local, token};
use crate::support::{ask_as, log, login, registries};

/// Every kind of login succeeds and fails once, and all events of Mullion, hyper, rustls and other libraries at level
/// trace are searched, including those of other tests in this process.
#[tokio::test(flavor = "multi_thread")]
async fn no_credential_in_any_log() {
    let wrong = "this one is wrong";
    let private = basic();
    let (registry, service, _folder) = token().await;
    let hosts = [private.registry.host(), registry.host(), local(&service)];
    let registries = registries(&[&hosts[0], &hosts[1], &hosts[2]]);
    for (host, image) in [(&hosts[0], "a:1"), (&hosts[1], "private/a:1")] {
        let image = format!("{host}/{image}");
        ask_as(&registries, &image, &login(host, "anna", PASSWORD)).await.unwrap();
        let denied = ask_as(&registries, &image, &login(host, "anna", wrong)).await;
        assert_eq!(denied, Err(LookupError::Denied));
        assert!(!format!("{denied:?} {registries:?} {:?}", login(host, "anna", PASSWORD)).contains(PASSWORD));
    }
    Credentials::from_dockerconfigjson(format!(r#"{{"auths": {{"a": {{"auth": "{PASSWORD}"}}}}}}"#).as_bytes())
        .unwrap_err();

    let log = log();
    // The log contains all events.
    for expected in ["TRACE", "hyper_util::client", "mullion::registry", "image looked up"] {
        assert!(log.contains(expected), "{expected} is not logged: is this the whole log?");
    }
    let encoded = |password: &str| STANDARD.encode(format!("anna:{password}"));
    // Each JWT starts like this: `{"` in base64.
    let secrets = [PASSWORD.to_owned(), wrong.to_owned(), encoded(PASSWORD), encoded(wrong), "eyJ".to_owned()];
    for secret in &secrets {
        assert!(!log.contains(secret.as_str()), "{secret} is logged");
    }
    for header in ["authorization: ", "authorization\": \"b", "basic y", "bearer e"] {
        assert!(!log.to_ascii_lowercase().contains(header), "{header} is logged");
    }
}
