//! Registry reports about images: `ImagePlatforms` objects, in a snapshot file (see [`dump`](crate::dump)) or in a file
//! of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mullion_engine::model::image::{KnownImages, Platform, Platforms};
use mullion_engine::model::windows::Build;
use mullion_manifest::{LineIndex, ManifestNode, NodeValue, Problem, documents, text_from_bytes};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

const API_VERSION: &str = "mullion.dev/v1alpha1";
const KIND: &str = "ImagePlatforms";

/// What registries reported about images, by the reference as pods write it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImagePlatforms {
    /// When the last of them was looked up, as RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<String>,
    /// The platforms.
    #[serde(serialize_with = "write_images", deserialize_with = "read_images")]
    pub images: KnownImages,
    /// The compressed bytes that a node of that build pulls.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, BTreeMap<Build, u64>>,
    /// Images that do not exist.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub absent: BTreeSet<String>,
    /// Why other look-ups have no result.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unanswered: BTreeMap<String, String>,
}

fn write_images<S: Serializer>(images: &KnownImages, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(images.iter().map(|(reference, platforms)| (reference, Image::from(&**platforms))))
}

fn read_images<'de, D: Deserializer<'de>>(from: D) -> Result<KnownImages, D::Error> {
    let images = BTreeMap::<String, Image>::deserialize(from)?;
    Ok(images.into_iter().map(|(reference, image)| (reference, Arc::new(image.into()))).collect())
}

/// The entry of one reference.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Image {
    Index(Vec<Entry>),
    Manifest(Entry),
}

/// A platform with the names of the OCI image specification.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    os: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    architecture: String,
    #[serde(default, rename = "variant", skip_serializing)]
    _variant: Option<String>,
    #[serde(default, rename = "os.version", skip_serializing_if = "Option::is_none")]
    os_version: Option<String>,
    #[serde(default, rename = "os.features", skip_serializing_if = "Vec::is_empty")]
    os_features: Vec<String>,
}

impl ImagePlatforms {
    /// Reads an object; an error contains the field that cannot be read.
    pub fn from_value(object: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(object)
    }

    /// Reads a file with one object, JSON or YAML. An error contains the line. `name` is the file's name in messages.
    pub fn from_file(name: &str, bytes: &[u8]) -> Result<Self, Box<Problem>> {
        let text = text_from_bytes(name, bytes)?;
        let lines = LineIndex::new(text);
        let hint = "`mullion plan --registry --registry-cache FILE` writes such a file";
        let whole = |message: &str| Box::new(Problem::of_file(name, message, hint));
        let fail = |node: &ManifestNode, message: String| Box::new(Problem::at(name, &lines, node.span, message));
        let mut all = documents(name, text).into_iter();
        let document = all.next().ok_or_else(|| whole("the file is empty"))?.map_err(Box::new)?;
        if all.next().is_some() {
            return Err(whole("it has more than one document"));
        }
        let NodeValue::Map(members) = &document.node.value else { return Err(whole("it is not an object")) };
        let kind = document.node.get("kind").and_then(|kind| kind.value.as_str());
        if kind != Some(KIND) {
            return Err(whole("it is not an object of kind ImagePlatforms"));
        }
        let mut read = Self::default();
        for member in members {
            let key = member.key.as_str();
            match (key, &member.value.value) {
                ("apiVersion" | "kind", _) => {}
                // Entry by entry, so that an error has the line of the entry.
                ("images" | "sizes" | "unanswered", NodeValue::Map(entries)) => {
                    for entry in entries {
                        let of = &entry.value;
                        read.read_member(key, &json!({entry.key.as_str(): of.to_json()}))
                            .map_err(|error| fail(of, format!("{key} of {} cannot be read: {error}", entry.key)))?;
                    }
                }
                ("images" | "sizes" | "unanswered" | "absent" | "takenAt", _) => {
                    read.read_member(key, &member.value.to_json())
                        .map_err(|error| fail(&member.value, format!("{key} cannot be read: {error}")))?;
                }
                _ => {
                    let known = "takenAt, images, sizes, absent and unanswered";
                    return Err(fail(&member.value, format!("unknown key `{key}`; the keys are {known}")));
                }
            }
        }
        Ok(read)
    }

    fn read_member(&mut self, key: &str, value: &Value) -> Result<(), serde_json::Error> {
        let mut object = Map::from_iter([("images".to_owned(), json!({}))]);
        object.insert(key.to_owned(), value.clone());
        self.extend(Self::from_value(&Value::Object(object))?);
        Ok(())
    }

    /// Adds newer results. A look-up without a result changes nothing that is known.
    pub fn extend(&mut self, newer: Self) {
        let Self { taken_at, images, sizes, absent, unanswered } = newer;
        for image in images.keys() {
            self.absent.remove(image);
            self.unanswered.remove(image);
        }
        for image in &absent {
            self.images.remove(image);
            self.sizes.remove(image);
            self.unanswered.remove(image);
        }
        let is_known = |image: &String| self.images.contains_key(image) || self.absent.contains(image);
        let unanswered = unanswered.into_iter().filter(|(image, _)| !is_known(image));
        self.unanswered.extend(unanswered);
        self.images.extend(images);
        for (image, of_builds) in sizes {
            self.sizes.entry(image).or_default().extend(of_builds);
        }
        self.absent.extend(absent);
        self.taken_at = taken_at.max(self.taken_at.take());
    }

