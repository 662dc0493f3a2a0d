//! Pods placed by the reports of a registry, because the names of their images do not reveal an operating system.
//!
//! Two webhooks of their own on the shared control plane, for namespaces with labels of their own: one caches tags for
//! a long time, the other as briefly as possible. Undecided pods get nothing here, so every placement comes from the
//! registry.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};
use mullion_cluster::{Fixture, MullionProcess, Seen, SharedUser, TestNamespace, wait_for};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::registry::Registry;
use crate::shared::*;

const WS2019: &str = "windows/amd64:10.0.17763.6893";
const WS2022: &str = "windows/amd64:10.0.20348.2655";
const WS2025: &str = "windows/amd64:10.0.26100.2894";
const LINUX: &str = "linux/amd64";

/// Prefixes of namespaces, by the build mode of their pods. Images in those of [`EXACT`] are looked up inline.
const INLINE: &str = "inline";
const BACKGROUND: &str = "background";
const NEVER: &str = "never";

/// A review waits 0.8 s for a registry, and on a busy machine the response may be late. Then it counts for the next
/// pod, and only another reference, which was not looked up yet, can prove the result for a first pod. This is the
/// maximum number of references.
const ATTEMPTS: usize = 20;

/// Labels of the namespaces of the webhook with the long cache, and of the other.
const LASTING: (&str, &str) = ("mullion-test", "images-lasting");
const BRIEF: (&str, &str) = ("mullion-test", "images-brief");

/// Two webhooks, and their registries. A registry with images in it belongs to one test.
pub struct Registries {
    plane: Arc<Shared>,
    /// Keeps the shared fixture running while it is held.
    _shared: SharedUser<Shared>,
    webhooks: [MullionProcess; 2],
    _policies: [TempDir; 2],
    steady: Registry,
    moving: Registry,
    /// `None` once it was stopped.
    doomed: Mutex<Option<Registry>>,
}

impl Fixture for Registries {
    fn keep_logs(&self) -> Vec<PathBuf> {
        self.webhooks.iter().map(MullionProcess::keep_logs).collect()
    }
}

impl Registries {
    /// Starts them on the shared control plane.
    pub async fn start(user: SharedUser<Shared>) -> Result<Self> {
        let (steady, moving, doomed) = block_in_place(|| {
            let (steady, moving, doomed) = (Registry::open(), Registry::open(), Registry::open());
            steady.push("parts/web-a:1", WS2019);
            steady.push("parts/web-b:1", WS2022);
            steady.push("parts/web-c:1", WS2025);
            steady.index("shop/web:1", &["parts/web-a:1", "parts/web-b:1"]);
            steady.index("shop/gap:1", &["parts/web-a:1", "parts/web-c:1"]);
            steady.push("shop/legacy:1", WS2019);
            steady.push("shop/recent:1", WS2022);
            steady.push("shop/agent:1", LINUX);
            steady.push("shop/fresh:1", WS2019);
            doomed.push("shop/app:1", WS2019);
            doomed.push("shop/late:1", WS2019);
            (steady, moving, doomed)
        });
        let shared = user.get().await?;
        let hosts = [steady.host(), moving.host(), doomed.host()];
        let (lasting, lasting_policies) = webhook(&shared, LASTING, &hosts, "1h").await?;
        let (brief, brief_policies) = webhook(&shared, BRIEF, &hosts, "1s").await?;
        Ok(Self {
            plane: shared,
            _shared: user,
            webhooks: [lasting, brief],
            _policies: [lasting_policies, brief_policies],
            steady,
            moving,
            doomed: Mutex::new(Some(doomed)),
        })
    }

    async fn namespace(&self, prefix: &str, of: (&str, &str)) -> Result<TestNamespace> {
        self.plane.plane.namespace_with_labels(prefix, &[of]).await
    }

