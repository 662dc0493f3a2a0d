//! Input that cannot be read: one line for each failure, exit code 2, and no partial output.

use std::io;

use super::*;

/// The messages of `check` and `mutate` about the input, one line each, without `mullion: ` and the last line.
fn failures(paths: &[&str], input: &[u8]) -> Vec<String> {
    let mut messages = ["check", "mutate"].map(|command| {
        let ran = finish(spawn(&[&[command], paths].concat(), &[]), input);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{command} {paths:?}: {}", ran.err);
        let mut lines: Vec<String> =
            ran.err.lines().map(|line| line.strip_prefix("mullion: ").expect("a message").to_owned()).collect();
        let last = lines.pop().expect("a message");
        let expected =
            if command == "check" { "0 workloads, 0 findings, " } else { "nothing was changed or printed; " };
        assert!(last.starts_with(expected), "{command} {paths:?}: {last}");
        lines
    });
    let mutate = std::mem::take(&mut messages[1]);
    assert_eq!(messages[0], mutate, "both commands have the same messages");
    mutate
}

fn failure(paths: &[&str], input: &[u8]) -> String {
    let mut messages = failures(paths, input);
    assert_eq!(messages.len(), 1, "{messages:?}");
    messages.remove(0)
}

#[test]
fn every_malformed_document_is_one_line_with_place_and_remedy() {
    let deep = "[".repeat(5000);
    let deep_block = (0..3000).map(|depth| " ".repeat(depth)).collect::<Vec<String>>().join("a:\n");
    let deep_json = format!("{{\"a\": {}{}}}", "[".repeat(5000), "]".repeat(5000));
    // Nine to the tenth values from a few hundred bytes.
    let bomb: String = (1..11).fold("a0: &a0 [x]\n".to_owned(), |bomb, n| {
        let nine = vec![format!("*a{}", n - 1); 9].join(", ");
        format!("{bomb}a{n}: &a{n} [{nine}]\n")
    });
    let table: &[(&[u8], &str, &str)] = &[
        (b"apiVersion: v1\nkind: Pod\nkind: Job\n", "<stdin>:3:1: the key `kind` occurs twice", "remove one"),
        (b"{\"kind\": \"Pod\",\n \"kind\": \"Job\"}", "<stdin>:2:2: the key `kind` occurs twice", "remove one"),
        (b"a:\n\tb: 1\n", "<stdin>:2:1: ", "use spaces"),
        (b"a:\n  b:\n  \t- c\n", "<stdin>:3:3: ", "use spaces"),
        (b"a: \"b\nc: d\n", "<stdin>:2:1: ", "a quote is opened and never closed"),
        (b"a: 'b", "<stdin>:1:", "a quote is opened and never closed"),
        (b"{\"a\": \"b", "<stdin>:1:7: ", "a quote is opened and never closed"),
        (b"a: [", "<stdin>:1:4: ", "a bracket is opened and never closed"),
        (b"{\"a\": 1", "<stdin>:1:1: ", "a bracket is opened and never closed"),
        (b"a: {b: 1\nc: d\n", "<stdin>:2:2: ", "look at the brackets"),
        (b"a: \"C:\\windows\"\n", "<stdin>:1:4: ", "use single quotes"),
        (b"a: b: c\n", "<stdin>:1:5: ", "quote text that contains `: `"),
        (b"a: {{ .Values.b }}\n", "<stdin>:1:5: ", "render it first"),
        (b"a: *b\n", "<stdin>:1:4: ", "write `&b` before it"),
        (b"a: &a [*a]\n", "<stdin>:1:8: ", "write the value out"),
        (bomb.as_bytes(), "<stdin>:6:", "write fewer aliases of aliases"),
        (deep.as_bytes(), "<stdin>:1:201: ", "an indentation that never ends"),
        (deep_block.as_bytes(), "<stdin>:201:201: ", "an indentation that never ends"),
        (deep_json.as_bytes(), "<stdin>:1:206: ", "an indentation that never ends"),
        (b"a: b\nc: \xe4\n", "<stdin>:2:4: not UTF-8", "save the file as UTF-8"),
        (b"\xff\xfea\0:\0 ", "<stdin>:1:3: not UTF-16LE", "write it again, as UTF-8"),
        (b"\xfe\xff\0a\0:\0\n\xdc\0", "<stdin>:2:1: not UTF-16BE", "half of a character"),
        (b"\xff\xfea\0\0\0", "<stdin>:1:2: not UTF-16LE: this is a zero", "write it again, as UTF-8"),
        (b"\xff\xfe\0\0a\0\0\0", "<stdin>:1:1: this is a binary file", "saved as UTF-8"),
        (b"a\0:\0 \0b\0", "<stdin>:1:2: this is a binary file", "saved as UTF-8"),
        (b"\x1f\x8b\x08\0\0", "<stdin>:1:2: not UTF-8", "unpack it"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "<stdin>:1:8: this is a binary file", "name YAML or JSON manifests"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "<stdin>:1:1: this is a binary file", "name YAML or JSON manifests"),
        (b"a: b\nc: \0\n", "<stdin>:2:4: this is a binary file", "name YAML or JSON manifests"),
    ];
    for (input, start, remedy) in table {
        let message = failure(&["-"], input);
        assert!(message.starts_with(start), "{start}: {message}");
        assert!(message.contains(remedy) && message.len() < 300, "{remedy}: {message}");
    }
}

#[test]
fn a_document_with_too_many_values_is_not_read() {
    // Eight megabytes, which as parsed values would take hundreds.
    let many = format!("{{\"a\": [{}1]}}", "1,".repeat(4_000_000));
    let ran = mullion(&["mutate", "-"], &many);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    let message =
        "mullion: <stdin>:1:8000004: the document contains more than 4000000 values; split it into smaller documents\n";
    assert!(ran.err.starts_with(message), "{}", ran.err);
}

