#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use jiff::civil::date;
use proptest::prelude::*;

use super::*;
use crate::model::published_images::PublishedImages;

const MCR: &str = "mcr.microsoft.com";
const DIGEST: &str = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn change(text: &str, build: u32) -> Retag<'static> {
    retag(PublishedImages::shipped(), &ImageRef::parse(text).unwrap(), Build::new(build))
}

fn proposed(text: &str, build: u32) -> ProposedImage<'static> {
    match change(text, build) {
        Retag::Another(proposed) => proposed,
        other => panic!("{text} {build}: {other:?}"),
    }
}

/// `keep`, `pinned`, `no tag`, `FROM image`, the image that the tables know, or `? image` for a guess.
fn line(text: &str, build: u32) -> String {
    match change(text, build) {
        Retag::Keep => "keep".to_owned(),
        Retag::Pinned => "pinned".to_owned(),
        Retag::NoTag { from: None, .. } => "no tag".to_owned(),
        Retag::NoTag { from: Some(from), .. } => format!("FROM {from}"),
        Retag::Another(ProposedImage { image, confidence: Confidence::Table, .. }) => image,
        Retag::Another(ProposedImage { image, confidence: Confidence::Guess, .. }) => format!("? {image}"),
    }
}

/// Compares each row: image, and the change for 2019, 2022 and 2025; a change that begins with `:` is a tag of the same
/// repository.
fn check(cases: &[(&str, [&str; 3])]) {
    for (image, expected) in cases {
        let repository = image.rsplit_once(':').map_or(*image, |(repository, _)| repository);
        for (build, expected) in [17763, 20348, 26100].into_iter().zip(expected) {
            let expected = match expected.strip_prefix("? :") {
                Some(tag) => format!("? {repository}:{tag}"),
                None if expected.starts_with(':') => format!("{repository}{expected}"),
                None => (*expected).to_owned(),
            };
            assert_eq!(line(image, build), expected, "{image} for {build}");
        }
    }
}

#[test]
fn base_images() {
    check(&[
        ("mcr.microsoft.com/windows/servercore:ltsc2019", ["keep", ":ltsc2022", ":ltsc2025"]),
        ("mcr.microsoft.com/windows/servercore:1809", ["keep", ":ltsc2022", ":ltsc2025"]),
        ("mcr.microsoft.com/windows/servercore:ltsc2022", [":ltsc2019", "keep", ":ltsc2025"]),
        ("mcr.microsoft.com/windows/servercore:ltsc2025", [":ltsc2019", ":ltsc2022", "keep"]),
        ("mcr.microsoft.com/windows/nanoserver:1809", ["keep", ":ltsc2022", ":ltsc2025"]),
        ("mcr.microsoft.com/windows/nanoserver:ltsc2019", ["keep", ":ltsc2022", ":ltsc2025"]),
        ("mcr.microsoft.com/windows/nanoserver:ltsc2022", [":1809", "keep", ":ltsc2025"]),
        ("mcr.microsoft.com/windows/server:ltsc2022", ["no tag", "keep", ":ltsc2025"]),
        // The architecture is kept. There are images for arm64 since 2025.
        ("mcr.microsoft.com/windows/servercore:ltsc2019-amd64", ["keep", ":ltsc2022-amd64", ":ltsc2025-amd64"]),
        ("mcr.microsoft.com/windows/nanoserver:1809-arm64", ["keep", "no tag", ":ltsc2025-arm64"]),
        ("mcr.microsoft.com/windows/servercore:ltsc2025-arm64", ["no tag", "no tag", "keep"]),
        // Patches and revisions become the tag that moves, because the revision of another release is not known.
        ("mcr.microsoft.com/windows/servercore:1809-KB4489899", ["keep", ":ltsc2022", ":ltsc2025"]),
        ("mcr.microsoft.com/windows/servercore:1809-KB4489899-amd64", ["keep", ":ltsc2022-amd64", ":ltsc2025-amd64"]),
        ("mcr.microsoft.com/windows/nanoserver:10.0.17763.8389", ["keep", ":ltsc2022", ":ltsc2025"]),
        ("mcr.microsoft.com/windows/servercore:10.0.17763.8389-amd64", ["keep", ":ltsc2022-amd64", ":ltsc2025-amd64"]),
        ("mcr.microsoft.com/windows/servercore:20H2", [":ltsc2019", ":ltsc2022", ":ltsc2025"]),
        ("mcr.microsoft.com/windows/servercore:insider-1", ["no tag", "no tag", "no tag"]),
        // It is not known whether a mirror has the tag.
        ("mirror.example.com/windows/servercore:ltsc2019", ["keep", "? :ltsc2022", "? :ltsc2025"]),
        ("mcr.microsoft.com/windows/servercore", [":ltsc2019", ":ltsc2022", ":ltsc2025"]),
        (
            "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2019",
            ["keep", ":windowsservercore-ltsc2022", ":windowsservercore-ltsc2025"],
        ),
        ("mcr.microsoft.com/windows/servercore/iis", ["keep", "keep", "keep"]),
    ]);
    let proposed = proposed("mcr.microsoft.com/windows/servercore:ltsc2019", 26100);
    assert_eq!((proposed.product, proposed.frozen_since), (None, None));
}

