//! Running a case: its namespaces, its third-party webhooks, and its steps in order.

use std::collections::HashMap;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use mullion::report::{differences, unexpected};
use mullion_cluster::wait_for;
use serde_json::{Value, json};

use super::ask::{self, Answer, Request};
use super::file::{self, Loaded};
use super::format::{Step, ThirdPartyWebhooks, With};
use super::site::{LABEL, Site};
use super::third_party::configuration;
use super::watch::Memory;
use super::witness::Policies;
use super::{differ, judge, tool};
use crate::shared::DEADLINE;

/// A running case.
pub struct Run<'a> {
    pub site: &'a Site,
    pub namespace: String,
    /// The same namespace without Mullion and third-party webhooks, if any step compares with it.
    twin: Option<String>,
    pub remembered: HashMap<String, Memory>,
    /// Paths of objects outside the namespace that are deleted at the end.
    outside: Vec<String>,
}

/// Runs a case; the error identifies the step.
pub async fn run(site: &Site, name: &str, shown: &str, loaded: &Loaded) -> Result<()> {
    let case = &loaded.case;
    let mut labels = case.namespace.labels.clone();
    let annotations = &case.namespace.annotations;
    let compared = loaded.steps.iter().any(|(_, step)| step.with.changes.is_some());
    let plain = if compared { Some(site.plane.namespace_of(name, &labels, annotations).await?) } else { None };
    if case.mullion != "none" {
        site.mullion(&case.mullion).await?;
        labels.insert(LABEL.to_owned(), case.mullion.clone());
    }
    let own = site.plane.namespace_of(name, &labels, annotations).await?;
    let twin = plain.as_ref().map(|plain| plain.name.clone());
    let mut run = Run { site, namespace: own.name.clone(), twin, remembered: HashMap::new(), outside: Vec::new() };
    let result = run.all(case.third_party.as_slice(), shown, loaded).await;
    run.site.remove(std::mem::take(&mut run.outside)).await?;
    if result.is_ok() {
        for namespace in plain.into_iter().chain([own]) {
            namespace.delete().await?;
        }
    }
    result.map_err(|why| anyhow!("{why:#}\n({} Namespace {}.)", case.sentence, run.namespace))
}

