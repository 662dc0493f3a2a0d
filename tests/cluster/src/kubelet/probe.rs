//! Probes: their schedule and their results.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::process::Command;
use tokio::task::JoinHandle;

use super::container::Site;
use crate::mullion::status_line;

/// The longest time between two requests until one succeeds, so that tests do not wait for a period until a container is
/// started and ready. Failures count at most once in a period, as on a node.
const UNTIL_GOOD: Duration = Duration::from_millis(200);

/// An HTTP probe and its results for one run of its container.
#[derive(Debug)]
pub(super) struct Prober {
    target: Target,
    period: Duration,
    timeout: Duration,
    count: Count,
    next: Instant,
    /// Failures of earlier requests do not count.
    counts_from: Instant,
    asking: Option<Request>,
}

/// A request that was sent.
#[derive(Debug)]
struct Request {
    at: Instant,
    good: JoinHandle<bool>,
}

/// The number of equal responses in a row that make a result.
#[derive(Clone, Copy, Debug)]
struct Count {
    success: i32,
    failure: i32,
    /// Responses in a row: positive for good ones, negative for bad ones.
    run: i32,
    result: Option<bool>,
}

#[derive(Clone, Debug)]
struct Target {
    /// The host in the probe instead of the pod's address.
    host: Option<Host>,
    port: u16,
    path: String,
}

/// A host from the perspective of the node.
#[derive(Clone, Debug)]
struct Host {
    name: String,
    /// The argument with which `nsenter` enters the node's network.
    node: String,
}

impl Prober {
    /// The prober of a run of the container that starts now.
    pub(super) fn new(probe: &Probe, container: &Container, site: &Site<'_>) -> Result<Self> {
        let http = probe.http_get.as_ref().context("only httpGet probes are simulated")?;
        ensure!(http.scheme.as_deref().unwrap_or("HTTP") == "HTTP", "only HTTP probes are simulated");
        let on_node = site.pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true));
        ensure!(
            http.host.is_none() || on_node,
            "a probe's host is simulated only for pods on the network of their node"
        );
        let host = http.host.clone().map(|name| Host { name, node: site.sandbox.enter() });
        let seconds =
            |value: Option<i32>, or: u64| Duration::from_secs(value.map_or(or, |value| value.unsigned_abs().into()));
        let next = Instant::now() + seconds(probe.initial_delay_seconds, 0);
        Ok(Self {
            target: Target {
                host,
                port: port(&http.port, container)?,
                path: http.path.clone().unwrap_or_else(|| "/".to_owned()),
            },
            period: seconds(probe.period_seconds, 10),
            timeout: seconds(probe.timeout_seconds, 1),
            count: Count {
                success: probe.success_threshold.unwrap_or(1),
                failure: probe.failure_threshold.unwrap_or(3),
                run: 0,
                result: None,
            },
            next,
            counts_from: next,
            asking: None,
        })
    }

    /// Processes a received response, and sends the next request when it is due; returns the result so far.
    pub(super) async fn look(&mut self, address: Ipv4Addr) -> Option<bool> {
        if let Some(request) = self.asking.take_if(|request| request.good.is_finished()) {
            let good = request.good.await.unwrap_or(false);
            if good || request.at >= self.counts_from {
                self.count.take(good);
                self.counts_from = request.at + self.period;
            }
        }
        let now = Instant::now();
        if self.asking.is_none() && now >= self.next {
            let settled = self.count.result == Some(true);
            self.next = now + if settled { self.period } else { self.period.min(UNTIL_GOOD) };
            let (target, timeout) = (self.target.clone(), self.timeout);
            let good = tokio::spawn(async move {
                tokio::time::timeout(timeout, get(address, &target)).await.is_ok_and(|answer| answer.is_ok())
            });
            self.asking = Some(Request { at: now, good });
        }
        self.count.result
    }
}

impl Count {
    fn take(&mut self, good: bool) {
        let run = self.run;
        self.run = if good { run.max(0).saturating_add(1) } else { run.min(0).saturating_sub(1) };
        if self.run >= self.success {
            self.result = Some(true);
        } else if self.run <= -self.failure {
            self.result = Some(false);
        }
    }
}

/// A number or the name of one of the container's ports.
pub(super) fn port(port: &IntOrString, container: &Container) -> Result<u16> {
    match port {
        IntOrString::Int(number) => Ok(u16::try_from(*number)?),
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_deref() == Some(name));
            Ok(u16::try_from(named.with_context(|| format!("no port is called {name:?}"))?.container_port)?)
        }
    }
}

/// Whether the response is good: status 200 to 399.
async fn get(address: Ipv4Addr, target: &Target) -> Result<()> {
    let line = match &target.host {
        None => status_line((IpAddr::from(address), target.port).into(), &target.path).await?,
        Some(host) => status_line_on_node(host, target).await?,
    };
    match line.split(' ').nth(1).and_then(|code| code.parse().ok()) {
        Some(200..=399) => Ok(()),
        _ => bail!("{line}"),
    }
}

/// Does the same from the node's network, in which the kubelet is.
async fn status_line_on_node(host: &Host, target: &Target) -> Result<String> {
    const REQUEST: &str = r#"exec 3<>"/dev/tcp/$1/$2"
printf 'GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$3" "$1" >&3
head -n 1 <&3"#;
    let mut command = Command::new("nsenter");
    command.args([&host.node, "--", "bash", "-c", REQUEST, "probe"]);
    command.args([&host.name, &target.port.to_string(), &target.path]);
    let answer = command.kill_on_drop(true).output().await.context("run nsenter and bash")?;
    let line = String::from_utf8_lossy(&answer.stdout).trim_end().to_owned();
    ensure!(!line.is_empty(), "{}", String::from_utf8_lossy(&answer.stderr));
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_change_at_the_thresholds() {
        let mut count = Count { success: 2, failure: 3, run: 0, result: None };
        let mut seen = String::new();
        for answer in "+-++--+---+-++".chars() {
            count.take(answer == '+');
            seen.push(match count.result {
                None => '?',
                Some(true) => '+',
                Some(false) => '-',
            });
        }
        assert_eq!(seen, "???++++++----+");
    }
}
