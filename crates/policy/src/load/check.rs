//! One walk over a document along the [schema](crate::schema): every problem it has, each with its place.

use std::collections::BTreeMap;

use mullion_engine::model::text::{list_with, nearest, nearest_word, shown};
use mullion_engine::model::windows::build::Build;
use mullion_manifest::node::{Entry, Node, NodeValue};
use mullion_manifest::problem::{Problem, Related};
use mullion_manifest::span::{LineIndex, Span};

use crate::load::hints;
use crate::load::hints::Kinds;
use crate::load::rule_names::meant;
use crate::schema::kinds::KINDS;
use crate::schema::test::{POLICY_TEST, TEST_KINDS};
use crate::schema::types::{API_VERSION, Between, Key, Object, Shape, Text, Word};

/// More of them help nobody, and a hostile file has millions.
pub(crate) const MAX_PROBLEMS: usize = 100;

/// A file being checked.
pub(crate) struct Checker<'a> {
    kinds: Kinds,
    /// Of the document that is being checked.
    kind: Option<&'static str>,
    /// What a document is: `a policy`.
    what: &'static str,
    /// The first document that is something else of Kubernetes.
    foreign: Option<Foreign>,
    file: &'a str,
    text: &'a str,
    lines: LineIndex<'a>,
    /// Where each line starts.
    starts: Vec<usize>,
    /// What was found.
    pub(crate) problems: Vec<Problem>,
}

/// Where each key of a document's `spec` is written, by dotted path.
pub(crate) type Places = BTreeMap<String, Span>;

/// A document that is something else of Kubernetes: its problem's position and words, and how many more such there are.
#[derive(Debug)]
struct Foreign {
    at: usize,
    said: String,
    more: usize,
}

