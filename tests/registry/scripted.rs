//! Scripted servers that record their requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Response, Uri};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A received request.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
}

/// A server; it stops when dropped.
pub struct Scripted {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Scripted {
    /// Responds to each request over HTTP by a function.
    pub async fn start(answer: impl Fn(&Seen) -> Response<Body> + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", answer).await
    }

    /// The same at another address.
    pub async fn start_at(at: &str, answer: impl Fn(&Seen) -> Response<Body> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let (remembered, answer) = (Arc::clone(&seen), Arc::new(answer));
        let router = Router::new().fallback(move |request: Request| {
            let one = Seen {
                method: request.method().clone(),
                uri: request.uri().clone(),
                headers: request.headers().clone(),
            };
            remembered.lock().unwrap().push(one.clone());
            let answer = Arc::clone(&answer);
            async move { answer(&one) }
        });
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self { address, seen, task }
    }

    /// Reads the head of a request, writes these bytes and closes; without bytes, keeps the connection and sends nothing.
    pub async fn raw(bytes: Option<&'static [u8]>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let remembered = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((mut connection, _)) = listener.accept().await {
                head(&mut connection).await;
                let one = Seen { method: Method::GET, uri: Uri::from_static("/"), headers: HeaderMap::new() };
                remembered.lock().unwrap().push(one);
                match bytes {
                    Some(bytes) => connection.write_all(bytes).await.unwrap(),
                    None => held.push(connection),
                }
            }
        });
        Self { address, seen, task }
    }

    pub fn host(&self) -> String {
        self.address.to_string()
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The head of a request, with the empty line.
pub async fn head(connection: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match connection.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}
