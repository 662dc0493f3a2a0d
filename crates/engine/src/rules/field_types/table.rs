//! The tables of the fields of the nine kinds (`fields.txt`), and of the values of those that take only some (`values.txt`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use crate::model::{MinorVersion, WorkloadKind};

/// One line for each field, as `Container.args []string`, sorted, with the release that first has it if that is newer
/// than the oldest that Mullion supports (`VolumeMount.bindMountOptions []string 1.37`); one line contains the newest
/// Kubernetes release in the table.
const FIELDS: &str = include_str!("fields.txt");

/// One line for each field that takes only some values, as `Toleration.operator Equal Exists Gt@1.35`, sorted: behind `@`
/// the release that first has the value, if it is newer than the field.
const VALUES: &str = include_str!("values.txt");

/// The table. Its 686 short lines are read within a millisecond, and only when needed: never in a server.
pub(crate) static TABLE: LazyLock<FieldTable> = LazyLock::new(|| FieldTable::parse(FIELDS, VALUES));

/// The type of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FieldType {
    /// Any value.
    Any,
    /// `string`.
    Text,
    /// `string`, and one of these values.
    Words(Vec<Word>),
    /// `time`: checked as a string.
    Time,
    /// `boolean`.
    Boolean,
    /// `int32`.
    Int32,
    /// `int64`.
    Int64,
    /// `quantity`: `500m` or a number.
    Quantity,
    /// `int-or-string`: a port or its name, a count or a percentage.
    IntOrText,
    /// `[]…`.
    List(Box<FieldType>),
    /// `map[string]…`: any key is allowed.
    Map(Box<FieldType>),
    /// A type with fields, by its index in [`FieldTable::types`].
    Object(usize),
}

impl FieldType {
    /// Lets the strings in it be only these words, which are separated by spaces.
    fn restrict(&mut self, words: &'static str) {
        match self {
            Self::List(inner) | Self::Map(inner) => inner.restrict(words),
            Self::Text => *self = Self::Words(words.split(' ').map(Word::parse).collect()),
            _ => {}
        }
    }
}

/// A value of a field that takes only some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: &'static str,
    /// The release that first has it; `None`: as old as its field.
    pub(crate) since: Option<MinorVersion>,
}

impl Word {
    fn parse(text: &'static str) -> Self {
        match text.split_once('@') {
            Some((text, since)) => Self { text, since: MinorVersion::of(since) },
            None => Self { text, since: None },
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.text)
    }
}

/// A field of a type.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) shape: FieldType,
    /// The release that first has it; `None`: every supported release has it.
    pub(crate) since: Option<MinorVersion>,
}

/// A type with fields; some have none (`WorkloadPodGroupBasicSchedulingPolicy`).
#[derive(Debug)]
pub(crate) struct ObjectType {
    /// `Toleration`, as in Kubernetes' API reference.
    pub(crate) name: &'static str,
    pub(crate) fields: BTreeMap<&'static str, Field>,
}

/// All types that the nine kinds consist of.
#[derive(Debug)]
pub(crate) struct FieldTable {
    /// The newest release in the table: `1.38`.
    pub(crate) kubernetes: &'static str,
    types: Vec<ObjectType>,
    by_name: BTreeMap<&'static str, usize>,
}

impl FieldTable {
    /// The fields of a kind as a whole.
    pub(crate) fn kind(&self, kind: WorkloadKind) -> FieldType {
        self.by_name.get(kind.name()).map_or(FieldType::Any, |at| FieldType::Object(*at))
    }

    /// The type at that index.
    pub(crate) fn object(&self, at: usize) -> Option<&ObjectType> {
        self.types.get(at)
    }

    /// Malformed lines are skipped, because the file is part of the program, and a test reads every line of it.
    fn parse(text: &'static str, values: &'static str) -> Self {
        let mut table = Self { kubernetes: "", types: Vec::new(), by_name: BTreeMap::new() };
        let lines = || text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '));
        let fields = || lines().filter_map(|(field, shape)| Some((field.split_once('.')?, shape)));
        for ((name, _), shape) in fields() {
            table.add_type(name);
            table.add_type(innermost(shape));
        }
        for ((name, field), shape) in fields() {
            let (shape, since) = shape.split_once(' ').map_or((shape, None), |(shape, since)| (shape, Some(since)));
            let field_type = Field { shape: table.shape(shape), since: since.and_then(MinorVersion::of) };
            let object = table.by_name.get(name).and_then(|at| table.types.get_mut(*at));
            object.and_then(|object| object.fields.insert(field, field_type));
        }
        for (path, words) in
            values.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '))
        {
            if let Some((name, field)) = path.split_once('.')
                && let Some(object) = table.by_name.get(name).and_then(|at| table.types.get_mut(*at))
                && let Some(field) = object.fields.get_mut(field)
            {
                field.shape.restrict(words);
            }
        }
        table.kubernetes = lines().find_map(|(word, version)| (word == "kubernetes").then_some(version)).unwrap_or("");
        table
    }

