//! Image references, which authors of pods write.

use mullion_engine::detect::image_facts;
use mullion_engine::model::image::{ImageOs, ImageRef};
use mullion_engine::model::settings::ImagePatterns;

use super::Meter;

pub fn run(bytes: &[u8], _: &dyn Meter) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let facts = image_facts(text, &ImagePatterns::default(), None);
    let Ok(image) = ImageRef::parse(text) else {
        assert!(facts.os == ImageOs::Unknown, "{text:?} is no reference, and reveals {:?}", facts.os);
        return;
    };
    assert_eq!(image.to_string(), text, "it reads back as it is written");
    let normalized = image.normalized().to_string();
    let again = ImageRef::parse(&normalized).unwrap_or_else(|error| panic!("{text:?} → {normalized:?}: {error}"));
    assert_eq!(again.normalized().to_string(), normalized, "{text:?}");
    assert_eq!(again.normalized_registry(), image.normalized_registry(), "{text:?}");
    assert_eq!(again.normalized_repository(), image.normalized_repository(), "{text:?}");
    assert_eq!(again.digest(), image.digest(), "{text:?}");
    // The look-up builds an address from both.
    let address = format!("https://{}/v2/{}/manifests/x", image.normalized_registry(), image.normalized_repository());
    if let Ok(uri) = address.parse::<http::Uri>() {
        let authority = uri.authority().map(http::uri::Authority::as_str);
        assert_eq!(authority, Some(image.normalized_registry()), "{text:?}");
        assert_eq!(uri.path(), format!("/v2/{}/manifests/x", image.normalized_repository()), "{text:?}");
    }
}
