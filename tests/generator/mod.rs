//! Pods over every field and value kind that Windows and Linux treat differently, as JSON.
//!
//! Pure and seeded: the same seed always returns the same pods. A pod is a [`Base`] (which determines its operating
//! system) with some [`Piece`]s (a field and a value each). Everything else in it is valid for the API server, so that
//! if the API server rejects a pod, the reason is the operating system. Each piece is alone in some pods, then with
//! others.

mod defaults;
mod names;
mod pieces;

pub use defaults::defaulted;
pub use pieces::{Piece, families, pieces};
use serde_json::{Value, json};

/// The seed of the pods that are sent to the API server.
pub const SEED: u64 = 0x004d_756c_6c69_6f6e;

/// A Windows image by its name.
pub const WINDOWS_IMAGE: &str = "mcr.microsoft.com/windows/servercore:ltsc2022";
/// A Linux image by its tag.
pub const LINUX_IMAGE: &str = "nginx:1.27-alpine";
/// An image with a name that does not reveal an operating system.
pub const OPAQUE_IMAGE: &str = "registry.example.com/app:1";

/// A pod, and the names of its parts.
#[derive(Debug, Clone)]
pub struct Generated {
    pub what: String,
    pub object: Value,
}

/// What determines the operating system of a pod: an image for all its containers, and fields.
#[derive(Debug, Clone, Copy)]
pub struct Base {
    pub name: &'static str,
    image: &'static str,
    fields: fn() -> Vec<(&'static str, Value)>,
}

const fn base(name: &'static str, image: &'static str, fields: fn() -> Vec<(&'static str, Value)>) -> Base {
    Base { name, image, fields }
}

fn selector(os: &str) -> Value {
    json!({"kubernetes.io/os": os})
}

fn affinity(operator: &str, os: &str) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/os", "operator": operator, "values": [os]}]}]}}})
}

/// The number of first bases on which every piece is alone; the second for those of [`Piece::windows_only`].
const ALONE: usize = 5;
const ALONE_ON_WINDOWS: usize = 2;

const SPEC_OS: &str = "/spec/os";
const SELECTOR: &str = "/spec/nodeSelector";
const OS_ANNOTATION: &str = "/metadata/annotations/mullion.dev~1os";

/// The bases; every piece is alone on the first five.
pub static BASES: [Base; 18] = [
    base("spec.os windows", OPAQUE_IMAGE, || vec![(SPEC_OS, json!({"name": "windows"}))]),
    base("Windows image", WINDOWS_IMAGE, Vec::new),
    // Mullion adds nothing to this one.
    base("explicitly Windows", OPAQUE_IMAGE, || {
        vec![
            (SPEC_OS, json!({"name": "windows"})),
            (SELECTOR, selector("windows")),
            ("/spec/tolerations", json!([{"key": "os", "operator": "Exists"}])),
        ]
    }),
    base("spec.os linux", OPAQUE_IMAGE, || vec![(SPEC_OS, json!({"name": "linux"}))]),
    base("no OS", OPAQUE_IMAGE, Vec::new),
    base("Linux image", LINUX_IMAGE, Vec::new),
    base("selector windows", OPAQUE_IMAGE, || vec![(SELECTOR, selector("windows"))]),
    base("selector linux", OPAQUE_IMAGE, || vec![(SELECTOR, selector("linux"))]),
    base("spec.os and selector linux", LINUX_IMAGE, || {
        vec![(SPEC_OS, json!({"name": "linux"})), (SELECTOR, selector("linux"))]
    }),
    base("affinity windows", OPAQUE_IMAGE, || vec![("/spec/affinity", affinity("In", "windows"))]),
    base("affinity linux", OPAQUE_IMAGE, || vec![("/spec/affinity", affinity("NotIn", "windows"))]),
    base("old selector windows", OPAQUE_IMAGE, || vec![(SELECTOR, json!({"beta.kubernetes.io/os": "windows"}))]),
    base("spec.os windows, selector linux", OPAQUE_IMAGE, || {
        vec![(SPEC_OS, json!({"name": "windows"})), (SELECTOR, selector("linux"))]
    }),
    base("spec.os linux, selector windows", OPAQUE_IMAGE, || {
        vec![(SPEC_OS, json!({"name": "linux"})), (SELECTOR, selector("windows"))]
    }),
    base("annotation windows", OPAQUE_IMAGE, || vec![(OS_ANNOTATION, json!("windows"))]),
    base("annotation any, spec.os windows", OPAQUE_IMAGE, || {
        vec![(OS_ANNOTATION, json!("any")), (SPEC_OS, json!({"name": "windows"}))]
    }),
    base("bound to a Windows node", OPAQUE_IMAGE, || vec![("/spec/nodeName", json!("win2022"))]),
    base("Windows image that tolerates all", WINDOWS_IMAGE, || {
        vec![("/spec/tolerations", json!([{"operator": "Exists"}]))]
    }),
];

impl Base {
    /// A pod of one init container and that many others, with nothing else in it.
    fn pod(&self, containers: usize) -> Value {
        let names = ["c", "d", "e"];
        let container = |name: &&str| json!({"name": name, "image": self.image});
        let containers: Vec<Value> = names.iter().take(containers).map(container).collect();
        let mut object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
            // A token's volume has a random name.
            "automountServiceAccountToken": false,
            "initContainers": [{"name": "i", "image": self.image}],
            "containers": containers,
        }});
        for (pointer, value) in (self.fields)() {
            set(&mut object, pointer, value);
        }
        object
    }
}

