//! The rules of this family.

use crate::rules::rule::rules;

rules! {
    /// runAsUserName that is not a Windows user name
    RUN_AS_USER_NAME {
        code: "MUL401", name: "run-as-user-name", default: Deny,
        why: "Windows has no user with such a name",
        instead: r"write ContainerUser, NT AUTHORITY\SYSTEM or DOMAIN\user",
    }

    /// a gMSA credential spec that is empty or too large, or whose name is invalid
    GMSA_CREDENTIAL_SPEC {
        code: "MUL402", name: "gmsa-credential-spec", default: Deny,
        why: "no GMSACredentialSpec can have that name or contents",
        instead: "write the name of a GMSACredentialSpec, such as webapp1",
    }

    /// hostProcess for some containers of a pod only
    HOST_PROCESS_MIXED {
        code: "MUL403", name: "host-process-mixed", default: Deny,
        why: "all containers of a pod are HostProcess containers, or none is",
        instead: "write hostProcess once, in the pod's securityContext.windowsOptions",
        about_whole: true,
    }

    /// a HostProcess pod without hostNetwork
    HOST_PROCESS_NETWORK {
        code: "MUL404", name: "host-process-network", default: Deny,
        why: "HostProcess containers have no network but the host's",
        instead: "write hostNetwork: true",
        about_whole: true,
    }

    /// a HostProcess container that names no account of the host
    HOST_PROCESS_USER {
        code: "MUL405", name: "host-process-user", default: Warn,
        why: "HostProcess containers run as an account of the host",
        instead: r"write NT AUTHORITY\SYSTEM, NT AUTHORITY\Local service or NT AUTHORITY\NetworkService",
        about_whole: true,
    }

    /// runAsNonRoot in a HostProcess pod
    HOST_PROCESS_NON_ROOT {
        code: "MUL406", name: "host-process-non-root", default: Warn,
        why: "HostProcess containers have the rights of a host account",
        instead: "leave runAsNonRoot out",
        about_whole: true,
    }

    /// runAsNonRoot together with runAsUserName ContainerAdministrator
    RUN_AS_NON_ROOT {
        code: "MUL407", name: "run-as-non-root", default: Deny,
        why: "the kubelet treats ContainerAdministrator as root",
        instead: "use ContainerUser, or leave runAsNonRoot out",
    }

    // Reported by the storage rules, because they determine which volumes are pipes, sockets, and mounted.
    /// a named pipe or socket as a volume of a HostProcess pod
    HOST_PROCESS_VOLUME {
        code: "MUL408", name: "host-process-volume", default: Warn,
        why: "HostProcess containers cannot mount pipes and sockets",
        instead: "leave the volume out and open the path of the host",
        about_whole: true,
    }

    /// the contents of a gMSA credential spec without its name
    GMSA_WITHOUT_NAME {
        code: "MUL409", name: "gmsa-without-name", default: Warn,
        why: "the gMSA webhook rejects contents without a name",
        instead: "write gmsaCredentialSpecName and leave gmsaCredentialSpec out",
    }

    /// an annotation about HostProcess containers, which Kubernetes does not read
    HOST_PROCESS_ANNOTATION {
        code: "MUL410", name: "host-process-annotation", default: Warn,
        why: "by default, containerd does not pass it on",
        instead: "remove it: windowsOptions.hostProcess makes HostProcess pods, and Pod Security sees it",
    }
}
