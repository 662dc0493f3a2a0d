//! Files in UTF-16, and keys that occur twice.

use super::*;

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web # \u{1f600} \u{fc}\nspec:\n  nodeSelector: {kubernetes.io/os: windows}\n  \
    containers:\n  - name: a\n    image: mcr.microsoft.com/windows/nanoserver:ltsc2022\n    resources: {limits: {memory: 1Gi}}\n    \
    # \u{fc}\n    securityContext: {runAsUser: 5}\n";

fn utf16(text: &str, to_bytes: ByteOrder) -> Vec<u8> {
    "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(to_bytes).collect()
}

type ByteOrder = fn(u16) -> [u8; 2];

const ORDERS: [(&str, ByteOrder); 2] = [("UTF-16LE", u16::to_le_bytes), ("UTF-16BE", u16::to_be_bytes)];

#[test]
fn utf_16_has_the_findings_of_utf_8_and_one_of_its_own() {
    let dir = dir();
    let plain = write(&dir, "plain.yaml", POD);
    let places = |path: &str| -> Vec<[Value; 3]> {
        let all = records(&mullion(&["check", "-o", "json", path], ""));
        of_type(&all, "finding").iter().map(|f| [f["code"].clone(), f["line"].clone(), f["column"].clone()]).collect()
    };
    assert!(!places(&plain).is_empty());
    for (name, to_bytes) in ORDERS {
        let path = write(&dir, "wide.yaml", utf16(&POD.replace('\n', "\r\n"), to_bytes));
        assert_eq!(places(&path), places(&plain));
        let all = records(&mullion(&["check", "-o", "json", &path], ""));
        let warnings = of_type(&all, "text");
        assert_eq!(
            (warnings.len(), &warnings[0]["action"], &warnings[0]["file"]),
            (1, &"Warn".into(), &path.as_str().into())
        );
        assert!(warnings[0]["message"].as_str().unwrap().contains(name), "{warnings:?}");
        let text = mullion(&["check", &path], "");
        assert!(
            text.out.contains(&format!("warning: the file is {name}")) && text.out.contains("wide.yaml\n"),
            "{}",
            text.out
        );
        assert!(text.err.contains("(1 denied, 1 warned)"), "{}", text.err);
        for format in ["github", "sarif"] {
            assert!(mullion(&["check", "-o", format, &path], "").out.contains("the file is UTF-16"), "{format}");
        }
        let good = write(&dir, "good.yaml", utf16(&POD.replace("    securityContext: {runAsUser: 5}\n", ""), to_bytes));
        assert_eq!(mullion(&["check", &good], "").code, 0);
        assert_eq!(mullion(&["check", "--fail-on", "warn", &good], "").code, 1);
    }
}

/// What `mutate` prints, as bytes.
fn mutated(args: &[&str]) -> Vec<u8> {
    let output = bare_program().arg("mutate").args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn mutate_writes_the_encoding_that_it_read() {
    let dir = dir();
    let good = POD.replace("    securityContext: {runAsUser: 5}\n", "");
    let plain = write(&dir, "plain.yaml", &good);
    let expected = String::from_utf8(mutated(&[&plain])).unwrap();
    assert_ne!(expected, good);
    for (_, to_bytes) in ORDERS {
        let path = write(&dir, "wide.yaml", utf16(&good, to_bytes));
        assert_eq!(mutated(&[&path]), utf16(&expected, to_bytes));
        // A stream has one encoding and one mark.
        assert_eq!(mutated(&[&path, &path]), utf16(&format!("{expected}---\n{expected}"), to_bytes));
        assert_eq!(mutated(&[&path, &plain]), format!("{expected}---\n{expected}").into_bytes());
        let diff = String::from_utf8(mutated(&["--diff", &path])).unwrap();
        assert!(diff.contains("+  tolerations:"), "{diff}");
    }
}

#[test]
fn a_key_that_occurs_twice_with_one_value_is_a_warning() {
    let text = POD
        .replace(
            "  nodeSelector: {kubernetes.io/os: windows}\n",
            "  nodeSelector: {kubernetes.io/os: windows}\n  hostname: a\n",
        )
        .replace("    securityContext: {runAsUser: 5}\n", "  hostname: 'a' # again\n");
    let ran = mullion(&["check", "-o", "json", "-"], &text);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let all = records(&ran);
    let warning = of_type(&all, "text")[0];
    assert_eq!((&warning["line"], &warning["column"]), (&13.into(), &3.into()));
    let shown = mullion(&["check", "-"], &text).out;
    assert!(
        shown.contains("<stdin>:13:3") && shown.contains("7 |   hostname: a") && shown.contains("it occurs first"),
        "{shown}"
    );
    let github = mullion(&["check", "-o", "github", "-"], &text).out;
    assert!(github.contains("it occurs first on line 7; remove one"), "{github}");
    assert_eq!(mullion(&["check", "--fail-on", "warn", "-"], &text).code, 1);
    // Edits elsewhere leave both.
    let ran = mullion(&["mutate", "-"], &text);
    assert_eq!(ran.out.matches("hostname: ").count(), 2, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("tolerations:"), "{}", ran.out);
    // Different values.
    let ran = mullion(&["check", "-"], &text.replace("hostname: 'a'", "hostname: b"));
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("<stdin>:13:3: the key `hostname` occurs twice in this map; it occurs first on line 7"),
        "{}",
        ran.err
    );
}
