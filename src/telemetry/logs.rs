//! The log: its output, format and level. The level can change while the program runs.

use std::io::IsTerminal as _;
use std::sync::OnceLock;

use mullion_engine::model::foreign_text::visible;
use mullion_engine::model::text::shorten;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::{EnvFilter, LevelFilter, filter_fn};
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::fmt::{FormatFields, MakeWriter};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::reload::Handle;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, fmt, reload};

use crate::exact_text::JsonWriter;

/// The environment variable that sets the log level if `--log-level` does not.
pub(crate) const LOG_VARIABLE: &str = "MULLION_LOG";

/// The level if none is set; for libraries it is `warn`.
const DEFAULT: &str = "warn,mullion=info";

/// How much of an invalid directive is quoted, in characters.
const QUOTED: usize = 80;

/// Set once, by [`init`], because a process has one log.
static FILTER: OnceLock<Handle<EnvFilter, Registry>> = OnceLock::new();

/// The flags of the log.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct LogArgs {
    /// Form of the log on standard error: text, or a JSON object per line. Without it, text on a terminal, else JSON
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// What is logged: a level, or directives as in mullion=debug,kube=warn. Without it, the value of the environment variable
    /// `MULLION_LOG`, else info. PUT /log-level on the admin port changes it
    #[arg(long, value_name = "LEVEL", value_parser = checked)]
    pub log_level: Option<String>,
}

/// The form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// A JSON object per line.
    Json,
}

/// Why the level stays unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadLevel {
    /// Neither a level nor directives.
    #[error(
        "{0:?} is neither a level nor a directive; expected off, error, warn, info, debug or trace (of Mullion's own \
         events), or directives such as mullion=debug,kube=warn"
    )]
    Unknown(String),
    /// [`init`] did not set up the log of this process.
    #[error("the log of this process was set up by other code")]
    Foreign,
}

/// Sends events to standard error, as `args` specify; a second call does nothing.
///
/// Panics are logged only with their place, because a panic's message can quote an object.
pub(crate) fn init(args: &LogArgs) {
    let wanted = args.log_level.clone().unwrap_or_else(|| std::env::var(LOG_VARIABLE).unwrap_or_default());
    let (directives, problem) = match directives(&wanted) {
        _ if wanted.trim().is_empty() => (DEFAULT.to_owned(), None),
        Ok(directives) => (directives, None),
        Err(problem) => (DEFAULT.to_owned(), Some(problem)),
    };
    let terminal = std::io::stderr().is_terminal();
    let format = args.log_format.unwrap_or(if terminal { LogFormat::Text } else { LogFormat::Json });
    let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let (subscriber, handle) = subscriber(std::io::stderr, format, colour, EnvFilter::new(directives));
    if subscriber.try_init().is_err() {
        return;
    }
    // An error means a second call, and that the subscriber of that call was not installed.
    drop(FILTER.set(handle));
    if let Some(problem) = problem {
        tracing::warn!(variable = LOG_VARIABLE, %problem, "unknown log level; logging at level info");
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(%place, "panicked");
    }));
}

/// The current level, as directives.
pub(crate) fn level() -> Result<String, BadLevel> {
    let filter = FILTER.get().ok_or(BadLevel::Foreign)?;
    filter.with_current(ToString::to_string).map_err(|_| BadLevel::Foreign)
}

/// Sets the level, or directives. Returns all directives that then apply.
pub(crate) fn set_level(wanted: &str) -> Result<String, BadLevel> {
    let directives = directives(wanted)?;
    let filter = FILTER.get().ok_or(BadLevel::Foreign)?;
    filter.reload(EnvFilter::new(&directives)).map_err(|_| BadLevel::Foreign)?;
    tracing::info!(directives, "log level changed");
    Ok(directives)
}

