//! Commands, arguments, probes and handlers with programs and paths that only Linux has, beside images for Windows.

use crate::model::Os;
use crate::model::image::ImageOs;
use crate::model::names::{ARGUMENTS, COMMAND, COMMAND_LINES};
use crate::model::pod_view::Container;
use crate::model::text::shown;
use crate::place::WorkloadContext;
use crate::rules::finding::Finding;
use crate::rules::os_intent::images::checked_images;
use crate::rules::rule::Rule;

/// Programs of Linux that no Windows base image contains (`nanoserver`, `servercore`, `server`), each with what to write
/// instead. `curl`, `tar`, `whoami`, `hostname`, `sort` and `find` are missing here, because Windows has programs of these names.
///
/// Source: the commands and programs in MicrosoftDocs/windowsserverdocs `WindowsServerDocs/administration/windows-commands`.
const PROGRAMS: [(&[&str], &str); 20] = [
    (&["sh", "bash", "ash", "dash", "ksh", "zsh", "busybox"], "use cmd /c, or powershell -Command"),
    (&["sleep"], "use powershell -Command Start-Sleep; before a stop, lifecycle.preStop.sleep.seconds"),
    (&["cat"], "use cmd /c type"),
    (&["ls"], "use cmd /c dir"),
    (&["cp"], "use cmd /c copy, or robocopy"),
    (&["mv"], "use cmd /c move"),
    (&["rm"], "use cmd /c del"),
    (&["ln"], "use cmd /c mklink"),
    (&["touch"], "use cmd /c 'type nul > FILE'"),
    (&["chmod", "chown"], "use icacls"),
    (&["kill", "killall", "pkill"], "use taskkill"),
    (&["pgrep", "pidof", "ps"], "use tasklist"),
    (&["grep", "egrep"], "use findstr"),
    (&["sed", "awk", "head", "tail", "wc", "cut", "tr", "xargs"], "use powershell -Command"),
    (&["test", "["], "use cmd /c if exist"),
    (&["true", "false"], "use cmd /c exit 0, or exit 1"),
    (&["env", "printenv"], "use cmd /c set"),
    (&["nc", "netcat", "wget"], "use a tcpSocket or httpGet probe, curl.exe, or powershell -Command"),
    (&["nohup", "exec", "tee", "id", "uname", "stat", "which"], "use powershell -Command"),
    (
        &["tini", "dumb-init", "gosu", "su-exec"],
        "leave it out: Windows needs no init process and changes users in runAsUserName",
    ),
];

/// Folders of programs on Linux.
const FOLDERS: [&str; 4] = ["/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/"];

/// Folders of the Linux kernel. Other absolute paths, such as `/var/run/secrets`, exist on the drive of the container.
const KERNEL: [&str; 3] = ["/dev/", "/proc/", "/sys/"];

/// Findings about containers whose image is for Windows: at most one in each list of words.
pub(crate) fn check(cx: &WorkloadContext<'_>, rule: &'static Rule, out: &mut Vec<Finding>) {
    if cx.decision.decided() == Some(Os::Linux) {
        return;
    }
    for image in checked_images(cx).filter(|image| image.facts.os == ImageOs::Windows) {
        let container = &image.container;
        let mut programs: Vec<_> = container.programs().collect();
        if container.items(COMMAND).is_empty() {
            // The first argument is the program, unless the image has an entry point.
            programs.push((ARGUMENTS, 0));
        }
        for list in COMMAND_LINES {
            let program_at = programs.iter().find(|(other, _)| *other == list).map(|(_, at)| *at);
            out.extend(in_list(container, list, program_at, cx, rule));
        }
    }
}

fn in_list(
    container: &Container<'_>,
    list: &str,
    program_at: Option<usize>,
    cx: &WorkloadContext<'_>,
    rule: &'static Rule,
) -> Option<Finding> {
    let words = container.items(list).iter().enumerate().filter_map(|(at, word)| Some((at, word.as_str()?)));
    let mut found = words.filter_map(|(at, word)| {
        let program = if Some(at) == program_at { instead_of_program(word) } else { None };
        let program = program.map(|instead| {
            (format!("no Windows base image contains {}", shown(word)), format!("unless the image has it, {instead}"))
        });
        let path =
            || kernel_path(word).map(|(path, instead)| (format!("Windows has no {}", shown(path)), instead.into()));
        let (message, help) = program.or_else(path)?;
        Some((at, message, help))
    });
    let (at, message, help) = found.next()?;
    Some(Finding { help: help.into(), ..cx.finding(rule, cx.at(container, &format!("{list}/{at}")), message) })
}

/// What to write instead of a program of Linux; `None` for other programs.
fn instead_of_program(word: &str) -> Option<&'static str> {
    let in_folder = FOLDERS.iter().chain(&["/usr/local/bin/", "./"]).find_map(|folder| word.strip_prefix(folder));
    let name = in_folder.unwrap_or(word);
    let known = PROGRAMS.iter().find(|(names, _)| names.contains(&name)).map(|(_, instead)| *instead);
    known.or_else(|| {
        let elsewhere = FOLDERS.iter().any(|folder| word.starts_with(folder));
        elsewhere.then_some("use the path of the program in the Windows image")
    })
}

/// A path of the Linux kernel, alone or as the value of a flag, and what to write instead.
fn kernel_path(word: &str) -> Option<(&str, &'static str)> {
    let value = word.split_once('=').map_or(word, |(_, value)| value);
    let instead = if value.starts_with("/dev/std") { "log to the console, without a file" } else { "leave it out" };
    let is_path = KERNEL.iter().any(|folder| value.starts_with(folder)) && !value.contains(char::is_whitespace);
    is_path.then_some((value, instead))
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn only_programs_of_linux_are_found() {
        for word in
            ["sh", "/bin/sh", "/bin/bash", "/usr/bin/env", "sleep", "cat", "/usr/local/bin/tini", "/usr/sbin/nginx"]
        {
            assert!(instead_of_program(word).is_some(), "{word}");
        }
        for word in [
            "",
            "cmd",
            "powershell",
            "curl",
            "tar",
            "/app/server",
            "/opt/run.sh",
            r"C:\bin\sh.exe",
            "sh.exe",
            "/binary",
            "shell",
            "/",
        ] {
            assert!(instead_of_program(word).is_none(), "{word}");
        }
    }

    #[test]
    fn only_paths_of_the_kernel_are_found() {
        for (word, path) in
            [("/dev/stdout", "/dev/stdout"), ("--log-file=/dev/null", "/dev/null"), ("/proc/1/fd/1", "/proc/1/fd/1")]
        {
            assert_eq!(kernel_path(word).map(|(path, _)| path), Some(path), "{word}");
        }
        for word in [
            "",
            "/device",
            "--path=/var/run",
            "echo hi > /dev/null",
            "/dev/null is fine",
            r"\dev\null",
            "a=b=/dev/null",
        ] {
            assert_eq!(kernel_path(word), None, "{word}");
        }
    }

    #[test]
    fn no_program_is_listed_twice() {
        let names: Vec<&str> = PROGRAMS.iter().flat_map(|(names, _)| names.iter().copied()).collect();
        for name in &names {
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
    }
}
