//! Image patterns of `detect.images`: finds the deciding pattern for an image without trying every one of ten thousand.
//!
//! [`match_image`] is the definition, a scan. [`ImagePatterns`] finds the same pattern through an index over what a
//! pattern contains literally: a whole name, a name and a tag, or the text before its first and after its last star. An
//! image costs one look-up for each distinct length of such a text, whatever the number of patterns, and only patterns
//! whose texts match are tried. Patterns with a star at both ends have no such text and are scanned.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use crate::model::image::ImageRef;
use crate::model::schema::{ListEntry, Origin, PolicyValue, ValueShape};
use crate::model::settings::wildcard::{RUN, RUN_ACROSS, wildcard};
use crate::model::windows::Build;
use crate::{policy_object, policy_words};

/// Image patterns in the order in which they are tried. This is a list of lists, so that the patterns of a policy are
/// indexed once, when it is loaded, and shared by all settings that use them.
#[derive(Debug, Clone, Default)]
pub struct ImagePatterns {
    lists: Vec<Arc<Indexed>>,
}

/// The patterns of one policy with their index.
#[derive(Debug)]
struct Indexed {
    patterns: Vec<ImagePattern>,
    /// Position of the first pattern for each key.
    heads: HashMap<u64, u32, BuildHasherDefault<AsIs>>,
    /// For each pattern, the next one with the same key.
    next: Vec<Option<u32>>,
    /// Lengths of the literal ends that occur.
    ends: Vec<(usize, usize)>,
}

/// The index key of a pattern, by [`hash`](Key::hash).
enum Key<'a> {
    Name(&'a str),
    Tagged(&'a str, &'a str),
    Ends(&'a str, &'a str),
}

/// A hasher for keys that are hashes already.
#[derive(Default)]
struct AsIs(u64);

/// A reference, or a pattern, split into its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts<'a> {
    name: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

/// A reference as it is written and, if that differs, with registry and `library/` spelled out.
struct Forms<'a> {
    written: Parts<'a>,
    qualified: Option<String>,
}

/// One form with the hashes of every prefix and every suffix of its name: those of `n` bytes at `n`. Computed once for
/// an image, whatever the number of lists of patterns and lengths of ends that it is looked up for.
struct Hashed<'a> {
    form: Parts<'a>,
    starts: Vec<u64>,
    ends: Vec<u64>,
}

/// The first pattern that matches `reference`, by trying one after another.
///
/// `*` matches any run of characters within a path segment, `**` any run across segments (`**/` also matches nothing:
/// `a/**/b` covers `a/b`). A pattern without a tag covers every tag; a reference without tag and digest has the tag
/// `latest`. A pattern covers a reference as it is written or in full: `docker.io/library/*` covers `nginx`, and
/// `nginx` covers only what is written `nginx`. No pattern covers a text that is not a reference.
pub fn match_image<'p>(patterns: &'p [ImagePattern], reference: &str) -> Option<&'p ImagePattern> {
    let forms = Forms::of(reference)?;
    patterns.iter().find(|pattern| forms.each().any(|form| covers(&pattern.pattern, form)))
}

impl ImagePatterns {
    /// The first pattern that covers `reference`: the result of [`match_image`] over all of them.
    pub fn find(&self, reference: &str) -> Option<&ImagePattern> {
        if self.lists.is_empty() {
            return None;
        }
        let forms = Forms::of(reference)?;
        let forms: Vec<_> = forms.each().map(Hashed::of).collect();
        self.lists.iter().find_map(|list| list.find(&forms))
    }

    /// All patterns, in order.
    pub fn iter(&self) -> impl Iterator<Item = &ImagePattern> {
        self.lists.iter().flat_map(|list| &list.patterns)
    }

    /// Whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// The number of patterns.
    pub fn len(&self) -> usize {
        self.lists.iter().map(|list| list.patterns.len()).sum()
    }

    /// Adds the patterns of `lower` after these; copies no pattern.
    pub fn extend(&mut self, lower: &Self) {
        self.lists.extend(lower.lists.iter().cloned());
    }

    /// Patterns that never decide, each with an earlier pattern of its list that covers everything it covers and sets
    /// something else. Stops when `looks`, which counts down, is used up, because patterns with a star at both ends are
    /// compared with each other.
    pub fn covered(&self, looks: &mut usize) -> Vec<(&ImagePattern, &ImagePattern)> {
        let mut found = Vec::new();
        for list in &self.lists {
            for (at, pattern) in (0..).zip(&list.patterns) {
                if *looks == 0 {
                    return found;
                }
                if let Some(by) = list.covering(at, pattern, looks)
                    && (by.os, &by.builds) != (pattern.os, &pattern.builds)
                {
                    found.push((pattern, by));
                }
            }
        }
        found
    }
}

