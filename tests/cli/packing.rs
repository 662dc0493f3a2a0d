//! The build of the container image and of a release. `make image` itself takes minutes; these tests read its files. A release must
//! not contain placeholders.

use super::*;

fn repository(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// Instructions with their continuation lines, without comments.
fn instructions(dockerfile: &str) -> Vec<String> {
    let lines: Vec<&str> = dockerfile.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    joined.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn the_image_is_the_program_alone() {
    let all = instructions(&repository("Dockerfile"));
    let last = all.iter().rposition(|line| line.starts_with("FROM ")).unwrap();
    assert_eq!(all[last], "FROM scratch");
    let of = |word: &str| all[last..].iter().filter(|line| line.starts_with(word)).collect::<Vec<_>>();
    assert_eq!(of("USER "), ["USER 65532:65532"], "a kubelet can only tell of a number that it is not root");
    assert_eq!(of("ENTRYPOINT "), [r#"ENTRYPOINT ["/usr/bin/mullion"]"#], "there is no shell to start it");
    assert!(of("RUN ").is_empty() && of("CMD ").is_empty() && of("ADD ").is_empty());
    // release/image.sh replaces this line, so that the stage needs no other one.
    assert_eq!(of("COPY "), ["COPY --from=build /image /"]);
    assert!(all[..last].iter().any(|line| line.contains(" /image/etc/ssl/certs/ca-certificates.crt")));
}

/// Mirrors are configured in cargo, apt and the builder, not here. Podman and buildah pull only images whose name has a registry.
#[test]
fn one_image_is_pulled_by_its_full_name_and_digest() {
    for name in ["Dockerfile", ".dockerignore", "release/build.sh", "release/image.sh"] {
        let text = repository(name);
        assert!(!text.contains("://") && !text.contains("--registry"), "{name}");
    }
    let all = instructions(&repository("Dockerfile"));
    let defaults = all.iter().filter_map(|line| line.strip_prefix("ARG ")?.split_once('='));
    let from = all.iter().filter_map(|line| line.strip_prefix("FROM "));
    let images: Vec<&str> = defaults.map(|(_, image)| image).chain(from).collect();
    assert_eq!(images.len(), 3, "{images:?}");
    let (name, digest) = images[0].split_once("@sha256:").unwrap();
    assert_eq!(digest.len(), 64, "{}", images[0]);
    assert!(name.starts_with("docker.io/library/rust:"), "{name}");
    assert_eq!(images[1..], ["${BUILD_IMAGE} AS build", "scratch"]);
    // Releases are built with the same compilers.
    let workflow = repository(".github/workflows/release.yml");
    assert!(
        workflow.contains(&format!("container: {}\n", images[0])),
        "release.yml: the container is not {}",
        images[0]
    );
}

/// The build includes what `.dockerignore` does not exclude: every source file of the program must be part of it.
#[test]
fn the_build_sees_every_source_file() {
    let ignore = repository(".dockerignore");
    let allowed: Vec<&str> = ignore.lines().filter_map(|line| line.strip_prefix('!')).collect();
    assert_eq!(ignore.lines().filter(|line| !line.starts_with(['#', '!'])).collect::<Vec<_>>(), ["*"]);
    let all = instructions(&repository("Dockerfile"));
    let copied: Vec<&str> = all
        .iter()
        .filter_map(|line| line.strip_prefix("COPY "))
        .filter(|line| !line.starts_with("--from="))
        .flat_map(|line| {
            let mut names: Vec<&str> = line.split_whitespace().collect();
            names.pop();
            names
        })
        .collect();
    assert_eq!(copied.iter().collect::<std::collections::BTreeSet<_>>(), allowed.iter().collect(), "copied, included");

    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in fs::read_dir(root.join("crates")).unwrap().map(Result::unwrap) {
        if !entry.file_type().unwrap().is_dir() {
            continue;
        }
        let manifest = format!("crates/{}/Cargo.toml", entry.file_name().to_str().unwrap());
        assert!(copied.contains(&manifest.as_str()), "the build of the dependencies needs {manifest}");
    }
    for name in &allowed {
        assert!(root.join(name).exists(), "{name}");
    }
    let mut folders = vec![root.join("src"), root.join("crates")];
    let mut included = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                // The tests of a crate are not part of the program.
                if !entry.ends_with("tests") {
                    folders.push(entry);
                }
                continue;
            }
            if entry.extension() != Some(OsStr::new("rs")) {
                continue;
            }
            let text = fs::read_to_string(&entry).unwrap();
            let named = ["include_str!(\"", "include_bytes!(\""].iter().flat_map(|start| text.split(start).skip(1));
            for file in named.map(|rest| rest.split('"').next().unwrap()) {
                let file = entry.parent().unwrap().join(file).canonicalize().unwrap();
                let file = file.strip_prefix(root.canonicalize().unwrap()).unwrap().to_owned();
                assert!(allowed.iter().any(|name| file.starts_with(name)), "{}: {}", entry.display(), file.display());
                included += 1;
            }
        }
    }
    assert!(included > 3, "{included}");
}

// === placeholders of a release ===

/// Exit code and messages of `release/placeholders.sh` of a tree.
#[cfg(unix)]
fn placeholders(tree: &Path, allowed: Option<&str>) -> (i32, String) {
    let mut script = Command::new(tree.join("release/placeholders.sh"));
    script.env_remove("ALLOW_PLACEHOLDERS").envs(allowed.map(|value| ("ALLOW_PLACEHOLDERS", value)));
    let output = script.output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Files of the repository that a release contains or refers to, and that have addresses of the project.
#[cfg(unix)]
const ADDRESSED: [&str; 7] = [
    ".github/ISSUE_TEMPLATE/config.yml",
    "Cargo.toml",
    "README.md",
    "charts/mullion/Chart.yaml",
    "docs/how-to/command-line.md",
    "packaging/krew/mullion.yaml",
    "packaging/schemastore/catalog.json",
];

#[cfg(unix)]
#[test]
fn a_release_of_this_tree_is_refused_with_each_placeholder() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (code, messages) = placeholders(root, None);
    assert_eq!(code, 1, "{messages}");
    let mut expected = vec!["Cargo.toml: repository is missing".to_owned()];
    for name in ADDRESSED {
        let text = repository(name);
        let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim_start().starts_with('#'));
        let lines = lines.filter(|(line, _)| line.contains("example.invalid"));
        expected.extend(lines.map(|(line, number)| format!("{name}:{number}:{line}: replace the placeholder")));
    }
    for place in &expected {
        assert!(messages.contains(&format!("release: {place}")), "{place}: {messages}");
    }
    assert_eq!(messages.lines().count(), expected.len() + 1, "{messages}");
    assert!(messages.ends_with("or set ALLOW_PLACEHOLDERS=1 to try a release.\n"), "{messages}");

    let (code, messages) = placeholders(root, Some("1"));
    assert_eq!(code, 0, "{messages}");
    assert!(expected.iter().all(|place| messages.contains(place)), "{messages}");
    assert!(messages.ends_with("Do not publish it.\n"), "{messages}");
}

#[cfg(unix)]
#[test]
fn a_release_with_addresses_is_not_refused() {
    let dir = dir();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let fill = |name: &str| {
        let text = repository(name).replace("example.invalid", "git.example.com");
        let to = dir.path().join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(
            &to,
            text.replace("\n[package]\n", "\n[package]\nrepository = \"https://git.example.com/mullion\"\n"),
        )
        .unwrap();
    };
    ADDRESSED.into_iter().for_each(fill);
    let script = "release/placeholders.sh";
    fs::create_dir(dir.path().join("release")).unwrap();
    fs::copy(root.join(script), dir.path().join(script)).unwrap();
    assert_eq!(placeholders(dir.path(), None), (0, String::new()));
    // A key that is missing is as wrong as a placeholder.
    let chart = dir.path().join("charts/mullion/Chart.yaml");
    let text = fs::read_to_string(&chart).unwrap();
    fs::write(&chart, text.replace("\nhome: ", "\n# home: ")).unwrap();
    let (code, messages) = placeholders(dir.path(), None);
    assert_eq!(code, 1);
    assert!(messages.starts_with("release: charts/mullion/Chart.yaml: home is missing: add it\n"), "{messages}");
}
