//! A mixed cluster that fails without Mullion and works with it.
//!
//! `mullion-demo --mullion FILE [--policy FILE] [--examples DIR] [--up FILE]`: starts a control plane with two Linux
//! and three Windows nodes, applies the examples without Mullion, prints where every pod is, starts Mullion, applies
//! them again and prints the table again. Exits with 0 only if the second table is as expected. With `--up` nothing is
//! compared: cluster and Mullion run until a signal arrives, and the kubeconfig is written to FILE once they are ready.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its tables are for the terminal")]

mod expected;
mod fleet;
#[cfg(test)]
mod readme;
mod result;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use mullion_cluster::{ControlPlane, MullionProcess, ServingCert, WebhookRegistration, free_port};

use crate::table::Row;

struct Arguments {
    mullion: PathBuf,
    policy: PathBuf,
    examples: PathBuf,
    up: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let ran = match arguments() {
        Ok(arguments) => run(&arguments).await,
        Err(error) => Err(error),
    };
    match ran {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn arguments() -> Result<Arguments> {
    let (mut mullion, mut policy, mut examples, mut up) =
        (None, PathBuf::from("policies/default.yaml"), PathBuf::from("examples"), None);
    let mut rest = std::env::args_os().skip(1);
    while let Some(flag) = rest.next() {
        let flag = flag.to_string_lossy().into_owned();
        let value = rest.next().with_context(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--mullion" => mullion = Some(value.into()),
            "--policy" => policy = value.into(),
            "--examples" => examples = value.into(),
            "--up" => up = Some(value.into()),
            _ => bail!("unknown argument {flag}; expected --mullion, --policy, --examples or --up"),
        }
    }
    let mullion = mullion.context("--mullion FILE is missing: the program to show; `make demo` builds and names it")?;
    Ok(Arguments { mullion, policy, examples, up })
}

async fn run(arguments: &Arguments) -> Result<bool> {
    say("starting kube-apiserver, scheduler, controller-manager, etcd and KWOK");
    let started = Instant::now();
    let plane = ControlPlane::builder().start().await?;
    let nodes = fleet::nodes();
    plane.create_nodes(&nodes).await?;
    say(&format!("ready after {:.1} s: {} nodes", started.elapsed().as_secs_f32(), nodes.len()));
    if let Some(kubeconfig) = &arguments.up {
        return stay_up(&plane, arguments, kubeconfig).await;
    }

    let before = round(&plane, arguments, "without").await?;
    println!("\n{}", table::render("WITHOUT MULLION", &before));
    plane.kubectl(&["delete", "namespace", "without", "--wait=true", "--timeout=300s"]).await?;

    let _mullion = start_mullion(&plane, arguments).await?;
    result::wait_until_denied(&plane).await?;
    let after = round(&plane, arguments, "with").await?;
    println!("\n{}", table::render("WITH MULLION", &after));
    for line in denials(&after) {
        println!("{line}");
    }
    println!("{}", fleet::describe(&plane).await?);
    let wrong = after.iter().filter(|row| !row.as_it_should_be).count();
    if wrong == 0 {
        println!("Every line is as it should be.");
    } else {
        println!("{wrong} of {} lines are not as they should be.", after.len());
        plane.keep_logs();
    }
    Ok(wrong == 0)
}

/// Applies every example in a namespace of its own and waits until nothing changes any more.
async fn round(plane: &ControlPlane, arguments: &Arguments, namespace: &str) -> Result<Vec<Row>> {
    say(&format!("applying the examples {namespace} Mullion"));
    plane.kubectl(&["create", "namespace", namespace]).await?;
    result::service_account(plane, namespace).await?;
    let mut rows = Vec::new();
    for example in expected::EXAMPLES {
        let file = arguments.examples.join(example.file);
        let file = file.to_str().with_context(|| format!("{} is no UTF-8 path", file.display()))?;
        let applied = plane.kubectl(&["apply", "--namespace", namespace, "--filename", file]).await;
        rows.push((example, applied.err().map(|error| format!("{error:#}"))));
    }
    let mut table = Vec::new();
    for (example, denial) in rows {
        table.push(result::row(plane, namespace, example, denial).await?);
    }
    Ok(table)
}

/// Starts controller and webhook, and waits until the API server calls the webhook.
async fn start_mullion(plane: &ControlPlane, arguments: &Arguments) -> Result<(MullionProcess, MullionProcess)> {
    say("starting mullion controller and mullion webhook");
    let (bind, webhook_admin, controller_admin) = (free_port()?, free_port()?, free_port()?);
    let certificate = ServingCert::for_loopback()?;
    // The shipped files are alternatives: each is used alone in a directory.
    let policies = plane.dir().join("policies");
    std::fs::create_dir_all(&policies)?;
    std::fs::copy(&arguments.policy, policies.join("default.yaml"))
        .with_context(|| format!("copy {}", arguments.policy.display()))?;
    let folder = plane.dir().join("serving-cert");
    std::fs::create_dir_all(&folder)?;
    certificate.copy_to(&folder)?;
    let process = |admin: u16, first: Vec<String>| {
        let address = format!("127.0.0.1:{admin}");
        MullionProcess::builder(&arguments.mullion)
            .args(first)
            .args(["--admin-bind", &address, "--policies"])
            .args([&policies])
            .args(["--kubeconfig"])
            .args([plane.kubeconfig()])
            .admin(([127, 0, 0, 1], admin).into())
            .start()
    };
    let controller = process(controller_admin, vec!["controller".to_owned()]).await?;
    let tls = ["webhook", "--bind", &format!("127.0.0.1:{bind}"), "--tls-dir", &folder.to_string_lossy()]
        .map(ToOwned::to_owned)
        .to_vec();
    let webhook = process(webhook_admin, tls).await?;
    if arguments.up.is_none() {
        // With `--up`, the policy can leave the nodes unchanged.
        fleet::wait_until_labelled(plane).await?;
    }
    let mut registration = WebhookRegistration::new(&format!("https://127.0.0.1:{bind}"), certificate.ca_pem());
    if arguments.up.is_some() {
        // With `--up`, timeouts are those of a cluster. The compared demo must not depend on the load of the machine.
        registration = registration.as_installed().with_nodes();
    }
    registration.register(&plane.client()).await?;
    result::wait_until_called(plane).await?;
    Ok((controller, webhook))
}

async fn stay_up(plane: &ControlPlane, arguments: &Arguments, kubeconfig: &std::path::Path) -> Result<bool> {
    let _mullion = start_mullion(plane, arguments).await?;
    // Written completely, then moved, so that a process that waits for the file gets all of it.
    let draft = kubeconfig.with_extension("draft");
    std::fs::copy(plane.kubeconfig(), &draft)?;
    std::fs::rename(&draft, kubeconfig)?;
    let kubectl = plane.tools().path(mullion_cluster::Tool::Kubectl);
    println!("The cluster and Mullion are running. Try:");
    println!("  {} --kubeconfig {} get nodes", kubectl.display(), kubeconfig.display());
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        ended = tokio::signal::ctrl_c() => ended?,
        _ = term.recv() => {}
    }
    Ok(true)
}

/// The complete denials, because they are part of the product.
fn denials(rows: &[Row]) -> Vec<String> {
    let own_words =
        |text: &str| text.find("Error from server").and_then(|at| text.get(at..)).unwrap_or(text).to_owned();
    rows.iter().filter_map(|row| Some(format!("{}\n{}\n", row.workload, own_words(row.denial.as_deref()?)))).collect()
}

fn say(what: &str) {
    eprintln!("demo: {what}");
}