fn subscriber<W>(
    writer: W,
    format: LogFormat,
    colour: bool,
    filter: EnvFilter,
) -> (impl Subscriber + Send + Sync, Handle<EnvFilter, Registry>)
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(filter);
    let events = match format {
        LogFormat::Text => fmt::layer().with_writer(writer).with_ansi(colour).fmt_fields(VisibleFields).boxed(),
        LogFormat::Json => {
            let events = fmt::layer().with_writer(JsonLog(writer)).json();
            events.flatten_event(true).with_current_span(false).with_span_list(false).boxed()
        }
    };
    (tracing_subscriber::registry().with(filter).with(filter_fn(is_loggable)).with(events), handle)
}

/// The writers of a log in JSON.
struct JsonLog<W>(W);

impl<'w, W: MakeWriter<'w>> MakeWriter<'w> for JsonLog<W> {
    type Writer = JsonWriter<W::Writer>;

    fn make_writer(&'w self) -> Self::Writer {
        JsonWriter(self.0.make_writer())
    }
}

/// The message and the fields of an event, on one line.
struct VisibleFields;

impl<'w> FormatFields<'w> for VisibleFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> std::fmt::Result {
        let mut text = String::new();
        DefaultFields::new().format_fields(Writer::new(&mut text), fields)?;
        writer.write_str(&visible(&text))
    }
}

/// Whether the events of a place in the code may be logged. kube's client logs whole responses of the API server that
/// it cannot parse, at `warn` and below (kube-client, `src/client/mod.rs`, `Client::request`), including Secrets. It
/// also logs failures that it returns (`on_failure` in kube-client, `src/client/builder.rs`); the caller logs them with
/// the object and what happens next.
fn is_loggable(place: &Metadata<'_>) -> bool {
    match place.target() {
        "kube_client::client" => false,
        "kube_client::client::builder" => *place.level() > Level::WARN,
        _ => true,
    }
}

fn checked(wanted: &str) -> Result<String, BadLevel> {
    directives(wanted).map(|_| wanted.to_owned())
}

/// The filter for `wanted`. Stricter than [`EnvFilter`], which interprets a misspelled level as the name of a module
/// and then logs nothing else.
fn directives(wanted: &str) -> Result<String, BadLevel> {
    let wanted = wanted.trim();
    if is_level(wanted) {
        // At debug, hyper and rustls log several events for each connection.
        return Ok(format!("warn,mullion={wanted}"));
    }
    for directive in wanted.split(',').map(str::trim) {
        let understood = match directive.split_once('=') {
            None => is_level(directive),
            Some((module, level)) => is_module(module) && is_level(level),
        };
        if !understood {
            return Err(BadLevel::Unknown(shorten(directive, QUOTED)));
        }
    }
    Ok(wanted.split(',').map(str::trim).collect::<Vec<_>>().join(","))
}

/// [`LevelFilter`] also parses a number as a level, but its meaning is not obvious.
fn is_level(text: &str) -> bool {
    text.parse::<LevelFilter>().is_ok() && text.chars().all(|c| c.is_ascii_alphabetic()) && !text.is_empty()
}