impl ImagePatterns {
    /// A pattern that covers everything that `pattern` covers, if one is found within `looks`, which counts down as in
    /// [`covered`](Self::covered).
    pub fn covering(&self, pattern: &ImagePattern, looks: &mut usize) -> Option<&ImagePattern> {
        self.lists.iter().find_map(|list| list.covering(u32::MAX, pattern, looks))
    }
}

impl From<Vec<ImagePattern>> for ImagePatterns {
    fn from(patterns: Vec<ImagePattern>) -> Self {
        if patterns.is_empty() {
            return Self::default();
        }
        Self { lists: vec![Arc::new(Indexed::new(patterns))] }
    }
}

impl Serialize for ImagePatterns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl PartialEq for ImagePatterns {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Indexed {
    fn new(patterns: Vec<ImagePattern>) -> Self {
        let mut heads = HashMap::default();
        let mut next = vec![None; patterns.len()];
        let mut ends = BTreeSet::new();
        // From the end, so that every chain is in the order of the patterns.
        for ((at, pattern), next) in patterns.iter().enumerate().zip(&mut next).rev() {
            let key = file_under(&pattern.pattern);
            if let Key::Ends(start, end) = key {
                ends.insert((start.len(), end.len()));
            }
            *next = heads.insert(key.hash(), u32::try_from(at).unwrap_or(u32::MAX));
        }
        Self { patterns, heads, next, ends: ends.into_iter().collect() }
    }

    fn find(&self, forms: &[Hashed<'_>]) -> Option<&ImagePattern> {
        let mut best = None;
        for form in forms {
            self.look(form.name(), form.form, &mut best);
            self.look(form.tagged(), form.form, &mut best);
            for key in self.ends.iter().filter_map(|(start, end)| form.ends(*start, *end)) {
                self.look(key, form.form, &mut best);
            }
        }
        best.and_then(|(_, pattern)| pattern)
    }

    /// A pattern before position `at` that covers everything that the pattern at `at` covers.
    fn covering(&self, at: u32, pattern: &ImagePattern, looks: &mut usize) -> Option<&ImagePattern> {
        let all = representatives(&pattern.pattern)?;
        let mut texts = all.iter().map(|text| Parts::of(text));
        let first = texts.next()?;
        let keys = [Key::Name(first.name), Key::Tagged(first.name, first.tag.unwrap_or_default())];
        let ends = self.ends.iter().filter_map(|(start, end)| {
            let end = first.name.len().checked_sub(*end).filter(|at| at >= start)?;
            Some(Key::Ends(first.name.get(..*start)?, first.name.get(end..)?))
        });
        let mut best: Option<(u32, &ImagePattern)> = None;
        for key in keys.into_iter().chain(ends) {
            let mut next = self.heads.get(&key.hash()).copied();
            *looks = looks.saturating_sub(1);
            while let Some(position) = next.filter(|next| *next < best.map_or(at, |(best, _)| best)) {
                let pattern = self.patterns.get(position as usize)?;
                // The cost is 1 for patterns of usual length; comparing a long one with a long one takes a hundred
                // times as long.
                let cost = 1 + pattern.pattern.len() * first.name.len() / 4096;
                *looks = looks.saturating_sub(cost);
                if *looks == 0 {
                    return None;
                }
                if covers(&pattern.pattern, first) {
                    best = Some((position, pattern));
                }
                next = self.next.get(position as usize).copied().flatten();
            }
        }
        let (_, best) = best?;
        texts.all(|text| covers(&best.pattern, text)).then_some(best)
    }

    /// Looks through the patterns with the index key `key` for one before `best`. Two keys may have the same hash, so a
    /// pattern counts only if it covers the reference.
    fn look<'a>(&'a self, key: u64, form: Parts<'_>, best: &mut Option<(u32, Option<&'a ImagePattern>)>) {
        let mut at = self.heads.get(&key).copied();
        while let Some(position) = at {
            if best.is_some_and(|(best, _)| best <= position) {
                return;
            }
            let pattern = self.patterns.get(position as usize);
            if pattern.is_some_and(|pattern| covers(&pattern.pattern, form)) {
                *best = Some((position, pattern));
                return;
            }
            at = self.next.get(position as usize).copied().flatten();
        }
    }
}

