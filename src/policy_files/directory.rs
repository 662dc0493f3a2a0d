//! Policy files from directories, or passed one by one. All I/O of this folder is here.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use mullion_manifest::Problem;
use mullion_policy::load::MAX_POLICIES;
use mullion_policy::{MAX_FILE, PolicyFile, PolicyFiles, is_policy_file};

use crate::directory_walk::{WalkProblem, real_path_within};

/// The maximum number of policy files of one directory: a set has at most [as many
/// policies](mullion_policy::load::MAX_POLICIES).
const MAX_FILES: usize = MAX_POLICIES;
/// The size limit of all policy files of one directory, in bytes. A ConfigMap has at most 1 MiB.
const MAX_ALL: usize = 32 << 20;
/// How often files that change while they are read are read again.
const ATTEMPTS: u32 = 5;

/// Does the same as [`read_policy_files`], but without half-written files: unless the content is `known` already (by
/// `PolicyFiles::hash`), it is read again after `pause`, until two readings are equal. Files that keep changing are
/// problems.
///
/// A reader cannot detect whether a file is complete, because half of one may be a valid policy. A kubelet changes the
/// files of a ConfigMap all at once, so they are not read twice. Other writers must rename a complete file into place,
/// or finish within `pause`.
pub fn read_still(directories: &[PathBuf], known: Option<&str>, pause: Duration) -> PolicyFiles {
    still(directories, known, || std::thread::sleep(pause))
}

fn still(directories: &[PathBuf], known: Option<&str>, mut wait: impl FnMut()) -> PolicyFiles {
    let mut files = read_policy_files(directories);
    let mut unsteady = "policies".to_owned();
    for _ in 0..ATTEMPTS {
        if known == Some(&files.hash()) || directories.iter().all(|directory| swapped(directory).is_some()) {
            return files;
        }
        wait();
        let again = read_policy_files(directories);
        if again.hash() == files.hash() {
            return again;
        }
        let moved = again.texts.iter().find(|file| !files.texts.contains(file));
        let moved = moved.or_else(|| files.texts.iter().find(|file| !again.texts.contains(file)));
        if let Some(moved) = moved {
            unsteady.clone_from(&moved.name);
        }
        files = again;
    }
    files.problems.push(unstable(Path::new(&unsteady)));
    files
}

fn unstable(path: &Path) -> Problem {
    Problem::of_file(
        path.to_string_lossy(),
        "it changes again and again while it is read, so it is not loaded",
        "write the whole file under another name, then rename it",
    )
}

/// Reads `*.yaml`, `*.yml` and `*.json` of every directory, without subdirectories, names that start with `.` and test
/// files; and files that are passed one by one, whatever their names are. A file that cannot be read is a problem, and
/// so is a link that leaves its directory: without the policy behind it, the set would be another one.
pub fn read_policy_files(paths: &[PathBuf]) -> PolicyFiles {
    let mut files = PolicyFiles::default();
    let mut seen = BTreeSet::new();
    for path in paths {
        let mut found = match fs::metadata(path) {
            Ok(about) if about.is_dir() => read_directory(path),
            _ => read_named(path),
        };
        // A file that an earlier path contains, under any name, is read once.
        if paths.len() > 1 {
            let real = |file: &PolicyFile| fs::canonicalize(&file.name).unwrap_or_else(|_| PathBuf::from(&file.name));
            let new: Vec<PathBuf> = found.texts.iter().map(real).collect();
            let mut known = new.iter().map(|path| seen.contains(path));
            found.texts.retain(|_| !known.next().unwrap_or_default());
            seen.extend(new);
        }
        files.texts.append(&mut found.texts);
        files.problems.append(&mut found.problems);
    }
    files.texts.sort_unstable();
    files
}

/// A file that is passed by its path.
fn read_named(path: &Path) -> PolicyFiles {
    let mut files = PolicyFiles::default();
    match read_file(path, None) {
        Ok(Some(bytes)) => files.texts.push(PolicyFile { name: path.to_string_lossy().into_owned(), bytes }),
        // A directory that was created in the meantime.
        Ok(None) => return read_directory(path),
        Err(error) => files.problems.push(unreadable("it", path, &error)),
    }
    files
}

