//! Whole plans for four simulated fleets, as an admin gets them: their text with all details, and as Markdown.

use std::path::Path;
use std::process::Command;

/// The folders of the fleets in `tests/plan_fleets`, with the arguments of the plan.
const FLEETS: [(&str, &[&str]); 4] = [("aks", &["--kubernetes", "1.36"]), ("eks", &[]), ("rke2", &[]), ("there", &[])];

fn plan(fleet: &str, arguments: &[&str]) -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_mullion"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plan_fleets").join(fleet))
        .args(["plan", "dump.yaml", "--to", "ltsc2025", "--today", "2026-11-23"])
        .args(arguments)
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(0), "{fleet}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn plans_are_as_expected() {
    for (fleet, arguments) in FLEETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plan_fleets").join(fleet);
        for (file, format) in [("plan.txt", &["--details"][..]), ("plan.md", &["-o", "markdown"])] {
            let path = folder.join(file);
            let printed = plan(fleet, &[arguments, format].concat());
            if std::env::var_os("UPDATE_DOCS").is_some() {
                std::fs::write(&path, &printed).unwrap();
            }
            let expected = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(printed == expected, "{} differs; UPDATE_DOCS=1 writes it", path.display());
        }
    }
}
