//! One look-up: requests for the manifest, for configs if the manifest has no platform, for the manifest of one entry of an
//! index if its size is wanted, and for tokens.

use std::sync::Arc;

use aws_lc_rs::digest::{Algorithm, SHA256, SHA384, SHA512, digest};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};
use mullion_engine::model::image::{Platform, Platforms};

use crate::registry::auth;
use crate::registry::client::{HttpClient, OriginResponse, check, whole_uri};
use crate::registry::credentials::Login;
use crate::registry::document::{
    ACCEPTED_MANIFESTS, Descriptor, IndexEntry, MAX_CONFIG, MAX_MANIFEST, RegistryDocument, read_config,
    read_layer_bytes, read_manifest,
};
use crate::registry::outcome::LookupError;
use crate::registry::source::{AnswerFuture, ImageAnswer, ImageRevision, ImageTarget, LookupFailure, RegistrySource};

/// The maximum number of logins that are tried for one image; pods rarely have more secrets for one registry.
const MAX_LOGINS: usize = 8;
/// The maximum number of entries without platform for which the config is read. Tools that omit the platform write one
/// or two entries.
const MAX_WITHOUT_PLATFORM: usize = 4;
const DIGEST_HEADER: &str = "docker-content-digest";

impl RegistrySource for HttpClient {
    fn fetch<'a>(
        &'a self,
        target: &'a ImageTarget,
        logins: &'a [Arc<Login>],
        last: Option<&'a ImageAnswer>,
    ) -> AnswerFuture<'a> {
        Box::pin(async move {
            if logins.is_empty() {
                return Session::new(self, target, None).fetch(last).await;
            }
            for login in logins.iter().take(MAX_LOGINS) {
                match Session::new(self, target, Some(login)).fetch(last).await {
                    Err(LookupFailure { error: LookupError::Denied, .. }) => {}
                    answer => return answer,
                }
            }
            Err(LookupError::Denied.into())
        })
    }
}

/// The requests for one image with one login. Its token is used for no other image.
struct Session<'a> {
    client: &'a HttpClient,
    target: &'a ImageTarget,
    login: Option<&'a Login>,
    authorization: Option<HeaderValue>,
}

impl<'a> Session<'a> {
    fn new(client: &'a HttpClient, target: &'a ImageTarget, login: Option<&'a Arc<Login>>) -> Self {
        Self { client, target, login: login.map(|login| &**login), authorization: None }
    }

    async fn fetch(&mut self, last: Option<&ImageAnswer>) -> Result<ImageAnswer, LookupFailure> {
        if let (ImageRevision::Tag(tag), Some(last)) = (&self.target.revision, last)
            && self.points_to(tag, &last.digest).await?
        {
            return Ok(last.clone());
        }
        let bytes = self.manifest(self.target.revision.as_str()).await?;
        let digest = match &self.target.revision {
            ImageRevision::Digest(expected) => verified(&bytes, expected)?.into(),
            ImageRevision::Tag(_) => sum(&bytes, "sha256", &SHA256),
        };
        let (platforms, pull_bytes) = match read_manifest(&bytes)? {
            RegistryDocument::Other => (Platforms::default(), None),
            RegistryDocument::Manifest(config) => {
                let pull_bytes = self.client.pull_host.map(|_| read_layer_bytes(&bytes)).transpose()?;
                (Platforms { entries: vec![self.config(&config).await?], index: false }, pull_bytes)
            }
            RegistryDocument::Index(entries) => {
                let (entries, manifests) = self.entries(entries).await?;
                let platforms = Platforms { entries, index: true };
                let chosen = self.client.pull_host.and_then(|host| platforms.entry_for(host));
                let pull_bytes = match chosen.and_then(|at| manifests.into_iter().nth(at)?) {
                    Some(manifest) => self.child_bytes(&manifest).await?,
                    None => None,
                };
                (platforms, pull_bytes)
            }
        };
        Ok(ImageAnswer { digest: digest.into(), platforms: Arc::new(platforms), pull_bytes })
    }

