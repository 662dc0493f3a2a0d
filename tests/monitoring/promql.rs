//! A partial parser of `PromQL` for the metrics, labels and values that a query needs. promtool checks the rest of the
//! syntax (`make monitoring`), because parsers of `PromQL` in Rust need thirty crates.

use std::iter::Peekable;
use std::str::Chars;

/// Metrics and labels that a query needs.
#[derive(Debug, Default, PartialEq)]
pub struct Query {
    pub selectors: Vec<Selector>,
    /// Labels used for grouping or joining.
    pub grouping: Vec<String>,
    /// Texts outside selectors, such as the label that `label_replace` sets.
    pub strings: Vec<String>,
    /// Whether the query drops labels.
    pub aggregates: bool,
}

#[derive(Debug, Default, PartialEq)]
pub struct Selector {
    pub metric: String,
    pub matchers: Vec<Matcher>,
}

#[derive(Debug, PartialEq)]
pub struct Matcher {
    pub label: String,
    /// `=`, `!=`, `=~` or `!~`.
    pub operator: String,
    pub value: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

const AGGREGATIONS: [&str; 6] = ["sum", "min", "max", "count", "avg", "topk"];
const JOINS: [&str; 2] = ["on", "ignoring"];
const OTHER_WORDS: [&str; 7] = ["and", "or", "unless", "offset", "bool", "group_left", "group_right"];

impl Query {
    pub fn of(query: &str) -> Result<Self, String> {
        let tokens = tokens(query)?;
        balanced(&tokens)?;
        let mut found = Self::default();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let next = tokens.get(at + 1);
            at += 1;
            match token {
                Token::Text(text) => found.strings.push(text.clone()),
                Token::Word(word) if ["by", "without"].contains(&word.as_str()) || JOINS.contains(&word.as_str()) => {
                    let end = tokens[at..].iter().position(|token| *token == Token::Sign(')'));
                    let end = at + end.ok_or("no end of a list of labels")?;
                    found.grouping.extend(tokens[at..end].iter().filter_map(Token::word));
                    at = end;
                }
                Token::Word(word) if next == Some(&Token::Sign('{')) => {
                    let end = tokens[at..].iter().position(|token| *token == Token::Sign('}')).expect("balanced");
                    let matchers = matchers(&tokens[at + 1..at + end])?;
                    found.selectors.push(Selector { metric: word.clone(), matchers });
                    at += end;
                }
                Token::Word(word) if AGGREGATIONS.contains(&word.as_str()) => found.aggregates = true,
                Token::Word(word) if next == Some(&Token::Sign('(')) || OTHER_WORDS.contains(&word.as_str()) => {}
                Token::Word(word) => {
                    found.selectors.push(Selector { metric: word.clone(), ..Selector::default() });
                }
                Token::Sign(_) => {}
            }
        }
        Ok(found)
    }
}

impl Token {
    fn word(&self) -> Option<String> {
        if let Self::Word(word) = self { Some(word.clone()) } else { None }
    }
}

/// Without numbers and durations, which select nothing.
fn tokens(query: &str) -> Result<Vec<Token>, String> {
    let mut rest = query.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(first) = rest.next() {
        match first {
            '"' => tokens.push(Token::Text(text(&mut rest)?)),
            // A duration, including Grafana's variables.
            '[' => while rest.next().ok_or("no end of a range")? != ']' {},
            c if c.is_ascii_digit() => while rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '.').is_some() {},
            c if c.is_ascii_alphabetic() || c == '_' => {
                let mut word = String::from(c);
                while let Some(c) = rest.next_if(|c| c.is_ascii_alphanumeric() || "_:".contains(*c)) {
                    word.push(c);
                }
                tokens.push(Token::Word(word));
            }
            c if c.is_whitespace() => {}
            c => tokens.push(Token::Sign(c)),
        }
    }
    Ok(tokens)
}

fn text(rest: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    let mut text = String::new();
    loop {
        match rest.next().ok_or("no end of a text")? {
            '"' => return Ok(text),
            '\\' => text.extend(rest.next()),
            c => text.push(c),
        }
    }
}

fn balanced(tokens: &[Token]) -> Result<(), String> {
    let mut open = Vec::new();
    for token in tokens {
        let fits = match token {
            Token::Sign(c @ ('(' | '{')) => {
                open.push(*c);
                true
            }
            Token::Sign(')') => open.pop() == Some('('),
            Token::Sign('}') => open.pop() == Some('{'),
            _ => true,
        };
        if !fits {
            return Err("brackets do not match".to_owned());
        }
    }
    if open.is_empty() { Ok(()) } else { Err("brackets do not match".to_owned()) }
}

fn matchers(tokens: &[Token]) -> Result<Vec<Matcher>, String> {
    tokens.split(|token| *token == Token::Sign(',')).map(matcher).collect()
}

fn matcher(tokens: &[Token]) -> Result<Matcher, String> {
    let (Some(Token::Word(label)), Some(Token::Text(value))) = (tokens.first(), tokens.last()) else {
        return Err(format!("no matcher: {tokens:?}"));
    };
    let signs = tokens[1..tokens.len() - 1].iter();
    let operator: String = signs.filter_map(|sign| if let Token::Sign(c) = sign { Some(*c) } else { None }).collect();
    if !["=", "!=", "=~", "!~"].contains(&operator.as_str()) {
        return Err(format!("{operator} is no operator of a matcher"));
    }
    Ok(Matcher { label: label.clone(), operator, value: value.clone() })
}

#[test]
fn queries_are_parsed() {
    let query = "topk(3, sum by (le, a) (rate(m_total{x=\"1\", y!~\"a|\\\"}\"}[5m:1m] offset 1d))) / on (b) n > 0.5 and vector(0)";
    let found = Query::of(query).unwrap();
    let matcher = |label: &str, operator: &str, value: &str| Matcher {
        label: label.into(),
        operator: operator.into(),
        value: value.into(),
    };
    assert_eq!(
        found.selectors,
        [
            Selector { metric: "m_total".into(), matchers: vec![matcher("x", "=", "1"), matcher("y", "!~", "a|\"}")] },
            Selector { metric: "n".into(), matchers: vec![] },
        ]
    );
    assert_eq!((found.grouping, found.aggregates), (vec!["le".into(), "a".into(), "b".into()], true));
    for bad in ["m{", "m)", "m{x}", "m{x+\"1\"}", "m{x=\"1}", "m[5m", "sum by (a", "(m}"] {
        assert!(Query::of(bad).is_err(), "{bad}");
    }
}