#[test]
fn the_full_image_continues_in_another_repository() {
    let server = |tag: &str| format!("{MCR}/windows/server:{tag}");
    let (of_2022, of_2025) = (server("ltsc2022"), server("ltsc2025"));
    for (tag, of_2019) in [("1809", "keep"), ("1903", ":1809"), ("2004", ":1809"), ("20H2", ":1809")] {
        check(&[(&format!("{MCR}/windows:{tag}"), [of_2019, &of_2022, &of_2025])]);
    }
    assert!(proposed("mcr.microsoft.com/windows:1809", 26100).notes[0].contains("server edition"));
    // A repository of that name in another registry is unknown.
    check(&[("registry.example.com/windows:ltsc2019", ["keep", "? :ltsc2022", "? :ltsc2025"])]);
}

#[test]
fn net_framework_changes_its_version() {
    let tags = |from: &str| {
        for kind in ["runtime", "aspnet", "sdk", "wcf"] {
            let image = format!("{MCR}/dotnet/framework/{kind}:{from}");
            check(&[(&image, ["keep", ":4.8.1-windowsservercore-ltsc2022", ":4.8.1-windowsservercore-ltsc2025"])]);
        }
    };
    for from in ["4.8-windowsservercore-ltsc2019", "4.8-20260714-windowsservercore-ltsc2019", "4.8"] {
        tags(from);
    }
    let change = proposed("mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2019", 26100);
    let product = change.product.unwrap();
    assert_eq!((product.product, product.from.as_str(), product.to.as_str()), (".NET Framework", "4.8", "4.8.1"));
    check(&[
        (
            "mcr.microsoft.com/dotnet/framework/sdk:4.8.1-20260714-windowsservercore-ltsc2022",
            [":4.8-windowsservercore-ltsc2019", "keep", ":4.8.1-windowsservercore-ltsc2025"],
        ),
        ("mcr.microsoft.com/dotnet/framework/sdk:4.8.1", [":4.8-windowsservercore-ltsc2019", "keep", "keep"]),
        // Its tag exists and gets no updates.
        (
            "mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2022",
            [
                ":4.8-windowsservercore-ltsc2019",
                ":4.8.1-windowsservercore-ltsc2022",
                ":4.8.1-windowsservercore-ltsc2025",
            ],
        ),
        (
            "mcr.microsoft.com/dotnet/framework/samples:dotnetapp-windowsservercore-ltsc2019",
            ["keep", "? :dotnetapp-windowsservercore-ltsc2022", "no tag"],
        ),
    ]);
    let frozen = frozen("mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2022");
    assert_eq!(frozen.as_deref(), Some("2025-10-14"));
    let maintained = "mcr.microsoft.com/dotnet/framework/aspnet:4.8-windowsservercore-ltsc2019";
    assert_eq!(self::frozen(maintained), None);
}

fn frozen(image: &str) -> Option<String> {
    let found = PublishedImages::shipped().find(&ImageRef::parse(image).unwrap())?;
    found.row.frozen_since.map(|since| since.to_string())
}

