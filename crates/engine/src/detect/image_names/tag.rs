//! Words of a tag, compared with two small vocabularies.
//!
//! A tag is split at `-`, `_` and `.`; words compare ignoring case (`20H2` is upper case in practice). Linux words take
//! precedence: `1.0-linux-amd64-1809` is a Linux image.

use crate::model::text::strip_word;
use crate::model::windows::{Build, LTSC_NAMES, VERSIONS, YEAR_LIKE, YEARS, is_image_build};

/// The repository of the tag, which decides how a number in the tag is interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    /// A Windows base image or similar: `1909` and `2004` are releases and not years.
    BaseImage,
    /// A Windows image whose tags name their release by the year alone: `0.154.0-2022`.
    YearNamed,
    /// Any other repository: such a number counts only after a Windows word.
    Other,
}

/// Operating system by the words of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TagOs {
    /// No word for either.
    Silent,
    /// A word of a Linux distribution, or `linux`.
    Linux,
    /// Both `linux` and `windows`.
    Both,
    /// A word that only Windows images have.
    Windows,
}

/// The facts in a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) os: TagOs,
    /// `win`, `hp` or `hpc` as a word: means Windows in some repositories and nothing elsewhere.
    pub(crate) hint: bool,
    /// Windows by a word that a compiler for Windows would have in its tag too: `windows` and nothing stronger.
    pub(crate) bare: bool,
    /// A tag of several releases has no build, because it does not show which of them a host would get.
    pub(crate) build: Option<Build>,
}

/// Words that occur only in tags of Linux images; digits may follow (`alpine3.20`, `ubi9`, `ubuntu2204`).
///
/// Sources: tags of the Docker official images (docker-library/official-images), of dotnet/dotnet-docker (`chiseled`, `azurelinux`,
/// `mariner`, Ubuntu and Debian code names) and of base images of Red Hat, Amazon and Photon; `musl`, `glibc` and `uclibc` are busybox's.
const LINUX_WORDS: &[&str] = &[
    "linux",
    "alpine",
    "debian",
    "buster",
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "stretch",
    "jessie",
    "wheezy",
    "ubuntu",
    "xenial",
    "bionic",
    "focal",
    "jammy",
    "noble",
    "plucky",
    "questing",
    "resolute",
    "trusty",
    "ubi",
    "rhel",
    "centos",
    "fedora",
    "rocky",
    "rockylinux",
    "almalinux",
    "oraclelinux",
    "amazonlinux",
    "amzn",
    "archlinux",
    "opensuse",
    "sles",
    "azurelinux",
    "mariner",
    "chiseled",
    "distroless",
    "wolfi",
    "photon",
    "musl",
    "glibc",
    "uclibc",
];

/// How much a Windows word proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// Only Windows images have it.
    Proof,
    /// Proof unless a word of [`DOUBTS`] is there too: `fix-windows-paths` is a branch.
    Word,
    /// See [`Reading::hint`]; `andyzhangx/samba:win-fix` is a Linux image.
    Hint,
}

pub(crate) struct WindowsWord {
    pub(crate) text: &'static str,
    weight: Weight,
    /// A release may follow, joined or as the next word: `servercore1809`, `windows-2022`.
    pub(crate) release: bool,
}

const fn word(text: &'static str, weight: Weight, release: bool) -> WindowsWord {
    WindowsWord { text, weight, release }
}

/// Sources: MCR base images and docker-library/official-images (`nanoserver`, `windowsservercore`); gitlab-runner-helper (`servercore`,
/// joined releases); kubernetes-sigs/sig-windows-tools (`hostprocess`); kubernetes-csi (`windows-hp`); Azure Monitor and Profisee (`win`).
pub(crate) const WINDOWS_WORDS: &[WindowsWord] = &[
    word("nanoserver", Weight::Proof, true),
    word("windowsservercore", Weight::Proof, true),
    word("windowsnanoserver", Weight::Proof, true),
    word("windowsserver", Weight::Proof, true),
    word("servercore", Weight::Proof, true),
    word("hostprocess", Weight::Proof, false),
    word("windows", Weight::Word, true),
    word("win", Weight::Hint, true),
    word("hp", Weight::Hint, false),
    word("hpc", Weight::Hint, false),
];

