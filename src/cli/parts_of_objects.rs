//! The parts of objects of an input, by what is done with them and why they are parts.

use std::collections::BTreeMap;
use std::io;

use mullion_engine::model::text::list_within;

use crate::cli::documents::ManifestFile;
use crate::cli::io_handles::Io;
use crate::cli::kustomization::Kustomization;

/// The maximum length of the names of the parts with one reason.
const NAMES: usize = 300;

/// Why the patches in the text of a kustomization are parts, and their number and place; `None` if it has none.
pub(crate) fn inline_part(kustomization: &Kustomization, file: &ManifestFile<'_>) -> Option<(String, String)> {
    let patches = match kustomization.inline {
        0 => return None,
        1 => "1 patch".to_owned(),
        count => format!("{count} patches"),
    };
    Some(("it is text in a kustomization".to_owned(), format!("{patches} ({})", file.source.name)))
}

/// Parts of objects, by what is done with them and why they are parts.
#[derive(Debug, Default)]
pub(crate) struct PartsOfObjects(BTreeMap<(&'static str, String), Vec<String>>);

impl PartsOfObjects {
    /// Adds a part. `done`: a clause, `not changed`.
    pub(crate) fn add(&mut self, done: &'static str, evidence: String, title: String) {
        self.0.entry((done, evidence)).or_default().push(title);
    }

    /// Adds the patches in the text of a kustomization, if it has any.
    pub(crate) fn add_inline(&mut self, done: &'static str, kustomization: &Kustomization, file: &ManifestFile<'_>) {
        if let Some((evidence, title)) = inline_part(kustomization, file) {
            self.add(done, evidence, title);
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Prints a line on stderr for each reason: `part of an object, not changed: it has no spec.selector: Deployment
    /// default/web (a.yaml:3)`.
    pub(crate) fn report(&self, io: &mut Io<'_>) -> io::Result<()> {
        self.0.iter().try_for_each(|((done, evidence), titles)| {
            let titles = list_within(titles, titles.len(), ", ", NAMES);
            io.eprintln(format_args!("part of an object, {done}: {evidence}: {titles}"))
        })
    }
}