#[test]
fn old_net_framework_is_built_again() {
    let core = |tag: &str| format!("FROM {MCR}/windows/servercore:{tag}");
    let (core_2022, core_2025) = (core("ltsc2022"), core("ltsc2025"));
    for tag in ["3.5", "3.5-windowsservercore-ltsc2019", "3.5-20250909-windowsservercore-ltsc2019"] {
        let image = format!("{MCR}/dotnet/framework/runtime:{tag}");
        let own = if tag == "3.5" { "no tag" } else { "keep" };
        check(&[(&image, [own, &core_2022, &core_2025])]);
        let Retag::NoTag { notes, .. } = change(&image, 26100) else { panic!("{image}") };
        assert!(notes[0].contains("dism /Online /Add-Capability /CapabilityName:NetFx3"), "{notes:?}");
        assert_eq!(frozen(&image).as_deref(), Some("2025-10-14"));
    }
    for tag in ["4.7", "4.7.2-windowsservercore-ltsc2019", "4.6.2-windowsservercore-ltsc2016"] {
        let image = format!("{MCR}/dotnet/framework/aspnet:{tag}");
        let from = format!("FROM {MCR}/dotnet/framework/aspnet:4.8.1-windowsservercore-ltsc2025");
        assert_eq!(line(&image, 26100), from);
        assert_eq!(frozen(&image).as_deref(), Some("2025-10-14"));
    }
}

#[test]
fn net_on_nano_server_and_on_server_core() {
    for kind in ["runtime", "aspnet", "sdk"] {
        for version in ["8.0", "9.0"] {
            let image = |tag: &str| format!("{MCR}/dotnet/{kind}:{version}-{tag}");
            let tag = |tag: &str| format!(":{version}-{tag}");
            let (nano_2022, nano_2025) = (tag("nanoserver-ltsc2022"), tag("nanoserver-ltsc2025"));
            check(&[(&image("nanoserver-1809"), ["keep", &nano_2022, &nano_2025])]);
            // 2019 is 1809 for Nano Server, and ltsc2019 for Server Core.
            let (core_2022, core_2025) = (tag("windowsservercore-ltsc2022"), tag("windowsservercore-ltsc2025"));
            check(&[(&image("windowsservercore-ltsc2019"), ["keep", &core_2022, &core_2025])]);
            check(&[(&image("nanoserver-ltsc2025"), [&tag("nanoserver-1809"), &nano_2022, "keep"])]);
            check(&[(&image("windowsservercore-ltsc2025"), [&tag("windowsservercore-ltsc2019"), &core_2022, "keep"])]);
            let end = proposed(&image("nanoserver-1809"), 26100).support_end.unwrap();
            assert_eq!((end.date.to_string().as_str(), end.instead.as_str()), ("2026-11-10", ".NET 10.0"));
        }
    }
    check(&[
        (
            "mcr.microsoft.com/dotnet/sdk:9.0-nanoserver-1809-amd64",
            ["keep", ":9.0-nanoserver-ltsc2022-amd64", ":9.0-nanoserver-ltsc2025-amd64"],
        ),
        // Not every patch was published for every release.
        (
            "mcr.microsoft.com/dotnet/sdk:8.0.11-nanoserver-1809",
            ["keep", ":8.0-nanoserver-ltsc2022", ":8.0-nanoserver-ltsc2025"],
        ),
        ("mcr.microsoft.com/dotnet/aspnet:10.0-nanoserver-ltsc2022", ["no tag", "keep", ":10.0-nanoserver-ltsc2025"]),
        (
            "mcr.microsoft.com/dotnet/aspnet:10.0-windowsservercore-ltsc2025",
            ["no tag", ":10.0-windowsservercore-ltsc2022", "keep"],
        ),
        ("mcr.microsoft.com/dotnet/aspnet:11.0-nanoserver-ltsc2025", ["no tag", "no tag", "keep"]),
        (
            "mcr.microsoft.com/dotnet/aspnet:6.0-nanoserver-1809",
            [
                "keep",
                "FROM mcr.microsoft.com/dotnet/aspnet:10.0-nanoserver-ltsc2022",
                "FROM mcr.microsoft.com/dotnet/aspnet:10.0-nanoserver-ltsc2025",
            ],
        ),
        (
            "mcr.microsoft.com/dotnet/runtime:7.0-windowsservercore-ltsc2019",
            [
                "keep",
                "FROM mcr.microsoft.com/dotnet/runtime:10.0-windowsservercore-ltsc2022",
                "FROM mcr.microsoft.com/dotnet/runtime:10.0-windowsservercore-ltsc2025",
            ],
        ),
        // 80.0 is not 8.0.
        (
            "mcr.microsoft.com/dotnet/sdk:80.0-nanoserver-ltsc2025",
            ["no tag", "FROM mcr.microsoft.com/dotnet/sdk:10.0-nanoserver-ltsc2022", "keep"],
        ),
    ]);
}

