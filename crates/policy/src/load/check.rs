//! The check of a document against the [schema](crate::schema): all its problems, each with its place.

use std::collections::BTreeMap;

use mullion_engine::model::text::{list_with, nearest, nearest_word, shown};
use mullion_engine::model::windows::Build;
use mullion_manifest::{LineIndex, ManifestEntry, ManifestNode, NodeValue, Problem, Related, Span};

use crate::load::hints;
use crate::load::rule_names::find_rules;
use crate::load::values::check_text;
use crate::schema::{
    API_VERSION, KINDS, KeyConstraint, Kinds, POD_SPEC, POLICY_TEST, SchemaKey, SchemaObject, SchemaWord, TEST_KINDS,
    TextFormat, ValueShape,
};

/// The maximum number of problems: more do not help a reader, and a malicious file has millions.
pub(crate) const MAX_PROBLEMS: usize = 100;

/// A file being checked.
pub(crate) struct Checker<'a> {
    kinds: Kinds,
    /// The kind of the current document.
    kind: Option<&'static str>,
    /// The name of a document in messages: `a policy`.
    what: &'static str,
    /// The first document that is another Kubernetes object.
    foreign: Option<ForeignDocument>,
    file: &'a str,
    text: &'a str,
    lines: LineIndex<'a>,
    /// All problems so far.
    pub(crate) problems: Vec<Problem>,
}

/// The keys of a document's `spec`, by dotted path, without those of list entries.
pub(crate) type SpecEntries<'n> = BTreeMap<String, &'n ManifestEntry>;

/// A document that is another Kubernetes object.
#[derive(Debug)]
struct ForeignDocument {
    /// The position of its problem.
    at: usize,
    message: String,
    /// How many more documents are other objects.
    more: usize,
}

