//! Policy files.

use mullion_engine::model::WorkloadKind;
use mullion_engine::model::cluster::Namespace;
use mullion_policy::test_cases::TestFile;
use mullion_policy::{ConfigMapReview, PolicyMap, PolicySet, render_warnings};
use serde_json::json;

use super::Meter;
use super::patch::review_of;

/// Bytes of memory for each byte of text, in a short file: a problem for each byte or two, with its texts.
const MEMORY: usize = 4_000;
/// Bytes of memory beside it.
const FIXED: usize = 1 << 20;

pub fn run(bytes: &[u8], meter: &dyn Meter) {
    let mut loaded = None;
    let peak = meter.peak_of(&mut || loaded = Some(PolicySet::from_files(&[("t.yaml", bytes)])));
    assert!(peak <= FIXED + MEMORY * bytes.len(), "{peak} bytes of memory for {} bytes", bytes.len());
    let Ok(text) = std::str::from_utf8(bytes) else {
        assert!(matches!(loaded, Some(Err(_))));
        return;
    };
    drop(TestFile::parse("t.yaml", text));
    let map = json!({"metadata": {"name": "m", "labels": {"mullion.dev/policy": "true"}}, "data": {"t.yaml": text}});
    let reviewed = PolicyMap::of(&map).review(None);
    match loaded {
        Some(Ok(set)) => {
            assert!(matches!(reviewed, ConfigMapReview::Good(_)), "a ConfigMap with it is denied");
            drop(render_warnings(&set));
            let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "default",
                "labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "mcr.microsoft.com/windows/nanoserver:ltsc2022",
                "securityContext": {"runAsUser": 0}}]}});
            let namespace =
                Namespace::new([("team".to_owned(), "web".to_owned())].into(), &std::collections::BTreeMap::new());
            review_of(WorkloadKind::Pod, &pod, None, &namespace, &set);
        }
        Some(Err(problems)) => {
            assert!(!problems.is_empty());
            assert!(!matches!(reviewed, ConfigMapReview::Good(_)), "a ConfigMap with it is admitted");
            for problem in &problems {
                assert!(text.get(problem.span.range()).is_some(), "{problem}: {:?} is not in the text", problem.span);
            }
        }
        None => {}
    }
}