impl<'a> Checker<'a> {
    /// Of a policy file.
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        Self::of(&KINDS, "a policy", file, text)
    }

    /// Of a test file.
    pub(crate) fn of_tests(file: &'a str, text: &'a str) -> Self {
        Self::of(&TEST_KINDS, "a policy test", file, text)
    }

    fn of(kinds: Kinds, what: &'static str, file: &'a str, text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let ends = |at: usize| {
            bytes.get(at) == Some(&b'\n') || (bytes.get(at) == Some(&b'\r') && bytes.get(at + 1) != Some(&b'\n'))
        };
        let starts = std::iter::once(0).chain((0..bytes.len()).filter(|at| ends(*at)).map(|at| at + 1)).collect();
        Self {
            kinds,
            kind: None,
            what,
            foreign: None,
            file,
            text,
            lines: LineIndex::new(text),
            starts,
            problems: Vec::new(),
        }
    }

    /// Checks a document. Gives its kind and where its keys are if it has no problem.
    pub(crate) fn document(&mut self, node: &Node) -> Option<(&'static str, Places)> {
        let before = self.problems.len();
        let mut places = Places::new();
        let kind = node.get("kind").and_then(|entry| entry.value.as_str());
        let known = self.kinds.iter().find(|(name, _)| Some(*name) == kind);
        self.kind = known.map(|(kind, _)| *kind);
        match (&node.value, known) {
            (NodeValue::Map(_), Some((_, object))) => self.object(object, node, "", &mut places),
            (NodeValue::Map(entries), None) => self.unknown_kind(node, entries),
            _ => {
                let message = match self.found(node) {
                    _ if node.value == NodeValue::Null => "the document is empty".to_owned(),
                    found => format!("this is {} but {found}", self.what.replacen('a', "no", 1)),
                };
                let keys = self.kinds.first().map(|(_, object)| object.keys.iter().filter(|key| key.required));
                let hint = format!(
                    "{} is a map with {}",
                    self.what,
                    list_with(keys.into_iter().flatten().map(|key| key.name), "and")
                );
                self.report(node.span, message).hint(hint);
            }
        }
        let (kind, _) = known?;
        (self.problems.len() == before).then_some((*kind, places))
    }

    /// 1-based line of a place.
    pub(crate) fn line(&self, span: Span) -> u32 {
        // Not `lines.line_column`: it counts the column, and ten thousand patterns may stand in one line of JSON.
        let line = self.starts.partition_point(|start| *start <= span.start);
        u32::try_from(line).unwrap_or(u32::MAX).max(1)
    }

    /// Adds a problem at `span`.
    pub(crate) fn report(&mut self, span: Span, message: impl Into<String>) -> Reported<'_> {
        let message = message.into();
        self.add(|file, lines| problem(file, lines, span, message))
    }

    /// Adds a problem that is known already.
    pub(crate) fn take(&mut self, problem: Problem) {
        self.add(|_, _| problem);
    }

    fn add(&mut self, problem: impl FnOnce(&str, &LineIndex<'_>) -> Problem) -> Reported<'_> {
        match self.problems.len() {
            ..MAX_PROBLEMS => self.problems.push(problem(self.file, &self.lines)),
            MAX_PROBLEMS => self.problems.push(Problem::of_file(
                self.file,
                format!("it has more than {MAX_PROBLEMS} problems, and the others are not listed"),
                "correct these and look again",
            )),
            _ => return Reported(None),
        }
        Reported(self.problems.last_mut().filter(|problem| problem.line > 0))
    }

    /// Without a kind, only what all kinds share can be judged.
    fn unknown_kind(&mut self, node: &Node, entries: &[Entry]) {
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
                self.report(entry.value.span, "test cases are no policy").hint(
                    "tests live in files that end in .test.yaml, which are not loaded; `mullion policy test` runs them",
                );
                return;
            }
            Some(entry) if KINDS.iter().any(|(kind, _)| entry.value.as_str() == Some(kind)) => {
                self.report(entry.value.span, "a policy is no test")
                    .hint("policies live in files that do not end in .test.yaml, which are not loaded");
                return;
            }
            Some(entry) if let Some((group, kind)) = foreign(node) => {
                if self.known_foreign() {
                    return;
                }
                let what = self.what;
                let hint = if kind == "ConfigMap" {
                    "policies in a ConfigMap stand under keys that end in .yaml, .yml or .json, and are mounted as files"
                } else {
                    "move it elsewhere; a directory of policies holds nothing else"
                };
                let said = format!("this is a {kind} of {group}, and not {what}");
                self.foreign = Some(Foreign { at: self.problems.len(), said: said.clone(), more: 0 });
                self.report(entry.value.span, said).hint(hint);
                return;
            }
            Some(entry) => {
                let kinds: Vec<_> = self.kinds.iter().map(|(word, _)| Word { word, doc: "" }).collect();
                self.word(&kinds, &entry.value, "kind");
            }
        }
        if let Some((key, entry)) =
            self.kinds.first().and_then(|(_, object)| object.key("apiVersion")).zip(node.get("apiVersion"))
        {
            self.value(&key.shape, &entry.value, "apiVersion", &mut Places::new());
        }
    }

    /// Whether there are so many problems that no more are told. To look for what else is wrong would only take time.
    fn full(&self) -> bool {
        self.problems.len() > MAX_PROBLEMS
    }

    /// Counts another document that is something else of Kubernetes; `false` for the first. A rendered chart in which no
    /// ConfigMap holds policies has dozens, and one problem.
    fn known_foreign(&mut self) -> bool {
        let Some(Foreign { at, said, more }) = &mut self.foreign else { return false };
        *more += 1;
        if let Some(problem) = self.problems.get_mut(*at).filter(|problem| problem.line > 0) {
            problem.message = format!(
                "{said}; nor {}",
                match more {
                    1 => "is 1 more document".to_owned(),
                    more => format!("are {more} more documents"),
                }
            );
            problem.hint = Some(
                "of other manifests only ConfigMaps with policies count; look why there is none, or move them elsewhere"
                    .to_owned(),
            );
        }
        true
    }

    fn object(&mut self, object: &Object, node: &Node, path: &str, places: &mut Places) {
        let NodeValue::Map(entries) = &node.value else {
            let expected = format!("a map with {}", list_with(object.keys.iter().map(|key| key.name), "and"));
            self.wrong(node, path, &expected, hints::map(object, node));
            return;
        };
        for entry in entries {
            if self.full() {
                return;
            }
            match object.key(&entry.key) {
                Some(key) => {
                    let path = join(path, key.name);
                    if let Some(below) = path.strip_prefix("spec.")
                        && !below.contains('[')
                    {
                        places.insert(below.to_owned(), entry.key_span);
                    }
                    self.value(&key.shape, &entry.value, &path, places);
                }
                None => self.unknown_key(object, node, entry, path),
            }
        }
        for key in object.keys.iter().filter(|key| key.required && node.get(key.name).is_none()) {
            // One that was misspelled was reported as such.
            let unknown = entries.iter().filter(|entry| object.key(&entry.key).is_none());
            let mut meant =
                unknown.filter_map(|entry| nearest_word(&entry.key, object.keys.iter().map(|key| key.name)));
            if !meant.any(|name| name == key.name) {
                self.missing(key, node, path);
            }
        }
        if let Some(rule) = object.rule {
            self.between(rule, node, path);
        }
    }

    fn unknown_key(&mut self, object: &Object, node: &Node, entry: &Entry, path: &str) {
        let hint = hints::unknown_key(self.kinds, self.kind, object, path, &entry.key);
        let place = if path.is_empty() { self.what.to_owned() } else { format!("`{path}`") };
        self.report(entry.key_span, format!("{place} has no key `{}`", shown(&entry.key))).hint(hint);
        // What is wrong below it would else be told only once the key is right.
        let near = nearest_word(&entry.key, object.keys.iter().map(|key| key.name));
        if let Some(key) = near.filter(|near| node.get(near).is_none()).and_then(|near| object.key(near)) {
            self.value(&key.shape, &entry.value, &join(path, key.name), &mut Places::new());
        }
    }

    fn missing(&mut self, key: &Key, node: &Node, path: &str) {
        let what = match &key.shape {
            Shape::Word(words) => list_with(words.iter().map(|word| word.word), "or"),
            Shape::Text(text) => text.expected().to_owned(),
            Shape::Object(object) | Shape::Short(_, object) => {
                format!("a map with {}", list_with(object.keys.iter().map(|key| key.name), "and"))
            }
            Shape::List(_) => "a list".to_owned(),
            Shape::Texts(..) | Shape::Map | Shape::Integer => String::new(),
        };
        // The document itself may start with comments: point at its first key.
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

    fn value(&mut self, shape: &Shape, node: &Node, path: &str, places: &mut Places) {
        if self.full() {
            return;
        }
        match shape {
            Shape::Object(object) => self.object(object, node, path, places),
            Shape::Texts(key, value) => self.texts(*key, *value, node, path),
            Shape::List(item) => match &node.value {
                NodeValue::List(items) => {
                    for (at, node) in items.iter().enumerate() {
                        self.value(item, node, &format!("{path}[{at}]"), places);
                    }
                }
                NodeValue::String(_) | NodeValue::Map(_) => {
                    self.wrong(node, path, "a list", hints::list(item, node));
                }
                _ => self.wrong(node, path, "a list", None),
            },
            Shape::Integer => match &node.value {
                NodeValue::Number(number) if number.is_i64() => {
                    let written = self.written(node);
                    if let Some(meant) = hints::octal(&written, number) {
                        self.report(node.span, format!("`{path}` is {number}: YAML 1.1 reads `{written}` in base 8"))
                            .hint(format!("write {meant}"));
                    }
                }
                _ => self.wrong(node, path, "a whole number", hints::integer(node)),
            },
            Shape::Word(words) => self.word(words, node, path),
            Shape::Text(text) => self.text(*text, node, path),
            Shape::Map => {
                if !matches!(node.value, NodeValue::Map(_)) {
                    self.wrong(node, path, "a map", None);
                }
            }
            Shape::Short(short, object) => match &node.value {
                NodeValue::Map(_) => self.object(object, node, path, places),
                _ => self.value(short, node, path, places),
            },
        }
    }

    fn word(&mut self, words: &[Word], node: &Node, path: &str) {
        let expected = || list_with(words.iter().map(|word| word.word), "or");
        match &node.value {
            NodeValue::String(text) if words.iter().any(|word| word.word == text) => {}
            NodeValue::String(text) => {
                let message = format!("`{path}` takes {}, not `{}`", expected(), shown(text));
                let reported = self.report(node.span, message);
                if path == "apiVersion" {
                    reported.hint(format!("write `apiVersion: {API_VERSION}`, the only one that this Mullion knows"));
                } else {
                    reported.hint_if(hints::word(words, text));
                }
            }
            NodeValue::Bool(value) => {
                let written = self.written(node);
                // What people mean by a boolean where words stand.
                let meant = if *value { ["Enforce", "Add", "Always"] } else { ["Never", "Disabled", "Nothing"] };
                let meant = words.iter().map(|word| word.word).find(|word| meant.contains(word));
                let instead = meant.map_or("one of these words".to_owned(), |word| format!("`{word}`"));
                let why = if written == value.to_string() {
                    format!(
                        "templates write `{written}` for words that YAML 1.1 takes for booleans, such as off and no"
                    )
                } else {
                    format!("YAML 1.1 reads `{written}` as {value}")
                };
                self.report(node.span, format!("`{path}` takes {}, not a boolean", expected()))
                    .hint(format!("{why}; write {instead}"));
            }
            _ => self.wrong(node, path, &expected(), None),
        }
    }

    fn text(&mut self, form: Text, node: &Node, path: &str) {
        match &node.value {
            NodeValue::String(text) => match form.check(text) {
                Err(malformed) => {
                    let message = match form {
                        // The build's own message names the text and says what to write.
                        Text::Build => format!("`{path}`: {}", malformed.why),
                        _ if text.is_empty() => format!("`{path}` is empty; it takes {}", form.expected()),
                        _ => format!("`{path}` takes {}, not `{}`: {}", form.expected(), shown(text), malformed.why),
                    };
                    let hint = hints::template(text).or_else(|| hints::typeset(text)).or(malformed.hint);
                    let hint = hint.or_else(|| self.tag_before(node).map(hints::tag));
                    self.report(node.span, message).hint_if(hint);
                }
                Ok(()) if matches!(form, Text::Rule | Text::TranslatedRule) && meant(text).next().is_none() => {
                    self.report(node.span, format!("`{path}`: there is no rule `{}`", shown(text)))
                        .hint(hints::rule(text));
                }
                Ok(()) if form == Text::TranslatedRule && !meant(text).any(|rule| rule.translation.is_some()) => {
                    self.report(node.span, format!("`{path}`: there is no translation for `{}`", shown(text)))
                        .hint("`rules.actions` says what its findings do");
                }
                Ok(()) => {}
            },
            NodeValue::Bool(_) | NodeValue::Number(_) => {
                let written = self.written(node);
                let found = self.found(node);
                self.report(node.span, format!("`{path}` takes {}, not {found}", form.expected()))
                    .hint_if(hints::unquoted(form, &written));
            }
            _ => self.wrong(node, path, form.expected(), None),
        }
    }

    fn texts(&mut self, key: Text, value: Text, node: &Node, path: &str) {
        let NodeValue::Map(entries) = &node.value else {
            self.wrong(node, path, "a map from text to text", None);
            return;
        };
        for entry in entries {
            if self.full() {
                return;
            }
            let written = self.text.get(entry.key_span.range()).unwrap_or_default();
            if matches!(entry.key.as_str(), "true" | "false") && written.trim_matches(['"', '\'']) != entry.key {
                let message = format!("`{path}` has the key `{written}`, which YAML 1.1 reads as `{}`", entry.key);
                self.report(entry.key_span, message).hint(format!("write it in quotes: \"{written}\""));
            } else if let Err(malformed) = key.check(&entry.key) {
                self.report(
                    entry.key_span,
                    format!("`{path}` cannot have the key `{}`: {}", shown(&entry.key), malformed.why),
                );
            }
            self.text(value, &entry.value, &format!("{path}[{}]", shown(&entry.key)));
        }
    }

    fn between(&mut self, rule: Between, node: &Node, path: &str) {
        let get = |key: &str| node.get(key).map(|entry| &entry.value);
        let text = |key: &str| get(key).and_then(Node::as_str);
        let at = |key: &str| node.get(key).map_or(node.span, |entry| entry.key_span);
        match rule {
            Between::LabelRequirement => {
                let some = match get("values").map(|node| &node.value) {
                    Some(NodeValue::List(items)) => !items.is_empty(),
                    Some(_) => return,
                    None => false,
                };
                match text("operator") {
                    Some(operator @ ("In" | "NotIn")) if !some => {
                        let span = get("values").map_or_else(|| at("operator"), |values| values.span);
                        self.report(span, format!("`{path}` lacks values: operator {operator} compares with them"))
                            .hint("list at least one value, or use Exists or DoesNotExist");
                    }
                    Some(operator @ ("Exists" | "DoesNotExist")) if some => {
                        self.report(
                            at("values"),
                            format!("`{path}.values` must be absent: operator {operator} takes none"),
                        )
                        .hint("remove the values, or use In or NotIn");
                    }
                    _ => {}
                }
            }
            Between::Toleration => {
                let exists = text("operator") == Some("Exists");
                if get("key").is_none() && !exists {
                    self.report(node.span, format!("`{path}` has no key, which only operator Exists allows"))
                        .hint("name the taint's key, or write `operator: Exists` to tolerate every taint");
                }
                if exists && text("value").is_some_and(|value| !value.is_empty()) {
                    self.report(at("value"), format!("`{path}.value` must be absent: operator Exists takes any value"))
                        .hint("remove the value, or write `operator: Equal`");
                }
                if get("tolerationSeconds").is_some() && text("effect") != Some("NoExecute") {
                    self.report(
                        at("tolerationSeconds"),
                        format!("`{path}.tolerationSeconds` needs `effect: NoExecute`"),
                    )
                    .hint("only NoExecute taints evict; remove it, or add that effect");
                }
            }
            Between::RuntimeClass => match (text("mode"), get("name")) {
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
            Between::RuleAction => {
                if let (Some(rule), Some("Repair")) = (text("rule"), text("action"))
                    && meant(rule).next().is_some()
                    && !meant(rule).any(|rule| rule.repair)
                {
                    let span = get("action").map_or(node.span, |action| action.span);
                    self.report(span, format!("`{path}.action`: there is no repair for `{}`", shown(rule)))
                        .hint("write Deny, Warn or Allow");
                }
            }
            Between::Release => {
                let build = |key: &str| text(key).and_then(|text| text.parse::<Build>().ok());
                if let (Some(from), Some(build)) = (build("runsFrom"), build("build"))
                    && from > build
                {
                    self.report(
                        at("runsFrom"),
                        format!("`{path}.runsFrom` {from} is newer than the release itself, {build}"),
                    )
                    .hint("hosts run images of their own build and of older ones");
                }
            }
        }
    }

    /// A value of the wrong type.
    fn wrong(&mut self, node: &Node, path: &str, expected: &str, hint: Option<String>) {
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
        let found = self.found(node);
        self.report(node.span, format!("`{path}` takes {expected}, not {found}")).hint_if(hint);
    }

    /// What stands there, as an object of a sentence.
    fn found(&self, node: &Node) -> String {
        match &node.value {
            NodeValue::Null => "nothing".to_owned(),
            NodeValue::Bool(_) => format!("the boolean `{}`", self.written(node)),
            NodeValue::Number(_) => format!("the number `{}`", self.written(node)),
            NodeValue::String(text) => format!("the text `{}`", shown(text)),
            NodeValue::List(_) => "a list".to_owned(),
            NodeValue::Map(_) => "a map".to_owned(),
        }
    }

    /// The YAML tag that stands before an empty value, as in `[!shop]`.
    fn tag_before(&self, node: &Node) -> Option<&str> {
        let before = self.text.get(..node.span.start).filter(|_| node.as_str() == Some(""))?;
        let word = before.trim_end().rsplit([' ', '[', '{', ',', '\n']).next()?;
        word.starts_with('!').then_some(word)
    }

    /// The text of a scalar as it is written; of an alias, what it stands for.
    fn written(&self, node: &Node) -> String {
        let written = self.text.get(node.span.range()).unwrap_or_default();
        match &node.value {
            NodeValue::Bool(value) if written.starts_with('*') => value.to_string(),
            NodeValue::Number(value) if written.starts_with('*') => value.to_string(),
            _ => shown(written),
        }
    }
}

/// A problem just reported; none beyond [`MAX_PROBLEMS`].
pub(crate) struct Reported<'p>(Option<&'p mut Problem>);

impl Reported<'_> {
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

/// A problem at `span` of a file.
pub(crate) fn problem(file: &str, lines: &LineIndex<'_>, span: Span, message: String) -> Problem {
    let place = lines.line_column(span.start);
    Problem {
        source: file.to_owned(),
        message,
        span,
        line: place.line,
        column: place.column,
        related: None,
        hint: None,
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// `apiVersion` and `kind` of what is an object of another project or of Kubernetes itself, for messages.
fn foreign(node: &Node) -> Option<(String, String)> {
    let text = |key: &str| node.get(key).and_then(|entry| entry.value.as_str());
    let (version, kind) = (text("apiVersion")?, text("kind")?);
    let near = |known: &str| nearest(kind, [known]).is_some() && kind.len() + 2 >= known.len();
    (!KINDS.iter().any(|(kind, _)| near(kind)) && !version.starts_with("mullion"))
        .then(|| (shown(version), shown(kind)))
}
