//! Registries: their reports take precedence over names, and policies over reports; a review returns the images for
//! which a look-up could change the result.

use std::sync::Arc;

use mullion_engine::admission::Review;
use mullion_engine::model::image::{KnownImages, Platform, Platforms};
use mullion_engine::model::{DetectedOs, Operation};
use mullion_policy::PolicySet;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::properties::{any_workload, image};
use crate::support::*;

const APP: &str = "registry.example.com/app:1";

/// Entries as `windows 10.0.20348.1`, `linux`; the version may be absent.
fn index(entries: &[&str]) -> Arc<Platforms> {
    let entry = |text: &&str| {
        let (os, version) = text.split_once(' ').map_or((*text, None), |(os, version)| (os, Some(version.to_owned())));
        Platform { os: os.to_owned(), architecture: "amd64".to_owned(), os_version: version, os_features: Vec::new() }
    };
    Arc::new(Platforms { entries: entries.iter().map(entry).collect(), index: true })
}

fn platforms_of(images: &[(&str, &[&str])]) -> KnownImages {
    images.iter().map(|(image, entries)| ((*image).to_owned(), index(entries))).collect()
}

/// Policies that enable look-ups, with `more` as further keys of `detect`.
fn with_lookup(more: &str) -> PolicySet {
    let text = format!(
        "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: a}}\nspec:\n  detect:\n    \
         registry: {{lookup: Background}}\n{more}"
    );
    PolicySet::from_files(&[("test.yaml", text)]).unwrap()
}

fn review_with(object: &Value, policies: &PolicySet, images: &KnownImages) -> Outcome {
    outcome_with(Operation::Create, object, None, &snapshot(), policies, Some(images))
}

fn wanted(object: &Value) -> Vec<String> {
    create_in(object, &snapshot(), &with_lookup("")).review.wanted
}

#[test]
fn the_registry_reports_operating_system_and_builds() {
    const W19: &str = "windows 10.0.17763.5830";
    const W22: &str = "windows 10.0.20348.2655";
    const W25: &str = "windows 10.0.26100.1";
    type Row = (&'static [&'static str], DetectedOs, &'static [&'static str]);
    let table: &[Row] = &[
        (&["linux"], DetectedOs::Linux, &[]),
        (&[W22], DetectedOs::Windows, &["10.0.17763"]),
        (&[W25], DetectedOs::Windows, &["10.0.17763", "10.0.20348"]),
        (&[W19], DetectedOs::Windows, &["10.0.20348", "10.0.26100"]),
        // A node takes the entry that matches it.
        (&[W19, W22], DetectedOs::Windows, &[]),
        (&[W19, W25], DetectedOs::Windows, &["10.0.20348"]),
        // An entry without a version matches every node.
        (&[W22, "windows"], DetectedOs::Windows, &[]),
        (&["windows"], DetectedOs::Windows, &[]),
        (&[W22, "windows nonsense"], DetectedOs::Windows, &["10.0.17763"]),
    ];
    for (entries, decision, excluded) in table {
        let found = review_with(&with_image(APP), &with_lookup(""), &platforms_of(&[(APP, entries)]));
        assert_eq!(found.review.decision.os, *decision, "{entries:?}");
        let seen = found.excluded_builds();
        let of_the_fleet = |build: &&String| ["10.0.17763", "10.0.20348", "10.0.26100"].contains(&build.as_str());
        let seen: Vec<&String> = seen.iter().filter(of_the_fleet).collect();
        assert_eq!(seen, excluded.to_vec(), "{entries:?}");
        assert!(found.review.wanted.is_empty(), "it is known");
    }
}

