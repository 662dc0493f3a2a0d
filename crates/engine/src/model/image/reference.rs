//! The parts of an image reference, borrowed from its text.
//!
//! The grammar is that of distribution/reference, which containerd and the kubelet use:
//! `[registry[:port]/]path[:tag][@digest]`, where the first component is a registry only if it has a dot, a colon or an upper case
//! letter or is `localhost`.

use std::borrow::Cow;
use std::fmt;

/// The registry of references that name none.
pub const DOCKER_HUB: &str = "docker.io";
/// Older name of [`DOCKER_HUB`], still seen; the runtimes treat it as the same.
const OLD_DOCKER_HUB: &str = "index.docker.io";
/// Namespace of references to Docker Hub that name none.
const LIBRARY: &str = "library";

/// Names of the Microsoft Container Registry and of its mirrors, as host or as the component that a pull-through mirror adds.
const MICROSOFT_HOSTS: &[&str] = &["mcr.microsoft.com", "mcr.azure.cn", "mcr.azk8s.cn", "mcr"];

/// Longest accepted reference in bytes: registry name 255 with port, repository 255, tag 128 and digest 136 fit.
pub(crate) const MAX_REFERENCE: usize = 1024;
/// Longest repository in bytes, without the registry.
pub(crate) const MAX_REPOSITORY: usize = 255;
const MAX_TAG: usize = 128;
/// A host name of 253 bytes (RFC 1035, section 2.3.4, without lengths of labels), a colon and a port.
const MAX_REGISTRY: usize = 253 + 1 + 5;

/// Digest algorithms with the number of their hexadecimal digits (opencontainers/go-digest).
const DIGESTS: &[(&str, usize)] = &[("sha256", 64), ("sha384", 96), ("sha512", 128)];

/// A well-formed image reference, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ImageRef<'a> {
    registry: Option<&'a str>,
    repository: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

/// Why a text is not an image reference. Such an image is unknown, not an error of the pod, because templates and variables
/// occur as images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ReferenceError {
    /// The text is empty.
    #[error("the image reference is empty")]
    Empty,
    /// More than [`MAX_REFERENCE`] bytes, or more than [`MAX_REPOSITORY`] in the repository.
    #[error("the image reference is longer than a runtime accepts ({MAX_REPOSITORY} bytes of repository, 128 of tag)")]
    TooLong,
    /// A control character or white space.
    #[error("the image reference has white space or a control character in it")]
    Blank,
    /// `{{ }}`, `$(VAR)` or `${VAR}` that is not filled in.
    #[error("the image reference is a template that is not filled in")]
    Template,
    /// 64 hexadecimal digits: the runtimes read them as an image id.
    #[error("64 hexadecimal digits are an image id, not a reference; write `<repository>@sha256:<digits>`")]
    Identifier,
    /// The registry is not a host name of at most 253 bytes, IPv4 address or bracketed IPv6 address with optional port.
    #[error(
        "the registry is not a host name or address with an optional port; do not write a scheme such as `https://`"
    )]
    Registry,
    /// Upper case in the repository, which containerd rejects.
    #[error("the repository must be lower case")]
    UpperCase,
    /// A repository component that is not of the form `a-z0-9` with single separators.
    #[error("the repository has characters other than a-z, 0-9 and single separators `.`, `_`, `__`, `-` and `/`")]
    Repository,
    /// The tag is empty, longer than 128 or has other characters than `A-Za-z0-9_.-`.
    #[error("the tag must be 1 to 128 of A-Z, a-z, 0-9, `_`, `.` and `-`, and not start with `.` or `-`")]
    Tag,
    /// The algorithm is not one that runtimes know, or the number of lower case hexadecimal digits is wrong.
    #[error("the digest must be `sha256:` and 64 lower case hexadecimal digits (sha384: 96, sha512: 128)")]
    Digest,
}

