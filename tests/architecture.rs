//! The architecture: no two modules import each other, arrows point down, and the pure crates depend on nothing that
//! knows a network, a cluster or a runtime. docs/architecture.md is the map.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests: a failure is a panic"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use syn::visit::{self, Visit};
use syn::{Attribute, File, Item, ItemMod, UseTree, VisRestricted, Visibility};

/// The folder with the sources of each package.
const SOURCES: [&str; 7] = [
    "crates/manifest/src",
    "crates/engine/src",
    "crates/snapshot/src",
    "crates/policy/src",
    "crates/survey/src",
    "crates/plan/src",
    "src",
];

/// The direct dependencies that each pure crate may have. If you add to a list, explain in the review why the crate
/// needs it. jiff: calendar dates, in tables and as an argument; used without a clock.
const DEPENDENCIES: [(&str, &[&str]); 6] = [
    ("mullion-manifest", &["json-patch", "jsonptr", "serde", "serde-saphyr", "serde_json", "similar", "thiserror"]),
    ("mullion-engine", &["jiff", "json-patch", "serde", "serde_json", "thiserror"]),
    ("mullion-snapshot", &["mullion-engine", "mullion-manifest", "serde", "serde_json"]),
    (
        "mullion-policy",
        &[
            "base64",
            "jiff",
            "json-patch",
            "mullion-engine",
            "mullion-manifest",
            "mullion-snapshot",
            "serde",
            "serde_json",
        ],
    ),
    (
        "mullion-survey",
        &["jiff", "mullion-engine", "mullion-manifest", "mullion-policy", "mullion-snapshot", "serde", "serde_json"],
    ),
    ("mullion-plan", &["jiff", "mullion-engine", "mullion-policy", "mullion-survey", "serde", "serde_json"]),
];

/// Packages that a pure crate must not depend on, directly or indirectly.
const IMPURE: [&str; 8] = ["axum", "hyper", "kube", "rustls", "aws-lc-rs", "tokio", "tower", "tracing-subscriber"];

/// The top-level modules of the engine. Each imports only those before it; `node` imports `model` and `detect`.
const ROOMS: [&str; 7] = ["model", "pod_templates", "detect", "place", "rules", "patch", "admission"];

/// The modules of the program. A module imports those before it; webhook and controller do not import each other.
const PROGRAM: [&str; 14] = [
    "exact_text",
    "directory_walk",
    "admission_probe",
    "shutdown_signals",
    "value_hash",
    "telemetry",
    "cluster",
    "policy_files",
    "registry",
    "server",
    "report",
    "controller",
    "webhook",
    "cli",
];

/// A module: the names below its crate.
type Module = Vec<String>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every module of a crate with its file, without tests.
fn modules(sources: &str) -> BTreeMap<Module, File> {
    let folder = root().join(sources);
    let mut files = vec![folder.clone()];
    let mut modules = BTreeMap::new();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|end| end == "rs") {
            let below = path.strip_prefix(&folder).unwrap().with_extension("");
            let mut module: Module = below.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
            module.pop_if(|last| ["mod", "lib"].contains(&last.as_str()));
            if module.iter().any(|name| name.ends_with("tests")) || module == ["main"] {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            modules
                .insert(module, syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        }
    }
    assert!(!modules.is_empty(), "{sources}: no module");
    modules
}

/// Collects the paths in a module, as written.
#[derive(Default)]
struct Paths(Vec<Vec<String>>);

impl<'a> Visit<'a> for Paths {
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_use_tree(&mut self, tree: &'a UseTree) {
        self.add_tree(tree, &[]);
    }

