//! Kubeconfig files, found and merged as kubectl does, and the configuration of a client for one of their contexts.
//!
//! kube's own loader differs from client-go: it fails for a file of `KUBECONFIG` that does not exist, and compares
//! `NO_PROXY` with the address of the proxy instead of the cluster's. Its errors contain no file, context or user.

use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use jiff::Timestamp;
use kube::Config;
use kube::config::{AuthInfo, Cluster, ExecAuthCluster, Kubeconfig, NamedContext};
use mullion_engine::model::text::nearest;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::cluster::client_certificate;

/// The limit of one kubeconfig, in bytes. One with 1,000 clusters and their certificates has 5 MB.
const MAX_BYTES: u64 = 16 << 20;
/// The number of contexts that an error lists.
const LISTED: usize = 10;

/// The environment variables that decide about a connection.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    /// `KUBECONFIG`: a list of files.
    pub(crate) kubeconfig: Option<OsString>,
    pub(crate) home: Option<PathBuf>,
    pub(crate) https_proxy: Option<String>,
    pub(crate) no_proxy: Option<String>,
}

impl Environment {
    /// The environment of this process.
    pub(crate) fn of_process() -> Self {
        let either = |upper, lower| {
            let value = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
            value(upper).or_else(|| value(lower))
        };
        Self {
            kubeconfig: std::env::var_os("KUBECONFIG"),
            home: std::env::home_dir(),
            https_proxy: either("HTTPS_PROXY", "https_proxy"),
            no_proxy: either("NO_PROXY", "no_proxy"),
        }
    }
}

/// Kubeconfig files. The first file that contains a name takes precedence.
#[derive(Debug)]
pub(crate) struct Kubeconfigs {
    files: Vec<(PathBuf, Kubeconfig)>,
    /// Files in `KUBECONFIG` that do not exist.
    missing: Vec<PathBuf>,
}