impl<'a> ImageRef<'a> {
    /// Reads a reference.
    pub fn parse(text: &'a str) -> Result<Self, ReferenceError> {
        check_text(text)?;
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (text, None),
        };
        let (registry, rest) = split_registry(name);
        let (repository, tag) = match rest.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (rest, None),
        };
        if registry.is_some_and(|registry| registry.len() > MAX_REGISTRY || !is_registry(registry)) {
            return Err(ReferenceError::Registry);
        }
        check_repository(repository)?;
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(ReferenceError::Tag);
        }
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err(ReferenceError::Digest);
        }
        let image = Self { registry, repository, tag, digest };
        // Runtimes add the `library/` that Docker Hub implies before they check the length.
        if image.implies_library() && LIBRARY.len() + 1 + repository.len() > MAX_REPOSITORY {
            return Err(ReferenceError::TooLong);
        }
        Ok(image)
    }

    /// Host and port as written; `None` if the reference does not contain a registry.
    pub fn registry(&self) -> Option<&'a str> {
        self.registry
    }

    /// Path within the registry as written: without the `library/` that Docker Hub implies.
    pub fn repository(&self) -> &'a str {
        self.repository
    }

    /// Whether these are the last components of the path: `myistio/proxyv2` does not end with `istio/proxyv2`.
    pub fn ends_with(&self, components: &str) -> bool {
        self.repository.strip_suffix(components).is_some_and(|before| before.is_empty() || before.ends_with('/'))
    }

    /// Tag as written; None does not mean `latest` if there is a digest.
    pub fn tag(&self) -> Option<&'a str> {
        self.tag
    }

    /// Digest with its algorithm. It, not the tag, decides what is pulled.
    pub fn digest(&self) -> Option<&'a str> {
        self.digest
    }

    /// The registry of the look-up: `docker.io` if the reference names no registry, or the older name of Docker Hub.
    pub fn normalized_registry(&self) -> &'a str {
        match self.registry {
            None | Some(OLD_DOCKER_HUB) => DOCKER_HUB,
            Some(registry) => registry,
        }
    }

    /// Whether this is Docker Hub's `library/` with the namespace left out.
    fn implies_library(&self) -> bool {
        self.normalized_registry() == DOCKER_HUB && !self.repository.contains('/')
    }

    /// The repository of the look-up: `library/nginx` for `nginx`.
    pub fn normalized_repository(&self) -> Cow<'a, str> {
        if self.implies_library() {
            Cow::Owned(format!("{LIBRARY}/{}", self.repository))
        } else {
            Cow::Borrowed(self.repository)
        }
    }

    /// Name in the Docker official images, at Docker Hub or in a mirror that keeps `library/`.
    pub fn official_name(&self) -> Option<&'a str> {
        if self.implies_library() {
            return Some(self.repository);
        }
        let (namespace, name) = self.repository.rsplit_once('/')?;
        (namespace == LIBRARY || namespace.ends_with("/library")).then_some(name)
    }

    /// The path within the Microsoft Container Registry, if the image is from there or from a mirror that names it.
    pub fn microsoft_path(&self) -> Option<&'a str> {
        if self.registry.is_some_and(|registry| MICROSOFT_HOSTS.contains(&registry)) {
            return Some(self.repository);
        }
        MICROSOFT_HOSTS.iter().find_map(|host| {
            let mut components = self.repository;
            loop {
                let (component, rest) = components.split_once('/')?;
                if component == *host {
                    return Some(rest);
                }
                components = rest;
            }
        })
    }

    /// The whole reference as the runtime reads it: `docker.io/library/nginx:latest` for `nginx`.
    pub fn normalized(&self) -> Normalized<'a> {
        Normalized(*self)
    }
}

impl<'a> TryFrom<&'a str> for ImageRef<'a> {
    type Error = ReferenceError;

    fn try_from(text: &'a str) -> Result<Self, Self::Error> {
        Self::parse(text)
    }
}

impl fmt::Display for ImageRef<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(registry) = self.registry {
            write!(out, "{registry}/")?;
        }
        out.write_str(self.repository)?;
        write_end(out, self.tag, self.digest)
    }
}

/// Displays a reference with everything that it leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Normalized<'a>(ImageRef<'a>);

impl fmt::Display for Normalized<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let image = &self.0;
        let library = if image.implies_library() { "library/" } else { "" };
        write!(out, "{}/{library}{}", image.normalized_registry(), image.repository)?;
        let tag = if image.tag.is_none() && image.digest.is_none() { Some("latest") } else { image.tag };
        write_end(out, tag, image.digest)
    }
}

fn write_end(out: &mut fmt::Formatter<'_>, tag: Option<&str>, digest: Option<&str>) -> fmt::Result {
    if let Some(tag) = tag {
        write!(out, ":{tag}")?;
    }
    match digest {
        Some(digest) => write!(out, "@{digest}"),
        None => Ok(()),
    }
}

fn check_text(text: &str) -> Result<(), ReferenceError> {
    if text.is_empty() {
        return Err(ReferenceError::Empty);
    }
    if text.len() > MAX_REFERENCE {
        return Err(ReferenceError::TooLong);
    }
    // This comes before white space, because a template usually contains some, and its error helps more.
    if ["{{", "}}", "$(", "${"].iter().any(|mark| text.contains(mark)) {
        return Err(ReferenceError::Template);
    }
    if text.chars().any(|letter| letter.is_control() || letter.is_whitespace()) {
        return Err(ReferenceError::Blank);
    }
    if text.len() == 64 && text.bytes().all(is_lower_hex) {
        return Err(ReferenceError::Identifier);
    }
    Ok(())
}