    /// Whether a tag still points to `digest`. The request is a HEAD, which Docker Hub does not count as a pull.
    async fn points_to(&mut self, tag: &str, digest: &str) -> Result<bool, LookupFailure> {
        let answer = self.send(&Method::HEAD, &format!("manifests/{tag}"), ACCEPTED_MANIFESTS).await?;
        let headers = answer.response.headers();
        match answer.response.status() {
            StatusCode::OK => Ok(headers.get(DIGEST_HEADER).is_some_and(|value| value == digest)),
            // A further request would ignore the registry's limit.
            status @ StatusCode::TOO_MANY_REQUESTS => {
                check(status, headers)?;
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// The platforms of the entries, and their manifests.
    async fn entries(
        &mut self,
        entries: Vec<IndexEntry>,
    ) -> Result<(Vec<Platform>, Vec<Option<Descriptor>>), LookupFailure> {
        let mut platforms = Vec::with_capacity(entries.len());
        let mut manifests = Vec::with_capacity(entries.len());
        let mut configs = 0;
        for entry in entries {
            let (platform, manifest) = match entry {
                IndexEntry::Platform(platform, manifest) => (platform, manifest),
                IndexEntry::WithoutPlatform(child) if configs < MAX_WITHOUT_PLATFORM => {
                    configs += 1;
                    (self.child(&child).await?, Some(child))
                }
                IndexEntry::WithoutPlatform(child) => (Platform::default(), Some(child)),
            };
            platforms.push(platform);
            manifests.push(manifest);
        }
        Ok((platforms, manifests))
    }

    /// The bytes of the layers of an entry; `None` for a nested index or an artifact.
    async fn child_bytes(&mut self, child: &Descriptor) -> Result<Option<u64>, LookupFailure> {
        let bytes = match self.manifest(&child.digest).await {
            // An absent entry is not an absent image, because other entries may exist.
            Err(LookupFailure { error: LookupError::Absent, .. }) => {
                return Err(LookupError::malformed("its index has an entry whose manifest does not exist").into());
            }
            answer => answer?,
        };
        verified(&bytes, &child.digest)?;
        match read_manifest(&bytes)? {
            RegistryDocument::Manifest(_) => Ok(Some(read_layer_bytes(&bytes)?)),
            RegistryDocument::Index(_) | RegistryDocument::Other => Ok(None),
        }
    }

    /// The platform of an entry; empty for a nested index or an artifact.
    async fn child(&mut self, child: &Descriptor) -> Result<Platform, LookupFailure> {
        let bytes = self.manifest(&child.digest).await?;
        verified(&bytes, &child.digest)?;
        match read_manifest(&bytes)? {
            RegistryDocument::Manifest(config) => self.config(&config).await,
            RegistryDocument::Index(_) | RegistryDocument::Other => Ok(Platform::default()),
        }
    }

    async fn manifest(&mut self, revision: &str) -> Result<Bytes, LookupFailure> {
        let answer = self.send(&Method::GET, &format!("manifests/{revision}"), ACCEPTED_MANIFESTS).await?;
        self.client.body(answer, MAX_MANIFEST).await
    }

    async fn config(&mut self, config: &Descriptor) -> Result<Platform, LookupFailure> {
        if usize::try_from(config.size).is_ok_and(|size| size > MAX_CONFIG) {
            return Err(LookupError::malformed(format!("its config is longer than {MAX_CONFIG} bytes")).into());
        }
        let answer = self.send(&Method::GET, &format!("blobs/{}", config.digest), "*/*").await?;
        let bytes = self.client.body(answer, MAX_CONFIG).await?;
        verified(&bytes, &config.digest)?;
        Ok(read_config(&bytes)?)
    }

    /// Sends a request, and repeats it with authorization after a first 401. Logins are sent only after a challenge.
    async fn send(
        &mut self,
        method: &Method,
        path: &str,
        accept: &'static str,
    ) -> Result<OriginResponse, LookupFailure> {
        let ImageTarget { host, repository, .. } = self.target;
        let uri = whole_uri(&format!("{}://{host}/v2/{repository}/{path}", self.client.scheme(host)))
            .ok_or_else(|| LookupError::malformed("the reference is not a valid address"))?;
        let answer = self.client.send(method, uri.clone(), accept, self.authorization.as_ref()).await?;
        let unauthorized = answer.response.status() == StatusCode::UNAUTHORIZED && answer.same_origin;
        if !unauthorized || self.authorization.is_some() {
            return Ok(answer);
        }
        let Some(challenge) = auth::challenge(answer.response.headers()) else { return Ok(answer) };
        drop(answer);
        let authorization = auth::authorization(self.client, challenge, repository, self.login).await?;
        let authorization = self.authorization.insert(authorization);
        self.client.send(method, uri, accept, Some(authorization)).await
    }
}

/// The digest, if it is the digest of the bytes.
fn verified<'a>(bytes: &[u8], expected: &'a str) -> Result<&'a str, LookupError> {
    let algorithm: Option<(&str, &'static Algorithm)> = match expected.split_once(':') {
        Some((name @ "sha256", _)) => Some((name, &SHA256)),
        Some((name @ "sha384", _)) => Some((name, &SHA384)),
        Some((name @ "sha512", _)) => Some((name, &SHA512)),
        _ => None,
    };
    if algorithm.is_some_and(|(name, algorithm)| sum(bytes, name, algorithm) == expected) {
        Ok(expected)
    } else {
        Err(LookupError::malformed("its digest differs from the requested one"))
    }
}

fn sum(bytes: &[u8], name: &str, algorithm: &'static Algorithm) -> String {
    let mut text = format!("{name}:");
    for byte in digest(algorithm, bytes).as_ref() {
        text.extend([byte >> 4, byte & 15].into_iter().filter_map(|digit| char::from_digit(digit.into(), 16)));
    }
    text
}
