//! Disruptions that the controller and the webhook survive: API servers that restart, reject requests, lose history and
//! return wrong data, and networks that reset connections or send nothing. In each case a node is created, which must
//! get its taint.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::StatusCode;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use mullion::cluster::state::follow as follow_state;
use mullion::cluster::{LiveSnapshot, client_with};
use mullion::controller::{ControllerMetrics, LeaderContext};
use mullion_cluster::{ControlPlane, MullionProcess, NodeSpec, Seen, free_port, wait_for};
use mullion_policy::PolicySet;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::proxy::{Proxy, failure, status, text};
use crate::shared::{DEADLINE, admin_get, policies, start_webhook_at};

const RELEASE: &str = "mullion.dev/windows-release";

/// Waits until the controller has labeled a node.
async fn labelled(plane: &ControlPlane, name: &str, why: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(plane.client());
    wait_for(&format!("the label on {name}, {why}"), 2 * DEADLINE, async || match nodes.get(name).await {
        Ok(node) if node.metadata.labels.iter().flatten().any(|(key, _)| key == RELEASE) => Seen::Done(()),
        Ok(node) => Seen::NotYet(format!("{:?}", node.metadata.labels)),
        Err(error) => Seen::NotYet(error.to_string()),
    })
    .await
}

/// The number of a metric of all resources together, or of those lines that contain `what`.
async fn number(admin: u16, metric: &str, what: &str) -> Result<u64> {
    let (_, metrics) = admin_get(admin, "/metrics").await?;
    let lines = metrics.lines().filter(|line| line.starts_with(metric) && line.contains(what));
    lines.map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<u64>()?)).sum()
}

/// The programs themselves, and an API server that is killed and restarted.
pub async fn the_api_server_restarts(plane: &ControlPlane) -> Result<()> {
    let admin = free_port()?;
    let controller = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
        .args(["controller", "--admin-bind", &format!("127.0.0.1:{admin}"), "--log-format", "text"])
        .args(["--kubeconfig", &plane.kubeconfig().to_string_lossy()])
        .admin(([127, 0, 0, 1], admin).into())
        .start()
        .await?;
    let webhook_admin = free_port()?;
    let (webhook, _) = start_webhook_at(plane, &policies(), webhook_admin).await?;
    plane.create_node(&NodeSpec::windows("nbefore", "10.0.20348.2655")).await?;
    labelled(plane, "nbefore", "before the restart").await?;

    plane.restart_api_server().await?;
    plane.create_node(&NodeSpec::windows("nafter", "10.0.20348.2655")).await?;
    labelled(plane, "nafter", "after the restart").await?;
    for port in [admin, webhook_admin] {
        // The last of the watches of nodes works again, and the facts are current.
        wait_for("the watches of nodes", 2 * DEADLINE, async || {
            match number(port, "mullion_watch_failing", "nodes").await {
                Ok(0) => Seen::Done(()),
                other => Seen::NotYet(format!("{other:?}")),
            }
        })
        .await?;
        let heard = number(port, "mullion_watch_last_event_timestamp", "\"nodes\"").await?;
        ensure!(heard > 1_700_000_000, "{heard}");
        let (ready, text) = admin_get(port, "/readyz").await?;
        ensure!(ready == 200, "not ready after the restart: {text}");
        // The longer the API server is down, the more attempts fail: every sixth begins with a list.
        let failures = number(port, "mullion_watch_failures_total", "").await?;
        let lists = number(port, "mullion_watch_restarts_total", "").await?;
        ensure!(lists < 20 + failures / 6, "everything is listed again and again: {lists} times, {failures} failures");
    }
    for (process, name) in [(controller, "controller"), (webhook, "webhook")] {
        let (ended, log) = process.stop().await?;
        ensure!(ended.success() && !log.contains("panicked"), "{name}: {ended} {log}");
    }
    Ok(())
}