#[test]
fn powershell_continues_in_the_sdk_of_net() {
    let (nano_2022, nano_2025) = (
        "mcr.microsoft.com/dotnet/sdk:10.0-nanoserver-ltsc2022",
        "mcr.microsoft.com/dotnet/sdk:10.0-nanoserver-ltsc2025",
    );
    let core_2025 = "mcr.microsoft.com/dotnet/sdk:10.0-windowsservercore-ltsc2025";
    check(&[
        ("mcr.microsoft.com/powershell:lts-nanoserver-1809", ["keep", ":lts-nanoserver-ltsc2022", nano_2025]),
        ("mcr.microsoft.com/powershell:lts-nanoserver-ltsc2022", [":lts-nanoserver-1809", "keep", nano_2025]),
        ("mcr.microsoft.com/powershell:windowsservercore-1809", ["keep", ":windowsservercore-ltsc2022", core_2025]),
        ("mcr.microsoft.com/powershell:7.4-nanoserver-1809", ["keep", nano_2022, nano_2025]),
        ("mcr.microsoft.com/powershell:latest", ["no tag", nano_2022, nano_2025]),
    ]);
    let old = proposed("mcr.microsoft.com/powershell:lts-nanoserver-1809", 20348);
    assert_eq!(old.frozen_since, Some(date(2025, 3, 26)));
    assert!(old.notes.is_empty(), "{:?}", old.notes);
    let new = proposed("mcr.microsoft.com/powershell:lts-nanoserver-1809", 26100);
    assert_eq!(new.frozen_since, None);
    assert!(new.notes.iter().any(|note| note.contains("absolute paths")), "{:?}", new.notes);
    assert!(new.notes.iter().any(|note| note.contains("ContainerUser") && note.contains("SDK")), "{:?}", new.notes);
}

#[test]
fn docker_official_images() {
    for name in
        ["golang", "python", "openjdk", "docker", "julia", "pypy", "eclipse-temurin", "caddy", "haxe", "traefik"]
    {
        for base in ["windowsservercore", "nanoserver"] {
            let image = format!("{name}:1.2-{base}-1809");
            check(&[(&image, ["keep", &format!("? :1.2-{base}-ltsc2022"), &format!("? :1.2-{base}-ltsc2025")])]);
            // A version that was frozen with that release has no image for another release: the version has to change
            // too.
            assert!(proposed(&image, 26100).notes[0].contains("use a later version"));
            assert!(frozen(&image).is_some() && frozen(&format!("{name}:1.2-{base}-ltsc2022")).is_none());
            // An index contains both.
            check(&[(&format!("{name}:1.2-{base}"), ["no tag", "keep", "keep"])]);
        }
    }
    check(&[
        (
            "docker.io/library/mongo:8.0-windowsservercore-1809",
            ["keep", "? :8.0-windowsservercore-ltsc2022", "? :8.0-windowsservercore-ltsc2025"],
        ),
        ("mongo:8.0-nanoserver-1809", ["keep", "? :8.0-nanoserver-ltsc2022", "no tag"]),
        ("hello-world:nanoserver-1809", ["keep", "? :nanoserver-ltsc2022", "? :nanoserver-ltsc2025"]),
        ("nats:2.10-nanoserver-1809", ["keep", "? :2.10-nanoserver-ltsc2022", "no tag"]),
        ("swift:6.0-windowsservercore-ltsc2022", ["no tag", "keep", "no tag"]),
        ("nats:2-nanoserver", ["no tag", "keep", "no tag"]),
        ("node:22-windowsservercore-ltsc2019", ["keep", "no tag", "no tag"]),
    ]);
    let dropped = [
        ("golang", "2025-05-30"),
        ("eclipse-temurin", "2025-04-28"),
        ("caddy", "2025-06-06"),
        ("traefik", "2025-06-02"),
        ("nats", "2025-06-03"),
    ];
    for (name, date) in dropped {
        assert_eq!(frozen(&format!("{name}:1-nanoserver-1809")).as_deref(), Some(date));
    }
}

