//! Short texts that several reports share: origins, values, sentences, file names.

use std::borrow::Cow;

use mullion_engine::model::settings::Origin;

/// The origin of a setting: `policies/a.yaml:7`, or `built-in default`.
pub(crate) fn set_by(origin: Option<&Origin>) -> String {
    origin.map_or_else(|| "built-in default".to_owned(), ToString::to_string)
}

/// A path with slashes instead of the backslashes of Windows. On other systems a backslash is part of a name.
pub(crate) fn slashed(file: &str) -> Cow<'_, str> {
    if cfg!(windows) { Cow::Owned(file.replace('\\', "/")) } else { Cow::Borrowed(file) }
}

/// The path by which CI systems find a file of the repository in which the program runs: with slashes, and without `./`.
pub(crate) fn repository_path(file: &str) -> Cow<'_, str> {
    match slashed(file) {
        Cow::Borrowed(path) => Cow::Borrowed(path.trim_start_matches("./")),
        Cow::Owned(path) => Cow::Owned(path.trim_start_matches("./").to_owned()),
    }
}

/// `message; help (remark)`, without empty parts.
pub(crate) fn sentence(message: &str, help: &str, remark: &str) -> String {
    let mut sentence = message.to_owned();
    if !help.is_empty() {
        sentence = format!("{sentence}; {help}");
    }
    if !remark.is_empty() {
        sentence = format!("{sentence} ({remark})");
    }
    sentence
}
