//! Connections without a proxy to addresses that a registry may not have: in a process with a network of its own, in
//! which the registry has a public address and the forbidden addresses exist.

use std::process::Command;

use axum::body::Body;
use axum::http::{Response, header};
use mullion::registry::{AddressRule, LookupError, RegistryClient, RegistryOutcome, RegistrySettings};

use crate::scripted::{Scripted, Seen};
use crate::support::{ask, counted, log, settings};

/// Of the registry. No packet leaves the process, because its network has only a loopback interface.
const PUBLIC: &str = "203.0.114.1";
/// The private network, and the metadata service of most clouds.
const FORBIDDEN: [&str; 2] = ["10.1.2.3", "169.254.169.254"];
const INDEX: &str = r#"{"manifests": [{"platform": {"os": "windows", "architecture": "amd64"}}]}"#;

#[test]
fn a_registry_cannot_refer_to_a_forbidden_address() {
    let addresses = FORBIDDEN.map(|address| format!("ip addr add {address}/32 dev lo && ")).concat();
    let script = format!("ip link set lo up && ip addr add {PUBLIC}/32 dev lo && {addresses} exec \"$0\" \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--", "sh", "-c", &script]);
    command.arg(std::env::current_exe().unwrap()).args(["--ignored", "--exact", "direct::child", "--nocapture"]);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_ascii_lowercase());
    }
    let output = command.output().expect("unshare of util-linux");
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
}

#[tokio::test]
#[ignore = "run by the test above"]
async fn child() {
    let targets = [
        Scripted::start_at(&format!("{}:80", FORBIDDEN[0]), |_| index()).await,
        Scripted::start_at(&format!("{}:80", FORBIDDEN[1]), |_| index()).await,
    ];
    let registry = format!("{PUBLIC}:0");
    for (target, at) in targets.iter().zip(FORBIDDEN) {
        let redirecting = Scripted::start_at(&registry, redirect(format!("http://{at}/v2/a/manifests/1"))).await;
        let challenging = Scripted::start_at(&registry, challenge(&format!("http://{at}/token"))).await;
        for server in [&redirecting, &challenging] {
            let host = server.host();
            let client =
                |addresses| RegistryClient::new(RegistrySettings { addresses, ..settings(&[&host, at]) }).unwrap();
            let image = format!("{host}/a:1");
            let (seen, reached) = (server.seen().len(), target.seen().len());
            let checked = client(AddressRule::Public);
            let answer = ask(&checked, &image).await;
            let Err(LookupError::Refused(reason)) = &answer else { panic!("{image} to {at}: {answer:?}") };
            assert!(reason.contains(&format!(" address {at}, ")), "{reason}");
            assert_eq!(counted(&checked, RegistryOutcome::Refused), 1);
            assert_eq!((server.seen().len(), target.seen().len()), (seen + 1, reached), "{image} to {at}");
            let log = log();
            let line = log.lines().find(|line| line.contains("WARN") && line.contains(&host));
            let line = line.unwrap_or_else(|| panic!("{host} is not logged: {log}"));
            assert!(line.contains("the RegistryPolicy does not allow it") && line.contains(&**reason), "{line}");
            // The same is possible without the rule.
            drop(ask(&client(AddressRule::Any), &image).await);
            assert_eq!(target.seen().len(), reached + 1, "{image} to {at}");
        }
    }
}

fn index() -> Response<Body> {
    Response::new(INDEX.into())
}

fn redirect(to: String) -> impl Fn(&Seen) -> Response<Body> + Send + Sync + 'static {
    move |_| Response::builder().status(307).header(header::LOCATION, &to).body(Body::empty()).unwrap()
}

fn challenge(realm: &str) -> impl Fn(&Seen) -> Response<Body> + Send + Sync + use<> {
    let challenge = format!("Bearer realm=\"{realm}\"");
    move |_| Response::builder().status(401).header(header::WWW_AUTHENTICATE, &challenge).body(Body::empty()).unwrap()
}
