//! The repositories that a row of the tables is about.

use serde::Deserialize;

use crate::model::image::ImageRef;
use crate::model::text::shown;

/// The Microsoft Container Registry, as a pattern names it.
const MICROSOFT: &str = "mcr.microsoft.com/";
/// The namespace of the Docker official images.
const OFFICIAL: &str = "library/";

/// The repositories that a row is about.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum RepositoryPattern {
    /// `mcr.microsoft.com/PATH`: exactly this path of the Microsoft Container Registry, or of a mirror that includes
    /// its name. For paths that are too short to be known elsewhere.
    Microsoft(String),
    /// `library/NAME`: a Docker official image.
    Official(String),
    /// `library/*`: any Docker official image.
    AnyOfficial,
    /// `PATH`: a path that ends with these components, in any registry.
    End(String),
}

impl RepositoryPattern {
    /// Whether the pattern matches the image's repository.
    pub fn matches(&self, image: &ImageRef<'_>) -> bool {
        match self {
            Self::Microsoft(path) => image.microsoft_path() == Some(path),
            Self::Official(name) => image.official_name() == Some(name),
            Self::AnyOfficial => image.official_name().is_some(),
            Self::End(path) => image
                .repository()
                .strip_suffix(path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('/')),
        }
    }

    /// The path in the pattern.
    pub fn path(&self) -> &str {
        match self {
            Self::Microsoft(path) | Self::Official(path) | Self::End(path) => path,
            Self::AnyOfficial => "*",
        }
    }
}

impl TryFrom<String> for RepositoryPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let path = text.strip_prefix(MICROSOFT).unwrap_or(&text);
        if path == "library/*" {
            return Ok(Self::AnyOfficial);
        }
        // A host other than Microsoft's is an error, because a row applies to copies in other registries too.
        let well_formed = ImageRef::parse(path)
            .is_ok_and(|image| image.registry().is_none() && image.tag().is_none() && image.digest().is_none());
        if !well_formed {
            return Err(format!(
                "`{}` is not a repository; write its path without registry and tag, such as `windows/servercore`, \
                 `library/NAME` for a Docker official image, or `mcr.microsoft.com/PATH` for exactly that path",
                shown(&text)
            ));
        }
        Ok(if path.len() < text.len() {
            Self::Microsoft(path.to_owned())
        } else if let Some(name) = path.strip_prefix(OFFICIAL) {
            Self::Official(name.to_owned())
        } else {
            Self::End(text)
        })
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn matches(pattern: &str, image: &str) -> bool {
        RepositoryPattern::try_from(pattern.to_owned()).unwrap().matches(&ImageRef::parse(image).unwrap())
    }

    #[test]
    fn repositories() {
        let cases = [
            ("windows/servercore", "mcr.microsoft.com/windows/servercore:ltsc2022", true),
            ("windows/servercore", "mirror.example.com/a/windows/servercore", true),
            ("windows/servercore", "mcr.microsoft.com/windows/servercore/iis", false),
            ("windows/servercore", "mirror.example.com/mywindows/servercore", false),
            ("mcr.microsoft.com/windows", "mcr.microsoft.com/windows:1809", true),
            ("mcr.microsoft.com/windows", "registry.corp/mirror/mcr.microsoft.com/windows:1809", true),
            ("mcr.microsoft.com/windows", "mcr.microsoft.com/windows/server:ltsc2022", false),
            ("mcr.microsoft.com/windows", "registry.corp/windows:1809", false),
            ("library/golang", "golang:1.27", true),
            ("library/golang", "docker.io/library/golang:1.27", true),
            ("library/golang", "acme/golang:1.27", false),
            ("library/*", "nats", true),
            ("library/*", "acme/nats", false),
        ];
        for (pattern, image, expected) in cases {
            assert_eq!(matches(pattern, image), expected, "{pattern} {image}");
        }
        for bad in
            ["", "/", "windows/", "example.com/windows", "windows:ltsc2022", "Windows", "mcr.microsoft.com/", "a b"]
        {
            assert!(RepositoryPattern::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
