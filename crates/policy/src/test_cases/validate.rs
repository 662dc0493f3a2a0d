//! Checks of a test file that its schema cannot express: each case has one object, and expects something that can fail.

use std::collections::BTreeMap;

use mullion_engine::model::WorkloadKind;
use mullion_engine::model::settings::POD_KEYS;
use mullion_engine::model::text::{nearest, shown};
use mullion_manifest::{ManifestEntry, ManifestNode, NodeValue, Span};
use serde_json::Value;

use crate::load::Checker;
use crate::test_cases::types::{ShortForm, TestCase, TestSpec};

/// Names of the cases of a file, with their lines.
pub(crate) type Names = BTreeMap<String, u32>;

/// Reports the problems of a document whose keys and types are valid.
pub(crate) fn check(checker: &mut Checker<'_>, names: &mut Names, document: &ManifestNode, spec: &TestSpec) {
    let none = ManifestNode { span: document.span, value: NodeValue::Null };
    let items = match document.get("cases").map(|entry| &entry.value) {
        Some(ManifestNode { value: NodeValue::List(items), .. }) => items.as_slice(),
        _ => &[],
    };
    if spec.cases.is_empty() {
        let span = document.get("cases").map_or(document.span, |entry| entry.key_span);
        checker.report(span, "there is no case: a test of nothing never fails").hint("write one, or remove the file");
    }
    for (at, case) in spec.cases.iter().enumerate() {
        let mut case_checker = CaseChecker { checker, node: items.get(at).unwrap_or(&none), at };
        case_checker.check_name(names, case);
        case_checker.check_source(case);
        case_checker.check_expectations(case);
    }
}

struct CaseChecker<'c, 'a> {
    checker: &'c mut Checker<'a>,
    node: &'c ManifestNode,
    at: usize,
}

impl CaseChecker<'_, '_> {
    fn key(&self, name: &str) -> Span {
        self.node.get(name).map_or(self.node.span, |entry| entry.key_span)
    }

    fn value(&self, pointer: &str) -> Span {
        self.node.nearest(pointer).span
    }

    /// Where the case starts.
    fn start(&self) -> Span {
        match &self.node.value {
            NodeValue::Map(entries) => entries.first().map_or(self.node.span, |entry| entry.key_span),
            _ => self.node.span,
        }
    }

    /// Names must be unique, because CI systems show only one of two results of the same name.
    fn check_name(&mut self, names: &mut Names, case: &TestCase) {
        let span = self.value("/name");
        let line = self.checker.line(span);
        if case.name.trim().is_empty() {
            self.checker
                .report(span, format!("`cases[{}].name` is empty", self.at))
                .hint("describe the expected result");
        } else if let Some(first) = names.get(&case.name) {
            let message = format!("there is a second case `{}`; the first is on line {first}", shown(&case.name));
            self.checker.report(span, message).hint("results are identified by their names; rename one of them");
        } else {
            names.insert(case.name.clone(), line);
        }
    }

    fn check_source(&mut self, case: &TestCase) {
        let at = self.at;
        match (&case.object, &case.file) {
            (None, None) => {
                let start = self.start();
                self.checker
                    .report(start, format!("`cases[{at}]` has no object"))
                    .hint("write a manifest under `object`, or the name of its file under `file`");
            }
            (Some(_), Some(_)) => {
                let span = self.key("file");
                self.checker
                    .report(span, format!("`cases[{at}]` has both `object` and `file`"))
                    .hint("remove one of them");
            }
            (Some(object), None) => self.check_object(object, case),
            (None, Some(_)) => {}
        }
        if case.select.is_some() && case.file.is_none() {
            let span = self.key("select");
            self.checker.report(span, format!("`cases[{at}].select` has no effect without `file`")).hint("remove it");
        }
    }

