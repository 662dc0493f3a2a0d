//! JSON dumps, read object by object: of a List of 200,000 pods, one pod at a time is in memory.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, Read};

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The size limit of one object, in bytes. etcd accepts 1.5 MiB.
pub const MAX_OBJECT: u64 = 8 << 20;

/// The maximum number of values of one object: maps, lists, texts, numbers.
pub const MAX_VALUES: usize = 200_000;

/// Bytes between two checks of the limits.
const BUFFER: usize = 1 << 16;

/// Lists and maps with members that nothing reads: they are not kept in memory. A label may have one of these keys, but
/// its value is text, and text is kept.
const SKIPPED: [&str; 7] = ["managedFields", "env", "envFrom", "httpHeaders", "data", "binaryData", "stringData"];

/// What is wrong with a dump, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpProblem {
    /// Line and column, from 1, if the whole file is not the problem.
    pub place: Option<(usize, usize)>,
    /// What is wrong and what to do, without the file and the place.
    pub message: String,
}

impl DumpProblem {
    /// A problem of the whole input.
    pub fn new(message: impl Into<String>) -> Self {
        Self { place: None, message: message.into() }
    }
}

/// Reads the objects of a JSON text: one object, a List, an array, or several of them one after the other. `visit` gets
/// each object and, for an item of a typed list (`PodList`), the kind in the list. Everything before a fault has been
/// visited.
pub fn read_json(
    reader: impl BufRead,
    max_bytes: u64,
    visit: &mut dyn FnMut(Value, Option<&str>),
) -> Result<(), DumpProblem> {
    let meter = Meter::default();
    let reader = MeteredReader { inner: reader, buffer: Vec::new(), at: 0, max_bytes, meter: &meter };
    let mut json = serde_json::Deserializer::from_reader(reader);
    loop {
        meter.started.set(false);
        meter.begin_object();
        match (DocumentSeed { meter: &meter, visit: &mut *visit }).deserialize(&mut json) {
            Ok(()) => {}
            Err(error) if error.is_eof() && !meter.started.get() => return Ok(()),
            Err(error) => return Err(problem(&error)),
        }
    }
}

fn problem(error: &serde_json::Error) -> DumpProblem {
    let place = Some((error.line(), error.column().max(1))).filter(|(line, _)| *line > 0);
    // serde_json ends its messages with the place.
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(before, _)| before);
    let message = if error.is_io() {
        return DumpProblem::new(text);
    } else if error.is_eof() {
        "it ends in the middle of the JSON: the dump is incomplete; write it again".to_owned()
    } else if text.contains("recursion limit") {
        "an object nests deeper than 128 levels; no Kubernetes object does".to_owned()
    } else {
        format!("not JSON: {text}; write it again, with kubectl get -o json")
    };
    DumpProblem { place, message }
}

/// How much of the text, and of the current object, was read.
#[derive(Default)]
struct Meter {
    started: Cell<bool>,
    total: Cell<u64>,
    object: Cell<u64>,
    values: Cell<usize>,
}

impl Meter {
    fn begin_object(&self) {
        self.object.set(0);
        self.values.set(0);
    }

    /// Counts a value; false if the object has too many.
    fn count(&self) -> bool {
        self.values.set(self.values.get() + 1);
        self.values.get() <= MAX_VALUES
    }
}

/// A buffered reader with limits, which it checks when it fills its buffer.
struct MeteredReader<'m, R> {
    inner: R,
    buffer: Vec<u8>,
    at: usize,
    max_bytes: u64,
    meter: &'m Meter,
}