#[test]
fn fluent_bit_has_a_first_version_for_2025() {
    check(&[
        ("fluent/fluent-bit:windows-2019-5.0.1", ["keep", "? :windows-2022-5.0.1", "no tag"]),
        ("fluent/fluent-bit:windows-2022-5.1", ["no tag", "keep", ":windows-2025-5.1"]),
        ("fluent/fluent-bit:windows-2022-5.1.1", ["no tag", "keep", ":windows-2025-5.1.1"]),
        ("fluent/fluent-bit:windows-2022-5.10.0", ["no tag", "keep", ":windows-2025-5.10.0"]),
        ("fluent/fluent-bit:windows-2025-5.1.1", ["no tag", ":windows-2022-5.1.1", "keep"]),
        ("fluent/fluent-bit:windows-2022-5.1.1-debug", ["? :windows-2019-5.1.1-debug", "keep", "no tag"]),
        ("fluent/fluent-bit:windows-nano-2025-5.1.1", ["no tag", "no tag", "keep"]),
    ]);
    let Retag::NoTag { notes, .. } = change("fluent/fluent-bit:windows-2022-5.0.1", 26100) else { panic!() };
    assert!(notes[0].contains("5.1"), "{notes:?}");
}

#[test]
fn unknown_repositories_are_a_guess_in_their_spelling() {
    let image = |tag: &str| format!("registry.example.com:5000/shop/web:{tag}");
    let cases = [
        ("4.2-ltsc-2019", "4.2-ltsc-2022", "4.2-ltsc-2025"),
        ("4.2_ltsc2019", "4.2_ltsc2022", "4.2_ltsc2025"),
        ("4.2-ltsc2019", "4.2-ltsc2022", "4.2-ltsc2025"),
        ("4.2-LTSC2019-amd64", "4.2-ltsc2022-amd64", "4.2-ltsc2025-amd64"),
        ("4.2-windows.ltsc2019", "4.2-windows.ltsc2022", "4.2-windows.ltsc2025"),
        ("4.2-windows-1809", "4.2-windows-ltsc2022", "4.2-windows-ltsc2025"),
        ("windows-2019-4.2", "windows-2022-4.2", "windows-2025-4.2"),
        ("windowsservercore2019", "windowsservercore2022", "windowsservercore2025"),
        ("4.2-win19", "4.2-win22", "4.2-win25"),
        // Not a name of a release.
        ("1904-cu1-w1-ltsc2019", "1904-cu1-w1-ltsc2022", "1904-cu1-w1-ltsc2025"),
    ];
    for (from, of_2022, of_2025) in cases {
        check(&[(&image(from), ["keep", &format!("? :{of_2022}"), &format!("? :{of_2025}")])]);
    }
    // The operating system is unknown by name, and the tag ends with a word that can only be a release.
    check(&[(&image("4.2-1809"), ["? :4.2-ltsc2019", "? :4.2-ltsc2022", "? :4.2-ltsc2025"])]);
    for tag in [
        // Two names of releases, or one name beside a decoy.
        "ltsc2019-1809",
        "4.2-1809-ltsc2019",
        "1909-ltsc2019",
        "2004-windowsservercore-ltsc2019",
        "2022.1.0-windows-ltsc2019",
        "10.0.0.60234.10194-10.0.17763.1282-ltsc2019",
        "10.0.0-ltsc2019",
        "5.0-10.0.17763.1282",
        // Dates and patches.
        "4.8-20260714-windowsservercore-ltsc2019",
        "1809-KB4489899",
        "windows1809-amd64",
        // Not Windows, or not a release.
        "4.2-linux-amd64-1809",
        "1809",
        "2019",
        "1.2.2019",
        "4.2",
    ] {
        let found = line(&image(tag), 20348);
        assert_eq!(found, "no tag", "{tag}");
    }
    for (text, build) in [
        ("dockurr/windows:ltsc2019", 20348),
        ("registry.example.com/app:1-ltsc2019", 19042),
        ("registry.example.com/app:1-ltsc2019", 25398),
    ] {
        assert_eq!(line(text, build), "no tag", "{text}");
    }
}