impl<'a> Checker<'a> {
    /// A checker of a policy file.
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        Self::of(KINDS.as_slice(), "a policy", file, text)
    }

    /// A checker of a test file.
    pub(crate) fn of_tests(file: &'a str, text: &'a str) -> Self {
        Self::of(TEST_KINDS.as_slice(), "a policy test", file, text)
    }

    fn of(kinds: Kinds, what: &'static str, file: &'a str, text: &'a str) -> Self {
        let lines = LineIndex::new(text);
        Self { kinds, kind: None, what, foreign: None, file, text, lines, problems: Vec::new() }
    }

    /// Checks a document. If it has no problem, returns its kind and its keys.
    pub(crate) fn document<'n>(&mut self, node: &'n ManifestNode) -> Option<(&'static str, SpecEntries<'n>)> {
        let before = self.problems.len();
        let mut keys = SpecEntries::new();
        let kind = node.get("kind").and_then(|entry| entry.value.as_str());
        let known = self.kinds.iter().find(|(name, _)| Some(*name) == kind);
        self.kind = known.map(|(kind, _)| *kind);
        match (&node.value, known) {
            (NodeValue::Map(_), Some((_, object))) => self.check_object(object, node, "", &mut keys),
            (NodeValue::Map(entries), None) => self.report_unknown_kind(node, entries),
            _ => {
                let message = match self.describe(node) {
                    _ if node.value == NodeValue::Null => "the document is empty".to_owned(),
                    found => format!("the document is not {} but {found}", self.what),
                };
                let required = self.kinds.first().map(|(_, object)| object.keys.iter().filter(|key| key.required));
                let names = list_with(required.into_iter().flatten().map(|key| key.name), "and");
                let hint = format!("{} is a map with {names}", self.what);
                self.report(node.span, message).hint(hint);
            }
        }
        let (kind, _) = known?;
        (self.problems.len() == before).then_some((*kind, keys))
    }

    /// 1-based line of a place.
    pub(crate) fn line(&self, span: Span) -> u32 {
        u32::try_from(self.lines.line(span.start)).unwrap_or(u32::MAX)
    }

    /// Adds a problem at `span`.
    pub(crate) fn report(&mut self, span: Span, message: impl Into<String>) -> LastProblem<'_> {
        self.add(|file, lines| Problem::at(file, lines, span, message))
    }

    /// Adds a complete problem.
    pub(crate) fn take(&mut self, problem: Problem) {
        self.add(|_, _| problem);
    }

    fn add(&mut self, problem: impl FnOnce(&str, &LineIndex<'_>) -> Problem) -> LastProblem<'_> {
        match self.problems.len() {
            ..MAX_PROBLEMS => self.problems.push(problem(self.file, &self.lines)),
            MAX_PROBLEMS => self.problems.push(Problem::of_file(
                self.file,
                format!("the file has more than {MAX_PROBLEMS} problems; the others are not listed"),
                "fix these and check again",
            )),
            _ => return LastProblem(None),
        }
        LastProblem(self.problems.last_mut().filter(|problem| problem.line > 0))
    }

    /// Without a kind, only the keys that all kinds share can be checked.
    fn report_unknown_kind(&mut self, node: &ManifestNode, entries: &[ManifestEntry]) {
        match node.get("kind") {
            None => {
                let near = nearest("kind", entries.iter().map(|entry| entry.key.as_str()));
                let near = near.and_then(|key| node.get(key)).map(|entry| (entry.key_span, shown(&entry.key)));
                let hint = if let Some((_, key)) = &near {
                    format!("`{key}` should be `kind`")
                } else {
                    let kinds: Vec<_> = self.kinds.iter().map(|(kind, _)| format!("`kind: {kind}`")).collect();
                    format!("write {}", list_with(kinds.iter().map(String::as_str), "or"))
                };
                let span = near.map_or(node.span, |(span, _)| span);
                let kinds = list_with(self.kinds.iter().map(|(kind, _)| *kind), "or");
                self.report(span, format!("`kind` is missing: {kinds}")).hint(hint);
            }
            Some(entry) if entry.value.as_str() == Some(POLICY_TEST) => {
                self.report(entry.value.span, "test cases are not a policy").hint(
                    "put tests into files that end in .test.yaml, which are not loaded; `mullion policy test` runs them",
                );
                return;
            }
            Some(entry) if KINDS.iter().any(|(kind, _)| entry.value.as_str() == Some(kind)) => {
                self.report(entry.value.span, "a policy is not a test")
                    .hint("put policies into files that do not end in .test.yaml, which are not loaded");
                return;
            }
            Some(entry) if let Some((group, kind)) = foreign_kind(node) => {
                if self.count_foreign() {
                    return;
                }
                let what = self.what;
                let hint = if kind == "ConfigMap" {
                    "put policies under keys of the ConfigMap that end in .yaml, .yml or .json, and mount them as files"
                } else {
                    "move it elsewhere; a directory of policies must not contain anything else"
                };
                let message = format!("this is a {kind} of {group}, not {what}");
                self.foreign = Some(ForeignDocument { at: self.problems.len(), message: message.clone(), more: 0 });
                self.report(entry.value.span, message).hint(hint);
                return;
            }
            Some(entry) => {
                let kinds: Vec<_> = self.kinds.iter().map(|(word, _)| SchemaWord { word, doc: "" }).collect();
                self.check_word(&kinds, &entry.value, "kind");
            }
        }
        if let Some((key, entry)) =
            self.kinds.first().and_then(|(_, object)| object.key("apiVersion")).zip(node.get("apiVersion"))
        {
            self.check_value(&key.shape, &entry.value, "apiVersion", &mut SpecEntries::new());
        }
    }

    /// Whether there are so many problems that no more are reported. A search for more would only take time.
    fn is_full(&self) -> bool {
        self.problems.len() > MAX_PROBLEMS
    }

    /// Counts another document that is another Kubernetes object; `false` for the first. A rendered chart in which no
    /// ConfigMap contains policies has dozens of such documents, and gets one problem.
    fn count_foreign(&mut self) -> bool {
        let Some(ForeignDocument { at, message, more }) = &mut self.foreign else { return false };
        *more += 1;
        if let Some(problem) = self.problems.get_mut(*at).filter(|problem| problem.line > 0) {
            let others =
                if *more == 1 { "is 1 more document".to_owned() } else { format!("are {more} more documents") };
            problem.message = format!("{message}; nor {others}");
            let hint = "among other manifests only ConfigMaps with policies count; check why there is none, or move them elsewhere";
            problem.hint = Some(hint.to_owned());
        }
        true
    }

    fn check_object<'n>(
        &mut self,
        object: &SchemaObject,
        node: &'n ManifestNode,
        path: &str,
        keys: &mut SpecEntries<'n>,
    ) {
        let NodeValue::Map(entries) = &node.value else {
            self.report_wrong_type(node, path, &map_with_keys(object), hints::suggest_map(object, node));
            return;
        };
        for entry in entries {
            if self.is_full() {
                return;
            }
            match object.key(&entry.key) {
                Some(key) => {
                    let path = join(path, key.name);
                    if let Some(below) = path.strip_prefix("spec.")
                        && !below.contains('[')
                    {
                        keys.insert(below.to_owned(), entry);
                    }
                    self.check_value(&key.shape, &entry.value, &path, keys);
                }
                None => self.report_unknown_key(object, node, entry, path),
            }
        }
        for key in object.keys.iter().filter(|key| key.required && node.get(key.name).is_none()) {
            // A misspelled key was already reported as such.
            let unknown = entries.iter().filter(|entry| object.key(&entry.key).is_none());
            let mut meant = unknown.filter_map(|entry| nearest_word(&entry.key, object.names()));
            if !meant.any(|name| name == key.name) {
                self.report_missing(key, node, path);
            }
        }
        if let Some(constraint) = object.constraint {
            self.check_constraint(constraint, node, path);
        }
    }

    fn report_unknown_key(&mut self, object: &SchemaObject, node: &ManifestNode, entry: &ManifestEntry, path: &str) {
        let hint = hints::suggest_unknown_key(self.kinds, self.kind, object, path, &entry.key);
        let place = if path.is_empty() { self.what.to_owned() } else { format!("`{path}`") };
        self.report(entry.key_span, format!("{place} has no key `{}`", shown(&entry.key))).hint(hint);
        // Otherwise problems below it would be reported only after the key is fixed.
        let near = nearest_word(&entry.key, object.names());
        if let Some(key) = near.filter(|near| node.get(near).is_none()).and_then(|near| object.key(near)) {
            self.check_value(&key.shape, &entry.value, &join(path, key.name), &mut SpecEntries::new());
        }
    }

    fn report_missing(&mut self, key: &SchemaKey, node: &ManifestNode, path: &str) {
        let what = match &key.shape {
            ValueShape::Word(words) => one_of(words),
            ValueShape::Text(text) => text.expected().to_owned(),
            ValueShape::Object(object) | ValueShape::Short(_, object) => map_with_keys(object),
            ValueShape::List(_) => "a list".to_owned(),
            ValueShape::Texts(..) | ValueShape::Map | ValueShape::Integer => String::new(),
        };
        // The document itself may start with comments: report its first key.
        let span = match &node.value {
            NodeValue::Map(entries) => entries.first().map_or(node.span, |entry| entry.key_span),
            _ => node.span,
        };
        let path = join(path, key.name);
        let reported = self.report(span, format!("`{path}` is missing: {what}"));
        match path.as_str() {
            "apiVersion" => reported.hint(format!("write `apiVersion: {API_VERSION}`")),
            "metadata" => reported.hint("write `metadata: {name: <name>}`"),
            "spec" => reported.hint("write `spec: {}` for a policy that sets nothing"),
            _ => {}
        }
    }

    fn check_value<'n>(&mut self, shape: &ValueShape, node: &'n ManifestNode, path: &str, keys: &mut SpecEntries<'n>) {
        if self.is_full() {
            return;
        }
        match shape {
            ValueShape::Object(object) => self.check_object(object, node, path, keys),
            ValueShape::Texts(key, value) => self.check_texts(*key, *value, node, path),
            ValueShape::List(item) => match &node.value {
                NodeValue::List(items) => {
                    for (at, node) in items.iter().enumerate() {
                        self.check_value(item, node, &format!("{path}[{at}]"), keys);
                    }
                }
                NodeValue::String(_) | NodeValue::Map(_) => {
                    self.report_wrong_type(node, path, "a list", hints::suggest_list(item, node));
                }
                _ => self.report_wrong_type(node, path, "a list", None),
            },
            ValueShape::Integer => match &node.value {
                NodeValue::Number(number) if number.is_i64() => {
                    let written = self.source_text(node);
                    if let Some(meant) = hints::suggest_decimal(&written, number) {
                        self.report(node.span, format!("`{path}` is {number}: YAML 1.1 reads `{written}` in base 8"))
                            .hint(format!("write {meant}"));
                    }
                }
                _ => self.report_wrong_type(node, path, "a whole number", hints::suggest_integer(node)),
            },
            ValueShape::Word(words) => self.check_word(words, node, path),
            ValueShape::Text(text) => self.check_text(*text, node, path),
            ValueShape::Map => {
                if !matches!(node.value, NodeValue::Map(_)) {
                    self.report_wrong_type(node, path, "a map", None);
                }
            }
            ValueShape::Short(short, object) => match &node.value {
                NodeValue::Map(_) => self.check_object(object, node, path, keys),
                _ => self.check_value(short, node, path, keys),
            },
        }
    }

    fn check_word(&mut self, words: &[SchemaWord], node: &ManifestNode, path: &str) {
        match &node.value {
            NodeValue::String(text) if words.iter().any(|word| word.word == text) => {}
            NodeValue::String(text) => {
                let message = format!("`{path}` takes {}, not `{}`", one_of(words), shown(text));
                let reported = self.report(node.span, message);
                if path == "apiVersion" {
                    reported.hint(format!(
                        "write `apiVersion: {API_VERSION}`, the only version that this Mullion supports"
                    ));
                } else {
                    reported.hint_if(hints::suggest_word(words, text));
                }
            }
            NodeValue::Bool(value) => {
                let written = self.source_text(node);
                // The words that a boolean probably stands for.
                let meant = if *value { ["Enforce", "Add", "Always"] } else { ["Never", "Disabled", "Nothing"] };
                let meant = words.iter().map(|word| word.word).find(|word| meant.contains(word));
                let instead = meant.map_or("one of these words".to_owned(), |word| format!("`{word}`"));
                let why = if written == value.to_string() {
                    format!("templates write `{written}` for words that are booleans in YAML 1.1, such as off and no")
                } else {
                    format!("YAML 1.1 reads `{written}` as {value}")
                };
                self.report(node.span, format!("`{path}` takes {}, not a boolean", one_of(words)))
                    .hint(format!("{why}; write {instead}"));
            }
            _ => self.report_wrong_type(node, path, &one_of(words), None),
        }
    }

    fn check_text(&mut self, form: TextFormat, node: &ManifestNode, path: &str) {
        match &node.value {
            NodeValue::String(text) => match check_text(form, text) {
                Err(malformed) => {
                    let message = match form {
                        // The error of the build contains the text and what to write.
                        TextFormat::Build => format!("`{path}`: {}", malformed.why),
                        _ if text.is_empty() => format!("`{path}` is empty; it takes {}", form.expected()),
                        _ => format!("`{path}` takes {}, not `{}`: {}", form.expected(), shown(text), malformed.why),
                    };
                    let hint =
                        hints::suggest_template(text).or_else(|| hints::suggest_typeset(text)).or(malformed.hint);
                    let hint = hint.or_else(|| self.find_tag_before(node).map(hints::suggest_tag));
                    self.report(node.span, message).hint_if(hint);
                }
                Ok(())
                    if matches!(form, TextFormat::Rule | TextFormat::TranslatedRule)
                        && find_rules(text).next().is_none() =>
                {
                    self.report(node.span, format!("`{path}`: there is no rule `{}`", shown(text)))
                        .hint(hints::suggest_rule(text));
                }
                Ok(())
                    if form == TextFormat::TranslatedRule
                        && !find_rules(text).any(|rule| rule.translation.is_some()) =>
                {
                    self.report(node.span, format!("`{path}`: there is no translation for `{}`", shown(text)))
                        .hint("`rules.actions` sets what its findings do");
                }
                Ok(()) => {}
            },
            NodeValue::Bool(_) | NodeValue::Number(_) => {
                let written = self.source_text(node);
                let found = self.describe(node);
                self.report(node.span, format!("`{path}` takes {}, not {found}", form.expected()))
                    .hint_if(hints::suggest_unquoted(form, &written));
            }
            _ => self.report_wrong_type(node, path, form.expected(), None),
        }
    }

    fn check_texts(&mut self, key: TextFormat, value: TextFormat, node: &ManifestNode, path: &str) {
        let NodeValue::Map(entries) = &node.value else {
            self.report_wrong_type(node, path, "a map from text to text", None);
            return;
        };
        for entry in entries {
            if self.is_full() {
                return;
            }
            let written = self.text.get(entry.key_span.range()).unwrap_or_default();
            if matches!(entry.key.as_str(), "true" | "false") && written.trim_matches(['"', '\'']) != entry.key {
                let message = format!("`{path}` has the key `{written}`, which YAML 1.1 reads as `{}`", entry.key);
                self.report(entry.key_span, message).hint(format!("write it in quotes: \"{written}\""));
            } else if let Err(malformed) = check_text(key, &entry.key) {
                let message = format!("`{path}` cannot have the key `{}`: {}", shown(&entry.key), malformed.why);
                self.report(entry.key_span, message);
            }
            self.check_text(value, &entry.value, &format!("{path}[{}]", shown(&entry.key)));
        }
    }

    fn check_constraint(&mut self, constraint: KeyConstraint, node: &ManifestNode, path: &str) {
        let get = |key: &str| node.get(key).map(|entry| &entry.value);
        let text = |key: &str| get(key).and_then(ManifestNode::as_str);
        let at = |key: &str| node.get(key).map_or(node.span, |entry| entry.key_span);
        match constraint {
            KeyConstraint::LabelRequirement => {
                let some = match get("values").map(|node| &node.value) {
                    Some(NodeValue::List(items)) => !items.is_empty(),
                    Some(_) => return,
                    None => false,
                };
                match text("operator") {
                    Some(operator @ ("In" | "NotIn")) if !some => {
                        let span = get("values").map_or_else(|| at("operator"), |values| values.span);
                        self.report(span, format!("`{path}` has no values: operator {operator} needs them"))
                            .hint("list at least one value, or use Exists or DoesNotExist");
                    }
                    Some(operator @ ("Exists" | "DoesNotExist")) if some => {
                        let message = format!("`{path}.values` must be absent: operator {operator} takes none");
                        self.report(at("values"), message).hint("remove the values, or use In or NotIn");
                    }
                    _ => {}
                }
            }
            KeyConstraint::Toleration => {
                let exists = text("operator") == Some("Exists");
                if get("key").is_none() && !exists {
                    self.report(node.span, format!("`{path}` has no key; only operator Exists allows that"))
                        .hint("write the taint's key, or write `operator: Exists` to tolerate every taint");
                }
                if exists && text("value").is_some_and(|value| !value.is_empty()) {
                    self.report(at("value"), format!("`{path}.value` must be absent: operator Exists takes any value"))
                        .hint("remove the value, or write `operator: Equal`");
                }
                if get("tolerationSeconds").is_some() && text("effect") != Some("NoExecute") {
                    let message = format!("`{path}.tolerationSeconds` needs `effect: NoExecute`");
                    let hint = "only NoExecute taints evict; remove it, or add that effect";
                    self.report(at("tolerationSeconds"), message).hint(hint);
                }
            }
            KeyConstraint::RuntimeClass => match (text("mode"), get("name")) {
                (Some("Named"), None) => {
                    self.report(at("mode"), format!("`{path}.mode` is Named, and `{path}.name` is missing"))
                        .hint("write `{mode: Named, name: <RuntimeClass>}`");
                }
                (Some(mode @ ("PerRelease" | "Never")), Some(_)) => {
                    self.report(at("name"), format!("`{path}.name` has no effect: mode is {mode}"))
                        .hint("remove the name, or write `mode: Named`");
                }
                _ => {}
            },
            KeyConstraint::RuleAction => {
                if let (Some(rule), Some("Repair")) = (text("rule"), text("action"))
                    && find_rules(rule).next().is_some()
                    && !find_rules(rule).any(|rule| rule.repair)
                {
                    let span = get("action").map_or(node.span, |action| action.span);
                    self.report(span, format!("`{path}.action`: there is no repair for `{}`", shown(rule)))
                        .hint("write Deny, Warn or Allow");
                }
            }
            KeyConstraint::Exemption => {
                if get("until").is_some() {
                    self.check_exemption(&POD_SPEC, node, path);
                }
            }
            KeyConstraint::Release => {
                let build = |key: &str| text(key).and_then(|text| text.parse::<Build>().ok());
                if let (Some(from), Some(build)) = (build("runsFrom"), build("build"))
                    && from > build
                {
                    let message = format!("`{path}.runsFrom` {from} is newer than the release itself, {build}");
                    self.report(at("runsFrom"), message).hint("hosts run images of their own build and of older ones");
                }
            }
        }
    }

    /// Reports the keys and values in `node` that a policy with `until` must not set.
    fn check_exemption(&mut self, object: &SchemaObject, node: &ManifestNode, path: &str) {
        for key in object.keys {
            let Some(ManifestEntry { key_span, value, .. }) = node.get(key.name) else { continue };
            let path = join(path, key.name);
            let wrong = match (key.exempts, &key.shape) {
                (None, ValueShape::Object(below)) if key.merge.is_none() => {
                    self.check_exemption(below, value, &path);
                    None
                }
                (None, _) => key.merge.is_some().then(|| (*key_span, format!("`{path}` must be absent"))),
                (Some(_), ValueShape::List(ValueShape::Object(below))) => {
                    let items = match &value.value {
                        NodeValue::List(items) => items.as_slice(),
                        _ => &[],
                    };
                    for (at, item) in items.iter().enumerate() {
                        self.check_exemption(below, item, &format!("{path}[{at}]"));
                    }
                    None
                }
                (Some(words), _) => {
                    let word = value.as_str().filter(|word| !words.is_empty() && !words.contains(word));
                    let words = || list_with(words.iter().copied(), "or");
                    word.map(|word| (value.span, format!("`{path}` takes {} here, not {}", words(), shown(word))))
                }
            };
            if let Some((span, message)) = wrong {
                let why = "a policy with `until` only softens rules or opts out, because its end must not move pods";
                self.report(span, format!("{message}: {why}"))
                    .hint("put it into a policy without `until`, or remove `until`");
            }
        }
    }

    /// A value of the wrong type.
    fn report_wrong_type(&mut self, node: &ManifestNode, path: &str, expected: &str, hint: Option<String>) {
        if node.value == NodeValue::Null {
            let hint = match expected {
                _ if path.ends_with(']') => "give it a value, or remove the entry",
                "a list" => "write `[]` for none, or remove the key",
                _ if expected.starts_with("a map") => "indent what belongs under it, or write `{}` for nothing",
                _ => "give it a value, or remove the key",
            };
            self.report(node.span, format!("`{path}` has no value; it takes {expected}")).hint(hint);
            return;
        }
        let found = self.describe(node);
        self.report(node.span, format!("`{path}` takes {expected}, not {found}")).hint_if(hint);
    }

    /// The value as text.
    fn describe(&self, node: &ManifestNode) -> String {
        match &node.value {
            NodeValue::Null => "nothing".to_owned(),
            NodeValue::Bool(_) => format!("the boolean `{}`", self.source_text(node)),
            NodeValue::Number(_) => format!("the number `{}`", self.source_text(node)),
            NodeValue::String(text) => format!("the text `{}`", shown(text)),
            NodeValue::List(_) => "a list".to_owned(),
            NodeValue::Map(_) => "a map".to_owned(),
        }
    }

    /// The YAML tag before an empty value, as in `[!shop]`.
    fn find_tag_before(&self, node: &ManifestNode) -> Option<&str> {
        let before = self.text.get(..node.span.start).filter(|_| node.as_str() == Some(""))?;
        let word = before.trim_end().rsplit([' ', '[', '{', ',', '\n']).next()?;
        word.starts_with('!').then_some(word)
    }

    /// The text of a scalar in the file; for an alias, its value.
    fn source_text(&self, node: &ManifestNode) -> String {
        let written = self.text.get(node.span.range()).unwrap_or_default();
        match &node.value {
            NodeValue::Bool(value) if written.starts_with('*') => value.to_string(),
            NodeValue::Number(value) if written.starts_with('*') => value.to_string(),
            _ => shown(written),
        }
    }
}