/// One context with its cluster and its user.
#[derive(Debug)]
pub(crate) struct SelectedContext<'f> {
    pub(crate) name: &'f str,
    namespace: Option<&'f str>,
    /// Name, file and entry of the cluster.
    cluster: (&'f str, &'f Path, &'f Cluster),
    /// Name, file and entry of the user; `None` for anonymous requests.
    user: Option<(&'f str, &'f Path, &'f AuthInfo)>,
}

impl Kubeconfigs {
    /// The file `explicit`; else those of `KUBECONFIG` that exist; else `~/.kube/config`, if it exists.
    pub(crate) fn find(explicit: Option<&Path>, environment: &Environment) -> anyhow::Result<Self> {
        if let Some(path) = explicit {
            let hint = || format!("{}: not usable as a kubeconfig; pass another file to --kubeconfig", path.display());
            return Ok(Self {
                files: vec![(path.to_owned(), read_kubeconfig(path).with_context(hint)?)],
                missing: Vec::new(),
            });
        }
        let listed: Vec<PathBuf> = environment
            .kubeconfig
            .iter()
            .flat_map(std::env::split_paths)
            .filter(|path| path != Path::new(""))
            .collect();
        let is_listed = !listed.is_empty();
        let default = environment.home.iter().map(|home| home.join(".kube").join("config"));
        let remedy = if is_listed { "correct KUBECONFIG" } else { "pass another file to --kubeconfig" };
        let paths: Vec<PathBuf> = if is_listed { listed } else { default.collect() };
        let mut found = Self { files: Vec::new(), missing: Vec::new() };
        for path in paths {
            if path.exists() {
                let hint = || format!("{}: not usable as a kubeconfig; {remedy}", path.display());
                let read = read_kubeconfig(&path).with_context(hint)?;
                found.files.push((path, read));
            } else if is_listed {
                found.missing.push(path);
            }
        }
        Ok(found)
    }

    /// Whether there is no file.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The files, for messages.
    pub(crate) fn names(&self) -> String {
        let all = self.files.iter().map(|(path, _)| path).chain(&self.missing);
        all.map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    }

    /// The context of that name, or the current one.
    pub(crate) fn select(&self, context: Option<&str>) -> anyhow::Result<SelectedContext<'_>> {
        let files = || self.files.iter().map(|(path, config)| (path.as_path(), config));
        let current =
            || files().find_map(|(_, config)| config.current_context.as_deref().filter(|name| !name.is_empty()));
        let Some(wanted) = context.or_else(current) else {
            bail!(
                "{}: it has no current context; set one with kubectl config use-context{}",
                self.names(),
                self.listed()
            );
        };
        let named = files().find_map(|(path, config)| {
            let named = config.contexts.iter().find(|named| named.name == wanted)?;
            Some((path, named))
        });
        let Some((path, NamedContext { name, context: Some(entry), .. })) = named else {
            let known: Vec<&str> = self.contexts().collect();
            let hint = nearest(wanted, known).map_or_else(|| self.listed(), |near| format!("; did you mean {near:?}?"));
            bail!("{}: there is no context {wanted:?}{hint}", self.names());
        };
        let unknown = |kind: &str, entry: &str| {
            anyhow!(
                "{}: context {name:?} names the {kind} {entry:?}, which does not exist; add it to {kind}s, or \
                 use another context",
                path.display()
            )
        };
        let cluster = files().find_map(|(path, config)| {
            let named = config.clusters.iter().find(|named| named.name == entry.cluster)?;
            Some((named.name.as_str(), path, named.cluster.as_ref()?))
        });
        let cluster = cluster.ok_or_else(|| unknown("cluster", &entry.cluster))?;
        let user = entry.user.as_deref().filter(|user| !user.is_empty()).map(|user| {
            let found = files().find_map(|(path, config)| {
                let named = config.auth_infos.iter().find(|named| named.name == user)?;
                Some((named.name.as_str(), path, named.auth_info.as_ref()?))
            });
            found.ok_or_else(|| unknown("user", user))
        });
        let namespace = entry.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        Ok(SelectedContext { name, namespace, cluster, user: user.transpose()? })
    }

    fn contexts(&self) -> impl Iterator<Item = &str> {
        self.files.iter().flat_map(|(_, config)| config.contexts.iter().map(|named| named.name.as_str()))
    }

    fn listed(&self) -> String {
        let names: Vec<&str> = self.contexts().take(LISTED).collect();
        let more = if self.contexts().count() > LISTED { ", …" } else { "" };
        if names.is_empty() { String::new() } else { format!(": {}{more}", names.join(", ")) }
    }
}

/// One file. Its relative paths are relative to its directory.
fn read_kubeconfig(path: &Path) -> anyhow::Result<Kubeconfig> {
    let about = fs::metadata(path).context("it cannot be read")?;
    let too_large = || anyhow!("it has more than {} MiB", MAX_BYTES >> 20);
    if about.is_file() {
        return if about.len() > MAX_BYTES { Err(too_large()) } else { Ok(Kubeconfig::read_from(path)?) };
    }
    // A pipe that a shell made. Its relative paths have no base directory.
    let mut text = String::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text).context("it cannot be read")?;
    if text.len() as u64 > MAX_BYTES { Err(too_large()) } else { Ok(Kubeconfig::from_yaml(&text)?) }
}

