//! What Mullion added to an object, as the entries of the decision annotation.

use std::collections::HashSet;

use serde::{Serialize, Serializer};

/// Entries of the decision annotation, each once, in the order in which they were added. They are also kept as a set,
/// because every toleration and many findings of a workload look one up, and any user may write an annotation with
/// thousands of entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacedWords {
    list: Vec<String>,
    set: HashSet<String>,
}

impl PlacedWords {
    /// Whether the annotation has this entry.
    pub fn has(&self, word: &str) -> bool {
        self.set.contains(word)
    }

    /// Adds an entry at the end, unless it is there already.
    pub fn add(&mut self, word: String) {
        if !self.set.contains(&word) {
            self.set.insert(word.clone());
            self.list.push(word);
        }
    }

    /// The entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(String::as_str)
    }
}

impl FromIterator<String> for PlacedWords {
    fn from_iter<I: IntoIterator<Item = String>>(words: I) -> Self {
        let mut all = Self::default();
        for word in words {
            all.add(word);
        }
        all
    }
}

impl Serialize for PlacedWords {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.list.serialize(serializer)
    }
}
