//! A test file: its documents, and the places of problems in it.

use mullion_manifest::{LineIndex, ManifestDocument, ManifestNode, Problem, Span, documents};

use crate::load::Checker;
use crate::test_cases::types::TestSpec;
use crate::test_cases::validate;

/// A valid test file.
#[derive(Debug, Clone)]
pub struct TestFile {
    /// The name that problems show.
    pub name: String,
    /// The whole file.
    pub text: String,
    /// Its documents.
    pub tests: Vec<PolicyTest>,
    /// Where each line starts.
    starts: Vec<usize>,
}

/// One document of a test file.
#[derive(Debug, Clone)]
pub struct PolicyTest {
    /// Its contents.
    pub spec: TestSpec,
    /// Its nodes, with spans.
    node: ManifestNode,
}

impl TestFile {
    /// Reads a test file. Fails with all its problems, in order of place.
    pub fn parse(name: &str, text: &str) -> Result<Self, Vec<Problem>> {
        let mut checker = Checker::of_tests(name, text);
        let (mut tests, mut problems) = (Vec::new(), Vec::new());
        let documents = documents(name, text);
        if documents.is_empty() {
            checker.report(Span::empty(0), "the file contains no test: write one, or remove the file");
        }
        let mut names = validate::Names::default();
        for document in documents {
            match document {
                Ok(document) => tests.extend(test(&mut checker, &mut names, document)),
                Err(problem) => problems.push(problem),
            }
        }
        problems.append(&mut checker.problems);
        if problems.is_empty() {
            let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
            return Ok(Self { name: name.to_owned(), text: text.to_owned(), tests, starts });
        }
        problems.sort_by_key(|problem| problem.span.start);
        Err(problems)
    }

    /// A problem with the value at `pointer` in one of its documents.
    pub fn problem(&self, test: &PolicyTest, pointer: &str, message: String, hint: &str) -> Problem {
        let span = test.node.nearest(pointer).span;
        let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
        Problem { hint, ..Problem::at(&self.name, &LineIndex::new(&self.text), span, message) }
    }

    /// The line, from 1, of the value at `pointer` in one of its documents; of a member of a map, that of its key.
    pub fn line(&self, test: &PolicyTest, pointer: &str) -> usize {
        let parent = pointer.rsplit_once('/').and_then(|(parent, key)| test.node.at_pointer(parent)?.get(key));
        let span = parent.map_or_else(|| test.node.nearest(pointer).span, |entry| entry.key_span);
        self.starts.partition_point(|start| *start <= span.start)
    }
}

fn test(checker: &mut Checker<'_>, names: &mut validate::Names, document: ManifestDocument) -> Option<PolicyTest> {
    checker.document(&document.node)?;
    match serde_json::from_value::<TestSpec>(document.json) {
        Ok(spec) => {
            validate::check(checker, names, &document.node, &spec);
            Some(PolicyTest { spec, node: document.node })
        }
        // A gap in the schema becomes a problem instead of a panic.
        Err(error) => {
            checker.report(document.node.span, format!("the test cannot be read: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests;
