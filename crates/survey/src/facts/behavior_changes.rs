//! Changes of behavior after a move, and the workloads that they affect.

use jiff::civil::Date;
use mullion_engine::model::windows::Build;
use serde::Deserialize;

use crate::facts::row::{FactsRow, check_provider, check_sentence, check_source};
use mullion_engine::model::MinorVersion;

/// One row. All of its conditions must apply.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BehaviorRow {
    /// A stable name: `tls-1.0-disabled`.
    pub name: String,
    /// The Windows build that introduces it: a move from an older build to this one or a newer one is affected.
    #[serde(default)]
    pub build: Option<Build>,
    /// The minor version of Kubernetes that introduces it: `1.35`.
    #[serde(default)]
    pub kubernetes: Option<MinorVersion>,
    /// The minor version of containerd that introduces it: `1.7`.
    #[serde(default)]
    pub containerd: Option<MinorVersion>,
    /// Whether the move from Docker to containerd introduces it.
    #[serde(default)]
    pub from_docker: bool,
    /// Only for old nodes with an older revision of Windows, the fourth number of the version. The nodes with the oldest build
    /// of a workload count, because revisions of different builds cannot be compared.
    #[serde(default)]
    pub revision_below: Option<u32>,
    /// The provider whose nodes introduce it.
    #[serde(default)]
    pub provider: Option<String>,
    /// What must move: the image, the host, or the platform.
    pub moves: Moves,
    /// What a workload must use. If there are several, one is enough; if empty, every workload that moves is affected.
    #[serde(default)]
    pub uses: Vec<Use>,
    /// What changes: one sentence with a period.
    pub what: String,
    /// What to check or do: one sentence with a period.
    pub check: String,
    /// Whether a source states it for containers; otherwise it is derived from a source about servers.
    #[serde(default)]
    pub documented: bool,
    /// Where it is published.
    pub source: String,
    /// The day of the source.
    pub as_of: Date,
    /// The day on which the row was last compared with its source, if it is not that of the table.
    #[serde(default)]
    pub checked: Option<Date>,
}

impl FactsRow for BehaviorRow {
    fn days(&self) -> Option<(Date, Option<Date>)> {
        Some((self.as_of, self.checked))
    }

    fn check(&self) -> Result<(), String> {
        if self.name.is_empty() || !self.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
        {
            return Err("name is not made of letters, digits, - and .; write one as tls-1.0-disabled".to_owned());
        }
        check_provider(self.provider.as_deref())?;
        check_sentence("what", &self.what)?;
        check_sentence("check", &self.check)?;
        check_source(&self.source)
    }

    fn name(&self) -> Option<&str> {
        Some(&self.name)
    }
}

/// What must move for a change of behavior.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Moves {
    /// The image is built on the newer base.
    Image,
    /// The pod runs on a newer host.
    Host,
    /// The provider's defaults of the new pool.
    Platform,
}

/// A feature that a workload uses. `mullion_plan` finds it in the pod template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Use {
    /// An image based on Nano Server.
    NanoServer,
    /// The image `windows`, with the full API.
    FullWindows,
    /// An image based on Server Core or Server, or one whose base is not known.
    ServerCore,
    /// An image of .NET Framework.
    DotnetFramework,
    /// Windows PowerShell, `powershell`, in a command line. PowerShell 7, `pwsh`, is not part of Windows.
    PowerShell,
    /// `wmic` in a command line.
    Wmic,
    /// `cscript`, `wscript` or a file `.vbs` in a command line.
    VbScript,
    /// A volume of an SMB driver.
    SmbVolume,
    /// A group managed service account.
    Gmsa,
    /// A device for graphics.
    Gpu,
    /// HostProcess containers.
    HostProcess,
    /// HostProcess containers with volumes.
    HostProcessVolume,
    /// A volume mounted at the root of a drive: `D:`.
    DriveRootMount,
    /// A persistent volume claim.
    PersistentVolume,
    /// A template of a StatefulSet.
    StatefulSet,
    /// Pod-level `resources`.
    PodResources,
    /// `runAsUser` or another field that exists only for Linux.
    RunAsUser,
    /// A network policy selects it.
    NetworkPolicy,
}

impl Use {
    /// As a predicate after "they": `mount an SMB volume`.
    pub const fn predicate(self) -> &'static str {
        match self {
            Self::NanoServer => "have images based on Nano Server",
            Self::ServerCore => "have images based on Server Core or Server, or on a base that is not known",
            Self::FullWindows => "have images based on the image `windows`",
            Self::DotnetFramework => "have images of .NET Framework",
            Self::PowerShell => "run Windows PowerShell",
            Self::Wmic => "run `wmic`",
            Self::VbScript => "run VBScript",
            Self::SmbVolume => "mount an SMB volume",
            Self::Gmsa => "use a group managed service account",
            Self::Gpu => "use a device for graphics",
            Self::HostProcess => "have HostProcess containers",
            Self::HostProcessVolume => "have HostProcess containers with volumes",
            Self::DriveRootMount => "mount a volume at the root of a drive",
            Self::PersistentVolume => "use a persistent volume claim",
            Self::StatefulSet => "are StatefulSets",
            Self::PodResources => "set pod-level `resources`",
            Self::RunAsUser => "set `runAsUser` or another field that Linux alone has",
            Self::NetworkPolicy => "are selected by a network policy",
        }
    }
}

impl Moves {
    /// `with the image`.
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Image => "with the image",
            Self::Host => "with the host",
            Self::Platform => "with the platform",
        }
    }
}
