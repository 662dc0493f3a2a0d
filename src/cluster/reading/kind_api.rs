//! [`KindApi`] sends the requests for objects of one kind, and reads what comes back object by object.

use std::fmt;

use kube::api::{DeleteParams, EvictParams, GetParams, ListParams, Patch, PostParams, Preconditions, WatchParams};
use kube::core::Request;
use kube::core::request::Error as RequestError;
use kube::{Client, Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cluster::reading::kinds::Kind;
use crate::cluster::reading::list_scanner::ListMetadata;
use crate::cluster::reading::object::{HeadedItem, Item, parse_object};
use crate::cluster::reading::response::{ListResponse, ResponseBody};
use crate::cluster::write_params::{patch_params, post_params};

/// Objects of a kind, in one namespace or everywhere.
#[derive(Clone)]
pub(crate) struct KindApi {
    client: Client,
    kind: &'static Kind,
    namespace: Option<String>,
}

impl fmt::Debug for KindApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())
    }
}

impl KindApi {
    /// Objects of every namespace, or of a kind that has none.
    pub(crate) fn all(client: Client, kind: &'static Kind) -> Self {
        Self { client, kind, namespace: None }
    }

    /// Objects of one namespace.
    pub(crate) fn namespaced(client: Client, kind: &'static Kind, namespace: &str) -> Self {
        Self { client, kind, namespace: Some(namespace.to_owned()) }
    }

    pub(crate) fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// The path of the objects, for logs.
    pub(crate) fn path(&self) -> String {
        self.kind.path(self.namespace.as_deref())
    }

    /// The requests for the objects; `names` become parts of their path, like the namespace.
    fn request(&self, names: &[&str]) -> Result<Request> {
        if let Some(invalid) = names.iter().copied().chain(self.namespace.as_deref()).find(|name| !is_path_part(name)) {
            let problem = format!("{invalid:?} is not a name");
            return Err(Error::BuildRequest(RequestError::Validation(problem)));
        }
        Ok(Request::new(self.path()))
    }

    /// The object; `None` if there is none of that name.
    pub(crate) async fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<Item<T>>> {
        found(self.get_existing(name).await)
    }

    /// The object; an error if there is none of that name.
    pub(super) async fn get_existing<T: DeserializeOwned>(&self, name: &str) -> Result<Item<T>> {
        self.send(self.request(&[name])?.get(name, &GetParams::default())).await
    }

    /// The `metadata` of the object, which is all that the API server sends; `None` if there is none of that name.
    pub(crate) async fn get_metadata<T: DeserializeOwned>(&self, name: &str) -> Result<Option<Item<T>>> {
        let request = self.request(&[name])?.get_metadata(name, &GetParams::default());
        found(self.send(request).await)
    }

    /// Creates an object. As for the other writes, the result is what the API server stored: the write has succeeded
    /// even if that cannot be read.
    pub(crate) async fn create<T: DeserializeOwned>(&self, object: &impl Serialize) -> Result<Item<T>> {
        let body = serde_json::to_vec(object).map_err(Error::SerdeError)?;
        self.send(self.request(&[])?.create(&post_params(), body)).await
    }

    /// Asks what the API server would store, without storing it.
    pub(crate) async fn dry_run<T: DeserializeOwned>(&self, object: &impl Serialize) -> Result<Item<T>> {
        let body = serde_json::to_vec(object).map_err(Error::SerdeError)?;
        self.send(self.request(&[])?.create(&PostParams { dry_run: true, ..post_params() }, body)).await
    }

    pub(crate) async fn replace<T: DeserializeOwned>(&self, name: &str, object: &impl Serialize) -> Result<Item<T>> {
        let body = serde_json::to_vec(object).map_err(Error::SerdeError)?;
        self.send(self.request(&[name])?.replace(name, &post_params(), body)).await
    }

    /// Sends a JSON merge patch.
    pub(crate) async fn merge_patch<T: DeserializeOwned>(&self, name: &str, body: &impl Serialize) -> Result<Item<T>> {
        self.send(self.request(&[name])?.patch(name, &patch_params(), &Patch::Merge(body))).await
    }

    /// Sends a strategic merge patch, which merges some lists by a member of their items.
    pub(crate) async fn strategic_patch<T: DeserializeOwned>(
        &self,
        name: &str,
        body: &impl Serialize,
    ) -> Result<Item<T>> {
        self.send(self.request(&[name])?.patch(name, &patch_params(), &Patch::Strategic(body))).await
    }

    /// Deletes an object. The response is the object or a Status, and is not read.
    pub(crate) async fn delete(&self, name: &str, params: &DeleteParams) -> Result<()> {
        let request = self.request(&[name])?.delete(name, params).map_err(Error::BuildRequest)?;
        ResponseBody::of(&self.client, request).await.map(drop)
    }

    /// Evicts a pod exactly as it was read: no later version of it, and no other pod of its name. The response is a Status,
    /// and is not read.
    pub(crate) async fn evict(&self, name: &str, preconditions: Preconditions, dry_run: bool) -> Result<()> {
        let delete_options = DeleteParams { dry_run, preconditions: Some(preconditions), ..DeleteParams::default() };
        let post_options = PostParams { dry_run, ..post_params() };
        let params = EvictParams { delete_options: Some(delete_options), post_options };
        let request = self.request(&[name])?.evict(name, &params).map_err(Error::BuildRequest)?;
        ResponseBody::of(&self.client, request).await.map(drop)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: std::result::Result<http::Request<Vec<u8>>, RequestError>,
    ) -> Result<Item<T>> {
        let request = request.map_err(Error::BuildRequest)?;
        let value = ResponseBody::of(&self.client, request).await?.value().await?;
        Ok(parse_object(&value).item)
    }

    /// Calls `each` with every object of a page; the result says where the next page begins. After an error, `each` may
    /// have been called with some of the objects.
    pub(crate) async fn page<T: DeserializeOwned>(
        &self,
        params: &ListParams,
        mut each: impl FnMut(Item<T>),
    ) -> Result<ListMetadata> {
        self.page_with_heads(params, |object| each(object.item)).await
    }

    /// Does the same, with the head of each object.
    pub(super) async fn page_with_heads<T: DeserializeOwned>(
        &self,
        params: &ListParams,
        mut each: impl FnMut(HeadedItem<T>),
    ) -> Result<ListMetadata> {
        let mut list = self.list(params).await?;
        while let Some(value) = list.next().await? {
            each(parse_object(value));
        }
        list.end()
    }

    pub(super) async fn list(&self, params: &ListParams) -> Result<ListResponse> {
        ListResponse::of(&self.client, self.request(&[])?.list(params).map_err(Error::BuildRequest)?).await
    }

    pub(super) async fn watch(&self, params: &WatchParams, version: &str) -> Result<ResponseBody> {
        ResponseBody::of(&self.client, self.request(&[])?.watch(params, version).map_err(Error::BuildRequest)?).await
    }
}

/// `None` instead of the error that there is no such object.
fn found<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a name can be a part of a path: it has the characters of names of any kind (RBAC objects have colons), and is
/// no step to another path.
fn is_path_part(name: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    !name.is_empty() && name != "." && name != ".." && name.bytes().all(is_valid)
}