    /// `pub(super)` is not an import.
    fn visit_vis_restricted(&mut self, _: &'a VisRestricted) {}

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

impl Paths {
    fn add_tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(path) => self.add_tree(&path.tree, &with(path.ident.to_string())),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_tree(tree, before)),
            UseTree::Name(name) => self.0.push(with(name.ident.to_string())),
            UseTree::Rename(name) => self.0.push(with(name.ident.to_string())),
            UseTree::Glob(_) => self.0.push(before.to_vec()),
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .any(|one| one.path().is_ident("cfg") && one.parse_args::<syn::Ident>().is_ok_and(|it| it == "test"))
}

/// The path below the crate that `path` stands for in the module `from`; `None` if it leads out of the crate.
fn absolute(path: &[String], from: &Module, modules: &BTreeMap<Module, File>) -> Option<Vec<String>> {
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([from.as_slice(), &path[1..]].concat()),
        "super" => {
            let up = path.iter().take_while(|name| *name == "super").count();
            Some([&from[..from.len().checked_sub(up)?], &path[up..]].concat())
        }
        child => modules
            .contains_key(&[from.as_slice(), &[child.to_owned()]].concat())
            .then(|| [from.as_slice(), path].concat()),
    }
}

/// The module that a path below the crate leads to, through what `mod.rs` files re-export.
fn target(path: &[String], modules: &BTreeMap<Module, File>) -> Option<Module> {
    let module =
        (1..=path.len()).rev().map(|length| path[..length].to_vec()).find(|module| modules.contains_key(module))?;
    let original = path.get(module.len()).and_then(|item| re_exported(item, &module, modules));
    Some(original.and_then(|path| target(&path, modules)).unwrap_or(module))
}

/// The path below the crate of an item that `module` re-exports from one of its children.
fn re_exported(item: &str, module: &Module, modules: &BTreeMap<Module, File>) -> Option<Vec<String>> {
    let mut paths = Paths::default();
    for item in &modules[module].items {
        if let Item::Use(item) = item
            && !matches!(item.vis, Visibility::Inherited)
        {
            paths.visit_item_use(item);
        }
    }
    let path = paths.0.into_iter().find(|path| path.last().is_some_and(|name| name == item))?;
    absolute(&path, module, modules).filter(|path| path.len() > module.len() + 1)
}

/// The modules that each module imports.
fn imports(sources: &str) -> BTreeMap<Module, BTreeSet<Module>> {
    let modules = modules(sources);
    let of = |(module, file): (&Module, &File)| {
        let mut paths = Paths::default();
        paths.visit_file(file);
        let targets = paths.0.iter().filter_map(|path| target(&absolute(path, module, &modules)?, &modules));
        (module.clone(), targets.filter(|target| target != module).collect())
    };
    modules.iter().map(of).collect()
}

/// A path of imports from `to` back to itself, if there is one.
fn circle(start: &Module, imports: &BTreeMap<Module, BTreeSet<Module>>) -> Option<Vec<String>> {
    let mut before: BTreeMap<&Module, &Module> = BTreeMap::new();
    let mut open = vec![start];
    while let Some(module) = open.pop() {
        for next in &imports[module] {
            if next == start {
                let mut way = vec![start.join("::"), module.join("::")];
                let mut at = module;
                while let Some(earlier) = before.get(at).filter(|_| at != start) {
                    way.push(earlier.join("::"));
                    at = earlier;
                }
                way.reverse();
                return Some(way);
            }
            if !before.contains_key(next) {
                before.insert(next, module);
                open.push(next);
            }
        }
    }
    None
}

#[test]
fn no_two_modules_import_each_other() {
    for sources in SOURCES {
        let imports = imports(sources);
        let circles: BTreeSet<String> =
            imports.keys().filter_map(|module| Some(circle(module, &imports)?.join(" → "))).collect();
        let shown: Vec<&str> = circles.iter().take(5).map(String::as_str).collect();
        assert!(
            circles.is_empty(),
            "{sources}: modules import each other. Move what both need into a module of its own.\n{}",
            shown.join("\n")
        );
    }
}