impl Key<'_> {
    fn hash(&self) -> u64 {
        match self {
            Self::Name(name) => mixed(1, hashed(name.bytes()), EMPTY),
            Self::Tagged(name, tag) => mixed(2, hashed(name.bytes()), hashed(tag.bytes())),
            Self::Ends(start, end) => mixed(3, hashed(start.bytes()), hashed(end.bytes().rev())),
        }
    }
}

impl<'a> Hashed<'a> {
    fn of(form: Parts<'a>) -> Self {
        let all = |bytes: &mut dyn Iterator<Item = u8>| {
            let next = |hash: &mut u64, byte| {
                *hash = step(*hash, byte);
                Some(*hash)
            };
            std::iter::once(EMPTY).chain(bytes.scan(EMPTY, next)).collect()
        };
        Self { starts: all(&mut form.name.bytes()), ends: all(&mut form.name.bytes().rev()), form }
    }

    fn whole(&self) -> u64 {
        self.starts.last().copied().unwrap_or(EMPTY)
    }

    fn name(&self) -> u64 {
        mixed(1, self.whole(), EMPTY)
    }

    fn tagged(&self) -> u64 {
        mixed(2, self.whole(), hashed(self.form.tag.unwrap_or_default().bytes()))
    }

    /// `None` if a name of this length does not have two ends of these lengths.
    fn ends(&self, start: usize, end: usize) -> Option<u64> {
        let fits = start + end <= self.form.name.len();
        fits.then(|| Some(mixed(3, *self.starts.get(start)?, *self.ends.get(end)?)))?
    }
}

/// FNV-1a. Only administrators write patterns, so the author of an image cannot make two of them share a hash.
const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

fn step(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
}

fn hashed(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(EMPTY, step)
}

/// The table uses the highest and the lowest bits, so each of them must depend on all bits of both hashes.
fn mixed(kind: u64, one: u64, other: u64) -> u64 {
    let product = (one ^ other.rotate_left(32) ^ kind).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| step(hash, *byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

fn file_under(pattern: &str) -> Key<'_> {
    let parts = Parts::of(pattern);
    let Some((start, rest)) = parts.name.split_once('*') else {
        return match (parts.tag, parts.digest) {
            (Some(tag), None) if !tag.contains('*') => Key::Tagged(parts.name, tag),
            _ => Key::Name(parts.name),
        };
    };
    let end = rest.rsplit_once('*').map_or(rest, |(_, end)| end);
    // `**/` may match nothing, so its slash is not part of the literal end.
    Key::Ends(start, end.strip_prefix('/').unwrap_or(end))
}

/// Texts that represent all texts that a pattern covers: another pattern that covers these covers all of them. `None`
/// if that requires more than two texts.
fn representatives(pattern: &str) -> Option<Vec<String>> {
    let optional = |(at, _): &(usize, &str)| *at == 0 || pattern.as_bytes().get(at - 1) == Some(&b'/');
    let optional: Vec<usize> = pattern.match_indices("**/").filter(optional).map(|(at, _)| at).collect();
    let symbols = |text: &str| {
        let (run, across) = (char::from(RUN).to_string(), char::from(RUN_ACROSS).to_string());
        text.replace("**", &across).replace('*', &run)
    };
    match optional.as_slice() {
        [] => Some(vec![symbols(pattern)]),
        [at] => {
            let without = format!("{}{}", pattern.get(..*at)?, pattern.get(at + 3..)?);
            Some(vec![symbols(pattern), symbols(&without)])
        }
        _ => None,
    }
}

impl<'a> Parts<'a> {
    /// A digest follows `@`, and a tag follows the first `:` after the last `/`; a `:` before that belongs to the
    /// registry's port.
    fn of(reference: &'a str) -> Self {
        let (rest, digest) = match reference.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (reference, None),
        };
        let last = rest.rfind('/').map_or(0, |at| at + 1);
        let colon = rest.get(last..).and_then(|segment| segment.find(':')).map(|at| at + last);
        let (name, tag) = match colon.and_then(|at| rest.split_at_checked(at)) {
            Some((name, tag)) => (name, tag.get(1..)),
            None => (rest, None),
        };
        Self { name, tag, digest }
    }
}

