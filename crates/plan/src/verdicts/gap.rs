//! What is not known of the images of workloads, and how to find out.

/// Something that is not known of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Gap {
    /// Its builds; the workload has no pods.
    NoPods,
    /// Its builds; it has pods, and none of them ran.
    NotRunning,
    /// Its builds; it ran only on hosts that run several.
    NewerHosts,
    /// Whether it has an entry for the new nodes; it ran on hosts of other builds.
    OtherBuilds,
    /// Whether new nodes pull it: HostProcess containers with it ran only on hosts that run no other build.
    HostProcessPull,
    /// Its builds; an entry in its registry has no `os.version`.
    NoVersion,
    /// Everything: it is not an image reference.
    NotAReference,
    /// Whether the proposed image exists.
    Guess,
    /// Whether its pods run in virtual machines.
    UnreadRuntimeClass,
}

impl Gap {
    /// Why nothing is known of an image, as a sentence; empty if something is, or if the sentence names releases.
    pub(super) fn because(self) -> &'static str {
        match self {
            Self::NoPods => {
                "The Windows release of its image is not known: its name states none, and the workload has no pods that show it."
            }
            Self::NotRunning => {
                "The Windows release of its image is not known: its name states none, and no container with it ran on a Windows node."
            }
            Self::NewerHosts => {
                "The Windows release of its image is not known: its name states none, and the nodes on which it ran run images for several."
            }
            Self::HostProcessPull => {
                "HostProcess containers need no image of the host's build, but whether new nodes pull this one is not known: if it is an index, it needs an entry for them."
            }
            Self::NoVersion => {
                "The Windows release of its image is not known: an entry in its registry has no os.version, and its name states none."
            }
            Self::NotAReference => "Its image is not an image reference.",
            Self::OtherBuilds | Self::Guess | Self::UnreadRuntimeClass => "",
        }
    }

    /// How to find out for one image.
    pub(super) fn find_out(self, image: &str) -> String {
        match self {
            Self::NoVersion => {
                "Look at the FROM line of its Dockerfile, or describe the image in a PodPolicy.".to_owned()
            }
            Self::NotAReference => "Correct the image in the source of the workload.".to_owned(),
            Self::NoPods | Self::NotRunning | Self::NewerHosts | Self::OtherBuilds | Self::HostProcessPull => {
                format!("Run mullion image {image} --registry, or describe the image in a PodPolicy.")
            }
            Self::Guess => format!("Run mullion image {image} --registry."),
            Self::UnreadRuntimeClass => String::new(),
        }
    }

    /// What is not known of workloads, and how to find out.
    pub(crate) fn texts(self) -> (&'static str, &'static str) {
        const ASK: &str = "Run the plan again with --registry, or describe the images in a PodPolicy.";
        match self {
            Self::NoPods => (
                "The Windows release of images of these workloads is not known: their names state none, and the workloads have no pods that show it.",
                ASK,
            ),
            Self::NotRunning => (
                "The Windows release of images of these workloads is not known: their names state none, and no container with them ran on a Windows node.",
                ASK,
            ),
            Self::NewerHosts => (
                "The Windows release of images of these workloads is not known: the nodes on which they ran run images for several.",
                ASK,
            ),
            Self::OtherBuilds => (
                "Whether the images of these workloads have an entry for new nodes is not known: they ran on nodes of other releases, and an index may have several entries.",
                ASK,
            ),
            Self::HostProcessPull => (
                "Whether new nodes pull the images of these HostProcess workloads is not known: an index needs an entry for them, and a single manifest does not.",
                "Run the plan again with --registry.",
            ),
            Self::NoVersion => (
                "The Windows release of images of these workloads is not known: their registry states no os.version.",
                "Look at the FROM lines of their Dockerfiles, or describe the images in a PodPolicy.",
            ),
            Self::NotAReference => (
                "The images of these workloads are not image references.",
                "Correct the images in the source of the workloads.",
            ),
            Self::Guess => (
                "The images that are proposed for these workloads may not exist: each is the present one with the release replaced.",
                "Run the plan again with --registry.",
            ),
            Self::UnreadRuntimeClass => (
                "Whether the pods of these workloads run in virtual machines is not known: their RuntimeClass was not read.",
                "Check that the RuntimeClass exists, and that RuntimeClasses were read.",
            ),
        }
    }
}