/// Registry and rest. A first component without dot, colon or upper case letter that is not `localhost` is part of the
/// path.
fn split_registry(name: &str) -> (Option<&str>, &str) {
    let Some((first, rest)) = name.split_once('/') else {
        return (None, name);
    };
    let marked = first.bytes().any(|byte| matches!(byte, b'.' | b':' | b'A'..=b'Z'));
    if marked || first == "localhost" { (Some(first), rest) } else { (None, name) }
}

fn is_registry(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, "")) => (Err(address), None),
            Some((address, port)) => match port.strip_prefix(':') {
                Some(port) => (Err(address), Some(port)),
                None => return false,
            },
            None => return false,
        },
        None => match text.split_once(':') {
            Some((host, port)) => (Ok(host), Some(port)),
            None => (Ok(text), None),
        },
    };
    let host_fits = match host {
        Ok(host) => host.split('.').all(is_host_label),
        Err(address) => address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':') && !address.is_empty(),
    };
    host_fits && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_host_label(label: &str) -> bool {
    let fits = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    fits && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
}

fn check_repository(repository: &str) -> Result<(), ReferenceError> {
    if repository.len() > MAX_REPOSITORY {
        return Err(ReferenceError::TooLong);
    }
    if repository.split('/').all(is_component) {
        return Ok(());
    }
    let upper = repository.bytes().any(|byte| byte.is_ascii_uppercase());
    Err(if upper { ReferenceError::UpperCase } else { ReferenceError::Repository })
}