#[test]
fn repositories_without_images_for_a_release_get_no_guess() {
    check(&[
        (
            "newrelic/newrelic-fluentbit-output:3.8.0-windows-ltsc-2019",
            ["keep", "? :3.8.0-windows-ltsc-2022", "no tag"],
        ),
        ("jenkins/inbound-agent:jdk21-nanoserver-1809", ["keep", "? :jdk21-nanoserver-ltsc2022", "no tag"]),
        ("datadog/agent:7-servercore-ltsc2019", ["keep", "? :7-servercore-ltsc2022", "? :7-servercore-ltsc2025"]),
        (
            "public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1.50.0-windows-amd64-ltsc2019",
            ["keep", "? :v1.50.0-windows-amd64-ltsc2022", "? :v1.50.0-windows-amd64-ltsc2025"],
        ),
        (
            "registry.k8s.io/csi-secrets-store/driver:v1.5.0-windows-1809",
            ["keep", "? :v1.5.0-windows-ltsc2022", "? :v1.5.0-windows-ltsc2025"],
        ),
        (
            "mcr.microsoft.com/oss/kubernetes-csi/azuredisk-csi:v1.33.0-windows-ltsc2022",
            ["? :v1.33.0-windows-ltsc2019", "keep", "no tag"],
        ),
        ("calico/node-windows:v3.31-ltsc2022", ["? :v3.31-ltsc2019", "keep", "no tag"]),
    ]);
}

#[test]
fn gitlab_names_versions() {
    for base in ["servercore", "nanoserver"] {
        let image = |release: &str| format!("gitlab/gitlab-runner-helper:x86_64-v17.0.0-{base}{release}");
        let tag = |release: &str| format!("? :x86_64-v17.0.0-{base}{release}");
        check(&[
            (&image("1809"), ["keep", &tag("21H2"), &tag("24H2")]),
            (&image("21H2"), [&tag("1809"), "keep", &tag("24H2")]),
            (&image("24H2"), [&tag("1809"), &tag("21H2"), "keep"]),
        ]);
    }
    let helper = "registry.gitlab.com/gitlab-org/gitlab-runner/gitlab-runner-helper:x86_64-latest-servercore1809";
    assert_eq!(line(helper, 26100), format!("? {}24H2", helper.strip_suffix("1809").unwrap()));
}

#[test]
fn digests_are_pinned() {
    for image in [
        "mcr.microsoft.com/windows/servercore",
        "mcr.microsoft.com/windows/servercore:ltsc2019",
        "registry.example.com/app",
    ] {
        assert_eq!(line(&format!("{image}{DIGEST}"), 26100), "pinned");
    }
}

#[test]
fn private_images_are_built_by_their_owner() {
    check(&[
        ("registry.example.com/shop/web:4.2", ["no tag", "no tag", "no tag"]),
        ("registry.example.com/shop/web", ["no tag", "no tag", "no tag"]),
        ("onebranch.azurecr.io/windows/ltsc2019/vse2022:latest", ["keep", "no tag", "no tag"]),
        ("nginx:1.27", ["no tag", "no tag", "no tag"]),
    ]);
}

/// An image for each repository and tag of the tables, with values for the placeholders.
fn examples() -> Vec<String> {
    let text: serde_json::Value =
        serde_json::from_str(include_str!("../../../model/published_images/published_images.json")).unwrap();
    let mut examples = Vec::new();
    for row in text["images"].as_array().unwrap() {
        let version = row["versions"][0].as_str().or(row["versionFrom"].as_str()).unwrap_or("1.2");
        let registry = row["registries"][0].as_str().unwrap_or("registry.example.com");
        let strings = |value: &serde_json::Value| -> Vec<String> {
            value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
        };
        let mut tags = strings(&row["tags"]);
        if tags.is_empty() {
            tags.push("1.2-nanoserver-{release}".to_owned());
        }
        for repository in strings(&row["repositories"]) {
            let path = repository.strip_prefix("mcr.microsoft.com/").unwrap_or(&repository).replace('*', "any");
            for tag in &tags {
                let (date, version) = (("{date}", "20260714"), ("{version}", version));
                for release in ["1809", "ltsc2022", "2025"] {
                    let values = [
                        date,
                        version,
                        ("{release}", release),
                        ("{any}", "1.2-"),
                        ("{number}", "17763"),
                        ("{arch}", "-amd64"),
                    ];
                    let tag = values.iter().fold(tag.clone(), |tag, (name, value)| tag.replace(name, value));
                    examples.push(format!("{registry}/{path}:{tag}"));
                }
            }
        }
    }
    examples
}

