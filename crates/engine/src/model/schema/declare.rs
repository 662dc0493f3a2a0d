//! Macros that declare the keys and words of policy files together with the types that hold their values.

/// Declares an enum with the words that a key takes. The comment of a variant explains its word, which is the variant's
/// name unless `= "word"` follows.
#[macro_export]
macro_rules! policy_words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident $(= $default:ident)? {
            $($(#[doc = $doc:literal])+ $variant:ident $(= $word:literal)?,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[doc = $doc])+ $(#[serde(rename = $word)])? $variant,)+
        }

        $(impl Default for $name {
            fn default() -> Self {
                Self::$default
            }
        })?

        impl $crate::model::schema::PolicyValue for $name {
            const SHAPE: $crate::model::schema::ValueShape = $crate::model::schema::ValueShape::Word(&[
                $($crate::model::schema::SchemaWord {
                    word: $crate::policy_words!(@word $variant $($word)?),
                    doc: concat!($($doc),+).trim_ascii_start(),
                },)+
            ]);
        }
    };
    (@word $variant:ident) => { stringify!($variant) };
    (@word $variant:ident $word:literal) => { $word };
}

/// Declares a struct with the keys of a map. `#[key("name", …)]` sets members of
/// [`SchemaKey`](crate::model::schema::SchemaKey); `"name": shape` sets a shape that the type does not have. Fields under
/// `hidden` are no keys. If every field has a default, `= value`, the struct implements `Default`.
#[macro_export]
macro_rules! policy_object {
    (
        $(#[$meta:meta])*
        pub struct $name:ident $(: $constraint:ident)? {
            $(
                $(#[doc = $doc:literal])*
                #[key($key:literal $(: $shape:expr)? $(, $member:ident: $value:expr)* $(,)?)]
                $(#[$attribute:meta])*
                pub $field:ident: $type:ty $(= $default:expr)?,
            )+
        }
        $(hidden { $($(#[$other:meta])* pub $hidden:ident: $hidden_type:ty,)+ })?
    ) => {
        $(#[$meta])*
        pub struct $name {
            $(
                $(#[doc = $doc])*
                #[serde(rename = $key)]
                $(#[$attribute])*
                pub $field: $type,
            )+
            $($($(#[$other])* pub $hidden: $hidden_type,)+)?
        }

        $crate::policy_object!(@default $name { $($field $(= $default)?),+ });

        impl $crate::model::schema::PolicyObject for $name {
            const OBJECT: &'static $crate::model::schema::SchemaObject = {
                static OBJECT: $crate::model::schema::SchemaObject = $crate::model::schema::SchemaObject {
                    keys: &[$($crate::model::schema::SchemaKey {
                        $($member: $value,)*
                        ..$crate::model::schema::SchemaKey {
                            default_value: $crate::policy_object!(@default_value $name $key $(, $default)?),
                            ..$crate::model::schema::SchemaKey::new(
                                $key,
                                $crate::policy_object!(@shape $type $(, $shape)?),
                                concat!($($doc),*).trim_ascii_start(),
                            )
                        }
                    },)+],
                    constraint: $crate::policy_object!(@constraint $($constraint)?),
                };
                &OBJECT
            };
        }

        impl $crate::model::schema::PolicyValue for $name {
            const SHAPE: $crate::model::schema::ValueShape =
                $crate::model::schema::ValueShape::Object(<Self as $crate::model::schema::PolicyObject>::OBJECT);
        }
    };
    (@default $name:ident { $($field:ident),+ }) => {};
    (@default $name:ident { $($field:ident = $default:expr),+ }) => {
        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),+ }
            }
        }
    };
    (@default_value $name:ident $key:literal) => { None };
    (@default_value $name:ident $key:literal, $default:expr) => {
        Some(|| $crate::model::schema::member(&$name::default(), $key))
    };
    (@shape $type:ty) => { <$type as $crate::model::schema::PolicyValue>::SHAPE };
    (@shape $type:ty, $shape:expr) => {{
        #[allow(unused_imports, clippy::enum_glob_use, reason = "for the shape as it is declared")]
        use $crate::model::schema::{TextFormat::*, ValueShape::*};
        $shape
    }};
    (@constraint) => { None };
    (@constraint $constraint:ident) => { Some($crate::model::schema::KeyConstraint::$constraint) };
}

/// Declares the settings of one kind of policy: a struct with a default, and the keys of `spec` that set its fields, by
/// their dotted names. A field without `= value` has the default of its type. `#[list(Entry, function)]` marks a list to
/// which every matching policy adds, merged by the function; `#[members(Entry)]` shows a list of objects by their values
/// only. `sections` explains the maps above the keys.
#[macro_export]
macro_rules! policy_settings {
    (
        $(#[$meta:meta])*
        pub struct $name:ident, $keys:ident, $sections:ident {
            $(
                $(#[doc = $doc:literal])+
                #[key($key:literal $(: $shape:expr)? $(, $member:ident: $value:expr)* $(,)?)]
                $(#[list($entry:ty, $merge:expr)])?
                $(#[members($object:ty)])?
                pub $field:ident: $type:ty $(= $default:expr)?,
            )+
        }
        $(hidden { $($(#[$other:meta])* pub $hidden:ident: $hidden_type:ty,)+ })?
        sections { $($(#[doc = $about:literal])+ $section:literal $(: $constraint:ident)?,)* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, serde::Serialize)]
        pub struct $name {
            $($(#[doc = $doc])+ #[serde(rename = $key)] pub $field: $type,)+
            $($($(#[$other])* pub $hidden: $hidden_type,)+)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: $crate::policy_settings!(@default $($default)?),)+
                    $($($hidden: Default::default(),)+)?
                }
            }
        }

        /// Every key that sets a field, in the order of a policy file.
        pub static $keys: &[$crate::model::schema::PolicyKey<$name>] = &[$(
            $crate::model::schema::PolicyKey {
                name: $key,
                row: $crate::model::schema::SchemaKey {
                    $($member: $value,)*
                    ..$crate::model::schema::SchemaKey {
                        default_value: Some(|| $crate::policy_settings!(@value $name::default().$field $(, $object)?)),
                        ..$crate::model::schema::SchemaKey::new(
                            $key,
                            $crate::policy_object!(@shape $type $(, $shape)?),
                            concat!($($doc),+).trim_ascii_start(),
                        )
                    }
                },
                value: |it| $crate::policy_settings!(@value it.$field $(, $object)?),
                take: |it, from| it.$field.clone_from(&from.$field),
                read: $crate::policy_settings!(@read $field $(, $entry)?),
                list: $crate::policy_settings!(@list $field $(, $entry, $merge)?),
            },
        )+];

        /// The maps above the keys.
        pub static $sections: &[$crate::model::schema::SchemaSection] = &[$(
            $crate::model::schema::SchemaSection {
                name: $section,
                doc: concat!($($about),+).trim_ascii_start(),
                constraint: $crate::policy_object!(@constraint $($constraint)?),
            },
        )*];
    };
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
    (@value $field:expr) => { $crate::model::schema::to_json(&$field) };
    (@value $field:expr, $object:ty) => { $crate::model::schema::members::<$object>(&$field) };
    (@read $field:ident) => {
        |it, value, _| {
            it.$field = serde_json::from_value(value)?;
            Ok(Vec::new())
        }
    };
    (@read $field:ident, $entry:ty) => {
        |it, value, origin_of| {
            let mut entries: Vec<$entry> = serde_json::from_value(value)?;
            let mut origins = Vec::new();
            for (at, entry) in entries.iter_mut().enumerate() {
                match $crate::model::schema::ListEntry::origin(entry) {
                    Some(origin) => *origin = Some(origin_of(at)),
                    None => origins.push(origin_of(at)),
                }
            }
            it.$field = entries.into();
            Ok(origins)
        }
    };
    (@list $field:ident) => { None };
    (@list $field:ident, $entry:ty, $merge:expr) => {
        Some($crate::model::schema::PolicyList {
            merge: |it, all| $merge(&mut it.$field, all.map(|one| &one.$field)),
            entries: |it| it.$field.iter().map($crate::model::schema::ListEntry::to_entry).collect(),
        })
    };
}
