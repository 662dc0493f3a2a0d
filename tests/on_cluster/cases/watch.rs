//! Steps that wait for results: objects, pods and their nodes, Events, and objects that must not appear.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::{Context as _, Result, anyhow, ensure};
use mullion::report::mismatches;
use mullion_cluster::wait_for;
use serde_json::Value;

use super::ask;
use super::format::{ExpectedEvent, With};
use super::lands::{self, NOWHERE, Places};
use super::run::Run;
use crate::shared::DEADLINE;

/// The fields that stay the same without a rollout.
#[derive(Debug, PartialEq)]
pub struct Memory {
    generation: Value,
    template: Value,
    /// Name and UID.
    pods: BTreeMap<String, String>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The controller among an object's owners.
fn controller(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str()
}

fn is_going(object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
}

/// The node of a pod, or why it has none yet.
fn place(pod: &Value) -> std::result::Result<String, String> {
    if let Some(node) = pod["spec"]["nodeName"].as_str() {
        return Ok(node.to_owned());
    }
    let conditions = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    match conditions.iter().find(|one| one["type"] == "PodScheduled") {
        Some(scheduled) if scheduled["reason"] == "Unschedulable" => Ok(NOWHERE.to_owned()),
        Some(scheduled) => Err(format!("not scheduled yet ({})", text(&scheduled["message"]))),
        None => Err("not scheduled yet".to_owned()),
    }
}

/// The scheduler's messages about the pods that it could not place.
fn unschedulable_messages(pods: &[Value]) -> String {
    let conditions = pods.iter().filter_map(|pod| pod["status"]["conditions"].as_array()).flatten();
    let unschedulable = conditions.filter(|one| one["reason"] == "Unschedulable");
    let messages: BTreeSet<String> =
        unschedulable.map(|one| format!("\n  nowhere: {}", text(&one["message"]))).collect();
    messages.into_iter().collect()
}

/// Why an object's controller has not finished: `None` once it has observed the newest generation and created its pods.
pub fn unsettled(kind: &str, object: &Value, pods: usize) -> Option<String> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let number = |value: &Value, default: u64| usize::try_from(value.as_u64().unwrap_or(default)).unwrap_or_default();
    let of_status = |key: &str| number(&status[key], 0);
    let observed = status["observedGeneration"] == object["metadata"]["generation"];
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is = |what: &str| conditions.iter().any(|one| one["type"] == what && one["status"] == "True");
    let done = match kind {
        "DaemonSet" => {
            let wanted = of_status("desiredNumberScheduled");
            observed && [of_status("currentNumberScheduled"), of_status("updatedNumberScheduled"), pods] == [wanted; 3]
        }
        "Deployment" | "StatefulSet" | "ReplicaSet" | "ReplicationController" => {
            let wanted = number(&spec["replicas"], 1);
            let rolls = ["Deployment", "StatefulSet"].contains(&kind);
            let updated = if rolls { of_status("updatedReplicas") } else { wanted };
            // The pods are rejected, so the controller cannot do more.
            observed && ([of_status("replicas"), updated, pods] == [wanted; 3] || is("ReplicaFailure"))
        }
        "Job" => {
            let suspended = spec["suspend"] == true;
            let parallel = number(&spec["parallelism"], 1).min(number(&spec["completions"], u64::MAX));
            let wanted = if suspended { 0 } else { parallel };
            is("Complete") || is("Failed") || (of_status("active") == wanted && pods == wanted)
        }
        _ => true,
    };
    (!done).then(|| {
        format!(
            "its controller is not done: {pods} pods, generation {}, status {status}",
            object["metadata"]["generation"]
        )
    })
}