#[test]
fn an_index_for_both_decides_nothing() {
    let policy = with_lookup("    images: [{pattern: registry.example.com/app, os: multi}]\n");
    for object in [with_image(APP), workload("DaemonSet", json!({"containers": [{"name": "c", "image": APP}]}))] {
        let by_policy = create_in(&object, &snapshot(), &policy);
        let by_registry =
            review_with(&object, &with_lookup(""), &platforms_of(&[(APP, &["linux", "windows 10.0.20348.1"])]));
        assert_eq!(by_registry.review.decision.os, by_policy.review.decision.os);
        assert_eq!(by_registry.stored["spec"], by_policy.stored["spec"]);
    }
}

#[test]
fn the_registry_goes_before_the_name_and_after_the_policy() {
    let tag = "registry.example.com/app:ltsc2019";
    let found = |policies: &PolicySet, entries: &[&str]| {
        let found = review_with(&with_image(tag), policies, &platforms_of(&[(tag, entries)]));
        let how = found.review.decision.evidence.first().map(|evidence| format!("{:?}", evidence.source));
        (found.review.decision.os, how.unwrap_or_default(), found.review)
    };
    let builds = |review: &Review| format!("{:?}", review.changes);
    let (decision, how, _) = found(&with_lookup(""), &["linux"]);
    assert!(decision == DetectedOs::Linux && how.contains("registry"), "{how}");
    let (decision, _, review) = found(&with_lookup(""), &["windows 10.0.20348.1"]);
    assert!(decision == DetectedOs::Windows && builds(&review).contains("10.0.17763"), "{review:?}");
    // Without a version the tag is the better guess, and an artifact that is not an image has no operating system.
    for entries in [&["windows"][..], &[], &["wasip1"]] {
        let (decision, _, review) = found(&with_lookup(""), entries);
        assert!(decision == DetectedOs::Windows && builds(&review).contains("10.0.20348"), "{entries:?} {review:?}");
    }
    let linux = with_lookup("    images: [{pattern: registry.example.com/**, os: linux}]\n");
    let (decision, how, _) = found(&linux, &["windows 10.0.20348.1"]);
    assert!(decision == DetectedOs::Linux && how.contains("policy"), "{how}");
    // A pattern without builds leaves them to the registry.
    let windows = with_lookup("    images: [{pattern: registry.example.com/**, os: windows}]\n");
    let (decision, how, review) = found(&windows, &["windows 10.0.20348.1"]);
    assert!(decision == DetectedOs::Windows && how.contains("policy") && builds(&review).contains("10.0.17763"));
}

