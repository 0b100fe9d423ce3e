//! Connections to mail servers: TCP, and TLS from the first byte or after STARTTLS.

use super::settings::{Security, Server};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use switchboard_core::port::channel::{FailureClass, NotSent};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Largest file of certificates that is read, in bytes.
const CA_BYTES_MAX: u64 = 1 << 20;

/// What mail protocols are spoken over.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send + Sync + fmt::Debug {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync + fmt::Debug> Wire for T {}

/// A connection, encrypted or not.
pub(super) type BoxedWire = Box<dyn Wire>;

/// Whom to believe that it is the mail server.
#[derive(Clone)]
pub(super) struct Trust(Arc<ClientConfig>);

impl fmt::Debug for Trust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Trust")
    }
}

impl Trust {
    /// The operating system's certificate authorities, and those in the PEM file `ca_file`.
    pub fn new(ca_file: Option<&Path>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        // An operating system without authorities refuses every server, which says so when it is reached.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = ca_file {
            add_file(&mut roots, path).map_err(|why| format!("ca_file: {}: {why}", path.display()))?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?;
        Ok(Self(Arc::new(builder.with_root_certificates(roots).with_no_client_auth())))
    }

    /// TLS with `host` over a connection to it.
    pub async fn encrypt(&self, wire: BoxedWire, host: &str) -> Result<BoxedWire, NotSent> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| {
            NotSent::new(
                FailureClass::Misconfigured,
                format!("'{host}' is not a name that a certificate can be for: {error}"),
            )
        })?;
        let connected = TlsConnector::from(self.0.clone()).connect(name, wire).await;
        connected.map(|stream| Box::new(stream) as BoxedWire).map_err(|error| tls_fault(host, &error))
    }
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let mut pem = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(CA_BYTES_MAX + 1).read_to_end(&mut pem).map_err(|error| error.to_string())?;
    if pem.len() as u64 > CA_BYTES_MAX {
        return Err("is larger than 1 MiB".to_owned());
    }
    let before = roots.len();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| format!("is not PEM: {error}"))?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.len() == before { Err("holds no certificate".to_owned()) } else { Ok(()) }
}

/// A wrong certificate, or no TLS at all on that port, does not pass by itself.
fn tls_fault(host: &str, error: &std::io::Error) -> NotSent {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let lasting =
        matches!(inner, Some(rustls::Error::InvalidCertificate(_) | rustls::Error::InvalidMessage(_)));
    let class = if lasting { FailureClass::Misconfigured } else { FailureClass::Transient };
    NotSent::new(class, format!("TLS with {host} failed: {error}"))
}

/// Connects to `server`, encrypted already when it speaks TLS from the first byte. An unencrypted connection leaves the machine only where
/// that is allowed.
pub(super) async fn connect(server: &Server, trust: &Trust) -> Result<BoxedWire, NotSent> {
    let at = (server.host.as_str(), server.port);
    let stream = TcpStream::connect(at).await.map_err(|error| {
        NotSent::new(
            FailureClass::Transient,
            format!("cannot reach {}:{}: {error}", server.host, server.port),
        )
    })?;
    // A command and what follows it are small: neither waits for the other to be acknowledged.
    let _ = stream.set_nodelay(true);
    if !is_protected(server, stream.peer_addr().ok().map(|peer| peer.ip())) {
        let reason =
            format!("{} is not this machine: use TLS, or allow an unencrypted connection", server.host);
        return Err(NotSent::new(FailureClass::Misconfigured, reason));
    }
    let wire: BoxedWire = Box::new(stream);
    if server.security == Security::Tls { trust.encrypt(wire, &server.host).await } else { Ok(wire) }
}

/// Whether nobody beside the two ends can read along, or that is allowed.
fn is_protected(server: &Server, peer: Option<IpAddr>) -> bool {
    server.security != Security::Plain || server.plain_allowed || peer.is_some_and(|peer| peer.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unencrypted_connection_stays_on_this_machine() {
        let server = |security, plain_allowed| Server {
            host: "mx".into(),
            port: 25,
            security,
            plain_allowed,
            credentials: None,
        };
        let far: Option<IpAddr> = "192.0.2.1".parse().ok();
        assert!(!is_protected(&server(Security::Plain, false), far));
        assert!(!is_protected(&server(Security::Plain, false), None));
        assert!(is_protected(&server(Security::Plain, false), "127.0.0.1".parse().ok()));
        assert!(is_protected(&server(Security::Plain, true), far));
        assert!(is_protected(&server(Security::StartTls, false), far));
    }

    #[test]
    fn a_ca_file_that_is_none_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        assert!(Trust::new(Some(&path)).unwrap_err().starts_with("ca_file: "));
        std::fs::write(&path, "no certificate").unwrap();
        assert!(Trust::new(Some(&path)).unwrap_err().contains("holds no certificate"));
    }
}