/// Words that may stand between a Windows word and its release: `windows-nano-2025`, `windows-amd64-1809`,
/// `windows-server-core-2022`.
const FILLERS: &[&str] = &["nano", "server", "core", "base", "amd64", "arm64", "x64", "x86"];

/// Beside one of these words, `windows` names what the image is about and not what it runs on: `fix-windows-paths`,
/// `x86_64-pc-windows-gnu`.
const DOUBTS: &[&str] = &[
    "fix", "bugfix", "hotfix", "feat", "feature", "add", "enable", "support", "no", "non", "not", "without", "pc",
    "gnu", "msvc", "gnullvm",
    // Unity's editor on Linux for players on Windows: `unityci/editor:2021.3.17f1-windows-mono-1.0.1`. The editor on
    // Windows builds `windows-il2cpp` (game-ci).
    "mono",
];

/// Tools that run on one system and build for another; they are doubts in a tag and in the name of a repository.
const TOOLCHAINS: &[&str] =
    &["builder", "cross", "crossbuild", "mingw", "mingw64", "toolchain", "wine", "wine64", "xgo"];

/// Whether a word names a tool for other systems.
pub(crate) fn is_toolchain_word(text: &str) -> bool {
    is_one_of(TOOLCHAINS, text)
}

/// Joined to `win`: Profisee's `win22`.
pub(crate) const SHORT_YEARS: &[(&str, Build)] =
    &[("16", Build::new(14393)), ("19", Build::new(17763)), ("22", Build::new(20348)), ("25", Build::new(26100))];

pub(crate) fn look_up(table: &[(&str, Build)], text: &str) -> Option<Build> {
    table.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|&(_, build)| build)
}

fn is_one_of(words: &[&str], text: &str) -> bool {
    words.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// The build of a release name right after a Windows word.
pub(crate) fn release_word(text: &str) -> Option<Build> {
    [LTSC_NAMES, VERSIONS, YEAR_LIKE, YEARS].iter().find_map(|table| look_up(table, text))
}

/// One word and the separators beside it.
struct Token<'a> {
    text: &'a str,
    after_dot: bool,
    before_dot: bool,
}

impl Token<'_> {
    /// Whether it is not part of a dotted number: `1909.1` is a product version.
    fn stands_alone(&self) -> bool {
        !self.after_dot && !self.before_dot
    }
}

fn tokens(tag: &str) -> impl Iterator<Item = Token<'_>> {
    let mut after_dot = false;
    tag.split_inclusive(['-', '_', '.']).map(move |piece| {
        let text = piece.strip_suffix(['-', '_', '.']).unwrap_or(piece);
        let before_dot = piece.ends_with('.');
        let token = Token { text, after_dot, before_dot };
        after_dot = before_dot;
        token
    })
}

/// Builds found so far, of one rank.
#[derive(Clone, Copy)]
enum Found {
    Nothing,
    One(Build),
    Several,
}

impl Found {
    fn add(&mut self, build: Build) {
        *self = match *self {
            Self::Nothing => Self::One(build),
            Self::One(known) if known == build => Self::One(known),
            Self::One(_) | Self::Several => Self::Several,
        };
    }
}

/// How much of `10.0.<build>.<revision>` the words so far have matched.
#[derive(Clone, Copy)]
enum OsVersion {
    Nothing,
    Ten,
    TenZero,
    Build(Build),
}

/// The last word other than a filler.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Previous {
    Start,
    Ltsc,
    /// `win`, after which only some releases count.
    Win,
    /// Another Windows word that a release may follow.
    Windows,
    Other,
}

/// The words seen so far in a tag.
#[expect(clippy::struct_excessive_bools, reason = "one flag per kind of word that has been seen")]
struct Scan {
    context: Context,
    linux: bool,
    literal_linux: bool,
    proof: bool,
    windows: bool,
    doubt: bool,
    hint: bool,
    /// Builds from names that can only be releases; if there are any, other builds do not count.
    strong: Found,
    weak: Found,
    version: OsVersion,
    previous: Previous,
}

