//! The rule catalogue: every check with a stable code and name.
//!
//! Rules that differ only in field, harmless values and text are rows of one table ([`linux_only`]); the others stand in
//! the file of their family. Codes are never reused. A rule's page is its text under `pages/`, with what the catalogue
//! knows above it: see `report/rule_page.rs`.

/// A rule that no policy can have repaired, with its page: code, name, default action, summary, why, instead.
macro_rules! rule {
    ($code:literal, $name:literal, $default:expr, $summary:literal, $why:literal, $instead:literal $(,)?) => {
        $crate::engine::rules::Rule {
            code: $code,
            name: $name,
            default: $default,
            summary: $summary,
            why: $why,
            instead: $instead,
            repair: false,
            translation: None,
            advice: false,
            since: "0.1",
            // Absolute, because families are files and folders.
            page: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/engine/rules/pages/", $code, ".md")),
        }
    };
}

pub(super) use rule;

pub mod app_armor_annotation;
pub mod builds;
pub mod cluster;
pub mod identity;
pub mod linux_only;
pub mod openshift;
pub mod os_intent;
pub mod platforms;
pub mod resources;
pub mod storage;

use serde_json::Value;

use super::build::PodBuilds;
use super::finding::{Finding, RefusedBy, field_path};
use super::images::ContainerImage;
use super::linux_default::NoDefault;
use super::note::Note;
use super::placement::Site;
use super::pod::{Container, Pod};
use super::verdict::{Decision, Verdict};
use super::world::{Namespace, Os, World};
use crate::policy::{Action, Denials, NodePolicy, Settings};

/// The annotation of a pod, or of a pod template, that waves rules off where `optOut.allow` lets it.
pub const ALLOW: &str = "mullion.dev/allow";

/// Who did what came after Mullion: a webhook cannot know more, since the API server names no one.
pub const OTHERS: &str = "another webhook or policy";

/// One catalogued check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// `MUL201`; never reused.
    pub code: &'static str,
    /// `run-as-user`.
    pub name: &'static str,
    /// One line, lower case, no full stop.
    pub summary: &'static str,
    /// What its findings do where no policy says otherwise, for the worst value of its field.
    pub default: Action,
    /// Whether there is a repair: only then may a policy say `Repair`.
    pub repair: bool,
    /// What it writes instead of what it finds where a policy lists it under `rules.translate`, as a clause; `None`: there
    /// is nothing on Windows that means the same.
    pub translation: Option<&'static str>,
    /// Whether pods run as they are meant to all the same, and it tells authors of something better: then it is worth no
    /// label on the pods of controllers, of which nearly every one would have it.
    pub advice: bool,
    /// Why Windows cannot do it: the sentence of its findings.
    pub why: &'static str,
    /// What to write instead, as a clause.
    pub instead: &'static str,
    /// The version of Mullion that has it first, or in which it was tightened: `0.1`. Policies made for an earlier one
    /// hear of it as a warning.
    pub since: &'static str,
    /// Its page, below what the catalogue knows of it: Markdown with the headings of
    /// `report/rule_page.rs`.
    pub page: &'static str,
}

/// What a check may look at: one subject, with everything found out about it.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The pod, or the template's pod.
    pub pod: Pod<'a>,
    /// What Mullion did to it earlier; what is otherwise now, others made so.
    pub earlier: Option<&'a Note>,
    /// Which OS, and why.
    pub decision: &'a Decision,
    /// Why an undecided subject was not given Linux by default; `None` where it was, or where that was never the
    /// question.
    pub no_default: Option<NoDefault>,
    /// What is known of its images.
    pub images: &'a [ContainerImage<'a>],
    /// Which Windows builds run them.
    pub builds: &'a PodBuilds<'a>,
    /// Its namespace, where known.
    pub namespace: Option<&'a Namespace>,
    /// The name of its namespace.
    pub namespace_name: &'a str,
    /// The operating system it is placed on; `None`: nothing is placed.
    pub placed_on: Option<Os>,
    /// The cluster.
    pub world: &'a World,
    /// The NodePolicy.
    pub nodes: &'a NodePolicy,
    /// What the findings of each rule do.
    pub actions: Actions<'a>,
    /// Where to look.
    pub reach: Reach<'a>,
}

/// Where the checks look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach<'a> {
    /// The pod and all its containers.
    Everything,
    /// Ephemeral containers that a request adds to these: the API server knows them by name, wherever they stand.
    EphemeralBeside(&'a [Value]),
}

impl<'a> Context<'a> {
    /// Containers to look at: all, or the new ephemeral ones.
    pub fn containers(&self) -> impl Iterator<Item = Container<'a>> + use<'a> {
        let reach = self.reach;
        self.pod.containers().filter(move |container| match reach {
            Reach::Everything => true,
            Reach::EphemeralBeside(old) => {
                let name = |old: &Value| old.get("name") == container.value.get("name");
                container.list == "ephemeralContainers" && !old.iter().any(name)
            }
        })
    }

    /// The absolute pointer of `below`, which counts from a container.
    pub fn at(&self, container: &Container<'_>, below: &str) -> String {
        self.pod.at(&(container.pointer() + below))
    }

    /// Whether another webhook or policy added the container after Mullion had seen the pod.
    pub fn came_later(&self, container: &Container<'_>) -> bool {
        self.earlier.is_some_and(|note| note.is_younger(container))
    }