impl<R: BufRead> MeteredReader<'_, R> {
    fn fill(&mut self) -> io::Result<()> {
        let more = self.inner.fill_buf()?;
        // A reader of memory returns everything in one piece.
        let more = more.get(..BUFFER).unwrap_or(more);
        let count = more.len();
        self.buffer.clear();
        self.buffer.extend_from_slice(more);
        self.at = 0;
        self.inner.consume(count);
        let meter = self.meter;
        meter.total.set(meter.total.get() + count as u64);
        meter.object.set(meter.object.get() + count as u64);
        if meter.total.get() > self.max_bytes {
            let limit = self.max_bytes >> 20;
            return Err(io::Error::other(format!(
                "it has more than {limit} MiB, the most that is read; split it into smaller files, by namespace"
            )));
        }
        // The buffer may contain the end of another object.
        if meter.object.get() > MAX_OBJECT + count as u64 {
            let at = meter.total.get();
            return Err(io::Error::other(format!(
                "an object before byte {at} has more than {} MiB; no Kubernetes object has, so the file is no dump",
                MAX_OBJECT >> 20
            )));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for MeteredReader<'_, R> {
    #[inline]
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.buffer.len() {
            self.fill()?;
        }
        let rest = self.buffer.get(self.at..).unwrap_or_default();
        if let ([first, ..], [byte]) = (rest, &mut *out) {
            *byte = *first;
            self.at += 1;
            return Ok(1);
        }
        let count = rest.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.at += count;
        Ok(count)
    }
}

/// One document: an object, a list of objects, or an array.
struct DocumentSeed<'m, 'v> {
    meter: &'m Meter,
    visit: &'v mut dyn FnMut(Value, Option<&str>),
}

impl<'de> DeserializeSeed<'de> for DocumentSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DocumentSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a Kubernetes object or a List")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        self.meter.started.set(true);
        let mut object = Map::new();
        let mut is_list = false;
        while let Some(key) = members.next_key::<String>()? {
            if key == "items" {
                let kind = object.get("kind").and_then(Value::as_str).and_then(|kind| kind.strip_suffix("List"));
                let kind = kind.filter(|kind| !kind.is_empty());
                is_list |= members.next_value_seed(ItemsSeed { meter: self.meter, visit: &mut *self.visit, kind })?;
            } else if SKIPPED.contains(&key.as_str()) {
                members.next_value::<IgnoredAny>()?;
            } else {
                let value = members.next_value_seed(ValueSeed { meter: self.meter, skipped: false })?;
                object.insert(key, value);
            }
        }
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        if !is_list && !kind.ends_with("List") {
            (self.visit)(Value::Object(object), None);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<(), A::Error> {
        self.meter.started.set(true);
        ItemsSeed { meter: self.meter, visit: self.visit, kind: None }.visit_seq(items).map(drop)
    }
}

/// The items of a list. Returns whether they are a list at all.
struct ItemsSeed<'m, 'v, 'k> {
    meter: &'m Meter,
    visit: &'v mut dyn FnMut(Value, Option<&str>),
    kind: Option<&'k str>,
}

impl<'de> DeserializeSeed<'de> for ItemsSeed<'_, '_, '_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed<'_, '_, '_> {
    type Value = bool;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of Kubernetes objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        loop {
            self.meter.begin_object();
            let Some(item) = items.next_element_seed(ValueSeed { meter: self.meter, skipped: false })? else {
                return Ok(true);
            };
            if self.meter.values.get() > MAX_VALUES {
                return Err(de::Error::custom(format!(
                    "an object has more than {MAX_VALUES} values; no Kubernetes object has"
                )));
            }
            (self.visit)(item, self.kind);
        }
    }

    /// `items: null`: how the API server prints an empty list.
    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(true)
    }
}

/// A value without the members of [`SKIPPED`].
#[derive(Clone, Copy)]
struct ValueSeed<'m> {
    meter: &'m Meter,
    /// Whether lists and maps are read and dropped.
    skipped: bool,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        self.meter.count();
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        self.meter.count();
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        self.meter.count();
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        self.meter.count();
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        self.meter.count();
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        self.meter.count();
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        self.meter.count();
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        if self.skipped || !self.meter.count() {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        }
        while let Some(item) = items.next_element_seed(self)? {
            if self.meter.values.get() <= MAX_VALUES {
                list.push(item);
            }
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        if self.skipped || !self.meter.count() {
            while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        }
        while let Some(key) = members.next_key::<String>()? {
            let skipped = SKIPPED.contains(&key.as_str());
            let value = members.next_value_seed(ValueSeed { skipped, ..self })?;
            if !(skipped && value.is_null()) && self.meter.values.get() <= MAX_VALUES {
                map.insert(key, value);
            }
        }
        Ok(Value::Object(map))
    }
}
