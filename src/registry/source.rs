//! The interface between the cache and the network.

use std::pin::Pin;
use std::sync::Arc;

use mullion_engine::model::image::{DOCKER_HUB, ImageRef, Platforms};

use crate::registry::credentials::Login;
use crate::registry::outcome::LookupError;

/// The host of Docker Hub's API, as in containerd (core/remotes/docker/registry.go, `DefaultHost`).
const DOCKER_HUB_API: &str = "registry-1.docker.io";

/// One image to look up. If it has a digest, its tag is ignored.
#[derive(Debug, Clone)]
pub(crate) struct ImageTarget {
    /// The registry, in the form in which references begin.
    pub(crate) registry: Box<str>,
    /// Host and port of the registry's API.
    pub(crate) host: Box<str>,
    pub(crate) repository: Box<str>,
    pub(crate) revision: ImageRevision,
}

#[derive(Debug, Clone)]
pub(crate) enum ImageRevision {
    Tag(Box<str>),
    Digest(Box<str>),
}

impl ImageRevision {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Tag(text) | Self::Digest(text) => text,
        }
    }
}

impl ImageTarget {
    pub(crate) fn new(image: &ImageRef<'_>) -> Self {
        let registry = image.normalized_registry();
        Self {
            registry: registry.into(),
            host: if registry == DOCKER_HUB { DOCKER_HUB_API } else { registry }.into(),
            repository: image.normalized_repository().into(),
            revision: match image.digest() {
                Some(digest) => ImageRevision::Digest(digest.into()),
                None => ImageRevision::Tag(image.tag().unwrap_or("latest").into()),
            },
        }
    }
}

/// The result of a look-up in a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageAnswer {
    /// The digest of the manifest or index.
    pub digest: Arc<str>,
    /// The platforms that can be pulled under the reference.
    pub platforms: Arc<Platforms>,
    /// The compressed bytes of the layers that a node of
    /// [`RegistrySettings::pull_host`](crate::registry::RegistrySettings::pull_host) pulls.
    pub pull_bytes: Option<u64>,
}

/// A failed look-up.
#[derive(Debug)]
pub(crate) struct LookupFailure {
    pub(crate) error: LookupError,
    /// The registry did not respond at all, so other images in it need not be tried.
    pub(crate) silent: bool,
}

impl From<LookupError> for LookupFailure {
    fn from(error: LookupError) -> Self {
        Self { error, silent: false }
    }
}

pub(crate) type AnswerFuture<'a> = Pin<Box<dyn Future<Output = Result<ImageAnswer, LookupFailure>> + Send + 'a>>;

/// Queries registries; a trait, so that tests can count the requests.
pub(crate) trait RegistrySource: Send + Sync {
    /// Tries the logins in turn while the result is [`LookupError::Denied`]; without logins, queries anonymously.
    /// Returns `last` unchanged if the tag has not moved.
    fn fetch<'a>(
        &'a self,
        target: &'a ImageTarget,
        logins: &'a [Arc<Login>],
        last: Option<&'a ImageAnswer>,
    ) -> AnswerFuture<'a>;
}