impl Run<'_> {
    async fn object(&self, about: &str) -> Result<Option<Value>> {
        ask::get(&self.site.plane.client(), &self.path_of(about, &self.namespace).await?).await
    }

    async fn listed(&self, group: &str, plural: &str) -> Result<Vec<Value>> {
        ask::list(&self.site.plane.client(), &format!("/{group}/namespaces/{}/{plural}", self.namespace)).await
    }

    /// The pods of an object, through `ReplicaSet`s and Jobs; for a Pod, itself. Pods that are being deleted do not
    /// count.
    async fn pods_of(&self, object: &Value) -> Result<Vec<Value>> {
        let uid = text(&object["metadata"]["uid"]);
        let mut owners: HashMap<String, String> = HashMap::new();
        for (group, plural) in [("apis/apps/v1", "replicasets"), ("apis/batch/v1", "jobs")] {
            for between in self.listed(group, plural).await? {
                if let Some(owner) = controller(&between) {
                    owners.insert(text(&between["metadata"]["uid"]), owner.to_owned());
                }
            }
        }
        let mut pods = self.listed("api/v1", "pods").await?;
        pods.retain(|pod| {
            let mut at = Some(text(&pod["metadata"]["uid"]));
            let mut next = controller(pod).map(ToOwned::to_owned);
            while at.is_some() && at.as_ref() != Some(&uid) {
                at = next;
                next = at.as_ref().and_then(|at| owners.get(at).cloned());
            }
            at.is_some() && !is_going(pod)
        });
        Ok(pods)
    }

    pub async fn find(&self, about: &str, with: &With) -> Result<()> {
        let anything = Value::Object(serde_json::Map::new());
        let is = with.is.as_ref().unwrap_or(&anything);
        let wrong = |found: Option<&Value>| {
            let all: Vec<String> = mismatches(is, found).iter().map(|one| format!("\n  {one}")).collect();
            all.concat()
        };
        wait_for(about, DEADLINE, async || {
            let Some(owner) = about.strip_prefix("pods of ") else {
                let found = self.object(about).await?;
                let wrong = wrong(found.as_ref());
                ensure!(wrong.is_empty(), "{wrong}");
                return anyhow::Ok(());
            };
            let owner = self.object(owner).await?.with_context(|| format!("there is no {owner}"))?;
            let pods = self.pods_of(&owner).await?;
            let enough = with.count.map_or(!pods.is_empty(), |count| pods.len() == count);
            ensure!(enough, "{} pods", pods.len());
            for pod in &pods {
                let wrong = wrong(Some(pod));
                ensure!(wrong.is_empty(), "{}:{wrong}", text(&pod["metadata"]["name"]));
            }
            Ok(())
        })
        .await
    }

    pub async fn lands(&self, wanted: &Value) -> Result<()> {
        for (about, entries) in wanted.as_object().context("`lands` takes a map")? {
            let entries: Vec<String> = serde_json::from_value(entries.clone()).context("nodes, one entry a pod")?;
            let places = entries.iter().map(|entry| lands::parse(entry)).collect::<Result<Vec<_>>>()?;
            let places: Vec<Places> = places.concat();
            let kind = about.split_once('/').map_or("", |(kind, _)| kind);
            wait_for(&format!("pods of {about} on [{}]", entries.join(", ")), DEADLINE, async || {
                let object = self.object(about).await?.with_context(|| format!("there is no {about}"))?;
                let pods = self.pods_of(&object).await?;
                let mut nodes: Vec<String> = pods.iter().map(|pod| place(pod).unwrap_or_else(|why| why)).collect();
                nodes.sort();
                let unsettled = unsettled(kind, &object, pods.len());
                let status = unsettled.as_deref().unwrap_or_default();
                ensure!(
                    lands::fits(&places, &nodes),
                    "on [{}]{} {status}",
                    nodes.join(", "),
                    unschedulable_messages(&pods)
                );
                unsettled.map_or(Ok(()), |why| Err(anyhow!(why)))
            })
            .await?;
        }
        Ok(())
    }

    pub async fn event(&self, wanted: ExpectedEvent) -> Result<()> {
        let ExpectedEvent { about, reason, message: texts } = &wanted;
        let (pods_of, about) = about.strip_prefix("pods of ").map_or((false, about.as_str()), |owner| (true, owner));
        let (kind, name) = about.split_once('/').context("`about` takes `Kind/name`")?;
        wait_for(&format!("an Event about {}", wanted.about), DEADLINE, async || {
            let mut names = vec![(kind.to_owned(), name.to_owned())];
            if pods_of {
                let owner = self.object(about).await?.with_context(|| format!("there is no {about}"))?;
                let pods = self.pods_of(&owner).await?;
                names = pods.iter().map(|pod| ("Pod".to_owned(), text(&pod["metadata"]["name"]))).collect();
            }
            let mut seen = Vec::new();
            let elsewhere = ask::list(&self.site.plane.client(), "/api/v1/namespaces/default/events").await?;
            for event in self.listed("api/v1", "events").await?.into_iter().chain(elsewhere) {
                let involved = &event["involvedObject"];
                if !names.contains(&(text(&involved["kind"]), text(&involved["name"]))) {
                    continue;
                }
                let message = text(&event["message"]);
                let right = reason.as_ref().is_none_or(|reason| event["reason"] == **reason);
                if right && texts.iter().all(|text| message.contains(text)) {
                    return anyhow::Ok(());
                }
                seen.push(format!("\n  {}: {message}", text(&event["reason"])));
            }
            Err(anyhow!("{} Events about it{}", seen.len(), seen.concat()))
        })
        .await
    }

    /// The current state, once its controller has finished.
    async fn memory(&self, about: &str) -> Result<Memory> {
        let object = self.object(about).await?.with_context(|| format!("there is no {about}"))?;
        let pods = self.pods_of(&object).await?;
        let kind = about.split_once('/').map_or("", |(kind, _)| kind);
        if let Some(why) = unsettled(kind, &object, pods.len()) {
            return Err(anyhow!(why));
        }
        let by_name = pods.iter().map(|pod| (text(&pod["metadata"]["name"]), text(&pod["metadata"]["uid"])));
        Ok(Memory {
            generation: object["metadata"]["generation"].clone(),
            template: object["spec"]["template"].clone(),
            pods: by_name.collect(),
        })
    }

    pub async fn remember(&mut self, about: &str) -> Result<()> {
        let memory = wait_for(about, DEADLINE, async || self.memory(about).await).await?;
        self.remembered.insert(about.to_owned(), memory);
        Ok(())
    }

    pub async fn unchanged(&self, about: &str) -> Result<()> {
        let before = self.remembered.get(about).with_context(|| format!("`remember: {about}` comes first"))?;
        let now = wait_for(about, DEADLINE, async || self.memory(about).await).await?;
        let mut wrong = Vec::new();
        if before.generation != now.generation {
            wrong.push(format!("generation {} became {}", before.generation, now.generation));
        }
        let template = mullion::report::differences(&before.template, &now.template);
        wrong.extend(template.iter().map(|one| format!("spec.template.{one}")));
        for (name, uid) in &before.pods {
            match now.pods.get(name) {
                None => wrong.push(format!("pod {name} is gone")),
                Some(other) if other != uid => wrong.push(format!("pod {name} is another one")),
                Some(_) => {}
            }
        }
        let new = now.pods.keys().filter(|name| !before.pods.contains_key(*name));
        wrong.extend(new.map(|name| format!("pod {name} is new")));
        ensure!(wrong.is_empty(), "\n  {}", wrong.join("\n  "));
        Ok(())
    }
}
