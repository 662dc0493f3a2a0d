//! The seam between the cache and the network.

use std::pin::Pin;
use std::sync::Arc;

use mullion_engine::model::image::platform::Platforms;
use mullion_engine::model::image::reference::{DOCKER_HUB, ImageRef};

use crate::registry::credentials::Login;
use crate::registry::outcome::LookupError;

/// Where Docker Hub's API is, as containerd has it (core/remotes/docker/registry.go, `DefaultHost`).
const DOCKER_HUB_API: &str = "registry-1.docker.io";

/// One image to be looked up. A tag beside a digest is left out: the digest decides.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Host and port of the registry's API.
    pub(crate) host: Box<str>,
    pub(crate) repository: Box<str>,
    pub(crate) revision: Revision,
}

#[derive(Debug, Clone)]
pub(crate) enum Revision {
    Tag(Box<str>),
    Digest(Box<str>),
}

impl Revision {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Tag(text) | Self::Digest(text) => text,
        }
    }
}

impl Target {
    pub(crate) fn new(image: &ImageRef<'_>) -> Self {
        let registry = image.normalized_registry();
        Self {
            host: if registry == DOCKER_HUB { DOCKER_HUB_API } else { registry }.into(),
            repository: image.normalized_repository().into(),
            revision: match image.digest() {
                Some(digest) => Revision::Digest(digest.into()),
                None => Revision::Tag(image.tag().unwrap_or("latest").into()),
            },
        }
    }
}

/// What an earlier look-up of the same tag found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Of the manifest or index.
    pub(crate) digest: Arc<str>,
    pub(crate) platforms: Arc<Platforms>,
}

/// A look-up without answer.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: LookupError,
    /// The registry itself gave no sign of life: asking it for another image is of no use either.
    pub(crate) silent: bool,
}

impl From<LookupError> for Failure {
    fn from(error: LookupError) -> Self {
        Self { error, silent: false }
    }
}

pub(crate) type Fetching<'a> = Pin<Box<dyn Future<Output = Result<Found, Failure>> + Send + 'a>>;

/// Asks registries; tests count how often.
pub(crate) trait Source: Send + Sync {
    /// Tries the logins in turn while the answer is [`LookupError::Denied`]; without any, asks as nobody. `last` is
    /// returned as it is if the tag has not moved.
    fn fetch<'a>(&'a self, target: &'a Target, logins: &'a [Arc<Login>], last: Option<&'a Found>) -> Fetching<'a>;
}