/// Reads a tag.
pub(crate) fn read_words(tag: &str, context: Context) -> Reading {
    let mut scan = Scan {
        context,
        linux: false,
        literal_linux: false,
        proof: false,
        windows: false,
        doubt: false,
        hint: false,
        strong: Found::Nothing,
        weak: Found::Nothing,
        version: OsVersion::Nothing,
        previous: Previous::Start,
    };
    for token in tokens(tag) {
        scan.os_version(&token);
        scan.word(&token);
    }
    scan.reading()
}

impl Scan {
    /// `10.0.17763.1282` is proof, `10.0.17763` only a build, because three-part product versions are common. Only
    /// builds that exist count, because `10.0.0.60234` is a product version too. A base image may be an Insider
    /// Preview, with a build that is in no table.
    fn os_version(&mut self, token: &Token<'_>) {
        let number = token.text.bytes().all(|byte| byte.is_ascii_digit());
        self.version = match self.version {
            OsVersion::Ten if token.after_dot && token.text == "0" => OsVersion::TenZero,
            OsVersion::TenZero if token.after_dot && number => match token.text.parse().map(Build::new) {
                Ok(build) if self.is_plausible(build) => {
                    if !token.before_dot {
                        self.strong.add(build);
                    }
                    OsVersion::Build(build)
                }
                _ => OsVersion::Nothing,
            },
            OsVersion::Build(build) if token.after_dot && number && !token.before_dot => {
                self.strong.add(build);
                self.proof = true;
                OsVersion::Nothing
            }
            _ if token.text == "10" && !token.after_dot => OsVersion::Ten,
            _ => OsVersion::Nothing,
        };
    }

    fn is_plausible(&self, build: Build) -> bool {
        // 14393 is the first Windows with containers.
        is_image_build(build) || (self.context == Context::BaseImage && (14393..100_000).contains(&build.number()))
    }

    fn word(&mut self, token: &Token<'_>) {
        let text = token.text;
        let after_windows = matches!(self.previous, Previous::Windows | Previous::Win);
        if text.is_empty() || (after_windows && is_one_of(FILLERS, text)) {
            return;
        }
        let previous = std::mem::replace(&mut self.previous, Previous::Other);
        let base = self.context == Context::BaseImage;
        if let Some(build) = look_up(LTSC_NAMES, text) {
            self.proven(build);
        } else if text.eq_ignore_ascii_case("ltsc") {
            self.previous = Previous::Ltsc;
        } else if let Some(build) = look_up(YEARS, text) {
            if previous == Previous::Ltsc {
                self.proven(build);
            } else if token.stands_alone()
                && (after_windows || self.context == Context::YearNamed || (base && previous == Previous::Start))
            {
                self.weak.add(build);
            }
        } else if let Some(build) = look_up(VERSIONS, text) {
            if token.stands_alone() {
                self.weak.add(build);
                self.proof |= previous == Previous::Win;
            }
        } else if let Some(build) = look_up(YEAR_LIKE, text) {
            if token.stands_alone() && (after_windows || base) {
                self.weak.add(build);
            }
        } else if is_linux_word(text) {
            self.linux = true;
            self.literal_linux |= text.eq_ignore_ascii_case("linux");
        } else if is_one_of(DOUBTS, text) || is_toolchain_word(text) {
            self.doubt = true;
        } else {
            self.windows_word(text);
        }
    }

    fn windows_word(&mut self, text: &str) {
        for word in WINDOWS_WORDS {
            let Some(rest) = strip_word(text, word.text) else {
                continue;
            };
            if rest.is_empty() {
                match word.weight {
                    Weight::Proof => self.proof = true,
                    Weight::Word => self.windows = true,
                    Weight::Hint => self.hint = true,
                }
                self.previous = match word.weight {
                    _ if !word.release => Previous::Other,
                    Weight::Hint => Previous::Win,
                    Weight::Proof | Weight::Word => Previous::Windows,
                };
                return;
            }
            let short = || {
                if word.weight == Weight::Hint { look_up(SHORT_YEARS, rest) } else { None }
            };
            if word.release
                && let Some(build) = release_word(rest).or_else(short)
            {
                self.proven(build);
                return;
            }
        }
    }

    fn proven(&mut self, build: Build) {
        self.strong.add(build);
        self.proof = true;
    }