impl<'a> Forms<'a> {
    /// `None` for a text that is not a reference, because nothing is known about it.
    fn of(reference: &'a str) -> Option<Self> {
        let image = ImageRef::parse(reference).ok()?;
        let mut written = Parts::of(reference);
        if written.tag.is_none() && written.digest.is_none() {
            written.tag = Some("latest");
        }
        let full = format!("{}/{}", image.normalized_registry(), image.normalized_repository());
        Some(Self { qualified: Some(full).filter(|full| full != written.name), written })
    }

    fn each(&self) -> impl Iterator<Item = Parts<'_>> {
        let qualified = self.qualified.as_deref().map(|name| Parts { name, ..self.written });
        std::iter::once(self.written).chain(qualified)
    }
}

fn covers(pattern: &str, form: Parts<'_>) -> bool {
    let parts = Parts::of(pattern);
    let part = |pattern: Option<&str>, text: Option<&str>| {
        pattern.is_none_or(|pattern| wildcard(pattern.as_bytes(), text.unwrap_or_default().as_bytes()))
    };
    part(parts.tag, form.tag)
        && part(parts.digest, form.digest)
        && wildcard(parts.name.as_bytes(), form.name.as_bytes())
}

policy_object! {
    /// `spec.detect.images[*]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct ImagePattern {
        /// Image reference, in which `*` matches anything within a path segment and `**` anything across segments.
        /// Without a tag, any tag or digest matches. Mullion compares it with the image as the pod names it and with
        /// the full name: `docker.io/library/nginx` matches `nginx`.
        #[key("pattern": Text(Image), required: true, example: Some("registry.example.com/win/**"))]
        pub pattern: String,
        /// The operating system of the images.
        #[key("os", required: true)]
        pub os: PatternOs,
        /// Windows builds of the images, if they all have the same, as `10.0.` and the build number. Absent: from the
        /// registry, if `registry.lookup` is on, or else from the tag (`app:1.4-ltsc2022`), or else unknown.
        #[key("builds", example: Some("[10.0.20348]"))]
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub builds: Vec<Build>,
    }
    hidden {
        /// Where it is written; set by the loader.
        #[serde(skip)]
        pub origin: Option<Origin>,
    }
}

policy_words! {
    /// The operating systems of a pattern's images.
    pub enum PatternOs {
        /// Windows images.
        Windows = "windows",
        /// Linux images.
        Linux = "linux",
        /// Images that exist for both: they do not decide the operating system.
        Multi = "multi",
    }
}

impl PolicyValue for ImagePatterns {
    const SHAPE: ValueShape = <Vec<ImagePattern>>::SHAPE;
}

impl ListEntry for ImagePattern {
    fn origin(&mut self) -> Option<&mut Option<Origin>> {
        Some(&mut self.origin)
    }
}