    /// Adds the type of that name, unless it is there or is a type without fields, whose name is in lower case.
    fn add_type(&mut self, name: &'static str) {
        if name.starts_with(|first: char| first.is_ascii_uppercase()) {
            self.by_name.entry(name).or_insert_with(|| {
                self.types.push(ObjectType { name, fields: BTreeMap::new() });
                self.types.len() - 1
            });
        }
    }

    fn shape(&self, text: &str) -> FieldType {
        if let Some(item) = text.strip_prefix("[]") {
            return FieldType::List(Box::new(self.shape(item)));
        }
        if let Some(value) = text.strip_prefix("map[string]") {
            return FieldType::Map(Box::new(self.shape(value)));
        }
        match text {
            "string" => FieldType::Text,
            "time" => FieldType::Time,
            "boolean" => FieldType::Boolean,
            "int32" => FieldType::Int32,
            "int64" => FieldType::Int64,
            "quantity" => FieldType::Quantity,
            "int-or-string" => FieldType::IntOrText,
            name => self.by_name.get(name).map_or(FieldType::Any, |at| FieldType::Object(*at)),
        }
    }
}

/// `Toleration` of `[]Toleration 1.37`.
fn innermost(shape: &'static str) -> &'static str {
    let shape = shape.split_once(' ').map_or(shape, |(shape, _)| shape);
    shape.rsplit(']').next().unwrap_or(shape)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use super::*;

    const KINDS: [WorkloadKind; 9] = [
        WorkloadKind::Pod,
        WorkloadKind::PodTemplate,
        WorkloadKind::ReplicationController,
        WorkloadKind::ReplicaSet,
        WorkloadKind::Deployment,
        WorkloadKind::StatefulSet,
        WorkloadKind::DaemonSet,
        WorkloadKind::Job,
        WorkloadKind::CronJob,
    ];

    #[test]
    fn every_line_is_read() {
        let (comments, lines): (Vec<&str>, Vec<&str>) = FIELDS.lines().partition(|line| line.starts_with('#'));
        assert_eq!(comments.len(), 2);
        assert_eq!(lines.first().unwrap().strip_prefix("kubernetes "), Some(TABLE.kubernetes));
        let fields: usize = TABLE.types.iter().map(|object| object.fields.len()).sum();
        assert_eq!(fields, lines.len() - 1);
        for line in lines.iter().skip(1) {
            let (path, shape) = line.split_once(' ').unwrap();
            let (name, field) = path.split_once('.').unwrap();
            let (shape, since) = shape.split_once(' ').map_or((shape, None), |(shape, since)| (shape, Some(since)));
            let read = TABLE.types.get(TABLE.by_name[name]).unwrap().fields.get(field).unwrap();
            assert_eq!(read.since.map(|since| since.to_string()).as_deref(), since, "{line}");
            assert!(read.since <= MinorVersion::of(TABLE.kubernetes), "{line}");
            let mut inner = &read.shape;
            while let FieldType::List(next) | FieldType::Map(next) = inner {
                inner = next;
            }
            assert_eq!(*inner == FieldType::Any, shape.ends_with("any"), "{line}");
        }
    }

    #[test]
    fn every_value_is_read() {
        for line in VALUES.lines().filter(|line| !line.starts_with('#')) {
            let (path, words) = line.split_once(' ').unwrap();
            let (name, field) = path.split_once('.').unwrap();
            let mut inner = &TABLE.types.get(TABLE.by_name[name]).unwrap().fields.get(field).unwrap().shape;
            while let FieldType::List(next) | FieldType::Map(next) = inner {
                inner = next;
            }
            let FieldType::Words(read) = inner else { panic!("{line}: {inner:?}") };
            let written = |word: &Word| match word.since {
                Some(since) => format!("{word}@{since}"),
                None => word.to_string(),
            };
            assert_eq!(read.iter().map(written).collect::<Vec<_>>().join(" "), words);
        }
    }

    /// This limits the walk: a type that contained itself could nest as deep as a file does.
    #[test]
    fn no_type_holds_itself_and_all_are_used() {
        fn deepest(shape: &FieldType, above: &mut Vec<usize>, seen: &mut [bool]) -> usize {
            match shape {
                FieldType::List(inner) | FieldType::Map(inner) => deepest(inner, above, seen),
                FieldType::Object(at) => {
                    let object = TABLE.object(*at).unwrap();
                    assert!(!above.contains(at), "{} holds itself", object.name);
                    *seen.get_mut(*at).unwrap() = true;
                    above.push(*at);
                    let below =
                        object.fields.values().map(|field| deepest(&field.shape, above, seen)).max().unwrap_or(0);
                    above.pop();
                    below + 1
                }
                _ => 0,
            }
        }
        let mut seen = vec![false; TABLE.types.len()];
        for kind in KINDS {
            let depth = deepest(&TABLE.kind(kind), &mut Vec::new(), &mut seen);
            assert!((3..=12).contains(&depth), "{kind:?}: {depth}");
        }
        let unused = TABLE.types.iter().zip(&seen).filter(|(_, seen)| !**seen).map(|(object, _)| object.name);
        assert_eq!(unused.collect::<Vec<_>>(), Vec::<&str>::new());
    }
}