/// The last problem, to which details can be added; `None` beyond [`MAX_PROBLEMS`].
pub(crate) struct LastProblem<'p>(Option<&'p mut Problem>);

impl LastProblem<'_> {
    pub(crate) fn hint(self, hint: impl Into<String>) {
        if let Some(problem) = self.0 {
            problem.hint = Some(hint.into());
        }
    }

    fn hint_if(self, hint: Option<String>) {
        if let Some(hint) = hint {
            self.hint(hint);
        }
    }

    pub(crate) fn related(mut self, related: Related) -> Self {
        if let Some(problem) = &mut self.0 {
            problem.related = Some(related);
        }
        self
    }
}

/// The keys of an object as text.
fn map_with_keys(object: &SchemaObject) -> String {
    format!("a map with {}", list_with(object.names(), "and"))
}

fn one_of(words: &[SchemaWord]) -> String {
    list_with(words.iter().map(|word| word.word), "or")
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// `apiVersion` and `kind` of an object of another project or of Kubernetes itself, for messages.
fn foreign_kind(node: &ManifestNode) -> Option<(String, String)> {
    let text = |key: &str| node.get(key).and_then(|entry| entry.value.as_str());
    let (version, kind) = (text("apiVersion")?, text("kind")?);
    let near = |known: &str| nearest(kind, [known]).is_some() && kind.len() + 2 >= known.len();
    (!KINDS.iter().any(|(kind, _)| near(kind)) && !version.starts_with("mullion"))
        .then(|| (shown(version), shown(kind)))
}