    /// What its placement is made from.
    pub fn site(&self) -> Site<'a> {
        let Self { pod, namespace, world, nodes, .. } = *self;
        Site { pod, namespace, world, settings: self.actions.settings, nodes }
    }

    /// Whether this is a Windows pod: to Mullion, or (`spec.os.name: windows` beside the annotation `any`) to the API
    /// server.
    pub fn is_windows(&self) -> bool {
        self.decision.verdict == Verdict::Windows || self.pod.says_windows_os()
    }

    /// A finding of `rule` at `pointer`, with the action that is asked for.
    pub fn finding(&self, rule: &'static Rule, pointer: String, message: impl Into<String>) -> Finding {
        Finding {
            code: rule.code,
            rule: rule.name,
            action: self.actions.action(rule, rule.default),
            quiet: false,
            advice: rule.advice,
            path: field_path(&pointer),
            pointer,
            message: message.into(),
            help: rule.instead.to_owned(),
            replacement: None,
            refused_by: RefusedBy::Nobody,
            known_before: false,
        }
    }
}

/// What the findings of each rule do to one subject.
#[derive(Debug, Clone, Copy)]
pub struct Actions<'a> {
    settings: &'a Settings,
    waved: &'a str,
}

impl<'a> Actions<'a> {
    /// For that pod, which may wave rules off.
    pub fn of(pod: &Pod<'a>, settings: &'a Settings) -> Self {
        Self { settings, waved: pod.annotation(ALLOW).unwrap_or_default() }
    }

    /// What the findings of `rule` do; `default` where nobody says.
    pub fn action(self, rule: &Rule, default: Action) -> Action {
        if self.settings.waved_off(self.waved, rule.code, rule.name) {
            return Action::Allow;
        }
        // Policies made for an older Mullion did not ask for this.
        let default = if self.settings.knows(rule.since) { default } else { default.min(Action::Warn) };
        match self.settings.effective_action(rule.code, rule.name, default) {
            // Asked for by a prefix that also means rules without a repair: they keep what they do by themselves.
            Action::Repair if !rule.repair && default != Action::Repair => self.soften(default),
            action => action,
        }
    }

    /// Whether findings of `rule` are translated where something on Windows means the same.
    pub fn translates(self, rule: &Rule) -> bool {
        rule.translation.is_some() && self.settings.translates(rule.code, rule.name)
    }

    /// The action, with Deny as Warn where the policies want no denials.
    pub fn soften(self, action: Action) -> Action {
        let soft = action == Action::Deny && self.settings.denials == Denials::Warn;
        if soft { Action::Warn } else { action }
    }
}

/// Every rule, in order of code.
pub fn catalogue() -> impl Iterator<Item = &'static Rule> {
    os_intent::RULES
        .iter()
        .chain(linux_only::FIELDS.iter().map(|field| &field.rule))
        .chain([&app_armor_annotation::RULE])
        .chain(&storage::RULES)
        .chain(&identity::RULES)
        .chain(&builds::RULES)
        .chain(&platforms::RULES)
        .chain(&resources::RULES)
        .chain(&cluster::RULES)
        .chain(&super::shape::RULES)
}

/// Everything that is wrong with one subject.
pub fn check(cx: &Context<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let whole = cx.reach == Reach::Everything;
    if whole {
        os_intent::check(cx, &mut found);
    } else {
        os_intent::check_ephemeral(cx, &mut found);
    }
    // What the API server demands of these it demands whatever the operating system.
    identity::check(cx, &mut found);
    if cx.is_windows() {
        linux_only::check(cx, &mut found);
        if whole {
            app_armor_annotation::check(cx, &mut found);
        }
        storage::check(cx, &mut found);
        resources::check(cx, &mut found);
        if whole {
            builds::check(cx, &mut found);
            platforms::check(cx, &mut found);
        }
        os_intent::blame_injectors(cx, &mut found);
    }
    if whole {
        cluster::check(cx, &mut found);
    }
    found
}

/// Whether a finding is about a field that `spec.os.name: windows` forbids.
pub fn forbidden_by_os(finding: &Finding) -> bool {
    linux_only::FIELDS.iter().any(|field| field.rule.code == finding.code && field.forbidden_by_os)
}

/// Whether the API server would refuse a finding's value beside `spec.os.name: windows`: of a field that is forbidden
/// there, or of one of which it takes other values.
pub fn refused_beside_os(finding: &Finding) -> bool {
    let refused = |field: &linux_only::LinuxOnlyField| field.forbidden_by_os || field.server_refuses.is_some();
    linux_only::FIELDS.iter().any(|field| field.rule.code == finding.code && refused(field))
}

/// The rule of that code or name.
pub fn find(code_or_name: &str) -> Option<&'static Rule> {
    catalogue().find(|rule| rule.name == code_or_name || rule.code.eq_ignore_ascii_case(code_or_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_unique_sorted_and_well_formed() {
        let rules: Vec<&Rule> = catalogue().collect();
        assert!(rules.is_sorted_by(|a, b| a.code < b.code));
        for rule in &rules {
            assert!(rule.code.len() == 6 && rule.code.starts_with("MUL"), "{}", rule.code);
            assert!(rule.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", rule.name);
            assert!(rule.summary.len() <= 80 && !rule.summary.ends_with('.'), "{}", rule.summary);
            assert!(!rule.why.is_empty() && !rule.why.ends_with('.'), "{}", rule.name);
            assert_eq!(rules.iter().filter(|other| other.name == rule.name).count(), 1, "{}", rule.name);
            assert_eq!(find(rule.code), find(rule.name));
        }
    }
}