/// Appends the patterns of several policies; copies none.
pub(crate) fn all_patterns<'a>(list: &mut ImagePatterns, all: impl Iterator<Item = &'a ImagePatterns>) {
    all.for_each(|patterns| list.extend(patterns));
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> ImagePattern {
        ImagePattern { pattern: text.to_owned(), os: PatternOs::Windows, builds: Vec::new(), origin: None }
    }

    #[test]
    fn patterns_cover_their_references() {
        let cases = [
            ("registry.example.com/win/**", "registry.example.com/win/app:1", true),
            ("registry.example.com/win/**", "registry.example.com/win/team/app", true),
            ("registry.example.com/win/**", "registry.example.com/windows/app", false),
            ("registry.example.com/win/**", "registry.example.com/win", false),
            ("registry.example.com/win/*", "registry.example.com/win/app", true),
            ("registry.example.com/win/*", "registry.example.com/win/team/app", false),
            ("registry.example.com:5000/win/*", "registry.example.com:5000/win/app:1", true),
            ("registry.example.com:5000/win/*", "registry.example.com/win/app:1", false),
            // Without a tag part, any tag matches, and so does a digest.
            ("example.com/app", "example.com/app", true),
            ("example.com/app", "example.com/app:1", true),
            ("example.com/app", "example.com/app@sha256:00", true),
            ("example.com/app", "example.com/app:1@sha256:00", true),
            ("example.com/app", "example.com/apple", false),
            ("example.com/app:1", "example.com/app:1@sha256:00", true),
            ("example.com/app:1", "example.com/app@sha256:00", false),
            ("example.com/app:1.*", "example.com/app:1.2", true),
            ("example.com/app:1.*", "example.com/app:2.1", false),
            ("example.com/app:*", "example.com/app@sha256:00", true),
            ("example.com/app:latest", "example.com/app", true),
            ("example.com/app@sha256:00", "example.com/app:1@sha256:00", true),
            ("example.com/app@sha256:00", "example.com/app:1", false),
            ("*:*-nanoserver-*", "golang:1.22-nanoserver-ltsc2022", true),
            // The reference as written, and in full.
            ("nginx", "nginx:1", true),
            ("nginx", "docker.io/library/nginx:1", false),
            ("docker.io/library/nginx", "nginx", true),
            ("docker.io/library/nginx", "docker.io/nginx", true),
            ("docker.io/library/nginx", "index.docker.io/library/nginx", true),
            ("docker.io/*/nginx", "team/nginx", true),
            ("docker.io/**", "localhost/nginx", false),
            ("docker.io/**", "registry:5000/nginx", false),
            ("*", "nginx", true),
            ("*", "team/nginx", false),
            ("**", "example.com/a/b/c:1", true),
            // `**/` may match nothing.
            ("**/nginx", "nginx", true),
            ("**/nginx", "example.com/a/nginx", true),
            ("**/nginx", "example.com/a/xnginx", false),
            ("example.com/**/app", "example.com/app", true),
            ("example.com/**/app", "example.com/a/b/app", true),
            ("example.com/**/app", "example.com/xapp", false),
            ("example.com/x**/app", "example.com/x/app", true),
            ("example.com/x**/app", "example.com/xapp", false),
            ("example.com/*-win/*", "example.com/a-win/b", true),
            ("**/*win*/**", "example.com/team/mywinstuff/app", true),
            ("", "nginx", false),
        ];
        let digest = format!("sha256:{}", "0".repeat(64));
        for (text, reference, expected) in cases {
            let (text, reference) = (text.replace("sha256:00", &digest), reference.replace("sha256:00", &digest));
            let (text, reference) = (text.as_str(), reference.as_str());
            let patterns = vec![pattern(text)];
            assert_eq!(match_image(&patterns, reference).is_some(), expected, "{text} on {reference}");
            assert_eq!(
                ImagePatterns::from(patterns).find(reference).is_some(),
                expected,
                "{text} on {reference}, indexed"
            );
        }
    }

    #[test]
    fn the_first_match_wins_across_lists() {
        let mut patterns = ImagePatterns::from(vec![pattern("a.io/x/*"), pattern("a.io/**")]);
        patterns.extend(&ImagePatterns::from(vec![pattern("a.io/x/app:1"), pattern("**")]));
        let found = |reference: &str| patterns.find(reference).map(|found| found.pattern.as_str());
        assert_eq!(found("a.io/x/app:1"), Some("a.io/x/*"));
        assert_eq!(found("a.io/y/app:1"), Some("a.io/**"));
        assert_eq!(found("b.io/y/app:1"), Some("**"));
        assert_eq!(patterns.len(), 4);
        assert!(ImagePatterns::from(Vec::new()).is_empty());
    }

    #[test]
    fn covered_patterns_are_found() {
        let cases = [
            ("**", "a.io/x", true),
            ("a.io/**", "a.io/x/*:1", true),
            ("a.io/**", "a.io/**/x", true),
            ("a.io/x", "a.io/x:1", true),
            ("a.io/x", "a.io/x", true),
            ("a.io/x:*", "a.io/x", true),
            ("a.io/x:1*", "a.io/x:1.2-*", true),
            ("**/x", "**/x", true),
            ("a.io/*/x", "a.io/y*/x", true),
            ("a.io/x:1", "a.io/x", false),
            ("a.io/*", "a.io/**", false),
            ("a.io/*/**", "a.io/**", false),
            ("a.io/*/*", "a.io/**/x", false),
            ("a.io/x/**", "a.io/*/y", false),
            ("a.io/x", "a.io/y", false),
            ("b.io/**", "a.io/**", false),
        ];
        for (first, second, expected) in cases {
            let other = ImagePattern { os: PatternOs::Linux, ..pattern(second) };
            let patterns = ImagePatterns::from(vec![pattern(first), other]);
            assert_eq!(patterns.covered(&mut 100).len(), usize::from(expected), "{first} before {second}");
            let same = ImagePatterns::from(vec![pattern(first), pattern(second)]);
            assert_eq!(same.covered(&mut 100), [], "they have the same OS");
        }
        let hostile: Vec<_> = (0..10_000).map(|n| pattern(&format!("*x{n}*"))).collect();
        let mut looks = 1_000;
        assert_eq!(ImagePatterns::from(hostile).covered(&mut looks), []);
        assert_eq!(looks, 0, "bounded");
    }

    #[test]
    fn long_patterns_use_up_more_of_the_looks() {
        let long: Vec<_> = (0..100).map(|n| pattern(&format!("**{n}{}**", "*a".repeat(200)))).collect();
        let mut looks = 100 * 100;
        assert_eq!(ImagePatterns::from(long).covered(&mut looks), []);
        assert_eq!(looks, 0, "5,000 pairs");
    }

    #[test]
    fn what_is_no_reference_is_covered_by_nothing() {
        for reference in ["", "$(IMAGE)", "a//b", "Example/App", &format!("example.com/{}", "a".repeat(300))] {
            assert!(match_image(&[pattern("**")], reference).is_none(), "{reference}");
            assert!(ImagePatterns::from(vec![pattern("**")]).find(reference).is_none(), "{reference}");
        }
    }

    #[test]
    fn ten_thousand_patterns_are_not_scanned() {
        let kinds: [fn(usize) -> String; 6] = [
            |n| format!("registry.example.com/team-{n}/**"),
            |n| format!("registry.example.com/app-{n}-*"),
            |n| format!("registry.example.com/**/service-{n}"),
            |n| format!("**/tool-{n}"),
            |n| format!("registry.example.com/one/app:{n}"),
            |n| format!("registry.example.com/exact/{n}"),
        ];
        for make in kinds {
            let patterns = (0..10_000).map(|n| pattern(&make(n))).collect::<Vec<_>>();
            let indexed = Indexed::new(patterns);
            assert!(indexed.ends.len() <= 8, "{} lengths for {}", indexed.ends.len(), make(0));
            let chained = indexed.next.iter().flatten().count();
            assert_eq!(chained, 0, "each of {} has a key of its own", make(0));
        }
    }

    proptest! {
        #[test]
        fn the_index_finds_what_a_scan_finds(
            patterns in prop::collection::vec("(a\\.b/|\\*\\*/|)[ab*/]{0,5}[ab*](:[ab*]{1,2})?(@\\*)?", 0..12),
            reference in "(a\\.b/|docker\\.io/|)([ab]{1,2}/){0,2}[ab](:[ab]{1,2})?(@sha256:0{64})?",
        ) {
            let patterns: Vec<_> = patterns.iter().map(|text| pattern(text)).collect();
            let scanned = match_image(&patterns, &reference).cloned();
            let mut cut = ImagePatterns::default();
            for policy in patterns.chunks(3) {
                cut.extend(&ImagePatterns::from(policy.to_vec()));
            }
            prop_assert_eq!(cut.find(&reference).cloned(), scanned.clone());
            prop_assert_eq!(ImagePatterns::from(patterns).find(&reference).cloned(), scanned);
        }

        #[test]
        fn what_is_covered_never_decides(
            patterns in prop::collection::vec("(a\\.b/|\\*\\*/|)[ab*/]{0,4}[ab*](:[ab*]{1,2})?(@\\*)?", 2..8),
            references in prop::collection::vec("(a\\.b/|docker\\.io/|)([ab]{1,2}/){0,2}[ab](:[ab]{1,2})?(@sha256:0{64})?", 8),
        ) {
            // All of them differ, so that each covered one is found.
            let patterns: Vec<_> = patterns.iter().enumerate().map(|(at, text)| {
                let origin = Some(Origin { file: "p".into(), line: u32::try_from(at).unwrap() });
                let os = if at % 2 == 0 { PatternOs::Linux } else { PatternOs::Windows };
                ImagePattern { os, origin, ..pattern(text) }
            }).collect();
            let indexed = ImagePatterns::from(patterns.clone());
            for (covered, by) in indexed.covered(&mut 10_000) {
                prop_assert!(by.origin.as_ref().unwrap().line < covered.origin.as_ref().unwrap().line);
                for reference in &references {
                    prop_assert_ne!(match_image(&patterns, reference), Some(covered), "{:?}", by);
                }
            }
        }

        #[test]
        fn any_text_is_taken(patterns in prop::collection::vec(".{0,20}", 0..4), reference in ".{0,30}") {
            let patterns: Vec<_> = patterns.iter().map(|text| pattern(text)).collect();
            let scanned = match_image(&patterns, &reference).cloned();
            prop_assert_eq!(ImagePatterns::from(patterns).find(&reference).cloned(), scanned);
        }
    }
}