/// A disruption, and the response during it.
type Trouble = (&'static str, Box<dyn Fn(&http::Uri) -> Option<axum::response::Response> + Send + Sync>);

/// A controller behind a proxy, through one disruption after another.
pub async fn every_network_failure(plane: &ControlPlane) -> Result<()> {
    // How many requests each disruption affects, with longer pauses each time, and how often connections are reset.
    let (strikes, resets) = if mullion_cluster::soak() { (3, 3) } else { (1, 1) };
    let proxy = Proxy::start(plane).await?;
    // Mullion waits minutes for an unresponsive server. Here it is seconds, because the clock is real.
    let client = client_with(kube::Config::new(proxy.url().parse()?), Duration::from_secs(3))?;
    let (_policies, follow) = watch::channel(Arc::new(PolicySet::default()));
    let (say_ready, mut ready) = watch::channel(false);
    let stop = CancellationToken::new();
    let leading =
        LeaderContext::new(client.clone(), "default", follow, ControllerMetrics::new(), say_ready, stop.clone()).await;
    let controller = tokio::spawn(leading.run(std::future::pending()));
    // The facts of the webhook arrive in the same way.
    let state = follow_state(client.clone(), "default", true);
    let live = LiveSnapshot::start(client, state.state.clone());
    tokio::time::timeout(DEADLINE, ready.wait_for(|ready| *ready)).await.context("the controller gets ready")??;
    let mut names = Vec::new();
    let mut arrives = async |why: &str| {
        let name = format!("n{}", names.len());
        plane.create_node(&NodeSpec::windows(&name, "10.0.20348.2655")).await?;
        names.push(name.clone());
        anyhow::Ok((name, why.to_owned()))
    };
    let there = async |(name, why): (String, String)| {
        labelled(plane, &name, &why).await?;
        wait_for(&format!("{name} in the snapshot, {why}"), 2 * DEADLINE, async || {
            live.current().nodes.as_ref().and_then(|nodes| nodes.get(&name).map(drop))
        })
        .await
    };
    there(arrives("with nothing wrong").await?).await?;

    let gone = |uri: &http::Uri| uri.query().is_some_and(|query| query.contains("watch=true"));
    let event = format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", failure(410, "Expired"));
    let troubles: [Trouble; 8] = [
        ("500 to everything", Box::new(|_| Some(status(500, "InternalError")))),
        ("502 without a Status", Box::new(|_| Some(text(StatusCode::BAD_GATEWAY, "<html>bad gateway</html>")))),
        ("503 to everything", Box::new(|_| Some(status(503, "ServiceUnavailable")))),
        (
            "429 with Retry-After",
            Box::new(|_| {
                let mut answer = status(429, "TooManyRequests");
                answer.headers_mut().insert("retry-after", http::HeaderValue::from_static("1"));
                Some(answer)
            }),
        ),
        ("410 instead of a watch", Box::new(move |uri| gone(uri).then(|| status(410, "Expired")))),
        ("410 inside the watch", Box::new(move |uri| gone(uri).then(|| text(StatusCode::OK, &event)))),
        ("half an object", Box::new(|_| Some(text(StatusCode::OK, "{\"kind\": \"NodeList\", \"items\": [{\"meta")))),
        ("nothing at all", Box::new(|_| Some(text(StatusCode::OK, "")))),
    ];
    for (why, fault) in troubles {
        proxy.fail(fault);
        // Open watches send no request, so they have to be restarted.
        proxy.cut();
        let node = arrives(why).await?;
        wait_for(&format!("requests for nodes that meet {why}"), DEADLINE, async || {
            (proxy.struck("/nodes") >= strikes).then_some(())
        })
        .await?;
        proxy.mend();
        there(node).await?;
    }
    for round in 0..resets {
        proxy.cut();
        there(arrives(&format!("connections reset, round {round}")).await?).await?;
    }
    proxy.fall_silent();
    let node = arrives("a silent network").await?;
    proxy.listen();
    there(node).await?;
    ensure!(*ready.borrow(), "no longer ready");

    stop.cancel();
    tokio::time::timeout(DEADLINE, controller).await.context("the controller did not stop")??;
    Ok(())
}
