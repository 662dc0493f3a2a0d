//! Responses of the API server, read as they arrive.

use std::error::Error as _;
use std::io;

use bytes::{Buf as _, Bytes};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::core::Status;
use kube::{Client, Error, Result};

use crate::cluster::reading::list_scanner::{ListMetadata, ListScanner};
use crate::cluster::reading::scanner::{MAX_OBJECT, ValueScanner};

/// The most that is read of the response of a rejected request. Its message can contain those of other webhooks.
const MAX_REJECTION: usize = 256 << 10;
/// The longest message of a response that is not a Status, in characters: a proxy answers with a page.
const MAX_MESSAGE: usize = 1_000;

/// The body of a response, and the part of it that was received and not read.
pub(super) struct ResponseBody {
    body: Body,
    chunk: Bytes,
}

impl ResponseBody {
    /// Sends a request. A rejection is [`Error::Api`].
    pub(super) async fn of(client: &Client, request: http::Request<Vec<u8>>) -> Result<Self> {
        let response = client.send(request.map(Body::from)).await?;
        let status = response.status();
        let mut response = Self { body: response.into_body(), chunk: Bytes::new() };
        if status.is_client_error() || status.is_server_error() {
            return Err(Error::Api(Box::new(response.rejection(status.as_u16()).await?)));
        }
        Ok(response)
    }

    /// Whether there are bytes to read.
    async fn receive(&mut self) -> Result<bool> {
        while self.chunk.is_empty() {
            let Some(frame) = self.body.frame().await else { return Ok(false) };
            if let Ok(data) = frame?.into_data() {
                self.chunk = data;
            }
        }
        Ok(true)
    }

    async fn rejection(&mut self, code: u16) -> Result<Status> {
        let mut text = Vec::new();
        while text.len() < MAX_REJECTION && self.receive().await? {
            let length = self.chunk.len().min(MAX_REJECTION - text.len());
            text.extend_from_slice(&self.chunk.split_to(length));
        }
        Ok(serde_json::from_slice(&text).unwrap_or_else(|_| {
            let message: String = String::from_utf8_lossy(&text).trim().chars().take(MAX_MESSAGE).collect();
            Status::failure(&message, "Failed to parse error data").with_code(code)
        }))
    }

    /// Reads to the end of the next value, and returns whether there is one.
    pub(super) async fn next_value(&mut self, value: &mut ValueScanner) -> Result<bool> {
        value.reset();
        while self.receive().await? {
            if let Some(length) = value.push(&self.chunk) {
                self.chunk.advance(length);
                if !value.has_begun() {
                    return Err(Error::ReadEvents(io::ErrorKind::InvalidData.into()));
                }
                return Ok(true);
            }
            self.chunk.clear();
        }
        Ok(false)
    }

    /// The only value of the response.
    pub(super) async fn value(mut self) -> Result<ValueScanner> {
        let mut value = ValueScanner::new(MAX_OBJECT);
        if self.next_value(&mut value).await? {
            return Ok(value);
        }
        Err(Error::ReadEvents(io::ErrorKind::UnexpectedEof.into()))
    }
}

/// A list that is being received.
pub(super) struct ListResponse {
    body: ResponseBody,
    scanner: ListScanner,
}

impl ListResponse {
    pub(super) async fn of(client: &Client, request: http::Request<Vec<u8>>) -> Result<Self> {
        Ok(Self { body: ResponseBody::of(client, request).await?, scanner: ListScanner::new() })
    }

    /// The next item; `None` after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<&ValueScanner>> {
        loop {
            if self.scanner.next(&mut self.body.chunk).map_err(|error| Error::Service(error.into()))? {
                return Ok(Some(self.scanner.item()));
            }
            if !self.body.receive().await? {
                return Ok(None);
            }
        }
    }

    pub(super) fn end(self) -> Result<ListMetadata> {
        self.scanner.end().map_err(|error| Error::Service(error.into()))
    }
}

/// Whether a connection ended in the middle of a response, which happens to every long watch: it is continued, and does
/// not count as a failure.
pub(super) fn is_end_of_stream(error: &Error) -> bool {
    let mut at = error.source();
    let mut text = error.to_string();
    while let Some(cause) = at {
        if let Some(kind) = cause.downcast_ref::<io::Error>().map(io::Error::kind)
            && matches!(kind, io::ErrorKind::UnexpectedEof | io::ErrorKind::TimedOut)
        {
            return true;
        }
        text = cause.to_string();
        at = cause.source();
    }
    text.contains("unexpected EOF during chunk")
}