    fn check_object(&mut self, object: &Value, case: &TestCase) {
        let at = self.at;
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        match text("/kind") {
            None => {
                let span = self.key("object");
                self.checker
                    .report(span, format!("`cases[{at}].object` has no kind"))
                    .hint("write the whole manifest: apiVersion, kind, metadata and spec");
            }
            Some(kind) if WorkloadKind::of_object(text("/apiVersion").unwrap_or_default(), kind).is_none() => {
                let span = self.value("/object/kind");
                self.checker
                    .report(span, format!("`cases[{at}].object` is a {}, to which no policy applies", shown(kind)))
                    .hint("cases are about pods and objects with a pod template");
            }
            Some("Pod") if case.expect.pod.is_some() => {
                let span = self.value("/expect/pod");
                self.checker
                    .report(span, format!("`cases[{at}].expect.pod` is for objects with a pod template"))
                    .hint("a Pod is stored itself: write `stored`");
            }
            Some(_) => {}
        }
        if let (Some(own), Some(named)) = (text("/metadata/namespace"), case.namespace_name())
            && own != named
        {
            let span = self.value("/object/metadata/namespace");
            let message = format!(
                "the object is in namespace `{}`, and `cases[{at}].namespace` is `{}`",
                shown(own),
                shown(named)
            );
            self.checker.report(span, message).hint("remove one of them");
        }
    }

    fn check_expectations(&mut self, case: &TestCase) {
        let at = self.at;
        let entries = match self.node.get("expect").map(|entry| &entry.value.value) {
            Some(NodeValue::Map(entries)) => entries.as_slice(),
            _ => &[],
        };
        if entries.is_empty() {
            let span = self.key("expect");
            self.checker
                .report(span, format!("`cases[{at}].expect` expects nothing, and could never fail"))
                .hint("expect at least `denied: []`: it is not denied");
        }
        for entry in entries {
            self.check_empty(entry);
            self.check_texts(&entry.value, &format!("cases[{at}].expect.{}", entry.key));
        }
        if let Some(ShortForm::Full(denial)) = &case.expect.denied
            && denial.message.is_empty()
            && denial.causes.is_empty()
        {
            let span = self.value("/expect/denied");
            self.checker
                .report(span, format!("`cases[{at}].expect.denied` has neither `message` nor `causes`"))
                .hint("write a text of the message under `message`, or `denied: []` if it must not be denied");
        }
        if case.expect.denial().is_some() {
            let after = ["stored", "changes", "pod", "nodes"];
            for entry in entries.iter().filter(|entry| after.contains(&entry.key.as_str())) {
                let message = format!("`cases[{at}].expect.{}`: a denied object is not stored", entry.key);
                self.checker.report(entry.key_span, message).hint("remove it, or `denied`");
            }
        }
        if let Some(settings) = self.node.at_pointer("/expect/settings") {
            self.check_settings(settings);
        }
    }

    /// Some expectations are always met if they are empty.
    fn check_empty(&mut self, ManifestEntry { key, key_span, value }: &ManifestEntry) {
        let empty = match &value.value {
            NodeValue::List(items) => {
                items.is_empty() && matches!(key.as_str(), "findings+" | "findings-" | "unwarned")
            }
            NodeValue::Map(entries) => entries.is_empty(),
            _ => false,
        };
        if empty && key != "denied" {
            let message = format!("`cases[{}].expect.{key}` is empty, and could never fail", self.at);
            self.checker.report(*key_span, message).hint("remove it, or write what you expect");
        }
    }

    /// An empty text is an error, because every text contains it.
    fn check_texts(&mut self, node: &ManifestNode, path: &str) {
        let key = path.rsplit('.').next().unwrap_or_default();
        match &node.value {
            NodeValue::String(text) if text.is_empty() => {
                self.checker.report(node.span, format!("`{path}` has an empty text, which every text contains"));
            }
            NodeValue::List(items) if matches!(key, "denied" | "message" | "causes" | "warned" | "unwarned") => {
                for item in items {
                    self.check_texts(item, path);
                }
            }
            NodeValue::Map(entries) if key == "denied" => {
                for entry in entries {
                    self.check_texts(&entry.value, &format!("{path}.{}", entry.key));
                }
            }
            _ => {}
        }
    }

    fn check_settings(&mut self, node: &ManifestNode) {
        let NodeValue::Map(entries) = &node.value else { return };
        let known: Vec<&str> = POD_KEYS.iter().map(|key| key.name).collect();
        for ManifestEntry { key, key_span, .. } in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let below = || known.iter().copied().find(|known| known.starts_with(&format!("{key}.")));
            let hint = match nearest(key, known.iter().copied()).or_else(below) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known here: {}; a newer version of Mullion may have more keys", known.join(", ")),
            };
            let message = format!("`cases[{}].expect.settings` has no key `{}`", self.at, shown(key));
            self.checker.report(*key_span, message).hint(hint);
        }
    }
}