/// A mounted ConfigMap is a directory of links into `..data`, which is itself a link that the kubelet swaps; other
/// tools swap a link to the directory itself. Files are read from the target at the start, and again if it was swapped
/// in the meantime, so that old and new files are never mixed.
fn read_directory(directory: &Path) -> PolicyFiles {
    let target = || swapped(directory).or_else(|| fs::canonicalize(directory).ok());
    for _ in 0..10 {
        let before = target();
        let real = before.as_deref().unwrap_or(directory);
        let mounted = swapped(directory).and_then(|_| fs::canonicalize(directory).ok());
        let files = read_listing(directory, real, mounted.as_deref().unwrap_or(real));
        if target() == before {
            return files;
        }
    }
    PolicyFiles { texts: Vec::new(), problems: vec![unstable(directory)] }
}

/// The current directory of the files of a mounted ConfigMap; `None` for any other directory.
fn swapped(directory: &Path) -> Option<PathBuf> {
    fs::canonicalize(directory.join("..data")).ok()
}

/// Reads the files of `real`, which messages show as `shown`. Links must not leave `root`.
fn read_listing(shown: &Path, real: &Path, root: &Path) -> PolicyFiles {
    let mut files = PolicyFiles::default();
    let fail = |error: io::Error| unreadable("the directory", shown, &error);
    let entries = match real_path_within(root, real).map_err(io::Error::other).and_then(|_| fs::read_dir(real)) {
        Ok(entries) => entries,
        Err(error) => {
            files.problems.push(fail(error));
            return files;
        }
    };
    let mut names = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) if is_policy_file(&entry.file_name()) => names.push(entry.file_name()),
            Ok(_) => {}
            Err(error) => files.problems.push(fail(error)),
        }
    }
    if names.len() > MAX_FILES {
        let message = format!("the directory contains {} policy files, and at most {MAX_FILES} are read", names.len());
        files.problems.push(Problem::of_file(
            shown.to_string_lossy(),
            message,
            "put several policies into one file, with `---` between them",
        ));
        return files;
    }
    // In a fixed order, so that the same files are read each time if all together are too large.
    names.sort_unstable();
    let mut left = MAX_ALL;
    for name in names {
        let shown_file = shown.join(&name);
        match read_file(&real.join(&name), Some(root)) {
            Ok(Some(bytes)) => {
                let Some(rest) = left.checked_sub(bytes.len()) else {
                    let message = format!(
                        "the policy files of the directory have more than {} MiB together: none from {} on are read",
                        MAX_ALL >> 20,
                        name.to_string_lossy()
                    );
                    files.problems.push(Problem::of_file(
                        shown.to_string_lossy(),
                        message,
                        "remove files that are not policies",
                    ));
                    return files;
                };
                left = rest;
                files.texts.push(PolicyFile { name: shown_file.to_string_lossy().into_owned(), bytes });
            }
            // A container runtime creates a directory if the file of a mount does not exist.
            Ok(None) => files.problems.push(Problem::of_file(
                shown_file.to_string_lossy(),
                "this is a directory with the name of a policy file",
                "replace it by the file, or rename the directory",
            )),
            Err(error) => files.problems.push(unreadable("the file", &shown_file, &error)),
        }
    }
    if files.texts.is_empty() && files.problems.is_empty() {
        files.problems.push(Problem::of_file(
            shown.to_string_lossy(),
            "the directory contains no policy file",
            "policy files end in .yaml, .yml or .json and do not start with a dot; subdirectories are not read",
        ));
    }
    files
}

