//! How channels speak HTTP: one client for all of them, so that what keeps a message from leading elsewhere, or from being sent twice,
//! stands in one place.

use crate::guard::Guard;
use reqwest::{Certificate, Client};
use std::sync::Arc;
use std::time::Duration;

/// How this program calls itself.
pub(crate) const USER_AGENT: &str = concat!("switchboard/", env!("CARGO_PKG_VERSION"));

/// What differs between channels.
pub(crate) struct Egress<'a> {
    /// How the client calls itself.
    pub user_agent: &'a str,
    /// Looks at each address that a name leads to, before it is connected to; `None`: whatever the system's resolver says.
    pub guard: Option<Guard>,
    /// Time to connect, TLS included.
    pub connect_timeout: Duration,
    /// Certificate authorities to believe beside those of the operating system, as PEM.
    pub authorities_pem: Option<&'a [u8]>,
}

/// A client that makes one connection for each request: one that is kept may have been ended by the other side, and whoever then writes on
/// it never learns whether that was read. Nothing of the environment (proxies) and nothing of an answer (redirects, retries) leads anywhere
/// else.
///
/// # Errors
/// A sentence: the PEM holds no certificate, or TLS cannot be set up.
pub(crate) fn client(egress: Egress<'_>) -> Result<Client, String> {
    let authorities = Certificate::from_pem_bundle(egress.authorities_pem.unwrap_or_default());
    let authorities = authorities.unwrap_or_default();
    if authorities.is_empty() && egress.authorities_pem.is_some() {
        return Err("the file of certificate authorities holds no PEM certificate".into());
    }
    let mut client = Client::builder()
        .tls_certs_merge(authorities)
        .user_agent(egress.user_agent)
        .connect_timeout(egress.connect_timeout)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .referer(false)
        .http1_only()
        .pool_max_idle_per_host(0);
    if let Some(guard) = egress.guard {
        client = client.dns_resolver(Arc::new(guard));
    }
    client.build().map_err(|error| format!("TLS cannot be set up: {}", error.without_url()))
}
