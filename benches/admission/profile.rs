//! Where the API server's processor time goes, from its own profile: <https://go.dev/blog/pprof>. `go tool pprof` prints the
//! stacks, and each stack counts for the first of the [`PARTS`] that one of its functions is of.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use http_body_util::BodyExt as _;
use kube::client::Body;
use mullion_cluster::ControlPlane;

use crate::creates::{self, Measurement};
use crate::registrations::{
    CONSTANT_PATCH, Case, MULLION, MULLION_LINUX, MULLION_UNDECIDED, NONE, NONE_LINUX, NONE_UNDECIDED, PATCH_UNDECIDED,
    UNCHANGED_UNDECIDED,
};

/// The profiled cases.
const CASES: [&str; 9] = [
    NONE,
    CONSTANT_PATCH,
    MULLION,
    NONE_UNDECIDED,
    UNCHANGED_UNDECIDED,
    PATCH_UNDECIDED,
    MULLION_UNDECIDED,
    NONE_LINUX,
    MULLION_LINUX,
];

/// How long each case is profiled, in seconds: 2,000 samples at 100 a second and full load.
const SECONDS: u64 = 20;

/// A part of the work, and texts of which a function of it contains one.
const PARTS: [(&str, &[&str]); 8] = [
    // `condition.ForInput` up to 1.36 converts the object; from 1.37 on `LazyObject` does so, as far as it is read.
    (
        "object for CEL",
        &["objectToResolveVal", "ToUnstructured", "toUnstructured", "LazyObject", "SchemalessTypedToVal"],
    ),
    ("conditions", &["matchconditions", "admission/plugin/cel", "google/cel-go"]),
    ("patch", &["json-patch", "jsonpatch"]),
    ("TLS", &["crypto/tls"]),
    ("call", &["admission/plugin/webhook", "net/http.(*persistConn)", "net/http.(*Transport)"]),
    ("storage", &["storage/etcd3", "google.golang.org/grpc", "storage/cacher"]),
    ("garbage", &["runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcAssistAlloc"]),
    ("request", &["endpoints/", "net/http.(*conn)", "net/http.(*http2"]),
];

/// Profiles each of the [`CASES`], writes the profiles into a folder, and prints a table.
pub async fn print(plane: &ControlPlane, cases: &[Case], folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let heads = PARTS.iter().map(|(part, _)| *part).chain(["other", "all"]);
    let heads: Vec<String> = heads.map(|head| format!("{head:>15}")).collect();
    println!("\nprocessor time of the API server for a create by part, in microseconds\n{:42}{}", "", heads.concat());
    for name in CASES {
        let case = cases.iter().find(|case| case.name == name).unwrap();
        let file = folder.join(format!("{}.pb.gz", name.replace([' ', ':'], "-")));
        let creates = profile(plane, case, &file).await;
        let times = times_of_parts(&file);
        let all: Duration = times.iter().sum();
        let cells = times.iter().chain([&all]).map(|time| time.as_secs_f64() * 1e6 / creates as f64);
        let cells: Vec<String> = cells.map(|cell| format!("{cell:>15.0}")).collect();
        println!("{name:42}{}", cells.concat());
    }
}

/// Creates pods while the API server writes its profile; returns how many.
async fn profile(plane: &ControlPlane, case: &Case, file: &Path) -> usize {
    let request = http::Request::get(format!("/debug/pprof/profile?seconds={SECONDS}")).body(Body::empty()).unwrap();
    let client = plane.client();
    let profile = tokio::spawn(async move { client.send(request).await.unwrap().collect().await.unwrap().to_bytes() });
    let mut measurement = Measurement::default();
    while !profile.is_finished() {
        creates::round(plane, case, &mut measurement).await;
    }
    fs::write(file, profile.await.unwrap()).unwrap();
    measurement.times.len()
}

/// The time of each of the [`PARTS`], and of what belongs to none.
fn times_of_parts(file: &Path) -> Vec<Duration> {
    let output = Command::new("go").args(["tool", "pprof", "-traces", "-unit=ms"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut times = vec![Duration::ZERO; PARTS.len() + 1];
    // Stacks are separated by lines; the first line of a stack begins with its time.
    for stack in String::from_utf8(output.stdout).unwrap().split("-----------+").skip(1) {
        let mut words = stack.lines().skip(1).flat_map(str::split_whitespace);
        let Some(time) = words.next().and_then(|word| word.strip_suffix("ms")?.parse::<f64>().ok()) else { continue };
        let functions: Vec<&str> = words.collect();
        let is_of = |texts: &[&str]| functions.iter().any(|function| texts.iter().any(|text| function.contains(text)));
        let part = PARTS.iter().position(|(_, texts)| is_of(texts)).unwrap_or(PARTS.len());
        times[part] += Duration::from_secs_f64(time / 1e3);
    }
    times
}
