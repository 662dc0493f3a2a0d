//! A load generator: connections that are kept, and requests that are built beforehand. It does as little as possible
//! for each request, so that the server dominates the figures.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The name in the certificate.
pub const NAME: &str = "mullion-webhook.mullion.svc";

/// A certificate for [`NAME`] in a folder of its own, and a client configuration that trusts it.
pub struct Identity {
    pub folder: tempfile::TempDir,
    pub connector: TlsConnector,
}

impl Identity {
    pub fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec![NAME.to_owned()]).unwrap().self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tls.crt"), certificate.pem()).unwrap();
        std::fs::write(folder.path().join("tls.key"), key.serialize_pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self { folder, connector: TlsConnector::from(Arc::new(config)) }
    }
}

/// A whole request, as bytes.
pub fn request(body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST /mutate?timeout=1s HTTP/1.1\r\nhost: {NAME}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// One connection in use.
struct Client {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

impl Client {
    async fn connect(address: SocketAddr, connector: &TlsConnector) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let stream = connector.connect(ServerName::try_from(NAME).unwrap(), stream).await.unwrap();
        Self { stream, buffer: Vec::with_capacity(64 << 10) }
    }

    /// Sends one request and reads its response; returns the body's length.
    async fn ask(&mut self, request: &[u8]) -> usize {
        self.stream.write_all(request).await.unwrap();
        self.stream.flush().await.unwrap();
        self.buffer.clear();
        loop {
            assert!(self.stream.read_buf(&mut self.buffer).await.unwrap() > 0, "the server closed the connection");
            let Some(head) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            // Go capitalizes names of headers.
            let text = std::str::from_utf8(&self.buffer[..head]).unwrap().to_ascii_lowercase();
            assert!(text.starts_with("http/1.1 200"), "{text}");
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let length: usize = length.parse().unwrap();
            while self.buffer.len() < head + 4 + length {
                assert!(self.stream.read_buf(&mut self.buffer).await.unwrap() > 0, "an answer without its end");
            }
            return length;
        }
    }
}

/// Sends each request once; returns the lengths of the responses.
pub async fn once(address: SocketAddr, connector: &TlsConnector, requests: &[Vec<u8>]) -> Vec<usize> {
    let mut client = Client::connect(address, connector).await;
    let mut lengths = Vec::new();
    for request in requests {
        lengths.push(client.ask(request).await);
    }
    lengths
}

/// Sends requests over `connections` until `total` responses have come or `stop` is set; returns their number.
pub async fn many(
    address: SocketAddr,
    connector: &TlsConnector,
    requests: &Arc<Vec<Vec<u8>>>,
    connections: usize,
    total: usize,
    stop: &Arc<AtomicBool>,
) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..connections)
        .map(|_| {
            let (connector, requests) = (connector.clone(), Arc::clone(requests));
            let (count, stop) = (Arc::clone(&count), Arc::clone(stop));
            tokio::spawn(async move {
                let mut client = Client::connect(address, &connector).await;
                loop {
                    let number = count.fetch_add(1, Ordering::Relaxed);
                    if number >= total || stop.load(Ordering::Relaxed) {
                        return;
                    }
                    client.ask(&requests[number % requests.len()]).await;
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    // Each connection took one number without sending its request.
    count.load(Ordering::Relaxed) - connections
}