    /// The object.
    pub fn to_value(&self) -> Result<Value, serde_json::Error> {
        let mut value = serde_json::to_value(self)?;
        if let Some(members) = value.as_object_mut() {
            members.insert("apiVersion".to_owned(), API_VERSION.into());
            members.insert("kind".to_owned(), KIND.into());
        }
        Ok(value)
    }
}

impl From<Image> for Platforms {
    fn from(image: Image) -> Self {
        match image {
            Image::Index(entries) => Self { entries: entries.into_iter().map(Entry::platform).collect(), index: true },
            Image::Manifest(entry) => Self { entries: vec![entry.platform()], index: false },
        }
    }
}

impl From<&Platforms> for Image {
    fn from(platforms: &Platforms) -> Self {
        match platforms.entries.as_slice() {
            [entry] if !platforms.index => Self::Manifest(entry.into()),
            // A document that is not an image has no entry.
            entries => Self::Index(entries.iter().map(Entry::from).collect()),
        }
    }
}

impl Entry {
    fn platform(self) -> Platform {
        let Self { os, architecture, os_version, os_features, .. } = self;
        Platform { os, architecture, os_version, os_features }
    }
}

impl From<&Platform> for Entry {
    fn from(platform: &Platform) -> Self {
        let Platform { os, architecture, os_version, os_features } = platform.clone();
        Self { os, architecture, _variant: None, os_version, os_features }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    const FILE: &str = "\
apiVersion: mullion.dev/v1alpha1
kind: ImagePlatforms
takenAt: 2026-11-23T10:00:00Z
images:
  a:1:
    index:
    - {os: linux, architecture: amd64}
    - {os: windows, architecture: amd64, os.version: 10.0.26100.1, os.features: [win32k]}
  b:1:
    manifest: {os: windows, os.version: 10.0.17763.1}
sizes:
  a:1: {10.0.26100: 120, 10.0.20348: 100}
absent: ['c:1']
unanswered:
  d:1: the registry cannot be reached
";

    #[test]
    fn a_file_is_written_as_it_is_read() {
        let read = ImagePlatforms::from_file("cache", FILE.as_bytes()).unwrap();
        assert_eq!((read.images.len(), read.sizes["a:1"][&Build::new(26100)]), (2, 120));
        let text = read.to_value().unwrap().to_string();
        assert_eq!(ImagePlatforms::from_file("cache", text.as_bytes()).unwrap(), read);
        assert_eq!(ImagePlatforms::from_value(&serde_json::from_str(&text).unwrap()).unwrap(), read);
    }

    #[test]
    fn newer_results_replace_older_ones() {
        let file = |text: &str| {
            ImagePlatforms::from_file("cache", format!("kind: ImagePlatforms\n{text}").as_bytes()).unwrap()
        };
        let mut all = ImagePlatforms::from_file("cache", FILE.as_bytes()).unwrap();
        all.extend(file("takenAt: 2026-11-24T10:00:00Z\nimages: {'c:1': {index: []}, 'd:1': {index: []}}\nabsent: ['a:1']\nunanswered: {'b:1': late, 'e:1': late}\n"));
        assert_eq!(all.images.keys().collect::<Vec<_>>(), ["b:1", "c:1", "d:1"]);
        assert_eq!(all.absent.iter().collect::<Vec<_>>(), ["a:1"]);
        assert_eq!(all.unanswered.keys().collect::<Vec<_>>(), ["e:1"]);
        assert!(all.sizes.is_empty());
        assert_eq!(all.taken_at.as_deref(), Some("2026-11-24T10:00:00Z"));
    }

    #[test]
    fn errors_have_the_line() {
        let cases = [
            ("", "empty"),
            ("just words", "not an object"),
            ("kind: List\nitems: []\n", "kind ImagePlatforms"),
            ("kind: ImagePlatforms\n---\nkind: ImagePlatforms\n", "more than one document"),
            ("kind: ImagePlatforms\nimages:\n  a:1: {platforms: []}\n", "cache:3:"),
            ("kind: ImagePlatforms\nimages:\n  a:1:\n    index: [{os: 7}]\n", "cache:4:"),
            ("kind: ImagePlatforms\nimages: []\n", "cache:2:"),
            ("kind: ImagePlatforms\nsizes:\n  a:1: {ltsc2025: 1}\n", "cache:3:"),
            ("kind: ImagePlatforms\nsizes:\n  a:1: {10.0.26100: -1}\n", "cache:3:"),
            ("kind: ImagePlatforms\nabsent: {}\n", "cache:2:"),
            ("kind: ImagePlatforms\nunanswered:\n  a:1: []\n", "cache:3:"),
            ("kind: ImagePlatforms\nimage: {}\n", "unknown key `image`"),
            ("kind: ImagePlatforms\nimages: {\n", "cache:"),
        ];
        for (text, expected) in cases {
            let error = ImagePlatforms::from_file("cache", text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(ImagePlatforms::from_file("cache", b"\xff\xfe").unwrap_err().to_string().contains("UTF-8"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_reported(text in "(kind: ImagePlatforms\n)?[a-z:{}\\[\\] \n]{0,60}") {
            drop(ImagePlatforms::from_file("cache", text.as_bytes()));
        }
    }
}