    fn reading(&self) -> Reading {
        let os = if self.linux {
            if self.literal_linux && self.windows { TagOs::Both } else { TagOs::Linux }
        } else if self.proof || (self.windows && !self.doubt) {
            TagOs::Windows
        } else {
            TagOs::Silent
        };
        let build = match (self.strong, self.weak) {
            (Found::One(build), _) | (Found::Nothing, Found::One(build)) => Some(build),
            _ => None,
        };
        Reading { os, hint: self.hint, bare: !self.proof, build }
    }
}

fn is_linux_word(text: &str) -> bool {
    let word = text.trim_end_matches(|letter: char| letter.is_ascii_digit());
    // `al2` and `al2023` are Amazon Linux; `al` without digits proves nothing.
    is_one_of(LINUX_WORDS, word) || is_one_of(&["al2", "al2023"], text)
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;

    fn check(context: Context, cases: &[(&str, TagOs, Option<u32>)]) {
        for &(tag, os, build) in cases {
            let reading = read_words(tag, context);
            assert_eq!((reading.os, reading.build), (os, build.map(Build::new)), "{tag}");
        }
    }

    #[test]
    fn words_of_any_repository() {
        use TagOs::{Both, Linux, Silent, Windows};
        check(
            Context::Other,
            &[
                ("ltsc2022", Windows, Some(20348)),
                ("LTSC2022", Windows, Some(20348)),
                ("1.0-ltsc2019-amd64", Windows, Some(17763)),
                ("3.8.0-windows-ltsc-2022", Windows, Some(20348)),
                ("windows_ltsc2022", Windows, Some(20348)),
                ("4.2-ltsc-2019", Windows, Some(17763)),
                ("sac2016", Windows, Some(14393)),
                ("3-windowsservercore", Windows, None),
                ("3-windowsservercore-1809", Windows, Some(17763)),
                ("21-nanoserver", Windows, None),
                ("jdk21-nanoserver-1809", Windows, Some(17763)),
                ("jdk21-windowsservercore-2019", Windows, Some(17763)),
                ("windowsservercore2022", Windows, Some(20348)),
                ("7-servercore", Windows, None),
                ("x86_64-v17.0.0-servercore1809", Windows, Some(17763)),
                ("x86_64-v17.0.0-nanoserver21H2", Windows, Some(20348)),
                ("x86_64-latest-servercore24H2", Windows, Some(26100)),
                ("2.0.1-alpha.1-windows-1809-amd64", Windows, Some(17763)),
                ("3.6-windows-20H2-amd64", Windows, Some(19042)),
                ("v1.7-windows-1903", Windows, Some(18362)),
                ("3.4-windows-amd64-2004", Windows, Some(19041)),
                ("windows-2022-2.2.2", Windows, Some(20348)),
                ("windows-nano-2025-5.1.1", Windows, Some(26100)),
                ("windows-server-core-2019", Windows, Some(17763)),
                ("windows-2022.1.0", Windows, None),
                ("windows-amd64-2.0.1", Windows, None),
                ("v1.2-windows", Windows, None),
                ("canary-windows-hp", Windows, None),
                ("v1.29.1-windows-hpc-2", Windows, None),
                ("v3.26.1-hostprocess", Windows, None),
                ("2023.1.0-win22", Windows, Some(20348)),
                ("2024r1-win25", Windows, Some(26100)),
                ("1.0-win1809", Windows, Some(17763)),
                ("1.0-win-1809", Windows, Some(17763)),
                ("1.0-win-20h2", Windows, Some(19042)),
                ("5.0-10.0.17763.1282", Windows, Some(17763)),
                ("10.0.0.60234.10194-pbi-422197-0035-10.0.17763.1282-ltsc2019", Windows, Some(17763)),
                // Several releases: it is unknown which one a host gets.
                ("ltsc2019-ltsc2022", Windows, None),
                ("windows-1809-20H2", Windows, None),
                // A product version beside a word that can only be a release.
                ("1909-ltsc2019", Windows, Some(17763)),
                ("2004-windowsservercore-ltsc2022", Windows, Some(20348)),
                ("2004-windowsservercore", Windows, None),
                // Not Windows.
                ("1.0-linux-amd64-ltsc2022", Linux, Some(20348)),
                ("1.0-linux-amd64-1809", Linux, Some(17763)),
                ("1.2-linux", Linux, None),
                ("1.24-alpine3.20", Linux, None),
                ("10.0-noble-chiseled", Linux, None),
                ("2022-CU10-ubuntu-22.04", Linux, None),
                ("lts-ubuntu-16.04", Linux, None),
                ("9-ubi9", Linux, None),
                ("debian-windows-cross", Linux, None),
                ("1.0-linux-windows", Both, None),
                ("win-fix", Silent, None),
                ("win-2024.1", Silent, None),
                ("win-3.1.24", Silent, None),
                ("fix-windows-paths", Silent, None),
                ("windows-cross", Silent, None),
                ("x86_64-pc-windows-gnu", Silent, None),
                ("windows-crossbuild", Silent, None),
                ("2021.3.17f1-windows-mono-1.0.1", Silent, None),
                ("windows-6000.3.8f1-windows-il2cpp-3", Windows, None),
                ("29.5-jdk-resolute", Linux, None),
                ("1.37-musl", Linux, None),
                ("windowsill", Silent, None),
                ("windows7", Silent, None),
                ("winter-2022", Silent, None),
                ("darwin", Silent, None),
                ("2022-latest", Silent, None),
                ("2004", Silent, None),
                ("1909", Silent, None),
                ("1.8.09", Silent, None),
                ("v2.1809", Silent, None),
                ("2022", Silent, None),
                ("3.12-slim", Silent, None),
                ("10.0.0.60234", Silent, None),
                ("1.10.0.17763.5", Silent, None),
                ("10.0.17763.1.2", Silent, None),
                ("8.0", Silent, None),
                ("latest", Silent, None),
                ("", Silent, None),
                ("-._", Silent, None),
            ],
        );
    }

    #[test]
    fn numbers_of_base_images() {
        use TagOs::{Silent, Windows};
        check(
            Context::BaseImage,
            &[
                ("1809", Silent, Some(17763)),
                ("1809-KB4489899", Silent, Some(17763)),
                ("1809-amd64", Silent, Some(17763)),
                ("20H2", Silent, Some(19042)),
                ("20h2", Silent, Some(19042)),
                ("2009", Silent, Some(19042)),
                ("2004", Silent, Some(19041)),
                ("1909", Silent, Some(18363)),
                ("1903", Silent, Some(18362)),
                ("1803", Silent, Some(17134)),
                ("1709", Silent, Some(16299)),
                ("1607", Silent, Some(14393)),
                ("2022-latest", Silent, Some(20348)),
                ("10.0.17763.1282", Windows, Some(17763)),
                ("10.0.17763.1282-amd64", Windows, Some(17763)),
                ("10.0.20348", Silent, Some(20348)),
                ("10.0.25931.1000", Windows, Some(25931)),
                ("10.0.1.1000", Silent, None),
                ("ltsc2025-arm64", Windows, Some(26100)),
                ("4.8", Silent, None),
                ("4.8-2022", Silent, None),
                ("latest", Silent, None),
            ],
        );
    }

    #[test]
    fn hints_are_reported() {
        for tag in ["win-fix", "6.8.0-main-03-12-2024-abc-win", "WIN", "v1-hp", "hpc-1.2"] {
            assert!(read_words(tag, Context::Other).hint, "{tag}");
        }
        for tag in ["window", "winter", "hp2", "twin"] {
            assert!(!read_words(tag, Context::Other).hint, "{tag}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_result(tag in ".*", near in "(win|windows|ltsc|10|0|17763|2022|é|[-._]){0,9}") {
            for text in [&tag, &near] {
                let _: Reading = read_words(text, Context::Other);
                let _: Reading = read_words(text, Context::BaseImage);
            }
        }

        #[test]
        fn case_never_matters(tag in "(windows|win|ltsc|ltsc2022|20h2|1809|nanoserver|linux|alpine|hp|[-._]){0,9}") {
            prop_assert_eq!(read_words(&tag, Context::Other), read_words(&tag.to_ascii_uppercase(), Context::Other));
        }

        #[test]
        fn numbers_alone_are_never_windows(tag in "v?[0-9]{1,4}([._-][0-9]{1,4}){0,3}") {
            prop_assert_eq!(read_words(&tag, Context::Other).os, TagOs::Silent);
        }
    }
}