impl Run<'_> {
    async fn all(&mut self, third_party: &[String], shown: &str, loaded: &Loaded) -> Result<()> {
        self.register(third_party).await.context("third-party webhooks")?;
        for (at, (line, step)) in loaded.steps.iter().enumerate() {
            let later = loaded.steps[at..].iter().any(|(_, step)| step.with.changes.is_some());
            let place = || format!("{shown}:{line}: step {} ({})", at + 1, step.title());
            self.step(&loaded.case.steps[at], later).await.with_context(place)?;
        }
        Ok(())
    }

    /// Registers third-party webhooks for the case's namespace, and creates their objects.
    async fn register(&mut self, third_party: &[String]) -> Result<()> {
        let site = self.site;
        let mut policies = Policies::default();
        for name in third_party {
            let third_party: ThirdPartyWebhooks = file::read("third-party-webhooks", name)?;
            for webhook in &third_party.webhooks {
                let configured = format!("{}-{}", webhook.name, self.namespace);
                let operations: Vec<Value> = webhook.patch.iter().map(|one| fill(one, &self.namespace)).collect();
                let client = site.third_party.serve(&format!("/{configured}"), webhook.unless.clone(), operations);
                let configuration = configuration(&configured, &self.namespace, &[(webhook, client)]);
                self.outside.push(site.create(&configuration, "").await?);
            }
            for object in &third_party.objects {
                let object = fill(object, &self.namespace);
                site.create(&object, &self.namespace).await?;
                self.remember_outside(&object).await?;
                policies.mutating |= object["kind"] == "MutatingAdmissionPolicy";
                policies.validating |= object["kind"] == "ValidatingAdmissionPolicy";
            }
        }
        if third_party.is_empty() {
            return Ok(());
        }
        site.settle(&self.namespace, policies).await
    }

    /// Records an object outside of the namespace for deletion at the end.
    async fn remember_outside(&mut self, object: &Value) -> Result<()> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let resource = self.site.kinds.find(&self.site.plane.client(), object["apiVersion"].as_str(), kind).await?;
        let elsewhere = object["metadata"]["namespace"].as_str().filter(|namespace| *namespace != self.namespace);
        if let Some(name) = object["metadata"]["name"].as_str()
            && (!resource.namespaced || elsewhere.is_some())
        {
            let path = format!("{}/{name}?gracePeriodSeconds=0", resource.path(elsewhere.unwrap_or_default()));
            self.outside.push(path);
        }
        Ok(())
    }

    async fn step(&mut self, raw: &Value, mirrored: bool) -> Result<()> {
        let raw = &self.with_uids(raw).await?;
        let step = Step::read(&fill(raw, &self.namespace))?;
        let plain = match &self.twin {
            Some(twin) if mirrored => Some((twin.clone(), Step::read(&fill(raw, twin))?)),
            _ => None,
        };
        let about = step.value.as_str().unwrap_or_default();
        match step.verb {
            "kubectl" | "helm" => self.tool(&step, plain).await,
            "adopt" => self.adopt(about).await,
            "find" => self.find(about, &step.with).await,
            "lands" => self.lands(&step.value).await,
            "event" => self.event(serde_json::from_value(step.value.clone())?).await,
            "remember" => self.remember(about).await,
            "unchanged" => self.unchanged(about).await,
            _ => self.send(&step, plain).await,
        }
    }

    /// The step with the UIDs of the cluster's objects in its texts: `{uid of Node/linux-1}`.
    async fn with_uids(&self, step: &Value) -> Result<Value> {
        const START: &str = "{uid of ";
        let mut text = step.to_string();
        while let Some((_, rest)) = text.split_once(START) {
            let about = rest.split_once('}').context("a `{uid of` without its end")?.0.to_owned();
            let path = self.path_of(&about, &self.namespace).await?;
            let object =
                ask::get(&self.site.plane.client(), &path).await?.with_context(|| format!("there is no {about}"))?;
            let uid = object["metadata"]["uid"].as_str().context("an object has a UID")?;
            text = text.replace(&format!("{START}{about}}}"), uid);
        }
        Ok(serde_json::from_str(&text)?)
    }

    async fn adopt(&self, mullion: &str) -> Result<()> {
        self.site.mullion(mullion).await?;
        self.site.label(&self.namespace, LABEL, Some(mullion)).await?;
        self.site.settle(&self.namespace, Policies::default()).await
    }

    async fn send(&mut self, step: &Step, plain: Option<(String, Step)>) -> Result<()> {
        let client = self.site.plane.client();
        if ["create", "apply"].contains(&step.verb) && !step.with.dry_run {
            self.remember_outside(&step.value).await?;
        }
        if step.with.eventually {
            let request = self.request(step, &self.namespace).await?;
            return wait_for(&step.title(), DEADLINE, async || {
                let wrong = judge::compare_answer(&ask::send(&client, &request).await?, &step.with);
                ensure!(wrong.is_empty(), "\n  {}", wrong.join("\n  "));
                anyhow::Ok(())
            })
            .await;
        }
        for _ in 0..step.with.repeat.unwrap_or(1) {
            let answer = ask::send(&client, &self.request(step, &self.namespace).await?).await?;
            let mut wrong = judge::compare_answer(&answer, &step.with);
            if let Some((twin, plain)) = &plain
                && step.with.rejection().is_none()
                && self.lies_in(step, &self.namespace).await?
            {
                let bare = ask::send(&client, &self.request(plain, twin).await?).await?;
                if let Some(changes) = &step.with.changes {
                    wrong.extend(self.changes(step, &answer, &bare, twin, changes)?);
                }
            }
            ensure!(wrong.is_empty(), "\n  {}", wrong.join("\n  "));
        }
        Ok(())
    }

    fn changes(
        &self,
        step: &Step,
        ours: &Answer,
        bare: &Answer,
        twin: &str,
        expected: &[String],
    ) -> Result<Vec<String>> {
        if ours.rejected() {
            return Ok(Vec::new()); // reported already
        }
        ensure!(!bare.rejected(), "without Mullion it is rejected: {} {}", bare.status, bare.message());
        let of_status = step.with.subresource.as_deref() == Some("status");
        let mut sides = [
            differ::comparable(&bare.body, twin, of_status),
            differ::comparable(&ours.body, &self.namespace, of_status),
        ];
        if step.verb != "create" && sides[0]["kind"] == "Pod" {
            // The scheduler sets it at any time.
            sides
                .iter_mut()
                .filter_map(|side| side["spec"].as_object_mut())
                .for_each(|spec| drop(spec.remove("nodeName")));
        }
        let differences = differences(&sides[0], &sides[1]);
        Ok(unexpected(&differences, expected).iter().map(ToString::to_string).collect())
    }

    /// Whether the requested object is in the namespace: then the twin has another object.
    async fn lies_in(&self, step: &Step, namespace: &str) -> Result<bool> {
        Ok(self.request(step, namespace).await?.path.contains(&format!("/namespaces/{namespace}/")))
    }

    async fn request<'s>(&self, step: &'s Step, namespace: &str) -> Result<Request<'s>> {
        let With { manager, force, merge, strategic, json, subresource, body, user, dry_run, .. } = &step.with;
        let mut request = Request { user: user.as_ref(), ..Request::default() };
        let mut query = Vec::new();
        match step.verb {
            "request" => {
                let text = step.value.as_str().unwrap_or_default();
                let (method, path) = text.split_once(' ').context("`request` takes `METHOD /path`")?;
                (request.method, request.path, request.body) = (method, path.to_owned(), body.clone());
                if method == "PATCH" {
                    request.content_type = "application/merge-patch+json";
                }
            }
            "patch" | "delete" => {
                request.path = self.path_of(step.value.as_str().unwrap_or_default(), namespace).await?;
            }
            _ => {
                let object = &step.value;
                let kind = object["kind"].as_str().context("an object has a kind")?;
                let client = self.site.plane.client();
                let resource = self.site.kinds.find(&client, object["apiVersion"].as_str(), kind).await?;
                request.path = resource.path(object["metadata"]["namespace"].as_str().unwrap_or(namespace));
                request.body = Some(object.clone());
            }
        }
        match step.verb {
            "create" => request.method = "POST",
            "apply" | "replace" => {
                let name = step.value["metadata"]["name"].as_str().context("an object has a name")?;
                request.path = format!("{}/{name}", request.path);
                request.method = if step.verb == "apply" { "PATCH" } else { "PUT" };
                if step.verb == "apply" {
                    request.content_type = "application/apply-patch+yaml";
                    query.push(format!("fieldManager={}", manager.as_deref().unwrap_or("case")));
                    query.push(format!("force={force}"));
                }
            }
            "patch" => {
                request.method = "PATCH";
                let ways = [
                    ("application/merge-patch+json", merge.clone()),
                    ("application/strategic-merge-patch+json", strategic.clone()),
                    ("application/json-patch+json", json.clone().map(Value::Array)),
                ];
                let (kind, patch) =
                    ways.into_iter().find_map(|(kind, patch)| Some((kind, patch?))).context("a patch")?;
                (request.content_type, request.body) = (kind, Some(patch));
                if let Some(subresource) = subresource {
                    request.path = format!("{}/{subresource}", request.path);
                }
            }
            "delete" => {
                request.method = "DELETE";
                query.push("gracePeriodSeconds=0".to_owned());
            }
            _ => {}
        }
        if *dry_run {
            query.push("dryRun=All".to_owned());
        }
        if !query.is_empty() {
            let sign = if request.path.contains('?') { '&' } else { '?' };
            request.path = format!("{}{sign}{}", request.path, query.join("&"));
        }
        Ok(request)
    }

    /// The API path of `Kind/name`.
    pub async fn path_of(&self, about: &str, namespace: &str) -> Result<String> {
        let (kind, name) = about.split_once('/').ok_or_else(|| anyhow!("{about:?} is not `Kind/name`"))?;
        let resource = self.site.kinds.find(&self.site.plane.client(), None, kind).await?;
        Ok(format!("{}/{name}", resource.path(namespace)))
    }

    async fn tool(&self, step: &Step, plain: Option<(String, Step)>) -> Result<()> {
        for _ in 0..step.with.repeat.unwrap_or(1) {
            if let Some((twin, plain)) = &plain {
                // Later requests must find the same objects there; the output there is not checked.
                tool::run(self.site, plain, twin).await?;
            }
            let output = tool::run(self.site, step, &self.namespace).await?;
            let wrong = judge::compare_output(&output, &step.with);
            if !wrong.is_empty() {
                bail!("\n  {}", wrong.join("\n  "));
            }
        }
        Ok(())
    }
}

/// Replaces the placeholders in every key and string of a case.
fn fill(value: &Value, namespace: &str) -> Value {
    let text =
        |text: &str| text.replace("{namespace}", namespace).replace("{cases}", &file::folder().to_string_lossy());
    match value {
        Value::String(inner) => json!(text(inner)),
        Value::Array(list) => list.iter().map(|one| fill(one, namespace)).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (text(key), fill(value, namespace))).collect(),
        other => other.clone(),
    }
}