    fn doomed<T>(&self, then: impl FnOnce(&mut Option<Registry>) -> T) -> T {
        then(&mut self.doomed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A webhook for namespaces with a label, which the API server already calls, and the folder of its policies.
async fn webhook(
    shared: &Shared,
    label: (&str, &str),
    hosts: &[String],
    lifetime: &str,
) -> Result<(MullionProcess, TempDir)> {
    let plane = &shared.plane;
    let document = |kind: &str, name: &str, spec: Value| {
        let metadata = json!({"name": name});
        json!({"apiVersion": "mullion.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
    };
    // Names that cannot both match; policies of equal priority that set the same key are rejected anyway.
    let policy = |priority: u8, prefix: &str, lookup: &str, place: Value| {
        let of = json!({"namespaces": {"include": [format!("{prefix}-*")]}});
        let spec =
            json!({"priority": priority, "match": of, "detect": {"registry": {"lookup": lookup}}, "place": place});
        document("PodPolicy", prefix, spec)
    };
    let documents = [
        document("PodPolicy", "everywhere", json!({"detect": {"default": "Nothing", "registry": {"lookup": "Never"}}})),
        policy(1, INLINE, "Inline", json!({})),
        policy(2, EXACT, "Inline", json!({"build": {"mode": "Exact"}})),
        policy(3, BACKGROUND, "Background", json!({})),
        document(
            "RegistryPolicy",
            "registries",
            json!({"plainHTTP": hosts, "lifetimes": {"tag": lifetime, "error": "1s"}}),
        ),
    ];
    let folder = tempfile::tempdir()?;
    // JSON is YAML.
    for (at, document) in documents.iter().enumerate() {
        std::fs::write(folder.path().join(format!("{at}.yaml")), document.to_string())?;
    }
    let (webhook, registration) = start_webhook_with_registries(plane, &folder.path().to_string_lossy()).await?;
    registration.named(label.1).namespace_label(label.0, label.1).register(&plane.client()).await?;
    // The image of this probe has a name that reveals its operating system, so no registry is queried.
    wait_until_mullion_is_called(&plane.namespace_with_labels(NEVER, &[label]).await?).await?;
    Ok((webhook, folder))
}

fn of(name: &str, image: &str) -> Value {
    let resources = json!({"limits": {"memory": "512Mi"}});
    pod(name, json!({"containers": [{"name": "c", "image": image, "resources": resources}]}))
}

/// The OS in the decision annotation of a pod.
fn os(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeSelector"]["kubernetes.io/os"].as_str()
}

/// Waits until a pod would get this OS decision. Pods are admitted in the meantime.
async fn wait_for_decision(namespace: &TestNamespace, image: &str, wanted: Option<&str>) -> Result<()> {
    let probe = of("probe", image);
    wait_for(&format!("pods of {image} to get {wanted:?}"), DEADLINE, || async {
        match ask(namespace, &probe).await {
            Ok(Ok(stored)) if os(&stored) == wanted => Seen::Done(()),
            Ok(Ok(stored)) => Seen::NotYet(stored["spec"].to_string()),
            Ok(Err(error)) => Seen::Hopeless(anyhow::anyhow!("rejected: {error}")),
            Err(error) => Seen::NotYet(format!("{error:#}")),
        }
    })
    .await
}

/// The node of each pod, by the pod's name.
async fn nodes(namespace: &TestNamespace, names: &[&str]) -> Result<Vec<String>> {
    bound(namespace, names.len()).await?;
    let mut nodes = Vec::new();
    for name in names {
        let found = get(namespace, "Pod", name).await?;
        nodes.push(found["spec"]["nodeName"].as_str().context("a node")?.to_owned());
    }
    Ok(nodes)
}

/// Creates the first pod of an image: of the first reference with a response in time. `fresh` creates references to the
/// same image. Returns the pod's namespace, and the reference.
async fn first_pod(
    registries: &Registries,
    webhook: (&str, &str),
    wanted: &str,
    fresh: impl Fn(usize) -> String,
) -> Result<(TestNamespace, String)> {
    let mut last = Value::Null;
    for attempt in 1..=ATTEMPTS {
        let image = block_in_place(|| fresh(attempt));
        let namespace = registries.namespace(INLINE, webhook).await?;
        last = create(&namespace, &of("first", &image)).await?;
        if os(&last) == Some(wanted) {
            return Ok((namespace, image));
        }
        ensure!(os(&last).is_none(), "{image}: {last}");
    }
    bail!("{ATTEMPTS} first pods got no decision, the last one: {last}")
}

pub async fn the_registry_places_the_first_pod(registries: &Registries) -> Result<()> {
    let host = registries.steady.host();
    // Image, its OS, where Compatible may place it, and where Exact does.
    let cases: [(&str, &str, &[&str], &[&str]); 5] = [
        ("shop/legacy", "windows", &["win2019"], &["win2019"]),
        ("shop/recent", "windows", &["win2022", "win2025"], &["win2022"]),
        // Of the two builds in the index, the later one also runs on the latest node; equality is for a single build.
        ("shop/web", "windows", &WINDOWS_NODES, &WINDOWS_NODES),
        // Nothing in the index runs on the node with the build between them.
        ("shop/gap", "windows", &["win2019", "win2025"], &["win2019", "win2025"]),
        ("shop/agent", "linux", &LINUX_NODES, &LINUX_NODES),
    ];
    for (image, wanted, compatible, exact) in cases {
        let fresh = |tag: usize| {
            if tag > 1 {
                registries.steady.crane(&["tag", &format!("{host}/{image}:1"), &tag.to_string()]);
            }
            format!("{host}/{image}:{tag}")
        };
        let (inline, image) = first_pod(registries, LASTING, wanted, fresh).await?;
        let exactly = registries.namespace(EXACT, LASTING).await?;
        let stored = create(&exactly, &of("first", &image)).await?;
        ensure!(os(&stored) == Some(wanted), "{image}: {stored}");
        for (namespace, prefix, allowed) in [(inline, INLINE, compatible), (exactly, EXACT, exact)] {
            let names = ["first", "second", "third", "fourth"];
            for name in &names[1..] {
                let stored = create(&namespace, &of(name, &image)).await?;
                ensure!(os(&stored) == Some(wanted), "{image}, the {name} pod: {stored}");
            }
            let landed = nodes(&namespace, &names).await?;
            ensure!(landed.iter().all(|node| allowed.contains(&node.as_str())), "{image}, {prefix}: {landed:?}");
        }
        // Its name does not reveal an operating system, and without a look-up nothing is known.
        let stored = dry_run(&registries.namespace(NEVER, LASTING).await?, &of("not-looked-up", &image)).await?;
        ensure!(os(&stored).is_none(), "{image}: {stored}");
    }
    Ok(())
}

pub async fn in_the_background_the_registry_places_the_next_pod(registries: &Registries) -> Result<()> {
    let image = format!("{}/shop/fresh:1", registries.steady.host());
    let namespace = registries.namespace(BACKGROUND, LASTING).await?;
    let first = create(&namespace, &of("first", &image)).await?;
    ensure!(os(&first).is_none(), "it cannot be known yet: {first}");
    wait_for_decision(&namespace, &image, Some("windows")).await?;
    let second = create(&namespace, &of("second", &image)).await?;
    ensure!(os(&second) == Some("windows") && second["spec"]["os"]["name"] == "windows", "{second}");
    let landed = nodes(&namespace, &["first", "second"]).await?;
    // The taints keep the first one off Windows nodes.
    ensure!(LINUX_NODES.contains(&landed[0].as_str()) && landed[1] == "win2019", "{landed:?}");
    Ok(())
}

pub async fn a_tag_that_moves_changes_the_next_pod(registries: &Registries) -> Result<()> {
    let push = |image: &str, platform| block_in_place(|| registries.moving.push(image, platform));
    let host = registries.moving.host();
    let fresh = |attempt| {
        let image = format!("shop/app-{attempt}:1");
        push(&image, WS2019);
        format!("{host}/{image}")
    };
    let (namespace, image) = first_pod(registries, BRIEF, "windows", fresh).await?;
    let path = image.trim_start_matches(&*host).trim_start_matches('/').to_owned();

    push(&path, LINUX);
    wait_for_decision(&namespace, &image, Some("linux")).await?;
    let after = create(&namespace, &of("after", &image)).await?;
    ensure!(os(&after) == Some("linux") && after["spec"].get("os").is_none(), "{after}");

    push(&path, WS2022);
    wait_for_decision(&namespace, &image, Some("windows")).await?;
    create(&namespace, &of("again", &image)).await?;
    let landed = nodes(&namespace, &["first", "after", "again"]).await?;
    ensure!(landed[0] == "win2019" && LINUX_NODES.contains(&landed[1].as_str()), "{landed:?}");
    ensure!(["win2022", "win2025"].contains(&landed[2].as_str()), "{landed:?}");
    Ok(())
}

pub async fn pods_are_admitted_while_the_registry_is_away(registries: &Registries) -> Result<()> {
    let Some(host) = registries.doomed(|registry| registry.as_ref().map(Registry::host)) else {
        bail!("stopped before")
    };
    let (known, new) = (format!("{host}/shop/app:1"), format!("{host}/shop/late:1"));
    let inline = registries.namespace(INLINE, BRIEF).await?;
    let background = registries.namespace(BACKGROUND, BRIEF).await?;
    let lasting = registries.namespace(INLINE, LASTING).await?;
    for namespace in [&inline, &background, &lasting] {
        wait_for_decision(namespace, &known, Some("windows")).await?;
    }

    block_in_place(|| registries.doomed(|registry| drop(registry.take())));
    // The last report still counts, and nothing is known about a new image.
    for namespace in [&inline, &background, &lasting] {
        let stored = create(namespace, &of("known", &known)).await?;
        ensure!(os(&stored) == Some("windows"), "{known}: {stored}");
        let stored = create(namespace, &of("new", &new)).await?;
        ensure!(os(&stored).is_none(), "{new}: {stored}");
        let landed = nodes(namespace, &["known", "new"]).await?;
        ensure!(landed[0] == "win2019" && LINUX_NODES.contains(&landed[1].as_str()), "{landed:?}");
    }
    Ok(())
}
