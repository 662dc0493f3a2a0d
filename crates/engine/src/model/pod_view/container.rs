//! A container of a pod.

use serde_json::Value;

use crate::model::json_pointer::member_below;
use crate::model::names::{ARGUMENTS, COMMAND, program_commands};

/// One container with its position.
#[derive(Debug, Clone, Copy)]
pub struct Container<'a> {
    /// The name of the list: one of [`CONTAINER_LISTS`](crate::model::names::CONTAINER_LISTS).
    pub list: &'static str,
    /// Position in that list.
    pub index: usize,
    pub(super) value: &'a Value,
}

impl<'a> Container<'a> {
    /// Pointer of the container below the pod: `/spec/containers/0`.
    pub fn pointer(&self) -> String {
        format!("/spec/{}/{}", self.list, self.index)
    }

    /// The value at `pointer` below the container; null counts as absent.
    pub fn get(&self, pointer: &str) -> Option<&'a Value> {
        member_below(self.list, self.value, pointer).filter(|value| !value.is_null())
    }

    /// The items of the list at `pointer` below the container.
    pub fn items(&self, pointer: &str) -> &'a [Value] {
        self.get(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Its name; empty if it does not have one.
    pub fn name(&self) -> &'a str {
        self.get("/name").and_then(Value::as_str).unwrap_or_default()
    }

    /// The place of the program in each command line that begins with one: the list below the container, and the index in
    /// that list. Without a command there is none in `/args`, because the image can have an entry point.
    pub fn programs(&self) -> impl Iterator<Item = (&'static str, usize)> {
        program_commands().filter_map(|list| if list == COMMAND { self.own_program() } else { Some((list, 0)) })
    }

    /// The place of the container's own program. Two controllers start it by a program of theirs: Argo Workflows by
    /// `argoexec emissary … -- PROGRAM` (workflow/controller/workflowpod.go), Tekton by
    /// `entrypoint … -entrypoint PROGRAM … -- ARGUMENT` (pkg/pod/entrypoint.go).
    fn own_program(&self) -> Option<(&'static str, usize)> {
        let words = |list| self.items(list).iter().map(|word| word.as_str().unwrap_or_default());
        let mut command = words(COMMAND);
        let after = |list, mark| Some((list, words(list).position(|word| word == mark)? + 1));
        match (command.next()?, command.next()) {
            (argo, Some("emissary")) if argo.ends_with("/argoexec") => after(COMMAND, "--"),
            ("/tekton/bin/entrypoint", _) => after(ARGUMENTS, "-entrypoint"),
            _ => Some((COMMAND, 0)),
        }
    }

    /// Its image reference.
    pub fn image(&self) -> Option<&'a str> {
        self.get("/image").and_then(Value::as_str).filter(|image| !image.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_program_behind_that_of_a_controller_is_found() {
        let argo = "/var/run/argo/argoexec";
        let tekton = "/tekton/bin/entrypoint";
        let cases = [
            (json!({"command": ["cmd", "/c"], "args": ["dir"]}), Some(("/command", 0))),
            (json!({"args": ["dir"]}), None),
            (json!({"command": []}), None),
            (json!({"command": [7]}), Some(("/command", 0))),
            (json!({"command": [argo, "emissary", "--loglevel", "info", "--", "cmd"]}), Some(("/command", 5))),
            (json!({"command": ["/argo-bin/bin/argoexec", "emissary", "--"], "args": ["cmd"]}), Some(("/command", 3))),
            (json!({"command": [argo, "emissary"]}), None),
            (json!({"command": [argo, "wait"]}), Some(("/command", 0))),
            (json!({"command": [tekton], "args": ["-post_file", "a", "-entrypoint", "cmd", "--"]}), Some(("/args", 3))),
            (json!({"command": [tekton], "args": "-entrypoint"}), None),
        ];
        for (value, expected) in cases {
            let container = Container { list: "containers", index: 0, value: &value };
            let own = container.programs().find(|(list, _)| [COMMAND, ARGUMENTS].contains(list));
            assert_eq!(own, expected, "{value}");
        }
    }
}
