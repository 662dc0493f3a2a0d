//! A real control plane on loopback: Kubernetes' own API server, scheduler and controllers over etcd, with KWOK as
//! simulated kubelets.
//!
//! Nodes become Ready and pods Running, but nothing is executed and no image is pulled. Windows nodes are only node
//! objects. Scheduler, DaemonSet controller and admission chain are the real ones.
//!
//! | module | contains |
//! |---|---|
//! | `tools` | where the programs are ([`Tools`]); `tools/build.sh` builds them |
//! | `release` | [`Release`]: the Kubernetes release of the tools |
//! | `process` | a group of processes that never outlives this one |
//! | `processor_time` | [`processor_time()`]: the processor time of a process |
//! | `process_memory` | [`ProcessMemory`]: the resident memory of a process |
//! | `pki` | the control plane's certificates, and [`ServingCert`] for a webhook |
//! | `plane` | [`ControlPlane`]: options, start, clients, kubectl, nodes |
//! | `node` | [`NodeSpec`]: nodes as kubelets register them |
//! | `namespace` | [`TestNamespace`]: a namespace of a test's own |
//! | `wait` | [`wait_for`]: every wait with a deadline |
//! | `webhook` | [`WebhookRegistration`]: registers a webhook with the API server |
//! | `helm` | [`helm()`]: Helm commands that need no cluster |
//! | `chart` | [`Chart`]: the objects of `charts/mullion` |
//! | `metrics` | [`metric`], [`sum_of_metrics`]: numbers in the text of `/metrics` |
//! | `mount` | [`ConfigMapMount`]: a ConfigMap as a kubelet mounts it |
//! | `network` | [`own_network`], [`Network`]: pods have addresses, and Services reach them |
//! | `kubelet` | [`Kubelet`]: pods of some nodes really run |
//! | `mullion` | [`MullionProcess`]: the program under test |
//! | [`hostile`] | objects that attackers may store |
//! | `suite` | [`Suite`]: the trials of a program with `harness = false`, and [`soak`] |
//! | `fixture` | [`Shared`], [`Pool`]: fixtures that trials share or use in turn |
//! | `sweep` | clearing a control plane for the next trial |
//!
//! ```no_run
//! # use mullion_cluster::{ControlPlane, NodeSpec};
//! # async fn example() -> anyhow::Result<()> {
//! let plane = ControlPlane::builder().start().await?;
//! plane.create_node(&NodeSpec::windows("w2022", "10.0.20348.2655")).await?;
//! let namespace = plane.namespace("example").await?;
//! println!("{}", plane.kubectl(&["get", "pods", "-n", &namespace.name]).await?);
//! # Ok(()) }
//! ```

mod chart;
mod fixture;
mod helm;
pub mod hostile;
mod kubelet;
mod metrics;
mod mount;
mod mullion;
mod namespace;
mod network;
mod node;
mod pki;
mod plane;
mod process;
mod process_memory;
mod processor_time;
mod release;
mod suite;
mod sweep;
mod tools;
mod wait;
mod webhook;

pub use chart::Chart;
pub use fixture::{Fixture, Pool, Shared, SharedUser};
pub use helm::{HelmOutput, helm};
pub use kubelet::{Image, Kubelet};
pub use metrics::{metric, sum_of_metrics};
pub use mount::ConfigMapMount;
pub use mullion::{MullionBuilder, MullionProcess};
pub use namespace::TestNamespace;
pub use network::{Network, own_network};
pub use node::{NodeSpec, UNMANAGED};
pub use pki::ServingCert;
pub use plane::{Builder, ControlPlane};
pub use process::free_port;
pub use process_memory::ProcessMemory;
pub use processor_time::processor_time;
pub use release::Release;
pub use suite::{FixtureTrial, Suite, named, soak};
pub use tools::{Tool, Tools, helm_3};
pub use wait::{Seen, wait_for};
pub use webhook::{FailurePolicy, WebhookRegistration, wait_until_called, wait_until_denied};
