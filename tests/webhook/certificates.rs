//! The certificate pair: formats, replacement under load, and invalid pairs.

use mullion::server::tls::Certificate;
use mullion::server::{ConnectionLimits, ReloadOutcome, ServerMetrics};
use rcgen::{
    CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256,
};

use crate::support::{NAME, Server, TestResponse, full, pair, within, write_pair};

#[tokio::test]
async fn a_new_pair_is_served_without_dropping_connections() {
    let mut server = Server::start(ConnectionLimits::default()).await;
    let mut old = server.http1().await;
    let got = TestResponse::read(within(old.send_request(full("/mutate", "web"))).await.unwrap()).await;
    assert_eq!(got.review()["allowed"], true);

    let (certificate, key) = pair();
    write_pair(server.dir.path(), &certificate.pem(), &key.serialize_pem());
    server.trust(&certificate);
    assert!(server.certificate.reload(server.dir.path(), &server.state.metrics.server));
    let shown = |stream: &tokio_rustls::client::TlsStream<tokio::net::TcpStream>| {
        stream.get_ref().1.peer_certificates().unwrap()[0].clone()
    };
    assert_eq!(&shown(&server.tls().await), certificate.der());
    within(old.ready()).await.unwrap();
    let got = TestResponse::read(within(old.send_request(full("/mutate", "web"))).await.unwrap()).await;
    assert_eq!(got.review()["allowed"], true);

    // Invalid pairs, one after the other: the served pair stays, and each is counted once.
    let (_, foreign) = pair();
    let (certificate_pem, key_pem) = (certificate.pem(), key.serialize_pem());
    for (certificate_file, key_file) in [
        (certificate_pem.as_str(), foreign.serialize_pem().as_str()),
        ("", key_pem.as_str()),
        (&certificate_pem[..certificate_pem.len() / 2], key_pem.as_str()),
        (certificate_pem.as_str(), "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
    ] {
        write_pair(server.dir.path(), certificate_file, key_file);
        assert!(server.certificate.reload(server.dir.path(), &server.state.metrics.server));
        assert!(!server.certificate.reload(server.dir.path(), &server.state.metrics.server));
        assert_eq!(&shown(&server.tls().await), certificate.der());
    }
    std::fs::remove_file(server.dir.path().join("tls.key")).unwrap();
    assert!(server.certificate.reload(server.dir.path(), &server.state.metrics.server));
    assert!(!server.certificate.reload(server.dir.path(), &server.state.metrics.server));
    let text = server.state.metrics.encode().unwrap();
    assert!(text.contains("mullion_tls_reload_total{outcome=\"failed\"} 5"), "{text}");
    assert!(text.contains("mullion_tls_reload_total{outcome=\"loaded\"} 1"), "{text}");

    let valid = server.certificate.valid().unwrap();
    for (name, time) in [("start", valid.start), ("expiry", valid.end)] {
        let line = format!("mullion_certificate_{name}_seconds{{certificate=\"serving\"}} {time}\n");
        assert!(text.contains(&line), "{line}: {text}");
    }

    // The pair in force again is not a new certificate.
    write_pair(server.dir.path(), &certificate_pem, &key_pem);
    assert!(server.certificate.reload(server.dir.path(), &server.state.metrics.server));
    assert!(server.state.metrics.encode().unwrap().contains("mullion_tls_reload_total{outcome=\"loaded\"} 1"));
}

#[test]
fn keys_come_as_pkcs8_pkcs1_and_sec1() {
    let dir = tempfile::tempdir().unwrap();
    for (algorithm, inner) in [
        (&PKCS_ECDSA_P256_SHA256, Some("EC PRIVATE KEY")),
        (&PKCS_ECDSA_P384_SHA384, Some("EC PRIVATE KEY")),
        (&PKCS_RSA_SHA256, Some("RSA PRIVATE KEY")),
        (&PKCS_ED25519, None),
    ] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let leaf = CertificateParams::new(vec![NAME.to_owned()]).unwrap().self_signed(&key).unwrap();
        let chain = format!("{}# a chain, with a comment\n{}", leaf.pem(), pair().0.pem());
        write_pair(dir.path(), &chain, &key.serialize_pem());
        Certificate::load(dir.path()).unwrap();
        if let Some(label) = inner {
            let text = pem(label, private_key_of(key.serialized_der()));
            // openssl ecparam writes the curve before the key.
            let text = format!("-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n{text}");
            write_pair(dir.path(), &chain, &text);
            Certificate::load(dir.path()).unwrap();
        }
    }
}

