//! Malformed files, and the output of `mullion policy check` about them: every folder of `tests/policies/bad`, and
//! files that no repository can contain, with an expected text that a person has reviewed. `UPDATE_DOCS=1` writes the
//! texts again.

use std::fs;
use std::path::{Path, PathBuf};

use mullion::cli::policy::{FailOnProblem, PolicyCheckArgs, ProblemsFormat, run};
use mullion::cli::{Io, Outcome};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/policies/bad");

/// The output about `path`, which it calls `bad`, and the exit code.
fn printed(path: &Path) -> (String, Outcome) {
    let args = PolicyCheckArgs {
        output_file: mullion::cli::OutputFileArgs::default(),
        paths: vec![path.to_owned()],
        filenames: Vec::new(),
        output: ProblemsFormat::Text,
        fail_on: FailOnProblem::Problem,
    };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut io = Io {
        stdin: &mut std::io::empty(),
        stdout: &mut stdout,
        stderr: &mut stderr,
        colour_stdout: false,
        width: None,
    };
    let outcome = run(&args, &mut io).unwrap();
    stdout.append(&mut stderr);
    let text = String::from_utf8(stdout).unwrap();
    (text.replace(path.to_str().unwrap(), "bad"), outcome)
}

/// The difference between the text beside `name` and the output about `path`.
fn complaint(name: &str, path: &Path) -> Option<String> {
    let (text, outcome) = printed(path);
    if outcome != Outcome::Unreadable {
        return Some(format!("{name} is good:\n{text}"));
    }
    let beside = Path::new(FOLDER).join(format!("{name}.txt"));
    let expected = fs::read_to_string(&beside).unwrap_or_default();
    if text == expected {
        return None;
    }
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        fs::write(beside, text).unwrap();
        return None;
    }
    let diff = similar::TextDiff::from_lines(&expected, &text);
    Some(format!("{name}:\n{}", diff.unified_diff().context_radius(2)))
}

fn assert_printed(cases: impl IntoIterator<Item = (String, PathBuf)>) {
    let complaints: Vec<_> = cases.into_iter().filter_map(|(name, path)| complaint(&name, &path)).collect();
    assert!(complaints.is_empty(), "UPDATE_DOCS=1 writes the texts again:\n{}", complaints.join("\n"));
}

#[test]
fn files_that_people_write() {
    let folders = fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut folders: Vec<_> = folders.collect();
    folders.sort();
    assert!(folders.len() >= 18, "{folders:?}");
    // Each file alone is also invalid, except those that are invalid only together.
    for folder in &folders {
        let together = ["equal-priority", "one-file-twice", "only-one"].iter().any(|name| folder.ends_with(name));
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let good: Vec<_> = files.filter(|file| printed(file).1 != Outcome::Unreadable).collect();
        assert!(together || good.is_empty(), "{good:?}");
    }
    assert_printed(folders.into_iter().map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path)));
}

/// A policy whose `spec` is written from line 5 on.
fn policy(name: &str, spec: &str) -> String {
    format!("apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {{name: {name}}}\nspec:\n{spec}")
}

fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(bytes).collect()
}

#[test]
fn files_that_no_repository_can_contain() {
    let bad = policy("a", "  mode: Audit\n  mod: Enforce\n");
    let many = |count: usize| -> String {
        (0..count).map(|at| policy(&format!("p{at}"), &format!("  priority: {at}\n"))).collect::<Vec<_>>().join("---\n")
    };
    let keys = (0..120).map(|at| format!("  key{at}: 1\n")).collect::<Vec<_>>().concat();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("crlf", bad.replace('\n', "\r\n").into()),
        ("cr-alone", bad.replace('\n', "\r").into()),
        ("byte-order-mark", format!("\u{feff}{bad}").into()),
        ("utf-16-little-endian", utf16(&bad, u16::to_le_bytes)),
        ("utf-16-big-endian", utf16(&bad, u16::to_be_bytes)),
        ("utf-16-without-mark", bad.encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("latin-1", [b"# f\xfcr alle\n", bad.as_bytes()].concat()),
        ("binary", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0>\0".to_vec()),
        ("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\x03K\xad".to_vec()),
        ("deep-nesting", policy("a", &format!("  match: {}\n", "[".repeat(100_000))).into()),
        ("deep-maps", policy("a", &format!("  match: {}{}\n", "{a: ".repeat(150), "}".repeat(150))).into()),
        ("too-many-policies", many(1001).into()),
        ("hundred-and-twenty-problems", policy("a", &keys).into()),
        ("one-long-line", format!("{{\"apiVersion\": \"mullion.dev/v1alpha1\", \"kind\": \"PodPolicy\", \"metadata\": {{\"name\": \"a\"}}, \"spec\": {{\"match\": {{\"namespaces\": {{\"include\": [{}]}}}}, \"mod\": 1}}}}", vec!["\"shop\""; 200].join(", ")).into()),
    ];
    let root = tempfile::tempdir().unwrap();
    let file = |(name, bytes): (&str, Vec<u8>)| {
        let folder = root.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a.yaml"), bytes).unwrap();
        (name.to_owned(), folder)
    };
    assert_printed(cases.into_iter().map(file).collect::<Vec<_>>());
}

#[test]
fn paths_that_are_not_regular_files() {
    let root = tempfile::tempdir().unwrap();
    let folder = |name: &str| {
        let folder = root.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("good.yaml"), policy("good", "  mode: Audit\n")).unwrap();
        (name.to_owned(), folder)
    };
    let huge = folder("fifty-megabytes");
    fs::File::create(huge.1.join("dump.yaml")).unwrap().set_len(50 << 20).unwrap();
    let nothing = folder("no-policy-file");
    fs::rename(nothing.1.join("good.yaml"), nothing.1.join("good.yaml.disabled")).unwrap();
    fs::create_dir(nothing.1.join("below")).unwrap();
    fs::write(nothing.1.join("below/a.yaml"), "x").unwrap();
    let mut cases = vec![huge, nothing, ("no-such-directory".to_owned(), root.path().join("gone"))];
    #[cfg(unix)]
    {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let links = folder("links");
        symlink("../elsewhere/team.yaml", links.1.join("dangling.yaml")).unwrap();
        symlink("one.yaml", links.1.join("other.yaml")).unwrap();
        symlink("other.yaml", links.1.join("one.yaml")).unwrap();
        let pipe = folder("pipe");
        let made = std::process::Command::new("mkfifo").arg(pipe.1.join("pipe.yaml")).status().unwrap();
        assert!(made.success());
        cases.extend([links, pipe]);
        let circle = root.path().join("circle");
        symlink("circle", &circle).unwrap();
        cases.push(("link-to-itself".to_owned(), circle));
        let unreadable = folder("unreadable");
        let secret = unreadable.1.join("secret.yaml");
        fs::write(&secret, policy("secret", "  mode: Audit\n")).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
        // root can read it.
        if fs::read(&secret).is_err() {
            cases.push(unreadable);
        }
    }
    assert_printed(cases);
}
