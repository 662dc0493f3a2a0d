//! Platforms of images in a snapshot file: see [`dump`](crate::dump).

use std::collections::BTreeMap;
use std::sync::Arc;

use mullion_engine::model::image::{KnownImages, Platform, Platforms};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct ImagesObject {
    images: BTreeMap<String, Image>,
}

/// The entry of one reference.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Image {
    Index(Vec<Entry>),
    Manifest(Entry),
}

/// A platform with the names of the OCI image specification.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default, rename = "variant")]
    _variant: Option<String>,
    #[serde(default, rename = "os.version")]
    os_version: Option<String>,
    #[serde(default, rename = "os.features")]
    os_features: Vec<String>,
}

/// Reads an `ImagePlatforms` object; an error names the field that cannot be read.
pub(crate) fn from_value(object: &Value) -> Result<KnownImages, serde_json::Error> {
    let ImagesObject { images } = ImagesObject::deserialize(object)?;
    Ok(images.into_iter().map(|(reference, image)| (reference, Arc::new(image.into()))).collect())
}

impl From<Image> for Platforms {
    fn from(image: Image) -> Self {
        match image {
            Image::Index(entries) => Self { entries: entries.into_iter().map(Entry::platform).collect(), index: true },
            Image::Manifest(entry) => Self { entries: vec![entry.platform()], index: false },
        }
    }
}

impl Entry {
    fn platform(self) -> Platform {
        let Self { os, architecture, os_version, os_features, .. } = self;
        Platform { os, architecture, os_version, os_features }
    }
}