/// A pod of that base with those pieces. The second of two that set the same field takes precedence.
pub fn assemble(base: &Base, containers: usize, chosen: &[&Piece]) -> Generated {
    let mut object = base.pod(containers);
    let mut what = format!("{}:", base.name);
    for piece in chosen {
        what.extend([" ", &piece.what, ";"]);
        for (pointer, value) in &piece.sets {
            set(&mut object, pointer, value.clone());
        }
    }
    Generated { what, object }
}

/// Sets `value` at a pointer and creates the missing objects and lists on the path; `-` at its end appends to a list.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let Some((parent, last)) = pointer.rsplit_once('/') else { return };
    let mut at = object;
    for token in parent.split('/').skip(1) {
        at = match token.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[unescape(token)],
        };
    }
    if last == "-" {
        if at.is_null() {
            *at = json!([]);
        }
        at.as_array_mut().unwrap_or_else(|| panic!("{pointer}: no list")).push(value);
    } else {
        at[unescape(last)] = value;
    }
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// `count` pods or a few more: every piece alone on five bases, every other base alone, then several pieces together.
pub fn pods(seed: u64, count: usize) -> Vec<Generated> {
    let pieces = pieces();
    let mut all: Vec<Generated> = BASES.iter().map(|base| assemble(base, 1, &[])).collect();
    for piece in &pieces {
        let bases = if piece.windows_only { ALONE_ON_WINDOWS } else { ALONE };
        all.extend(BASES[..bases].iter().map(|base| assemble(base, 1, &[piece])));
    }
    let families = families();
    let mut random = Random(seed);
    while all.len() < count {
        let containers = 1 + random.below(2);
        let base = &BASES[random.below(BASES.len())];
        let mut moved: Vec<Piece> = Vec::new();
        for _ in 0..2 + random.below(5) {
            let family = &families[random.below(families.len())];
            let piece = &family[random.below(family.len())];
            if moved.iter().any(|taken| taken.sets[0].0 == piece.sets[0].0 && !piece.sets[0].0.ends_with("/-")) {
                continue;
            }
            let elsewhere = containers == 2 && random.below(2) == 0;
            let piece = if elsewhere { piece.in_second_container() } else { piece.clone() };
            if !moved.iter().any(|taken| taken.what == piece.what) {
                moved.push(piece);
            }
        }
        let generated = assemble(base, containers, &moved.iter().collect::<Vec<_>>());
        // A few stay, because pods that the API server rejects for another reason must stay rejected.
        if !rejected_anyway(&generated.object) || random.below(16) == 0 {
            all.push(generated);
        }
    }
    all
}

/// Whether the API server rejects the pod under every operating system, because of a combination of pieces.
pub fn rejected_anyway(object: &Value) -> bool {
    let spec = &object["spec"];
    let is = |field: &str, wanted: bool| spec[field] == wanted;
    let containers = || ["initContainers", "containers"].into_iter().filter_map(|list| spec[list].as_array()).flatten();
    let contexts = || containers().map(|container| &container["securityContext"]);
    // validateHostUsers
    let own_users = is("hostUsers", false);
    let volume_devices = containers().any(|container| !container["volumeDevices"].is_null());
    let host_spaces = is("hostNetwork", true) || is("hostPID", true) || is("hostIPC", true);
    // ValidateSecurityContext
    let escalates =
        contexts().any(|context| context["allowPrivilegeEscalation"] == false && context["privileged"] == true);
    let unmasked = contexts().any(|context| context["procMount"] == "Unmasked");
    // validatePodSpecSecurityContext, ValidateHostSysctl
    let shares = is("shareProcessNamespace", true) && is("hostPID", true);
    let sysctl = |start: &str| {
        let sysctls = spec["securityContext"]["sysctls"].as_array();
        sysctls.into_iter().flatten().any(|item| item["name"].as_str().is_some_and(|name| name.starts_with(start)))
    };
    let sysctls = sysctl("net.") && is("hostNetwork", true) || sysctl("kernel.") && is("hostIPC", true);
    // validatePodHostNetworkDeps
    let ports = is("hostNetwork", true)
        && containers()
            .filter_map(|container| container["ports"].as_array())
            .flatten()
            .any(|port| !port["hostPort"].is_null() && port["hostPort"] != port["containerPort"]);
    // validateMountPropagation
    let propagates = containers().any(|container| {
        let mounts = container["volumeMounts"].as_array();
        mounts.into_iter().flatten().any(|mount| mount["mountPropagation"] == "Bidirectional")
            && container["securityContext"]["privileged"] != true
    });
    // validateAppArmorAnnotationsAndFieldsMatchOnCreate
    let profiles = !spec["securityContext"]["appArmorProfile"].is_null()
        || contexts().any(|context| !context["appArmorProfile"].is_null());
    let annotations = object["metadata"]["annotations"].as_object();
    let profiles = profiles && annotations.into_iter().flatten().any(|(key, _)| key.contains("apparmor"));
    // validatePodResourceConsistency
    let resources = !spec["resources"].is_null() && containers().any(|container| !container["resources"].is_null());
    (own_users && (host_spaces || volume_devices))
        || escalates
        || (unmasked && !own_users)
        || shares
        || sysctls
        || ports
        || propagates
        || profiles
        || resources
}

/// `SplitMix64`: small, and the same on every machine and in every version of every crate.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 up to but without `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit).unwrap_or(1).max(1)).unwrap_or(0)
    }
}