#[test]
fn a_start_without_a_usable_pair_fails_with_path_and_reason() {
    let (certificate, key) = pair();
    let (other, _) = pair();
    for (certificate, key, expected) in [
        (None, Some(key.serialize_pem()), "tls.crt: "),
        (Some(certificate.pem()), None, "tls.key: "),
        (Some("nothing".to_owned()), Some(key.serialize_pem()), "it contains no certificate"),
        (Some(certificate.pem()), Some(certificate.pem()), "expected an unencrypted private key"),
        (Some(other.pem()), Some(key.serialize_pem()), "cannot be used together"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("tls.crt", certificate), ("tls.key", key)] {
            if let Some(text) = text {
                std::fs::write(dir.path().join(name), text).unwrap();
            }
        }
        let error = Certificate::load(dir.path()).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(dir.path().to_str().unwrap()), "{error}");
    }
}

/// Opening a pipe would wait forever for a writer, and so would the rotation.
#[cfg(unix)]
#[test]
fn a_pipe_is_not_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = pair();
    write_pair(dir.path(), &certificate.pem(), &key.serialize_pem());
    std::fs::remove_file(dir.path().join("tls.key")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(dir.path().join("tls.key")).status().unwrap().success());
    let (sender, receiver) = std::sync::mpsc::channel();
    let path = dir.path().to_owned();
    std::thread::spawn(move || sender.send(Certificate::load(&path).unwrap_err().to_string()));
    let error = receiver.recv_timeout(std::time::Duration::from_secs(60)).expect("it hangs");
    assert!(error.contains("tls.key: ") && error.contains("not a regular file"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_mounted_secret_is_read_through_its_link() {
    use std::os::unix::fs::symlink;

    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let set = |name: &str| {
        std::fs::create_dir(at(name)).unwrap();
        let (certificate, key) = pair();
        write_pair(&at(name), &certificate.pem(), &key.serialize_pem());
    };
    set("..one");
    symlink("..one", at("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        symlink(format!("..data/{name}"), at(name)).unwrap();
    }
    let certificate = Certificate::load(dir.path()).unwrap();
    set("..two");
    symlink("..two", at("..new")).unwrap();
    std::fs::rename(at("..new"), at("..data")).unwrap();
    let metrics = ServerMetrics::default();
    assert!(certificate.reload(dir.path(), &metrics));
    assert_eq!(metrics.tls_reload.get_or_create(&ReloadOutcome::Loaded).get(), 1);
}

/// The `privateKey` of a PKCS#8 structure, which is the key in its older form:
/// `SEQUENCE { INTEGER, SEQUENCE, OCTET STRING privateKey }`.
fn private_key_of(pkcs8: &[u8]) -> &[u8] {
    /// Tag, content and what follows.
    fn element(der: &[u8]) -> (u8, &[u8], &[u8]) {
        let (start, length) = match der[1] {
            short @ 0..0x80 => (2, usize::from(short)),
            long => {
                let bytes = usize::from(long & 0x7f);
                (2 + bytes, der[2..2 + bytes].iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
            }
        };
        (der[0], &der[start..start + length], &der[start + length..])
    }
    let (_, inside, _) = element(pkcs8);
    let (_, _, after_version) = element(inside);
    let (_, _, after_algorithm) = element(after_version);
    let (tag, key, _) = element(after_algorithm);
    assert_eq!(tag, 0x04);
    key
}

fn pem(label: &str, der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
