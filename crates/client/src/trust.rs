//! Whom to believe that it is the hub, and which way to reach it.

use std::fmt;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use reqwest::{ClientBuilder, Url};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_tungstenite::Connector;

use crate::error::Error;

/// Largest file of certificates that is read, in bytes; the bundle of a whole operating system has a quarter of it.
const CA_BYTES_MAX: u64 = 1 << 20;

/// Certificate authorities that a hub's certificate may come from: those of the operating system, and further ones.
#[derive(Clone, Default)]
pub struct Trust {
    /// Absent: only those of the operating system.
    tls: Option<Arc<ClientConfig>>,
}

impl fmt::Debug for Trust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Trust").field("further", &self.tls.is_some()).finish()
    }
}

impl Trust {
    /// The authorities in a PEM file of at most 1 MiB, beside those of the operating system. [`Error::Option`], naming
    /// `ca_file`, when it cannot be read or holds no certificate.
    pub fn with_ca_file(path: &Path) -> Result<Self, Error> {
        let unusable = |error: std::io::Error| Error::Option(format!("ca_file: {}: {error}", path.display()));
        let mut pem = Vec::new();
        let file = std::fs::File::open(path).map_err(unusable)?;
        file.take(CA_BYTES_MAX + 1).read_to_end(&mut pem).map_err(unusable)?;
        Self::with_ca_pem(&pem)
    }

    /// As [`Self::with_ca_file`], from its content.
    pub fn with_ca_pem(pem: &[u8]) -> Result<Self, Error> {
        let unusable = |why: &str| Error::Option(format!("ca_file: {why}"));
        if pem.len() as u64 > CA_BYTES_MAX {
            return Err(unusable("is larger than 1 MiB"));
        }
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| unusable(&format!("is not PEM: {error}")))?;
            roots.add(certificate).map_err(|error| unusable(&error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(unusable(
                "holds no certificate; it must be PEM, `-----BEGIN CERTIFICATE-----` and so on",
            ));
        }
        // An operating system without authorities of its own is no fault here: there is one to believe.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| unusable(&error.to_string()))?;
        let config = config.with_root_certificates(roots).with_no_client_auth();
        Ok(Self { tls: Some(Arc::new(config)) })
    }

    /// What the socket connects with; absent: its own default.
    pub(crate) fn connector(&self) -> Option<Connector> {
        self.tls.clone().map(Connector::Rustls)
    }

    /// An HTTP client for the hub at `base`: believes these authorities, asks no proxy for what is on this machine.
    pub(crate) fn http(&self, base: &Url) -> ClientBuilder {
        // Not ours to fail on: the program may have chosen a provider already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let mut client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        if let Some(tls) = &self.tls {
            client = client.tls_backend_preconfigured(ClientConfig::clone(tls));
        }
        // A proxy cannot reach it, and would be shown the bearer.
        if is_loopback(base) { client.no_proxy() } else { client }
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let name = host.trim_end_matches('.');
    name == "localhost"
        || name.ends_with(".localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_told_from_others() {
        let found = |url: &str| is_loopback(&crate::options::base_url(url).unwrap());
        for ours in [
            "http://127.0.0.1:1",
            "ws://127.9.9.9",
            "http://LOCALHOST:1",
            "http://hub.localhost",
            "https://[::1]:1",
            "http://[::ffff:127.0.0.1]",
            "http://localhost.",
        ] {
            assert!(found(ours), "{ours}");
        }
        for others in [
            "http://hub.example",
            "http://10.0.0.1",
            "http://localhost.example",
            "http://[::2]",
            "http://128.0.0.1",
        ] {
            assert!(!found(others), "{others}");
        }
    }

    #[test]
    fn what_holds_no_certificate_is_refused_by_name() {
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let large = " ".repeat(1 << 20) + "x";
        for pem in ["", "no certificate", broken, &large] {
            let refused = Trust::with_ca_pem(pem.as_bytes()).unwrap_err();
            assert!(refused.to_string().starts_with("option ca_file: "), "{refused}");
        }
        let missing = Trust::with_ca_file(Path::new("/nowhere/ca.pem")).unwrap_err().to_string();
        assert!(missing.contains("ca_file: /nowhere/ca.pem: "), "{missing}");
    }
}
