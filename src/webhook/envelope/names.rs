//! Names that a client of the port chooses, checked where they are parsed: each type has a value only if the name is
//! valid. They become keys of caches, parts of URLs, labels of metrics and texts of logs and responses, and are as
//! short as Kubernetes makes them.

use std::fmt;
use std::ops::Deref;

use mullion_engine::model::dns_name::{DNS_SUBDOMAIN_LIMIT, is_dns_label, is_dns_subdomain};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use crate::webhook::envelope::object::BorrowedText;

/// Declares types of checked names, each with what it expects and its check.
macro_rules! checked_names {
    ($($(#[$about:meta])* $name:ident: $expected:literal, $check:expr;)+) => {$(
        $(#[$about])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// The name, if it is valid.
            pub fn new(text: &str) -> Option<Self> {
                let is_valid: fn(&str) -> bool = $check;
                is_valid(text).then(|| Self(text.into()))
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&**self, f)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let BorrowedText(text) = BorrowedText::deserialize(deserializer)?;
                // The text is not quoted, because it can have any length.
                Self::new(&text).ok_or_else(|| D::Error::custom(concat!("expected ", $expected)))
            }
        }
    )+};
}

checked_names! {
    /// The name of a namespace (`ValidateNamespaceName`, apimachinery pkg/api/validation/generic.go).
    NamespaceName: "the name of a namespace: a DNS label (RFC 1123)", is_dns_label;
    /// `request.uid`. The API server sends a UUID, which is a DNS label (`CreateAdmissionObjects`, apiserver
    /// pkg/admission/plugin/webhook/request/admissionreview.go).
    RequestUid: "a UID: at most 63 lowercase letters, digits and dashes", is_dns_label;
    /// The name of a Secret (`ValidateSecretName`, kubernetes pkg/apis/core/validation/validation.go).
    SecretName: "the name of a Secret: a DNS subdomain (RFC 1123)", is_dns_subdomain;
    /// A name of which only the length is checked, and which can be empty: webhooks are called before the API server
    /// validates the name of an object. It rejects longer ones.
    ShortName: "at most 253 bytes", |text| text.len() <= DNS_SUBDOMAIN_LIMIT;
}

impl Default for ShortName {
    fn default() -> Self {
        Self("".into())
    }
}

#[cfg(test)]
mod tests {

    use mullion_engine::model::dns_name::DNS_LABEL_LIMIT;

    use super::*;

    #[test]
    fn names_are_those_of_kubernetes() {
        let (label, subdomain) = ("a".repeat(DNS_LABEL_LIMIT), "a".repeat(DNS_SUBDOMAIN_LIMIT));
        for (name, is_namespace, is_secret) in [
            ("shop", true, true),
            ("0df28fbd-5f5f-11e8-bc74-36e6bb280816", true, true),
            (&*label, true, true),
            (&*format!("{label}a"), false, true),
            ("pull.example.com", false, true),
            (&*subdomain, false, true),
            (&*format!("{subdomain}a"), false, false),
            ("", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("a..b", false, false),
            (".", false, false),
            ("A", false, false),
            ("a b", false, false),
            ("a/../../nodes", false, false),
            ("a%2fb", false, false),
            ("a\nb", false, false),
            ("é", false, false),
        ] {
            assert_eq!(NamespaceName::new(name).is_some(), is_namespace, "{name}");
            assert_eq!(RequestUid::new(name).is_some(), is_namespace, "{name}");
            assert_eq!(SecretName::new(name).is_some(), is_secret, "{name}");
            assert_eq!(ShortName::new(name).is_some(), name.len() <= DNS_SUBDOMAIN_LIMIT, "{name}");
        }
    }
}
