//! A proxy on loopback between Mullion and the API server, which responds in its place, resets connections, or sends nothing.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::StatusCode;
use kube::Client;
use mullion_cluster::ControlPlane;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The response in the API server's place; `None` forwards the request.
pub type Fault = Arc<dyn Fn(&http::Uri) -> Option<Response> + Send + Sync>;

/// The state of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Open,
    /// Nothing is forwarded any more, in either direction, and nothing is closed, even after the line is open again.
    Silent,
    /// Every connection is reset.
    Cut,
}

/// A plain HTTP proxy before the API server, with an administrator's permissions.
pub struct Proxy {
    address: SocketAddr,
    line: watch::Sender<(u64, Line)>,
    shared: Arc<Shared>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Default)]
struct Shared {
    fault: Mutex<Option<Fault>>,
    /// Paths and queries of the requests that the fault affected.
    struck: Mutex<Vec<String>>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Proxy {
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let inner = TcpListener::bind("127.0.0.1:0").await?;
        let target = inner.local_addr()?;
        let (client, state) = (plane.client(), Arc::clone(&shared));
        let router = Router::new().fallback(move |request| forward(client, state, request));
        let answering = tokio::spawn(async move { drop(axum::serve(inner, router).await) });

        let outer = TcpListener::bind("127.0.0.1:0").await?;
        let address = outer.local_addr()?;
        let (line, state) = watch::channel((0, Line::Open));
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = outer.accept().await {
                tokio::spawn(connection(stream, target, state.clone()));
            }
        });
        Ok(Self { address, line, shared, tasks: [answering, accepting] })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the fault.
    pub fn fail(&self, fault: impl Fn(&http::Uri) -> Option<Response> + Send + Sync + 'static) {
        *lock(&self.shared.fault) = Some(Arc::new(fault));
    }

    /// Forwards everything again; returns the requests that the fault affected.
    pub fn mend(&self) -> Vec<String> {
        *lock(&self.shared.fault) = None;
        std::mem::take(&mut *lock(&self.shared.struck))
    }

    /// How many requests the fault affected.
    pub fn struck(&self, what: &str) -> usize {
        lock(&self.shared.struck).iter().filter(|url| url.contains(what)).count()
    }

    /// Resets every open connection; later ones work.
    pub fn cut(&self) {
        self.set(Line::Cut);
    }

    /// Sends nothing more on every connection, and on new ones until [`Proxy::listen`].
    pub fn fall_silent(&self) {
        self.set(Line::Silent);
    }

    /// Serves new connections; the silent ones stay silent.
    pub fn listen(&self) {
        self.set(Line::Open);
    }

    fn set(&self, line: Line) {
        self.line.send_modify(|(generation, now)| {
            *generation += 1;
            *now = line;
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn forward(client: Client, shared: Arc<Shared>, request: Request) -> Response {
    let fault = lock(&shared.fault).clone();
    if let Some(answer) = fault.and_then(|fault| fault(request.uri())) {
        lock(&shared.struck).push(request.uri().to_string());
        return answer;
    }
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(http::header::HOST);
    let Ok(body) = axum::body::to_bytes(body, 16 << 20).await else {
        return text(StatusCode::BAD_REQUEST, "the body does not arrive");
    };
    match client.send(Request::from_parts(parts, kube::client::Body::from(body))).await {
        Ok(response) => response.map(Body::new),
        Err(error) => text(StatusCode::BAD_GATEWAY, &error.to_string()),
    }
}

async fn connection(mut stream: TcpStream, target: SocketAddr, mut line: watch::Receiver<(u64, Line)>) {
    let first = line.borrow_and_update().1;
    if first == Line::Silent {
        // Held open until the proxy ends.
        while line.changed().await.is_ok() {}
        return;
    }
    let Ok(mut upstream) = TcpStream::connect(target).await else { return };
    loop {
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut stream, &mut upstream) => return,
            changed = line.changed() => {
                let now = line.borrow_and_update().1;
                match (changed, now) {
                    (Ok(()), Line::Open) => {}
                    (Ok(()), Line::Silent) => {
                        while line.changed().await.is_ok() {}
                        return;
                    }
                    (Ok(()), Line::Cut) => {
                        stream.set_zero_linger().ok();
                        return;
                    }
                    (Err(_), _) => return,
                }
            }
        }
    }
}

/// A response in the format of the API server's libraries.
pub fn status(code: u16, reason: &str) -> Response {
    let body = failure(code, reason);
    let mut answer = text(StatusCode::from_u16(code).expect("a status code"), &body.to_string());
    answer.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    answer
}

/// The `Status` of a failure.
pub fn failure(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "as the test wants it",
        "reason": reason, "code": code})
}

/// A response with a text.
pub fn text(status: StatusCode, text: &str) -> Response {
    Response::builder().status(status).body(Body::from(text.to_owned())).expect("an answer")
}
