//! Reads the files of `tests/cases`, parsed as kubectl parses YAML, with the line of every step.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, ensure};
use mullion_cluster::Release;
use mullion_manifest::{LineIndex, ManifestDocument, documents};
use serde::de::DeserializeOwned;

use super::format::{Case, Step};

/// Folders of the files that cases share.
pub const SHARED: [&str; 3] = ["clusters", "mullion", "third-party-webhooks"];

/// `tests/cases`.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

/// The `*.yaml` files of a folder, sorted; empty if there is no such folder.
pub fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    files.sort();
    files
}

/// Every case: its area and its file.
pub fn cases() -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(folder()).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut areas: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    areas.sort();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let areas = areas.into_iter().filter(|area| !SHARED.contains(&name(area).as_str()));
    areas.flat_map(|area| yaml_files(&area).into_iter().map(move |file| (name(&area), file))).collect()
}

/// The path from the root of the repository.
pub fn shown(path: &Path) -> String {
    path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap_or(path).display().to_string()
}

fn document(path: &Path) -> Result<(String, ManifestDocument)> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", shown(path)))?;
    let document = only_document(&shown(path), &text)?;
    Ok((text, document))
}

fn only_document(name: &str, text: &str) -> Result<ManifestDocument> {
    let mut all = documents(name, text);
    ensure!(all.len() == 1, "{name}: one document a file, not {}", all.len());
    all.remove(0).map_err(|problem| anyhow!("{problem}"))
}

/// A file of `clusters/`, `mullion/` or `third-party-webhooks/`.
pub fn read<T: DeserializeOwned>(kind: &str, name: &str) -> Result<T> {
    let path = folder().join(kind).join(format!("{name}.yaml"));
    ensure!(path.is_file(), "there is no {}", shown(&path));
    serde_json::from_value(document(&path)?.1.json).with_context(|| shown(&path))
}

/// A case with its parsed steps.
#[derive(Debug)]
pub struct Loaded {
    pub case: Case,
    /// The steps, each with its line.
    pub steps: Vec<(usize, Step)>,
    /// The first release that can run it.
    pub since: Option<Release>,
}

impl Loaded {
    /// The shared files that the case uses: folder and name.
    pub fn uses(&self) -> Vec<(&'static str, String)> {
        let Case { cluster, mullion, third_party, .. } = &self.case;
        let adopted = self.steps.iter().filter(|(_, step)| step.verb == "adopt");
        let adopted = adopted.filter_map(|(_, step)| step.value.as_str()).map(|name| ("mullion", name));
        let third_party = third_party.iter().map(|name| ("third-party-webhooks", name.as_str()));
        let all = [("clusters", cluster.as_str()), ("mullion", mullion)].into_iter().chain(third_party).chain(adopted);
        all.filter(|(_, name)| *name != "none").map(|(kind, name)| (kind, name.to_owned())).collect()
    }
}

pub fn load(path: &Path) -> Result<Loaded> {
    let (text, document) = document(path)?;
    loaded(&shown(path), &text, document)
}

/// Reads a case from text.
pub fn from_text(name: &str, text: &str) -> Result<Loaded> {
    loaded(name, text, only_document(name, text)?)
}

fn loaded(name: &str, text: &str, document: ManifestDocument) -> Result<Loaded> {
    let lines = LineIndex::new(text);
    let case: Case = serde_json::from_value(document.json).with_context(|| name.to_owned())?;
    let mut steps = Vec::new();
    for (at, step) in case.steps.iter().enumerate() {
        let node = document.node.at_pointer(&format!("/steps/{at}"));
        let line = node.map_or(0, |node| lines.line_column(node.span.start).line);
        let step = Step::read(step).with_context(|| format!("{name}:{line}: step {}", at + 1))?;
        steps.push((line, step));
    }
    ensure!(steps.iter().any(|(_, step)| step.asserts()), "{name}: no step asserts anything");
    ensure!(!case.sentence.trim().is_empty(), "{name}: `case` is empty");
    let since = case.since.as_deref().map(str::parse).transpose().with_context(|| format!("{name}: `since`"))?;
    let loaded = Loaded { case, steps, since };
    for (kind, shared) in loaded.uses() {
        let path = folder().join(kind).join(format!("{shared}.yaml"));
        ensure!(path.is_file(), "{name}: there is no {}", shown(&path));
    }
    Ok(loaded)
}