#[test]
fn the_shipped_tables_are_read_and_every_row_is_reachable() {
    let tables = PublishedImages::shipped();
    assert!(tables.images.len() > 50 && tables.as_of.is_some());
    let images = examples();
    let found: Vec<*const PublishedTags> = images
        .iter()
        .filter_map(|image| tables.find(&ImageRef::parse(image).unwrap()).map(|found| std::ptr::from_ref(found.row)))
        .collect();
    for (index, row) in tables.images.iter().enumerate() {
        assert!(found.contains(&std::ptr::from_ref(row)), "row {index} is behind others: {:?}", row.repositories);
        assert!(row.source.len() > 10 && row.as_of <= *tables.as_of.as_ref().unwrap(), "row {index}");
    }
}

#[test]
fn every_proposed_tag_names_its_release() {
    let mut count = 0;
    for image in examples() {
        for build in [14393, 17763, 20348, 26100] {
            if let Retag::Another(proposed) = change(&image, build) {
                let read = from_name(&ImageRef::parse(&proposed.image).unwrap());
                assert_eq!(
                    (read.os, read.builds),
                    (ImageOs::Windows, vec![Build::new(build)]),
                    "{image}: {proposed:?}"
                );
                count += 1;
            }
        }
    }
    assert!(count > 200, "{count}");
}

#[test]
fn unknown_keys_and_malformed_values_are_errors() {
    let row = r#"{"repositories": ["a/b"], "source": "s", "asOf": "2026-01-01"}"#;
    let read = |row: &str| serde_json::from_str::<PublishedTags>(row).map_err(|error| error.to_string());
    assert!(read(row).is_ok());
    let cases = [
        (r#""repositories""#, r#""repository""#, "unknown field `repository`"),
        (r#""a/b""#, r#""a/b:1""#, "is not a repository"),
        (r#""2026-01-01""#, r#""1.1.2026""#, "failed to parse four digit integer as year"),
        (r#""source""#, r#""tags": ["{vers}"], "source""#, "the placeholders are"),
        (r#""source""#, r#""published": {"ltsc2022": "a"}, "source""#, "is not a Windows build"),
        (r#""source""#, r#""shared": {"builds": []}, "source""#, "missing field `moved`"),
    ];
    for (old, new, expected) in cases {
        let error = read(&row.replacen(old, new, 1)).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

proptest! {
    #[test]
    fn any_reference_has_a_change(
        repository in "(mcr.microsoft.com/)?(windows|windows/servercore|windows/nanoserver|dotnet/sdk|dotnet/framework/sdk|powershell|golang|fluent/fluent-bit|acme/web|gitlab/gitlab-runner-helper)",
        tag in "(v1[.-]|4.8[.-]|8.0-|lts-)?(windows[-_]?|nanoserver-?|windowsservercore-?|servercore-?|win)?(ltsc-?20(16|19|22|25)|1809|20H2|20(19|22|25)|22|10.0.17763.1)?(-(amd64|arm64|20H2|ltsc2019|KB1|20260714|5.1.1))?",
        build in prop::sample::select(vec![14393_u32, 17763, 19042, 20348, 25398, 26100, 0]),
    ) {
        if let Ok(image) = ImageRef::parse(&format!("{repository}:{tag}"))
            && let Retag::Another(proposed) = retag(PublishedImages::shipped(), &image, Build::new(build))
        {
            // The proposed name is detected as a Windows image of the build.
            let read = from_name(&ImageRef::parse(&proposed.image).unwrap());
            prop_assert_eq!((read.os, read.builds), (ImageOs::Windows, vec![Build::new(build)]), "{}", proposed.image);
        }
    }

    #[test]
    fn hostile_tags_do_no_harm(tag in "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", repository in prop::sample::select(vec!["golang", "mcr.microsoft.com/powershell", "a/fluent-bit", "a/b"]), build: u32) {
        let text = format!("{repository}:{tag}");
        let image = ImageRef::parse(&text).unwrap();
        let _: Retag<'_> = retag(PublishedImages::shipped(), &image, Build::new(build));
        prop_assert!(!matches!(retag(PublishedImages::shipped(), &image, Build::new(20348)), Retag::Another(proposed) if proposed.image == text));
    }
}
