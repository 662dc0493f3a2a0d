//! `text` blocks: they show what nothing reads. A block with a command or an object is `sh`, `console` or `yaml`, so that
//! a test runs or parses it, or has a reason here.

use crate::pages::{GENERATED, Page, names};
use crate::{all, page};

/// Blocks with commands that no test can run, by page and beginning, with the reason.
const NOT_RUN: [(&str, &str, &str); 16] = [
    ("docs/developers/daemonset.md", "helm template agent-2022 CHART", "CHART stands for a chart of the reader's"),
    ("docs/how-to/ci.md", "mullion check .\\manifests", "PowerShell"),
    ("docs/how-to/install.md", "make manifests", "tests/installed/manifests.rs applies these files"),
    ("docs/how-to/policies/in-a-cluster.md", "helm upgrade --install mullion", "docs/how-to/roll-out.md runs it"),
    ("docs/how-to/policies/namespaces.md", "kubectl get namespaces", "the test of these pages has no cluster"),
    (
        "docs/how-to/policies/roll-out.md",
        "helm upgrade --install mullion",
        "docs/how-to/roll-out.md runs the same steps",
    ),
    ("docs/operators/alerts.md", "mullion policy diff old new", "`old` and `new` are folders of the reader's"),
    ("docs/operators/break-glass.md", "kubectl patch application", "needs Argo CD and Flux"),
    ("docs/operators/troubleshooting.md", "mullion status", "its exit code depends on the cluster"),
    (
        "docs/operators/troubleshooting.md",
        "mullion explain pod/NAME",
        "NAME and NAMESPACE stand for a pod of the reader's",
    ),
    ("docs/start/aks.md", "helm upgrade --install mullion", "its values need nodes of AKS"),
    ("docs/start/eks.md", "helm upgrade --install mullion", "its values need a registry of AWS"),
    ("docs/start/laptop.md", "$ mullion explain", "output of the cluster of `make up`"),
    ("docs/start/laptop.md", "$ mullion survey", "output of the cluster of `make up`"),
    ("docs/start/laptop.md", "policies=", "needs the processes of `make up`"),
    ("docs/start/laptop.md", "$ echo", "needs the processes of `make up`"),
];

/// Whether a block has an object, or a line that is a command.
fn should_be_read(block: &str) -> bool {
    let command = |line: &str| {
        let line = line.strip_prefix("$ ").unwrap_or(line);
        ["kubectl ", "helm ", "mullion ", "make "].iter().any(|program| line.starts_with(program))
    };
    block.contains("apiVersion:") || block.lines().any(command)
}

#[test]
fn commands_and_objects_are_not_mere_text() {
    let (mut complaints, mut used) = (Vec::new(), Vec::new());
    for page in names().iter().filter(|name| !GENERATED.contains(&name.as_str())).map(|name| Page::read(name)) {
        for (line, block) in page.sections.iter().flat_map(|section| &section.texts) {
            if !should_be_read(block) {
                continue;
            }
            match NOT_RUN.iter().find(|(name, begins, _)| *name == page.name && block.starts_with(begins)) {
                Some(exception) => used.push(exception),
                None => complaints.push(format!(
                    "{}:{line}: a text block with a command or an object; write sh, console or yaml, so that a test \
                     reads it, or add a reason to tests/docs/texts.rs",
                    page.name
                )),
            }
        }
    }
    let unused = NOT_RUN.iter().filter(|exception| !used.contains(exception));
    complaints.extend(unused.map(|exception| format!("no page has {exception:?}")));
    all(&complaints).unwrap_or_else(|complaints| panic!("{complaints}"));
}

#[test]
fn commands_and_objects_are_found() {
    for (block, found) in [
        ("apiVersion: v1\nkind: Pod", true),
        ("a\nkubectl get nodes", true),
        ("$ mullion status", true),
        ("make demo", true),
        ("makes nothing\nmullion.dev/move=ltsc2025:NoSchedule\nmullion/policies/", false),
        ("Warning: Mullion denied these policies; `mullion policy check` reports the same", false),
    ] {
        let sections = page::read(&format!("```text\n{block}\n```\n")).unwrap();
        assert_eq!(should_be_read(&sections[0].texts[0].1), found, "{block}");
    }
}