impl SelectedContext<'_> {
    /// The namespace of the context.
    pub(crate) fn default_namespace(&self) -> &str {
        self.namespace.unwrap_or("default")
    }

    /// The user entry, for messages.
    pub(crate) fn user_name(&self) -> String {
        match &self.user {
            Some((name, path, _)) => format!("{}: user {name:?}", path.display()),
            None => format!("{}: context {:?} without a user", self.cluster.1.display(), self.name),
        }
    }

    /// The user entry's exec plugin and its install hint.
    pub(crate) fn exec_plugin(&self) -> Option<(String, Option<&str>)> {
        let exec = self.user?.2.exec.as_ref()?;
        let words = exec.command.iter().chain(exec.args.iter().flatten());
        Some((words.map(String::as_str).collect::<Vec<_>>().join(" "), exec.install_hint.as_deref()))
    }

    /// The configuration of a client. A client certificate that cannot work is an error.
    pub(crate) fn config(&self, environment: &Environment) -> anyhow::Result<Config> {
        let (name, path, cluster) = self.cluster;
        let at = || format!("{}: cluster {name:?}", path.display());
        let server = cluster.server.as_deref().filter(|server| !server.is_empty());
        let server = server.with_context(|| format!("{}: it has no server; add its URL", at()))?;
        let url: Uri = server.parse().with_context(|| format!("{}: server {server:?} is not a URL", at()))?;
        let mut config = Config::new(url);
        self.default_namespace().clone_into(&mut config.default_namespace);
        config.root_cert = authorities(cluster).with_context(at)?;
        config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or(false);
        config.disable_compression = cluster.disable_compression.unwrap_or(false);
        config.tls_server_name = cluster.tls_server_name.clone().filter(|name| !name.is_empty());
        config.proxy_url = proxy(cluster, &config.cluster_url, environment).with_context(at)?;
        if let Some((_, _, user)) = self.user {
            let pem = from_base64_or_file(user.client_certificate_data.as_deref(), user.client_certificate.as_deref());
            let pem = pem.with_context(|| format!("{}: client certificate", self.user_name()))?;
            if let Some(fault) = pem.and_then(|pem| client_certificate::fault(&pem, Timestamp::now())) {
                bail!("{}: {fault}", self.user_name());
            }
            config.auth_info = user.clone();
            if let Some(exec) = config.auth_info.exec.as_mut().filter(|exec| exec.provide_cluster_info) {
                exec.cluster = Some(ExecAuthCluster::try_from(cluster).with_context(at)?);
            }
        }
        Ok(config)
    }
}

/// The certificate authorities of a cluster; `None` for those of the system.
fn authorities(cluster: &Cluster) -> anyhow::Result<Option<Vec<Vec<u8>>>> {
    let (data, file) = (&cluster.certificate_authority_data, &cluster.certificate_authority);
    let Some(pem) = from_base64_or_file(data.as_deref(), file.as_deref()).context("certificate authority")? else {
        return Ok(None);
    };
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).map(|der| der.map(|der| der.to_vec())).collect();
    let all = all.context("certificate authority: not PEM")?;
    if all.is_empty() {
        bail!("certificate authority: there is no certificate in it; expected PEM");
    }
    Ok(Some(all))
}

fn from_base64_or_file(data: Option<&str>, file: Option<&str>) -> anyhow::Result<Option<Vec<u8>>> {
    let given = |value: Option<&str>| value.filter(|value| !value.is_empty()).map(str::to_owned);
    match (given(data), given(file)) {
        (Some(data), _) => Ok(Some(STANDARD.decode(data.trim()).context("its data is not base64")?)),
        (None, Some(file)) => {
            let mut bytes = Vec::new();
            let opened = File::open(&file).with_context(|| format!("{file} cannot be read"))?;
            opened.take(MAX_BYTES).read_to_end(&mut bytes).with_context(|| format!("{file} cannot be read"))?;
            Ok(Some(bytes))
        }
        (None, None) => Ok(None),
    }
}

/// `proxy-url`, which applies regardless of `NO_PROXY`; else the proxy of the environment.
fn proxy(cluster: &Cluster, url: &Uri, environment: &Environment) -> anyhow::Result<Option<Uri>> {
    let parse = |what: &str, text: &str| {
        // Go accepts proxies of the environment without a scheme: `proxy.example.com:3128`.
        let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let proxy: Uri = text.parse().with_context(|| format!("{what} {text:?} is not a URL"))?;
        if !["http", "https", "socks5"].contains(&proxy.scheme_str().unwrap_or_default()) {
            bail!("{what} {text:?}: only http://, https:// and socks5:// are possible");
        }
        Ok(Some(proxy))
    };
    if let Some(proxy) = cluster.proxy_url.as_deref().filter(|proxy| !proxy.is_empty()) {
        return parse("proxy-url", proxy);
    }
    let Some(proxy) = environment.https_proxy.as_deref() else { return Ok(None) };
    let matcher = Matcher::builder().all(proxy).no(environment.no_proxy.as_deref().unwrap_or_default()).build();
    if matcher.intercept(url).is_none() || url.scheme_str() != Some("https") {
        return Ok(None);
    }
    parse("HTTPS_PROXY", proxy)
}