fn is_module(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-'))
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use k8s_openapi::api::core::v1::Secret;
    use kube::client::Body;
    use kube::{Api, Client};
    use proptest::prelude::*;

    use super::*;

    /// A log in memory.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Memory {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, level: &str) -> (Memory, impl Subscriber + Send + Sync, Handle<EnvFilter, Registry>) {
        let memory = Memory::default();
        let writer = memory.clone();
        let filter = EnvFilter::new(directives(level).unwrap());
        let (subscriber, handle) = subscriber(move || writer.clone(), format, false, filter);
        (memory, subscriber, handle)
    }

    #[test]
    fn a_level_alone_is_that_of_our_own_events() {
        for (wanted, means) in [
            (" debug ", "warn,mullion=debug"),
            ("off", "warn,mullion=off"),
            ("TRACE\n", "warn,mullion=TRACE"),
            ("kube=debug,info", "kube=debug,info"),
            ("mullion::webhook=trace, kube=warn", "mullion::webhook=trace,kube=warn"),
        ] {
            assert_eq!(directives(wanted).unwrap(), means);
            EnvFilter::try_new(means).unwrap();
        }
        for bad in ["", "verbose", "mullion", "mullion=verbose", "=debug", "mullion=debug,", "5", "a b=info", "{}"] {
            let error = directives(bad).unwrap_err().to_string();
            assert!(error.contains("expected off, error, warn"), "{error}");
        }
        assert!(directives(&"x".repeat(100_000)).unwrap_err().to_string().len() < 400);
    }

    proptest! {
        #[test]
        fn accepted_directives_are_a_filter(wanted in "[ a-z=,:{}\\[\\]0-9_/.-]{0,40}|(debug|info|a=warn|b::c=off)(,(debug|x=trace)){0,3}") {
            if let Ok(directives) = directives(&wanted) {
                prop_assert!(EnvFilter::try_new(&directives).is_ok(), "{}", directives);
            }
        }
    }

    #[test]
    fn the_level_changes_while_it_runs() {
        let (memory, subscriber, handle) = logged(LogFormat::Json, "warn");
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "mullion::here", "hidden");
            handle.reload(EnvFilter::new(directives("debug").unwrap())).unwrap();
            tracing::debug!(target: "mullion::here", number = 7, "shown");
            tracing::info!(target: "hyper", "library");
        });
        let text = memory.text();
        assert!(text.contains(r#""message":"shown","number":7"#) && text.lines().count() == 1, "{text}");
    }

    #[test]
    fn text_is_for_people() {
        let (memory, subscriber, _handle) = logged(LogFormat::Text, "info");
        tracing::subscriber::with_default(subscriber, || tracing::info!(target: "mullion::here", number = 7, "shown"));
        assert!(memory.text().contains("INFO mullion::here: shown number=7"), "{}", memory.text());
    }

    #[test]
    fn names_in_a_log_act_on_nothing() {
        let name = "a\u{1b}[2J\u{9b}\u{202e}\n::error::x ##vso[task.complete]";
        for format in [LogFormat::Text, LogFormat::Json] {
            let (memory, subscriber, _handle) = logged(format, "info");
            tracing::subscriber::with_default(subscriber, || {
                tracing::info!(target: "mullion::here", %name, text = name, quoted = ?name, "read {name}");
            });
            let text = memory.text();
            assert_eq!(text.lines().count(), 1, "{text:?}");
            let acts = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
            assert!(!text.contains(acts) && !text.contains("##vso["), "{text:?}");
            if format == LogFormat::Json {
                let line: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!(line["text"], name);
            }
        }
    }

    #[test]
    fn errors_that_kube_returns_are_not_logged_twice() {
        let (memory, subscriber, _handle) = logged(LogFormat::Text, "warn,kube_client=debug");
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(target: "kube_client::client::builder", "failed with status 500");
            tracing::debug!(target: "kube_client::client::builder", "requesting");
            tracing::warn!(target: "kube_client::config", "shown");
        });
        let text = memory.text();
        assert!(text.contains("requesting") && text.contains("shown") && text.lines().count() == 2, "{text}");
    }

    #[tokio::test]
    async fn unreadable_responses_are_not_logged() {
        let (memory, subscriber, _handle) = logged(LogFormat::Text, "trace,mullion=trace");
        let _here = tracing::subscriber::set_default(subscriber);
        for (status, body) in [(200, r#"{"data": {"password": ["aHVudGVyMg=="]}}"#), (500, r#"["aHVudGVyMg=="]"#)] {
            let service = tower::service_fn(move |_request: http::Request<Body>| {
                let answer = http::Response::builder().status(status).body(Body::from(body.as_bytes().to_vec()));
                std::future::ready(Ok::<_, std::convert::Infallible>(answer.unwrap()))
            });
            let secrets: Api<Secret> = Api::default_namespaced(Client::new(service, "shop"));
            secrets.get("pull").await.expect_err("no Secret");
        }
        tracing::trace!("all of it is logged");
        let text = memory.text();
        assert!(text.contains("all of it is logged") && !text.contains("aHVudGVyMg"), "{text}");
    }
}