/// `[a-z0-9]+` joined by `.`, `_`, `__` or any number of `-`.
fn is_component(component: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    component.starts_with(plain)
        && component.ends_with(plain)
        && component
            .split(plain)
            .all(|joint| matches!(joint, "" | "." | "_" | "__") || joint.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let fits = tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'));
    fits && (1..=MAX_TAG).contains(&tag.len()) && !tag.starts_with(['.', '-'])
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, digits)| {
        DIGESTS.contains(&(algorithm, digits.len())) && digits.bytes().all(is_lower_hex)
    })
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    type Parts<'a> = (Option<&'a str>, &'a str, Option<&'a str>, Option<&'a str>);

    #[test]
    fn parts() {
        let cases: &[(&str, Parts<'_>)] = &[
            ("nginx", (None, "nginx", None, None)),
            ("nginx:1.27", (None, "nginx", Some("1.27"), None)),
            ("a/b", (None, "a/b", None, None)),
            ("localhost/b", (Some("localhost"), "b", None, None)),
            ("localhost:5000/b:2004", (Some("localhost:5000"), "b", Some("2004"), None)),
            ("registry.example.com:1809/team/api", (Some("registry.example.com:1809"), "team/api", None, None)),
            (
                "10.1.2.3:5000/windows/servercore:ltsc2025",
                (Some("10.1.2.3:5000"), "windows/servercore", Some("ltsc2025"), None),
            ),
            ("[2001:db8::1]:5000/app:1.0", (Some("[2001:db8::1]:5000"), "app", Some("1.0"), None)),
            ("[::1]/app", (Some("[::1]"), "app", None, None)),
            ("REGISTRY/app", (Some("REGISTRY"), "app", None, None)),
            ("host:5000", (None, "host", Some("5000"), None)),
            ("x:20H2", (None, "x", Some("20H2"), None)),
            ("a__b/c--d/e.f:_t", (None, "a__b/c--d/e.f", Some("_t"), None)),
            (
                "public.ecr.aws/x/y:ltsc2025@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                (Some("public.ecr.aws"), "x/y", Some("ltsc2025"), Some(DIGEST)),
            ),
        ];
        for &(text, expected) in cases {
            let image = ImageRef::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((image.registry(), image.repository(), image.tag(), image.digest()), expected, "{text}");
            assert_eq!(image.to_string(), text);
        }
    }

    #[test]
    fn no_references() {
        use ReferenceError::{
            Blank, Digest, Empty, Identifier, Registry, Repository, Tag, Template, TooLong, UpperCase,
        };
        let long_tag = format!("x:{}", "t".repeat(129));
        let long_repository = "x".repeat(256);
        let long_in_library = "x".repeat(248);
        let long_registry = format!("{}.com/x", "a".repeat(260));
        let huge = "x/".repeat(1 << 20);
        let id = "0123456789abcdef".repeat(4);
        let cases: &[(&str, ReferenceError)] = &[
            ("", Empty),
            (" nginx", Blank),
            ("nginx\n", Blank),
            ("ngi\0nx", Blank),
            ("a\u{a0}b", Blank),
            ("{{ .Values.image }}", Template),
            ("x:{{tag}}", Template),
            ("$(IMAGE)", Template),
            ("registry/${NAME}:1", Template),
            ("Nginx", UpperCase),
            ("docker.io/Library/nginx:1", UpperCase),
            ("https://mcr.microsoft.com/windows", Registry),
            ("host:/x", Registry),
            ("host:5a/x", Registry),
            ("-a.b/x", Registry),
            ("a..b/x", Registry),
            ("[::1/x", Registry),
            ("[]:5000/x", Registry),
            ("[::1]5000/x", Registry),
            ("[fe80::1%25eth0]:5000/x", Registry),
            ("a//b", Repository),
            ("/b", Repository),
            ("a/", Repository),
            ("a.b/", Repository),
            ("_a", Repository),
            ("a-", Repository),
            ("a___b", Repository),
            ("a._b", Repository),
            ("a._-b", Repository),
            ("a..b", Repository),
            ("näme", Repository),
            ("$IMAGE", UpperCase),
            ("C:\\windows", UpperCase),
            ("x:", Tag),
            ("x:-a", Tag),
            ("x:.a", Tag),
            ("x:a:b", Tag),
            ("x:a+b", Tag),
            ("x:a/b", Registry),
            (&long_registry, Registry),
            (&long_tag, Tag),
            (&long_repository, TooLong),
            (&long_in_library, TooLong),
            (&huge, TooLong),
            (&id, Identifier),
            ("x@", Digest),
            ("x@sha256:12", Digest),
            ("x@sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef", Digest),
            ("x@md5:0123456789abcdef0123456789abcdef", Digest),
            ("@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", Repository),
        ];
        for &(text, expected) in cases {
            assert_eq!(ImageRef::parse(text), Err(expected), "{:?}", text.get(..40).unwrap_or(text));
        }
    }

    #[test]
    fn docker_hub() {
        let cases = [
            ("nginx", "docker.io/library/nginx:latest", Some("nginx")),
            ("docker.io/nginx:1", "docker.io/library/nginx:1", Some("nginx")),
            ("index.docker.io/golang:1", "docker.io/library/golang:1", Some("golang")),
            ("library/python:3", "docker.io/library/python:3", Some("python")),
            ("mirror.gcr.io/library/python:3", "mirror.gcr.io/library/python:3", Some("python")),
            ("public.ecr.aws/docker/library/caddy:2", "public.ecr.aws/docker/library/caddy:2", Some("caddy")),
            ("acme/golang:1", "docker.io/acme/golang:1", None),
            ("acme/mylibrary/golang", "docker.io/acme/mylibrary/golang:latest", None),
            ("quay.io/golang", "quay.io/golang:latest", None),
            ("localhost:5000/nginx", "localhost:5000/nginx:latest", None),
        ];
        for (text, normalized, official) in cases {
            let image = ImageRef::parse(text).unwrap();
            assert_eq!(image.normalized().to_string(), normalized);
            assert_eq!(image.official_name(), official, "{text}");
            let whole = normalized.strip_prefix(image.normalized_registry()).unwrap();
            assert!(whole.starts_with(&format!("/{}", image.normalized_repository())), "{text}");
        }
        let digest_only = format!("nginx@{DIGEST}");
        assert_eq!(
            ImageRef::parse(&digest_only).unwrap().normalized().to_string(),
            format!("docker.io/library/nginx@{DIGEST}")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_an_error(text in ".*") {
            if let Ok(image) = ImageRef::parse(&text) {
                prop_assert_eq!(image.to_string(), text);
            }
        }

        #[test]
        fn near_references_too(text in r"[a-zA-Z0-9\[\]._/:@{}$ -]{0,40}") {
            if let Ok(image) = ImageRef::parse(&text) {
                prop_assert_eq!(image.to_string(), text.as_str());
                let normalized = image.normalized().to_string();
                let again = ImageRef::parse(&normalized).unwrap();
                prop_assert_eq!(again.normalized().to_string(), normalized);
            }
        }

        #[test]
        fn references_round_trip(
            text in r"(([a-z0-9]{1,5}\.[a-z]{2,3}|localhost|\[::[0-9a-f:]{0,6}\])(:[0-9]{1,5})?/)?[a-z0-9]{1,5}([_/-][a-z0-9]{1,5}){0,3}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,9})?(@sha256:[0-9a-f]{64})?"
        ) {
            let image = ImageRef::parse(&text);
            prop_assert!(image.is_ok(), "{}: {:?}", text, image);
            prop_assert_eq!(image.unwrap().to_string(), text);
        }
    }
}