/// Every node pulls the image of a volume by its own build: of a HostProcess pod too, if it is an index.
#[test]
fn the_index_of_a_volume_needs_an_entry_for_a_node() {
    const W16: &str = "windows 10.0.14393.1";
    const W22: &str = "windows 10.0.20348.1";
    let isolated = json!({"nodeSelector": {"kubernetes.io/os": "windows"}});
    let host_process = json!({"securityContext": {"windowsOptions": {"hostProcess": true, "runAsUserName": "a"}}, "hostNetwork": true});
    let single = |entries: &[&str]| Arc::new(Platforms { index: false, ..(*index(entries)).clone() });
    let cases = [
        (&isolated, index(&[W16]), 1),
        (&isolated, single(&[W16]), 1),
        (&isolated, index(&[W16, W22]), 0),
        (&host_process, index(&[W16]), 1),
        (&host_process, single(&[W16]), 0),
        (&host_process, index(&[W16, W22]), 0),
        (&host_process, index(&[W16, "windows"]), 0),
    ];
    for (more, platforms, expected) in cases {
        let mut spec = json!({
            "containers": [{"name": "c", "image": "registry.example.com/web:1", "volumeMounts": [{"name": "v", "mountPath": "C:\\v"}]}],
            "volumes": [{"name": "v", "image": {"reference": APP}}],
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let images = KnownImages::from([(APP.to_owned(), platforms)]);
        let found = review_with(&pod(spec), &with_lookup(""), &images);
        let findings = found.review.findings.iter().filter(|finding| finding.code == "MUL509");
        assert_eq!(findings.count(), expected, "{more} {images:?}");
    }
}

#[test]
fn containers_share_a_host() {
    let other = "registry.example.com/other:1";
    let object = pod(json!({"containers": [{"name": "a", "image": APP}, {"name": "b", "image": other}]}));
    let both: &[&str] = &["windows 10.0.17763.1", "windows 10.0.20348.1"];
    let apart = review_with(
        &object,
        &with_lookup(""),
        &platforms_of(&[(APP, &["windows 10.0.17763.1"]), (other, &["windows 10.0.20348.1"])]),
    );
    assert!(apart.denial().contains("MUL501"), "{}", apart.denial());
    let together =
        review_with(&object, &with_lookup(""), &platforms_of(&[(APP, &["windows 10.0.17763.1"]), (other, both)]));
    assert!(!together.denied() && together.excluded_builds().contains(&"10.0.20348".to_owned()));
    // Unknown builds do not constrain.
    let half = review_with(&object, &with_lookup(""), &platforms_of(&[(other, both)]));
    assert_eq!((half.denied(), half.review.wanted), (false, vec![APP.to_owned()]));
}

#[test]
fn only_what_could_change_the_result_is_wanted() {
    let containers = json!([{"name": "c", "image": APP}]);
    let with = |more: Value| {
        let mut spec = json!({"containers": containers});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let windows = json!({"nodeSelector": {"kubernetes.io/os": "windows"}});
    let linux = json!({"nodeSelector": {"kubernetes.io/os": "linux"}});
    let mut mirror = with_image(APP);
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    let mut any = with_image(APP);
    any["metadata"]["annotations"] = json!({"mullion.dev/os": "any"});
    let table = [
        ("no evidence", pod(with(json!({}))), true),
        ("Windows needs builds", pod(with(windows.clone())), true),
        ("Linux needs nothing", pod(with(linux.clone())), false),
        (
            "two placements",
            pod(with(json!({"nodeSelector": {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"}}))),
            false,
        ),
        ("mirror pod", mirror, false),
        ("any", any, false),
        ("template", workload("Deployment", with(json!({}))), true),
        ("Linux template", workload("Deployment", with(linux.clone())), false),
        ("Linux DaemonSet", workload("DaemonSet", with(linux)), false),
        (
            "a pool, unless it means every node",
            workload("DaemonSet", with(json!({"nodeSelector": {"disk": "ssd"}}))),
            true,
        ),
        ("the same pool", pod(with(json!({"nodeSelector": {"disk": "ssd"}}))), false),
        ("owned", owned_by(pod(with(windows)), "ReplicaSet"), true),
        ("no reference", with_image("{{ image }}"), false),
        ("empty", with_image(""), false),
    ];
    for (what, object, expected) in table {
        assert_eq!(wanted(&object), if expected { vec![APP.to_owned()] } else { Vec::new() }, "{what}");
        assert!(create(&object).review.wanted.is_empty(), "{what}: no look-up is allowed");
    }
}

#[test]
fn patterns_decide_before_registries() {
    for (pattern, expected) in [
        ("os: linux", false),
        ("os: windows, builds: [10.0.20348]", false),
        ("os: multi, builds: [10.0.20348]", false),
        ("os: windows", true),
        ("os: multi", true),
    ] {
        let policies = with_lookup(&format!("    images: [{{pattern: registry.example.com/**, {pattern}}}]\n"));
        let windows = pod(json!({"containers": [{"name": "c", "image": APP}], "os": {"name": "windows"}}));
        assert_eq!(!create_in(&windows, &snapshot(), &policies).review.wanted.is_empty(), expected, "{pattern}");
    }
}

#[test]
fn each_image_is_wanted_once_and_the_old_ones_too() {
    let containers = |images: &[&str]| {
        let container = |(at, image): (usize, &&str)| json!({"name": format!("c{at}"), "image": image});
        json!({"containers": images.iter().enumerate().map(container).collect::<Vec<_>>()})
    };
    assert_eq!(wanted(&pod(containers(&["b:1", "a:1", "b:1"]))), ["a:1", "b:1"]);
    let (old, new) = (workload("Deployment", containers(&["a:1"])), workload("Deployment", containers(&["b:1"])));
    let found = outcome(Operation::Update, &new, Some(&old), &snapshot(), &with_lookup(""));
    assert_eq!(found.review.wanted, ["a:1", "b:1"], "the old template is judged as well");
}

#[test]
fn an_update_denies_nothing_that_the_old_images_had() {
    let template = |images: [&str; 2], replicas: u32| {
        let containers = json!([{"name": "a", "image": images[0]}, {"name": "b", "image": images[1]}]);
        let mut object = workload("Deployment", json!({"os": {"name": "windows"}, "containers": containers}));
        object["spec"]["template"]["metadata"]["labels"]["n"] = replicas.to_string().into();
        object
    };
    let images = platforms_of(&[
        ("r/a:1", &["windows 10.0.17763.1"]),
        ("r/b:1", &["windows 10.0.20348.1"]),
        ("r/b:2", &["windows 10.0.26100.1"]),
    ]);
    let (old, new) = (template(["r/a:1", "r/b:1"], 1), template(["r/a:1", "r/b:2"], 2));
    let found = outcome_with(Operation::Update, &new, Some(&old), &snapshot(), &with_lookup(""), Some(&images));
    assert!(found.review.findings.iter().any(|finding| finding.code == "MUL501"), "{:?}", found.review.findings);
    assert!(!found.denied());
}

/// Any report of a registry, including malformed ones.
fn platforms() -> impl Strategy<Value = Arc<Platforms>> {
    let os = prop::sample::select(vec!["windows", "Windows", "linux", "darwin", "", "\u{0}"]);
    let architecture = prop::sample::select(vec!["amd64", "arm64", ""]);
    let version = prop_oneof![
        Just(None),
        prop::sample::select(vec!["10.0.17763.1", "10.0.20348.2655", "10.0.26100.1", "10.0.26200.1", "10.0", "x", ""])
            .prop_map(|text| Some(text.to_owned())),
        ".{0,12}".prop_map(Some),
    ];
    let entry = (os, architecture, version).prop_map(|(os, architecture, os_version)| Platform {
        os: os.to_owned(),
        architecture: architecture.to_owned(),
        os_version,
        os_features: Vec::new(),
    });
    (prop::collection::vec(entry, 0..4), any::<bool>())
        .prop_map(|(entries, index)| Arc::new(Platforms { entries, index }))
}

fn any_known() -> impl Strategy<Value = KnownImages> {
    prop::collection::btree_map(image(), platforms(), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn whatever_a_registry_reports_a_second_review_changes_nothing(object in any_workload(), images in any_known()) {
        let policies = with_lookup("");
        let once = review_with(&object, &policies, &images);
        let twice = review_with(&once.stored, &policies, &images);
        prop_assert!(twice.mutate.patch.is_empty(), "{:?}", twice.mutate.patch);
        // The report may be missing, or may arrive only then.
        let forgotten = create_in(&once.stored, &snapshot(), &policies);
        prop_assert!(once.selector().is_none() || forgotten.selector() == once.selector());
    }

    #[test]
    fn what_is_known_makes_nothing_else_wanted(object in any_workload(), images in any_known()) {
        let policies = with_lookup("");
        let before = create_in(&object, &snapshot(), &policies).review.wanted;
        let after = review_with(&object, &policies, &images).review.wanted;
        prop_assert!(after.iter().all(|image| before.contains(image) && !images.contains_key(image)), "{before:?} {after:?}");
        // An image that is not wanted could at most have been reported as unfit: see `image-for-other-os`.
        let unwanted: KnownImages = images.into_iter().filter(|(image, _)| !before.contains(image)).collect();
        let (with, without) = (review_with(&object, &policies, &unwanted), create_in(&object, &snapshot(), &policies));
        prop_assert_eq!(with.stored.get("spec"), without.stored.get("spec"));
    }
}
