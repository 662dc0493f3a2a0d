//! Objects as they are read: [`Head`], which every object has, and [`Unreadable`] for one whose content cannot be used.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mullion_engine::model::dns_name::{DNS_LABEL_LIMIT, DNS_SUBDOMAIN_LIMIT};
use mullion_engine::model::text::full_name;
use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Unexpected, Visitor};

use crate::cluster::reading::scanner::{MAX_OBJECT, ValueScanner};

/// The longest uid (36 characters) and version (20 digits), with room for other servers.
const MAX_ID: usize = 64;

/// What identifies an object and its version. A part that is missing or too long is empty.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
}

/// An object whose content cannot be used. What was known of an earlier version is no longer true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) head: Head,
    /// Why, as a clause.
    pub(crate) why: String,
}

/// An object as its reader's type, if it could be read.
pub(crate) type Item<T> = Result<T, Unreadable>;

/// An object with its head.
#[derive(Debug)]
pub(super) struct HeadedItem<T> {
    pub(super) head: Head,
    pub(super) item: Item<T>,
}

impl Head {
    /// The head of an object that was read.
    pub(crate) fn of(metadata: &ObjectMeta) -> Self {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        Self {
            namespace: part(&metadata.namespace),
            name: part(&metadata.name),
            uid: part(&metadata.uid),
            resource_version: part(&metadata.resource_version),
        }
    }

    /// See [`full_name`].
    pub(crate) fn full_name(&self) -> String {
        full_name(&self.namespace, &self.name)
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Unreadable {}

/// Reads an object. Members that `T` does not name are skipped as text.
pub(super) fn parse_object<T: DeserializeOwned>(value: &ValueScanner) -> HeadedItem<T> {
    let head = head(value.bytes());
    let item = if value.is_too_large() { Err(too_large()) } else { from_json(value.bytes()) };
    headed(head, item)
}

pub(super) fn headed<T>(head: Head, item: Result<T, String>) -> HeadedItem<T> {
    let item = item.map_err(|why| Unreadable { head: head.clone(), why });
    HeadedItem { head, item }
}

pub(super) fn too_large() -> String {
    format!("it has more than {} MiB", MAX_OBJECT >> 20)
}

/// The object, or why it cannot be read, as a clause.
pub(super) fn from_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    // The text of the error can quote the object, which can be a Secret.
    serde_json::from_slice(json).map_err(|error| format!("its JSON is not as expected at byte {}", error.column()))
}

/// The head of an object, also of the beginning of an object.
pub(super) fn head(json: &[u8]) -> Head {
    let mut event = EventHead::default();
    // An error means that the object ends early, or that nothing more is needed: what was read stays.
    HeadSeed(Place::Object, &mut event).deserialize(&mut serde_json::Deserializer::from_slice(json)).ok();
    event.head
}

/// Type and head of a watch event, also of the beginning of an event.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct EventHead {
    pub(super) r#type: String,
    pub(super) head: Head,
}

impl EventHead {
    pub(super) fn parse(json: &[u8]) -> Self {
        let mut event = Self::default();
        HeadSeed(Place::Event, &mut event).deserialize(&mut serde_json::Deserializer::from_slice(json)).ok();
        event
    }
}

/// Reads the members of one JSON object into a head.
struct HeadSeed<'h>(Place, &'h mut EventHead);

/// What the JSON object is.
#[derive(Clone, Copy)]
enum Place {
    Event,
    Object,
    Metadata,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Member {
    Type,
    Object,
    Metadata,
    Namespace,
    Name,
    Uid,
    ResourceVersion,
    #[serde(other)]
    Other,
}

impl<'de> DeserializeSeed<'de> for HeadSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for HeadSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self(place, event) = self;
        while let Some(member) = members.next_key()? {
            let (part, most) = match (place, member) {
                (Place::Event, Member::Object) => {
                    members.next_value_seed(HeadSeed(Place::Object, event))?;
                    continue;
                }
                (Place::Object, Member::Metadata) => {
                    members.next_value_seed(HeadSeed(Place::Metadata, event))?;
                    // The rest, which is most of the object, is not read here.
                    return Err(A::Error::custom("complete"));
                }
                (Place::Event, Member::Type) => (&mut event.r#type, MAX_ID),
                (Place::Metadata, Member::Namespace) => (&mut event.head.namespace, DNS_LABEL_LIMIT),
                (Place::Metadata, Member::Name) => (&mut event.head.name, DNS_SUBDOMAIN_LIMIT),
                (Place::Metadata, Member::Uid) => (&mut event.head.uid, MAX_ID),
                (Place::Metadata, Member::ResourceVersion) => (&mut event.head.resource_version, MAX_ID),
                _ => {
                    members.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *part = members.next_value_seed(TextSeed(most))?;
        }
        Ok(())
    }
}

/// A text of at most that many bytes; empty for a longer one and for null.
struct TextSeed(usize);

impl<'de> DeserializeSeed<'de> for TextSeed {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        from.deserialize_any(self)
    }
}

impl Visitor<'_> for TextSeed {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(if text.len() <= self.0 { text.to_owned() } else { String::new() })
    }

    fn visit_unit<E: Error>(self) -> Result<String, E> {
        Ok(String::new())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
        Err(E::invalid_type(Unexpected::Signed(number), &self))
    }
}