/// A type that other modules can name has a name of its own, so that a search for it finds one declaration.
#[test]
fn exported_type_names_are_unique() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (sources, (module, file)) in
        SOURCES.iter().flat_map(|sources| modules(sources).into_iter().map(move |one| (sources, one)))
    {
        for item in &file.items {
            let (visibility, name) = match item {
                Item::Struct(item) => (&item.vis, &item.ident),
                Item::Enum(item) => (&item.vis, &item.ident),
                Item::Trait(item) => (&item.vis, &item.ident),
                Item::Type(item) => (&item.vis, &item.ident),
                _ => continue,
            };
            let is_exported = match visibility {
                Visibility::Public(_) => true,
                Visibility::Restricted(only) => only.path.is_ident("crate"),
                Visibility::Inherited => false,
            };
            if is_exported {
                places.entry(name.to_string()).or_default().push(format!("{sources}/{}", module.join("/")));
            }
        }
    }
    assert!(places.len() > 500, "{} types", places.len());
    places.retain(|_, places| places.len() > 1);
    assert_eq!(places, BTreeMap::new());
}

#[test]
fn rooms_of_the_engine_import_those_before_them() {
    assert_order("crates/engine/src", |from, to| {
        if from == "node" { ["model", "detect"].contains(&to) } else { is_before(&ROOMS, to, from) }
    });
}

#[test]
fn modules_of_the_program_import_those_before_them() {
    assert_order("src", |from, to| is_before(&PROGRAM, to, from) && (from, to) != ("webhook", "controller"));
}

fn is_before(order: &[&str], first: &str, second: &str) -> bool {
    let place = |name: &str| order.iter().position(|known| *known == name);
    place(first).is_some_and(|first| Some(first) < place(second))
}

/// Fails if a module imports one of another top-level module that it may not import.
fn assert_order(sources: &str, may_import: impl Fn(&str, &str) -> bool) {
    for (from, targets) in imports(sources) {
        for to in targets {
            let (Some(above), Some(below)) = (from.first(), to.first()) else { continue };
            assert!(
                above == below || may_import(above, below),
                "{} imports {}: {above} may not import {below}",
                from.join("::"),
                to.join("::")
            );
        }
    }
}

