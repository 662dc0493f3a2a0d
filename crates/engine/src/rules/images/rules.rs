//! The rules of this family.

use crate::rules::rule::rules;

rules! {
    /// images of one pod that no Windows host can run together
    NO_COMMON_BUILD {
        code: "MUL501", name: "no-common-build", default: Deny,
        why: "no Windows build runs all of its images",
        instead: "use tags of one Windows release for all containers",
        about_whole: true,
    }

    /// no node of the cluster runs the pod's Windows build
    NO_NODE_FOR_BUILD {
        code: "MUL502", name: "no-node-for-build", default: Warn,
        why: "no Windows node runs the build of its image",
        instead: "add nodes, or use a tag for one of these",
        about_whole: true,
    }

    /// a Windows release that gets no security updates any more
    BUILD_END_OF_LIFE {
        code: "MUL503", name: "build-end-of-life", default: Warn,
        why: "its Windows release gets no security updates any more",
        instead: "use a tag for a later release",
    }

    /// a tag that names no Windows release and has meant others before
    FLOATING_WINDOWS_TAG {
        code: "MUL504", name: "floating-windows-tag", default: Warn,
        why: "its tag names no Windows release, and moves",
        instead: "use a tag that names the release",
    }

    /// a Windows image whose os.version is missing or malformed in the registry
    MISSING_OS_VERSION {
        code: "MUL505", name: "missing-os-version", default: Warn,
        why: "without os.version any node pulls it, and not every node can run it",
        instead: "write it with docker manifest annotate --os-version",
        about_whole: true,
    }

    /// a HostProcess image whose index has no entry for a build of the nodes
    HOST_PROCESS_ENTRY {
        code: "MUL506", name: "host-process-entry", default: Warn,
        why: "nodes of a build without an entry in its index cannot pull it",
        instead: "add an entry for that build, or keep the pod off those nodes",
        about_whole: true,
    }

    /// a DaemonSet whose images do not run on all of its Windows nodes
    NODES_LEFT_OUT {
        code: "MUL507", name: "nodes-left-out", default: Warn,
        why: "an image for one Windows release does not run on nodes of every other one",
        instead: "use an index image with these releases, or one DaemonSet for each release",
        about_whole: true,
    }

    /// a node selector for a Windows build that does not run the images
    SELECTED_BUILD {
        code: "MUL508", name: "selected-build", default: Warn,
        why: "no node that it selects runs its images",
        instead: "select a build that runs its images, or use tags for the selected build",
        about_whole: true,
    }
    /// the image of a volume, with layers for another Windows build than the nodes
    IMAGE_VOLUME_BUILD {
        code: "MUL509", name: "image-volume-build", default: Warn,
        why: "its layers are for another Windows build than the pod's nodes",
        instead: "use an image for a build of these nodes",
        about_whole: true,
    }
}
