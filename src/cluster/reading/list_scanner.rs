//! [`ListScanner`] splits the items out of a list as it arrives, so that its memory depends on one item.

use bytes::{Buf as _, Bytes};
use serde::Deserialize;

use crate::cluster::reading::scanner::{MAX_OBJECT, ValueScanner};

/// The largest member of a list besides `items`: `metadata` has less than 1 KB.
const MAX_MEMBER: usize = 64 << 10;

/// What `metadata` of a list says, wherever it stands.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ListMetadata {
    pub(crate) resource_version: Option<String>,
    /// See [`ListMetadata::next_page`].
    pub(super) r#continue: Option<String>,
    /// How many objects follow, if the API server knows.
    pub(crate) remaining_item_count: Option<usize>,
}

impl ListMetadata {
    /// The token of the next page; `None` after the last one.
    pub(crate) fn next_page(self) -> Option<String> {
        self.r#continue.filter(|token| !token.is_empty())
    }
}

/// The response is not a list.
#[derive(Debug, thiserror::Error)]
#[error("the response is not a list, or ends early")]
pub(crate) struct NotAList;

/// A list that is being read.
#[derive(Debug)]
pub(super) struct ListScanner {
    place: Place,
    value: ValueScanner,
    items: ValueScanner,
    metadata: ListMetadata,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    List,
    Name,
    Colon(Member),
    Value(Member),
    Item,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Member {
    Items,
    Metadata,
    Other,
}

impl ListScanner {
    pub(super) fn new() -> Self {
        Self {
            place: Place::List,
            value: ValueScanner::new(MAX_MEMBER),
            items: ValueScanner::new(MAX_OBJECT),
            metadata: ListMetadata::default(),
        }
    }

    /// Reads to the end of the next item, and returns whether there is one in the chunk, which keeps its rest.
    pub(super) fn next(&mut self, chunk: &mut Bytes) -> Result<bool, NotAList> {
        if self.place == Place::Item && self.items.is_complete() {
            self.items.reset();
        }
        loop {
            if !self.value.has_begun() && !self.items.has_begun() {
                let blank = chunk.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == b',').count();
                chunk.advance(blank);
            }
            let Some(&byte) = chunk.first() else { return Ok(false) };
            match (self.place, byte) {
                (Place::List, b'{') => {
                    chunk.advance(1);
                    self.place = Place::Name;
                }
                (Place::Name, b'}') if !self.value.has_begun() => {
                    chunk.advance(1);
                    self.place = Place::End;
                }
                (Place::Name, _) if byte == b'"' || self.value.has_begun() => {
                    if !scan(&mut self.value, chunk)? {
                        return Ok(false);
                    }
                    self.place = Place::Colon(match self.value.bytes() {
                        b"\"items\"" => Member::Items,
                        b"\"metadata\"" => Member::Metadata,
                        _ => Member::Other,
                    });
                    self.value.reset();
                }
                (Place::Colon(member), b':') => {
                    chunk.advance(1);
                    self.place = Place::Value(member);
                }
                (Place::Value(Member::Items), b'[') => {
                    chunk.advance(1);
                    self.place = Place::Item;
                }
                (Place::Value(member), _) => {
                    if !scan(&mut self.value, chunk)? {
                        return Ok(false);
                    }
                    if member == Member::Metadata {
                        let metadata = serde_json::from_slice::<Option<ListMetadata>>(self.value.bytes());
                        self.metadata = metadata.map_err(|_| NotAList)?.unwrap_or_default();
                    }
                    self.value.reset();
                    self.place = Place::Name;
                }
                (Place::Item, b']') if !self.items.has_begun() => {
                    chunk.advance(1);
                    self.place = Place::Name;
                }
                (Place::Item, _) => return scan(&mut self.items, chunk),
                _ => return Err(NotAList),
            }
        }
    }

    /// The item at whose end the scanner is.
    pub(super) fn item(&self) -> &ValueScanner {
        &self.items
    }

    /// What `metadata` says, if the list is complete.
    pub(super) fn end(self) -> Result<ListMetadata, NotAList> {
        if self.place == Place::End { Ok(self.metadata) } else { Err(NotAList) }
    }
}

/// Reads to the end of a value, and returns whether it is in the chunk.
fn scan(value: &mut ValueScanner, chunk: &mut Bytes) -> Result<bool, NotAList> {
    let Some(length) = value.push(chunk) else {
        chunk.clear();
        return Ok(false);
    };
    chunk.advance(length);
    if value.has_begun() { Ok(true) } else { Err(NotAList) }
}