/// The triple of this machine: `x86_64-unknown-linux-gnu`.
fn host() -> String {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let output = Command::new(rustc).arg("-vV").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

/// The resolved metadata of the packages from cargo. Only the packages for this machine are sure to be there without a
/// network, because the tests were compiled from them.
fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", &host()])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn pure_crates_depend_on_what_their_list_names() {
    let metadata = metadata();
    let package = |name: &str| metadata["packages"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
    let name_of = |id: &Value| {
        let all = metadata["packages"].as_array().unwrap();
        all.iter().find(|one| one["id"] == *id).unwrap()["name"].as_str().unwrap().to_owned()
    };
    let node =
        |id: &Value| metadata["resolve"]["nodes"].as_array().unwrap().iter().find(|one| one["id"] == *id).unwrap();
    for (name, allowed) in DEPENDENCIES {
        let direct: BTreeSet<&str> = package(name)["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["kind"].is_null())
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert_eq!(direct, allowed.iter().copied().collect(), "{name}: [dependencies] and its list here differ");
        let (mut open, mut seen) = (vec![package(name)["id"].clone()], BTreeSet::new());
        while let Some(id) = open.pop() {
            for one in node(&id)["deps"].as_array().unwrap() {
                let normal = one["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null());
                if normal && seen.insert(name_of(&one["pkg"])) {
                    open.push(one["pkg"].clone());
                }
            }
        }
        let impure: Vec<&str> = IMPURE.into_iter().filter(|impure| seen.contains(*impure)).collect();
        assert!(impure.is_empty(), "{name} depends on {impure:?}, which a pure crate must not");
    }
}

/// `fuzz/` is a workspace of its own, which no other test resolves. If its lock file lacks a dependency, `make fuzz` does
/// not start.
#[test]
fn the_lock_file_of_the_fuzz_targets_has_the_dependencies_of_each_crate() {
    let lock = fs::read_to_string(root().join("fuzz/Cargo.lock")).unwrap();
    let locked: BTreeMap<&str, &str> =
        lock.split("[[package]]\nname = \"").filter_map(|package| package.split_once('"')).collect();
    for package in metadata()["packages"].as_array().unwrap().iter().filter(|one| one["source"].is_null()) {
        let name = package["name"].as_str().unwrap();
        let Some(locked) = locked.get(name) else { continue };
        for dependency in package["dependencies"].as_array().unwrap().iter().filter(|one| one["kind"] != "dev") {
            let dependency = dependency["name"].as_str().unwrap();
            // The version stands behind a name that is there twice.
            let is_locked = [format!(" \"{dependency}\","), format!(" \"{dependency} ")];
            assert!(
                is_locked.iter().any(|line| locked.contains(line)),
                "{name} depends on {dependency}, which fuzz/Cargo.lock lacks: run `cargo update --workspace` in fuzz/"
            );
        }
    }
}

/// In a crate with that attribute, clippy denies the clock, files, the network and the environment, by
/// crates/clippy.toml.
#[test]
fn pure_crates_deny_what_is_not_pure() {
    for sources in SOURCES.into_iter().filter(|sources| sources.starts_with("crates/")) {
        let path: PathBuf = root().join(sources).join("lib.rs");
        let file = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
        let denied: String = file.attrs.iter().filter(|one| one.path().is_ident("deny")).map(quote).collect();
        for lint in ["disallowed_methods", "disallowed_types"] {
            assert!(denied.contains(lint), "{}: #![deny(clippy::{lint})] is missing", path.display());
        }
    }
}

/// The module that reads everything from the API server.
const EDGE: [&str; 2] = ["cluster", "reading"];
/// Types and modules of kube that read objects from the API server: whole lists at once, and into types that can fail
/// for all objects because of one.
const TYPED_READS: [&str; 8] =
    ["Api", "ObjectList", "PartialObjectMeta", "WatchEvent", "DynamicObject", "reflector", "runtime", "watcher"];
/// Methods of kube's client that do the same.
const READING_CALLS: [&str; 4] = ["request_events", "request_status", "request_stream", "request_text"];

/// Collects the names of called methods.
#[derive(Default)]
struct Calls(BTreeSet<String>);

impl<'a> Visit<'a> for Calls {
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        self.0.insert(call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }
}

/// One module bounds what arrives, and isolates objects that cannot be read.
#[test]
fn one_module_reads_from_the_api_server() {
    let mut edges = 0;
    for (module, file) in modules("src") {
        if module.starts_with(&EDGE.map(str::to_owned)) {
            edges += 1;
            continue;
        }
        let (mut paths, mut calls) = (Paths::default(), Calls::default());
        paths.visit_file(&file);
        calls.visit_file(&file);
        let is_typed_read = |path: &&Vec<String>| {
            let is_kube = path.first().is_some_and(|name| name == "kube") && path.iter().all(|name| name != "Error");
            is_kube && path.iter().any(|name| TYPED_READS.contains(&&**name))
        };
        let reads: Vec<String> = paths.0.iter().filter(is_typed_read).map(|path| path.join("::")).collect();
        let called: Vec<&str> = READING_CALLS.into_iter().filter(|name| calls.0.contains(*name)).collect();
        assert!(
            reads.is_empty() && called.is_empty(),
            "{} reads from the API server with {reads:?} {called:?}: use cluster::reading::KindApi",
            module.join("::")
        );
    }
    assert!(edges > 3, "cluster::reading has moved");
}

fn quote(attribute: &Attribute) -> String {
    attribute.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default()
}

/// `mod.rs` only lists the modules of its folder; code is in files with names.
#[test]
fn a_folder_is_a_list_of_modules() {
    for sources in SOURCES {
        for (module, file) in modules(sources) {
            let folder = root().join(sources).join(module.join("/"));
            if folder.join("mod.rs").exists() {
                let only = file.items.iter().all(|item| matches!(item, Item::Mod(_) | Item::Use(_)));
                assert!(only, "{}/mod.rs contains code: give it a file with a name", folder.display());
            }
        }
    }
}