/// `None` for a directory. Links must not leave `root`, if there is one. Of a file that is too large, one byte more than the limit is read, so that the loader
/// reports it.
fn read_file(path: &Path, root: Option<&Path>) -> io::Result<Option<Vec<u8>>> {
    // Checked before opening, because opening a pipe would wait for a writer.
    let about = fs::metadata(path)?;
    if about.is_dir() {
        return Ok(None);
    }
    if !about.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let path = match root {
        Some(root) => real_path_within(root, path).map_err(io::Error::other)?,
        None => path.to_owned(),
    };
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Why `path` cannot be read, and what to do.
fn unreadable(what: &str, path: &Path, error: &io::Error) -> Problem {
    let link = fs::read_link(path).ok();
    let (why, hint) = match (error.kind(), &link) {
        (io::ErrorKind::NotFound, Some(target)) => {
            (format!("it is a link to {}, which does not exist", target.display()), "correct the link, or remove it")
        }
        (io::ErrorKind::NotFound, None) => {
            ("it does not exist".to_owned(), "pass a policy file, or a directory that contains some")
        }
        (io::ErrorKind::PermissionDenied, _) => {
            (error.to_string(), "let the user that Mullion runs as read it: `chmod a+r`, and `a+x` for its directories")
        }
        (_, Some(target)) if error.to_string().contains("symbolic links") => (
            format!("it is a link to {}, and the links form a circle", target.display()),
            "correct the link, or remove it",
        ),
        (_, _) if matches!(error.get_ref().and_then(|problem| problem.downcast_ref()), Some(WalkProblem::Leaves)) => {
            (error.to_string(), "pass the file or the directory that it leads to, or put a copy there")
        }
        (_, _) => (error.to_string(), "put a regular file there, or remove it"),
    };
    Problem::of_file(path.to_string_lossy(), format!("{what} cannot be read: {why}"), hint)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use mullion_policy::is_test_file;

    use super::*;

    fn names_below(files: &PolicyFiles, below: &Path) -> Vec<String> {
        let short = |name: &str| name.strip_prefix(below.to_str().unwrap()).unwrap_or(name).to_owned();
        files.texts.iter().map(|file| short(&file.name)).collect()
    }

    fn problem_texts(files: &PolicyFiles, below: &Path) -> Vec<String> {
        files.problems.iter().map(|problem| problem.to_string().replace(below.to_str().unwrap(), "")).collect()
    }

    #[test]
    fn policy_files_of_all_directories_are_read_in_order() {
        let root = tempfile::tempdir().unwrap();
        let (one, two) = (root.path().join("one"), root.path().join("two"));
        fs::create_dir_all(one.join("below")).unwrap();
        fs::create_dir(&two).unwrap();
        for name in ["b.yaml", "a.yml", "c.JSON", ".hidden.yaml", "README.md", "yaml", "below/x.yaml"] {
            fs::write(one.join(name), name).unwrap();
        }
        fs::write(two.join("a.yaml"), "two").unwrap();
        let files = read_policy_files(&[two.clone(), one.clone(), two]);
        assert_eq!(names_below(&files, root.path()), ["/one/a.yml", "/one/b.yaml", "/one/c.JSON", "/two/a.yaml"]);
        assert_eq!(files.texts[1].bytes, b"b.yaml");
        assert!(files.problems.is_empty());
    }

    #[test]
    fn a_named_file_is_read_once_and_by_any_name() {
        let root = tempfile::tempdir().unwrap();
        let (file, other) = (root.path().join("a.yaml"), root.path().join("policy"));
        fs::write(&file, "x").unwrap();
        fs::write(&other, "y").unwrap();
        let odd = root.path().join(".").join("..").join(root.path().file_name().unwrap());
        for paths in
            [vec![root.path().to_owned(), file.clone(), odd.clone()], vec![odd.join("a.yaml"), root.path().to_owned()]]
        {
            let files = read_policy_files(&paths);
            assert_eq!((files.texts.len(), files.problems.len()), (1, 0), "{paths:?}: {files:?}");
        }
        let files = read_policy_files(&[other, file]);
        assert_eq!(names_below(&files, root.path()), ["/a.yaml", "/policy"]);
        // The reader does not wait for a pipe or a device.
        let problems = read_policy_files(&[PathBuf::from("/dev/null")]).problems;
        assert!(cfg!(not(unix)) || problems[0].message.contains("it is not a regular file"), "{problems:?}");
    }

    #[test]
    fn unreadable_files_are_reported() {
        let root = tempfile::tempdir().unwrap();
        let (empty, full) = (root.path().join("empty"), root.path().join("full"));
        fs::create_dir(&empty).unwrap();
        fs::create_dir(&full).unwrap();
        fs::write(full.join("good.yaml"), "x").unwrap();
        File::create(full.join("huge.yaml")).unwrap().set_len(50 << 20).unwrap();
        fs::create_dir(full.join("team.yaml")).unwrap();
        let files = read_policy_files(&[empty, root.path().join("gone"), full]);
        assert_eq!(names_below(&files, root.path()), ["/full/good.yaml", "/full/huge.yaml"]);
        assert_eq!(files.texts[1].bytes.len(), MAX_FILE + 1);
        let problems = problem_texts(&files, root.path());
        assert_eq!(
            problems[0],
            "/empty: the directory contains no policy file (policy files end in .yaml, .yml or .json and do not start with a dot; subdirectories are not read)"
        );
        assert_eq!(
            problems[1],
            "/gone: it cannot be read: it does not exist (pass a policy file, or a directory that contains some)"
        );
        assert_eq!(
            problems[2],
            "/full/team.yaml: this is a directory with the name of a policy file (replace it by the file, or rename the directory)"
        );
        assert_eq!(problems.len(), 3);
    }

    /// Opening a pipe waits for a writer that may never exist; reading a device may never end.
    #[cfg(unix)]
    #[test]
    fn pipes_and_devices_do_not_block() {
        let root = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("mkfifo").arg(root.path().join("pipe.yaml")).status().unwrap();
        assert!(made.success());
        std::os::unix::fs::symlink("/dev/zero", root.path().join("zeros.yaml")).unwrap();
        let listening = std::os::unix::net::UnixListener::bind(root.path().join("socket.yaml")).unwrap();
        fs::write(root.path().join("good.yaml"), "x").unwrap();
        let files = read_still(&[root.path().to_owned()], None, Duration::ZERO);
        assert_eq!(names_below(&files, root.path()), ["/good.yaml"]);
        let problems = problem_texts(&files, root.path());
        for (problems, name) in problems.iter().zip(["pipe", "socket", "zeros"]) {
            let expected = "the file cannot be read: it is not a regular file (put a regular file there, or remove it)";
            assert_eq!(*problems, format!("/{name}.yaml: {expected}"));
        }
        assert_eq!(problems.len(), 3);
        drop(listening);
    }

    #[test]
    fn test_files_are_not_policy_files() {
        let root = tempfile::tempdir().unwrap();
        let names = ["default.yaml", "default.test.yaml", "a.b.test.yml", "A.TEST.YAML", "test.yaml", "x.tests.yaml"];
        for name in names {
            fs::write(root.path().join(name), name).unwrap();
        }
        let files = read_policy_files(&[root.path().to_owned()]);
        assert_eq!(names_below(&files, root.path()), ["/default.yaml", "/test.yaml", "/x.tests.yaml"]);
        assert!(files.problems.is_empty());
        let tests: Vec<_> = names.into_iter().filter(|name| is_test_file(Path::new(name))).collect();
        assert_eq!(tests, ["default.test.yaml", "a.b.test.yml", "A.TEST.YAML"]);
        for other in [".test", "test", "a.test", "a.test.json", ".test.yaml", "a.test.yaml.bak"] {
            assert!(!is_test_file(Path::new(other)), "{other}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_loops_are_not() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        symlink("loop.yaml", root.path().join("loop.yaml")).unwrap();
        symlink("gone", root.path().join("broken.yaml")).unwrap();
        fs::write(root.path().join("target"), "x").unwrap();
        symlink("target", root.path().join("good.yaml")).unwrap();
        symlink(".", root.path().join("directory.yaml")).unwrap();
        let files = read_policy_files(&[root.path().to_owned()]);
        assert_eq!(names_below(&files, root.path()), ["/good.yaml"]);
        let mut problems = problem_texts(&files, root.path());
        problems.sort();
        assert_eq!(
            problems,
            [
                "/broken.yaml: the file cannot be read: it is a link to gone, which does not exist (correct the link, or remove it)",
                "/directory.yaml: this is a directory with the name of a policy file (replace it by the file, or rename the directory)",
                "/loop.yaml: the file cannot be read: it is a link to loop.yaml, and the links form a circle (correct the link, or remove it)",
            ]
        );
    }

    #[cfg(unix)]
    #[test]
    fn links_that_leave_the_directory_are_problems() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let (policies, outside) = (root.path().join("policies"), root.path().join("outside"));
        fs::create_dir(&policies).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("config.json"), "secret").unwrap();
        fs::write(policies.join("a.yaml"), "x").unwrap();
        symlink("../outside/config.json", policies.join("b.yaml")).unwrap();
        let files = read_policy_files(std::slice::from_ref(&policies));
        assert_eq!(names_below(&files, &policies), ["/a.yaml"]);
        assert_eq!(
            problem_texts(&files, &policies),
            [
                "/b.yaml: the file cannot be read: it is a link that leaves the directory (pass the file or the directory that it leads to, or put a copy there)"
            ]
        );
        // The whole content of a mount, and a link that the user passes.
        symlink("../outside", policies.join("..data")).unwrap();
        let files = read_policy_files(std::slice::from_ref(&policies));
        assert!(
            files.texts.is_empty() && problem_texts(&files, &policies)[0].contains("leaves the directory"),
            "{files:?}"
        );
        let files = read_policy_files(&[policies.join("b.yaml"), policies.join("..data")]);
        assert_eq!((files.texts.len(), files.problems.len()), (1, 0), "{files:?}");
    }

    #[cfg(unix)]
    #[test]
    fn a_mounted_config_map_is_read_from_one_version() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let publish = |version: &str| {
            let data = root.path().join(version);
            fs::create_dir(&data).unwrap();
            fs::write(data.join("a.yaml"), version).unwrap();
            symlink(version, root.path().join("..tmp")).unwrap();
            fs::rename(root.path().join("..tmp"), root.path().join("..data")).unwrap();
        };
        publish("..2026_11_21_1");
        symlink("..data/a.yaml", root.path().join("a.yaml")).unwrap();
        for version in ["..2026_11_21_1", "..2026_11_21_2"] {
            if version.ends_with('2') {
                publish(version);
            }
            let files = read_policy_files(&[root.path().to_owned()]);
            assert_eq!(names_below(&files, root.path()), ["/a.yaml"]);
            assert_eq!(files.texts[0].bytes, version.as_bytes());
            assert!(files.problems.is_empty());
        }
    }

    #[test]
    fn half_written_files_are_not_loaded() {
        let root = tempfile::tempdir().unwrap();
        let (paths, path) = ([root.path().to_owned()], root.path().join("a.yaml"));
        fs::write(root.path().join("b.yaml"), "stands").unwrap();
        // It changes with each reading.
        let mut turn = 0;
        let files = still(&paths, None, || {
            turn += 1;
            fs::write(&path, turn.to_string()).unwrap();
        });
        let problems = problem_texts(&files, root.path());
        assert_eq!((problems.len(), turn), (1, ATTEMPTS));
        assert!(problems[0].starts_with("/a.yaml: it changes again and again while it is read"), "{problems:?}");

        // An editor writes in two parts, and at the first reading the file contained the first part.
        fs::write(&path, "half").unwrap();
        let known = read_policy_files(&paths).hash();
        let mut parts = ["half of it", "half of it, and the other"].into_iter();
        let files = still(&paths, None, || {
            if let Some(part) = parts.next() {
                fs::write(&path, part).unwrap();
            }
        });
        assert_eq!(files.texts[0].bytes, b"half of it, and the other");
        assert!(files.problems.is_empty());
        // A file that is missing for a moment, between two names.
        fs::remove_file(&path).unwrap();
        let files = still(&paths, None, || fs::write(&path, "half").unwrap());
        assert_eq!(files.texts.len(), 2);
        // The reader does not wait if the content is known.
        still(&paths, Some(&known), || panic!("nothing has changed"));
    }

    #[test]
    fn huge_directories_are_not_read() {
        let root = tempfile::tempdir().unwrap();
        for n in 0..=MAX_FILES {
            fs::write(root.path().join(format!("{n}.yaml")), "x").unwrap();
        }
        let files = read_policy_files(&[root.path().to_owned()]);
        assert!(files.texts.is_empty());
        assert_eq!(
            problem_texts(&files, root.path()),
            [": the directory contains 1001 policy files, and at most 1000 are read (put several policies into one \
             file, with `---` between them)"]
        );
        let root = tempfile::tempdir().unwrap();
        for n in 0..10 {
            File::create(root.path().join(format!("{n}.yaml"))).unwrap().set_len(4 << 20).unwrap();
        }
        let files = read_policy_files(&[root.path().to_owned()]);
        assert!(
            problem_texts(&files, root.path())[0].contains("more than 32 MiB together: none from 8.yaml on are read")
        );
    }

    /// As many swaps as occur between two files of one reading: with a hundred files there are some.
    #[cfg(unix)]
    #[test]
    fn swapped_files_are_of_one_version() {
        use std::os::unix::fs::symlink;
        use std::sync::atomic::{AtomicUsize, Ordering};
        const FILES: usize = 100;
        // A directory that is itself a link, and one in the form in which a kubelet mounts it.
        for link in ["current", "mount/..data"] {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir(root.path().join("mount")).unwrap();
            let link = root.path().join(link);
            // The versions are in the mount, as a kubelet creates them.
            let versions = if link.ends_with("..data") { root.path().join("mount") } else { root.path().to_owned() };
            let target = |version: &str| versions.join(version);
            for version in ["1", "2"] {
                fs::create_dir(target(version)).unwrap();
                for file in 0..FILES {
                    fs::write(target(version).join(format!("{file}.yaml")), version).unwrap();
                }
            }
            for file in 0..FILES {
                let name = format!("{file}.yaml");
                symlink(Path::new("..data").join(&name), root.path().join("mount").join(&name)).unwrap();
            }
            symlink(target("1"), &link).unwrap();
            let directory = if link.ends_with("..data") { root.path().join("mount") } else { link.clone() };
            let (readings, done) = (AtomicUsize::new(0), std::sync::atomic::AtomicBool::new(false));
            let swap = |version: &str| {
                symlink(target(version), root.path().join("new")).unwrap();
                fs::rename(root.path().join("new"), &link).unwrap();
                std::thread::sleep(Duration::from_micros(300));
            };
            let mut found = Vec::new();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..20 {
                        ["2", "1", "2", "1", "2", "1", "2", "1", "2"].into_iter().for_each(swap);
                        // Two more readings, of which the second is not disturbed.
                        let until = readings.load(Ordering::Acquire) + 2;
                        while readings.load(Ordering::Acquire) < until {
                            std::thread::yield_now();
                        }
                    }
                    done.store(true, Ordering::Release);
                });
                while !done.load(Ordering::Acquire) {
                    found.push(read_policy_files(std::slice::from_ref(&directory)));
                    readings.fetch_add(1, Ordering::AcqRel);
                }
            });
            let mixed = |files: &&PolicyFiles| files.texts.windows(2).any(|pair| pair[0].bytes != pair[1].bytes);
            let cut = |files: &&PolicyFiles| files.texts.len() != FILES && files.problems.is_empty();
            let (mixed, cut) = (found.iter().filter(mixed).count(), found.iter().filter(cut).count());
            assert_eq!((mixed, cut), (0, 0), "of {} readings of {}", found.len(), directory.display());
            assert!(found.iter().filter(|files| files.texts.len() == FILES).count() >= 20);
        }
    }
}
