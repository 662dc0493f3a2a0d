//! Images that are published for Linux only, in Windows pods.

use crate::model::Os;
use crate::model::image::{ImageOs, ImageRef};
use crate::model::text::shown;
use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::rule::Rule;

/// Docker official images, in order of name, without an entry for Windows in any supported tag.
///
/// Source: docker-library/official-images `library/` of 2026-08-21: the files without `windows` among their architectures.
#[rustfmt::skip]
const OFFICIAL: [&str; 83] = [
    "adminer", "aerospike", "almalinux", "alpine", "amazoncorretto", "amazonlinux", "arangodb", "archlinux", "bash",
    "buildpack-deps", "busybox", "cassandra", "clickhouse", "clojure", "composer", "couchbase", "couchdb", "crate", "debian",
    "drupal", "eclipse-mosquitto", "elasticsearch", "elixir", "emqx", "erlang", "fedora", "flink", "fluentd", "gcc", "ghost",
    "gradle", "groovy", "haproxy", "haskell", "httpd", "influxdb", "jetty", "joomla", "kibana", "kong", "krakend", "liquibase",
    "logstash", "mariadb", "maven", "memcached", "mongo-express", "mysql", "neo4j", "nextcloud", "nginx", "node", "odoo",
    "open-liberty", "oraclelinux", "percona", "perl", "photon", "php", "phpmyadmin", "postgres", "rabbitmq", "redis", "redmine",
    "registry", "rethinkdb", "rockylinux", "ruby", "rust", "solr", "sonarqube", "spark", "storm", "swipl", "telegraf", "tomcat",
    "ubuntu", "unit", "varnish", "websphere-liberty", "wordpress", "xwiki", "zookeeper",
];

/// Other images, by the end of their repository, each with its source. Sidecars are in the table of injectors.
const OTHERS: [(&str, &str); 6] = [
    ("prometheus/node-exporter", "prometheus/node_exporter README.md: windows_exporter is for Windows"),
    ("kube-state-metrics/kube-state-metrics", "kubernetes/kube-state-metrics Makefile: ALL_ARCH"),
    ("coredns/coredns", "coredns/coredns Makefile.docker: LINUX_ARCH"),
    ("metrics-server/metrics-server", "kubernetes-sigs/metrics-server Makefile: ALL_ARCHITECTURES"),
    ("ingress-nginx/controller", "kubernetes/ingress-nginx Makefile: PLATFORMS"),
    ("oauth2-proxy/oauth2-proxy", "oauth2-proxy/oauth2-proxy Makefile: DOCKER_BUILD_PLATFORM"),
];

/// Findings about images whose operating system is unknown otherwise: a tag, a policy and a registry take precedence.
pub(crate) fn check(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    let beside_windows = || cx.input.images.iter().any(|image| image.facts.os == ImageOs::Windows);
    if cx.decision.decided() == Some(Os::Linux) || !(cx.is_windows() || beside_windows()) {
        return;
    }
    for image in cx.input.images.iter().filter(|image| image.facts.os == ImageOs::Unknown) {
        let Some(name) = ImageRef::parse(image.image).ok().and_then(|image| published_name(&image)) else { continue };
        let container = shown(image.container.name());
        let message = format!("{name}, the image of {container}, is published for Linux only");
        out.push(cx.finding(rule, cx.at(&image.container, "/image"), message));
    }
}

/// The name in the tables.
fn published_name(image: &ImageRef<'_>) -> Option<&'static str> {
    if let Some(official) = image.official_name() {
        return OFFICIAL.binary_search(&official).ok().and_then(|at| OFFICIAL.get(at)).copied();
    }
    let path = image.repository();
    let is_end = |name: &&str| path.strip_suffix(*name).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
    OTHERS.iter().map(|(name, _)| *name).find(is_end)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::detect::image_names;

    fn name(image: &str) -> Option<&'static str> {
        published_name(&ImageRef::parse(image).unwrap())
    }

    #[test]
    fn official_images_are_those_of_docker_hub_and_of_mirrors_with_their_path() {
        for image in ["redis", "redis:7.4", "docker.io/library/redis:7", "mirror.example.com/library/redis:7"] {
            assert_eq!(name(image), Some("redis"), "{image}");
        }
        for image in
            ["registry.example.com/redis:7", "bitnami/redis:7", "registry.example.com/team/nginx", "python:3.13"]
        {
            assert_eq!(name(image), None, "{image}");
        }
        assert_eq!(name("quay.io/prometheus/node-exporter:v1.9.1"), Some("prometheus/node-exporter"));
        assert_eq!(name("quay.io/myprometheus/node-exporter:v1.9.1"), None);
    }

    /// No name is in the table of images for Windows, or twice in these.
    #[test]
    fn tables_agree() {
        assert!(OFFICIAL.is_sorted());
        for (other, source) in OTHERS {
            assert!(source.len() > 5, "{other}");
        }
        for known in OFFICIAL.into_iter().chain(OTHERS.map(|(name, _)| name)) {
            let facts = image_names::from_name(&ImageRef::parse(known).unwrap());
            assert_eq!(facts.os, ImageOs::Unknown, "{known}");
        }
    }
}