#[test]
fn of_many_broken_documents_the_first_are_named() {
    let messages = failures(&["-"], "---\na: [\n".repeat(1000).as_bytes());
    assert_eq!(messages.len(), 21);
    assert!(messages[19].starts_with("<stdin>:40:4: "), "{}", messages[19]);
    assert_eq!(messages[20], "<stdin>: 980 more broken documents; correct the first ones and try again");
    let ran = mullion(&["check", "-o", "json", "-"], &"---\na: [\n".repeat(1000));
    assert_eq!(records(&ran)[0]["brokenDocuments"], 1000, "all are counted");
}

#[test]
fn files_over_the_limit_are_not_read() {
    let dir = dir();
    let large = write(&dir, "large.yaml", "a: b\n");
    fs::File::options().append(true).open(&large).unwrap().set_len(100 << 20).unwrap();
    let expected = "it has more than 50 MiB, the most that is read; split it into smaller files";
    assert_eq!(failure(&[&large], b""), format!("{large}: {expected}"));
    let ran = mullion(&["check", "--snapshot", &large, "denied.yaml"], "");
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert_eq!(ran.err, format!("mullion: {large}: the cluster snapshot file cannot be read: {expected}\n"));
    assert!(mullion(&["check", "--help"], "").out.contains("each at most 50 MiB"));
}

#[test]
fn a_stream_that_never_ends_is_not_read() {
    for command in ["check", "mutate", "explain", "image"] {
        let mut child = spawn(&[command, "-"], &[]);
        let mut stdin = child.stdin.take().unwrap();
        let lines = "- a: b\n".repeat(10_000);
        let (error, ran) = std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                loop {
                    if let Err(error) = stdin.write_all(lines.as_bytes()) {
                        return error;
                    }
                }
            });
            let output = child.wait_with_output().unwrap();
            (writer.join().unwrap(), output)
        });
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{command} reads no further");
        assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(2), &b""[..]), "{command}");
        let message = String::from_utf8(ran.stderr).unwrap();
        assert!(message.starts_with("mullion: <stdin>: it has more than 50 MiB, "), "{command}: {message}");
    }
}

#[cfg(unix)]
#[test]
fn pipes_sockets_and_broken_links_are_reported_without_waiting() {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    let dir = dir();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let pipe = path("pipe.yaml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    symlink("nowhere.yaml", path("dangling.yaml")).unwrap();
    symlink("round.yaml", path("round.yaml")).unwrap();
    let _socket = UnixListener::bind(path("socket.yaml")).unwrap();
    let link = |what: &str| format!("{what}; check its name and permissions");
    let table = [
        ("dangling.yaml", link("No such file or directory (os error 2)"), ""),
        (
            "pipe.yaml",
            "it is a named pipe; write it to standard input instead, and name -".to_owned(),
            "it is not a regular file; ",
        ),
        ("round.yaml", link("Too many levels of symbolic links (os error 40)"), ""),
        ("socket.yaml", link("No such device or address (os error 6)"), "it is not a regular file; "),
    ];
    for (name, expected, _) in &table {
        assert_eq!(failure(&[&path(name)], b""), format!("{}: {expected}", path(name)));
    }
    let ran = mullion(&["check", "--snapshot", &pipe, "denied.yaml"], "");
    assert!(ran.code == 2 && ran.err.contains("it is a named pipe"), "{}", ran.err);
    // In a directory the result is the same, each failure on its own line, and the rest is reviewed.
    write(&dir, "sub.yaml/pod.yaml", GOOD);
    symlink("..", path("sub.yaml/up.yaml")).unwrap();
    let ran = mullion(&["check", dir.path().to_str().unwrap()], "");
    let messages: Vec<&str> = ran.err.lines().collect();
    assert_eq!((ran.code, messages.len()), (2, table.len() + 1), "{}", ran.err);
    for ((name, expected, in_directory), message) in table.iter().zip(&messages) {
        let expected = if in_directory.is_empty() { expected.as_str() } else { *in_directory };
        assert!(message.starts_with(&format!("mullion: {}: {expected}", path(name))), "{message}");
    }
    assert_eq!(messages[table.len()], "mullion: 1 workload, 0 findings, 4 unreadable inputs");
}

#[cfg(target_os = "linux")]
#[test]
fn devices_are_read_up_to_the_limit_and_pipes_of_a_shell_to_their_end() {
    assert!(failure(&["/dev/zero"], b"").starts_with("/dev/zero: it has more than 50 MiB, "));
    let ran = mullion(&["check", "/dev/stdin"], GOOD);
    assert_eq!((ran.code, ran.err.as_str()), (0, "mullion: 1 workload, 0 findings\n"));
    let ran = mullion(&["check", "/dev/null", "/dev/stdin"], GOOD);
    assert_eq!(ran.code, 2);
    assert!(ran.err.ends_with("\nmullion: 1 workload, 0 findings, 1 empty input\n"), "{}", ran.err);
}

#[test]
fn nothing_is_printed_of_the_files_before_a_bad_one() {
    let windows = fs::read_to_string("tests/cli/pod-windows.yaml").unwrap();
    for flags in [&["mutate"][..], &["mutate", "--diff"], &["mutate", "--templates"]] {
        for bad in ["broken.yaml", "nosuch.yaml"] {
            let ran = mullion(&[flags, &["pod-windows.yaml", "denied.yaml", "-", bad]].concat(), &windows);
            assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{flags:?} {bad}");
            assert_eq!(ran.err.lines().count(), 2, "{}", ran.err);
        }
    }
}
