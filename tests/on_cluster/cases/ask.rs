//! Requests of a case to the API server, and its responses.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use super::format::User;

/// A response of the API server.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// The object, or the Status of the rejection.
    pub body: Value,
    pub warnings: Vec<String>,
}

impl Answer {
    pub fn rejected(&self) -> bool {
        !(200..300).contains(&self.status)
    }

    /// The message of a rejection.
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

#[derive(Debug, Default)]
pub struct Request<'a> {
    pub method: &'a str,
    pub path: String,
    pub content_type: &'a str,
    pub body: Option<Value>,
    pub user: Option<&'a User>,
}

pub async fn send(client: &Client, request: &Request<'_>) -> Result<Answer> {
    let what = || format!("{} {}", request.method, request.path);
    let content_type = if request.content_type.is_empty() { "application/json" } else { request.content_type };
    let mut builder =
        http::Request::builder().method(request.method).uri(&request.path).header("content-type", content_type);
    if let Some(user) = request.user {
        let (name, groups) = match user {
            User::Name(name) => (name, &[][..]),
            User::Full { user, groups } => (user, &groups[..]),
        };
        builder = builder.header("Impersonate-User", name);
        for group in groups {
            builder = builder.header("Impersonate-Group", group);
        }
    }
    let bytes = request.body.as_ref().map(serde_json::to_vec).transpose()?.unwrap_or_default();
    let answer = client.send(builder.body(Body::from(bytes))?).await.with_context(what)?;
    let headers = answer.headers().get_all("warning").into_iter();
    let texts = headers.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let warnings = texts.filter_map(|text| {
        // Quotes inside are escaped (RFC 9110, 5.6.4).
        Some(text.strip_prefix("299 - \"")?.strip_suffix('"')?.replace("\\\"", "\"").replace("\\\\", "\\"))
    });
    let (status, warnings) = (answer.status().as_u16(), warnings.collect());
    let bytes = answer.into_body().collect_bytes().await.with_context(what)?;
    let body =
        serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    Ok(Answer { status, body, warnings })
}

/// A GET that must succeed, or return 404.
pub async fn get(client: &Client, path: &str) -> Result<Option<Value>> {
    let answer = send(client, &Request { method: "GET", path: path.to_owned(), ..Request::default() }).await?;
    if answer.status == 404 {
        return Ok(None);
    }
    ensure!(!answer.rejected(), "GET {path}: {} {}", answer.status, answer.message());
    Ok(Some(answer.body))
}

/// The items of a list.
pub async fn list(client: &Client, path: &str) -> Result<Vec<Value>> {
    let found = get(client, path).await?.with_context(|| format!("GET {path}: there is no such list"))?;
    Ok(found["items"].as_array().cloned().unwrap_or_default())
}

/// A kind of object, as the API server serves it.
#[derive(Clone, Debug)]
pub struct Resource {
    pub api_version: String,
    pub plural: String,
    pub namespaced: bool,
}

impl Resource {
    /// The API path of its objects.
    pub fn path(&self, namespace: &str) -> String {
        let Self { api_version, plural, namespaced } = self;
        let root = if api_version.contains('/') { "apis" } else { "api" };
        if *namespaced {
            format!("/{root}/{api_version}/namespaces/{namespace}/{plural}")
        } else {
            format!("/{root}/{api_version}/{plural}")
        }
    }
}

/// Every kind that the API server serves, discovered once, and again for an unknown kind.
#[derive(Default)]
pub struct Kinds(Mutex<BTreeMap<String, Vec<Resource>>>);

impl Kinds {
    /// Finds a kind, with its apiVersion if that is known; without it, in the first group that has
    /// the kind.
    pub async fn find(&self, client: &Client, api_version: Option<&str>, kind: &str) -> Result<Resource> {
        if let Some(found) = self.known(api_version, kind) {
            return Ok(found);
        }
        let fresh = discover(client).await?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        self.known(api_version, kind)
            .with_context(|| format!("the API server serves no {kind} {}", api_version.unwrap_or_default()))
    }

    fn known(&self, api_version: Option<&str>, kind: &str) -> Option<Resource> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(kind)?.iter().find(|one| api_version.is_none_or(|version| one.api_version == version)).cloned()
    }
}

/// Aggregated discovery: groups in the server's order of preference.
async fn discover(client: &Client) -> Result<BTreeMap<String, Vec<Resource>>> {
    let mut all: BTreeMap<String, Vec<Resource>> = BTreeMap::new();
    for root in ["/api", "/apis"] {
        let request = http::Request::get(root)
            .header("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
            .body(Body::empty())?;
        let bytes = client.send(request).await?.into_body().collect_bytes().await?;
        let groups: Value = serde_json::from_slice(&bytes)?;
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for group in list(&groups["items"]) {
            let name = text(&group["metadata"]["name"]);
            for version in list(&group["versions"]) {
                let version_name = text(&version["version"]);
                let api_version = if name.is_empty() { version_name } else { format!("{name}/{version_name}") };
                for resource in list(&version["resources"]) {
                    let resource_of = Resource {
                        api_version: api_version.clone(),
                        plural: text(&resource["resource"]),
                        namespaced: resource["scope"] == "Namespaced",
                    };
                    all.entry(text(&resource["responseKind"]["kind"])).or_default().push(resource_of);
                }
            }
        }
    }
    Ok(all)
}
