//! Which addresses may be connected to when somebody else chose the name. A target within the hub's own network is refused unless the
//! operator allows it, at the time of connecting and by address: names can be made to lead anywhere, at any moment (fault K14).

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Addresses from which clouds give out credentials. Never a target.
const METADATA_V4: [Ipv4Addr; 4] = [
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
];
/// The same in version 6.
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// Networks that are not the public internet (IANA special-purpose registry): network, length of its prefix, what it is.
const SPECIAL_V4: [(Ipv4Addr, u32, &str); 14] = [
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "shared by a provider's customers"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "reserved"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "reserved"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "reserved"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "reserved"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "reserved"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "reserved"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
    (Ipv4Addr::UNSPECIFIED, 8, "unspecified"),
];

/// The same of version 6. What lies outside of `2000::/3` is not public and needs no row, unless to be named.
const SPECIAL_V6: [(Ipv6Addr, u32, &str); 8] = [
    (Ipv6Addr::LOCALHOST, 128, "loopback"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "private"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "link-local"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "private"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "reserved"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "reserved"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "a tunnel"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "reserved"),
];

/// Why an address may not be connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What the address is, for people. The address itself is left out: it would tell where a name within a network leads.
    pub what: &'static str,
    /// Whether `allow_private_targets` would let it through.
    pub can_be_allowed: bool,
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the target's address is {}", self.what)?;
        if self.can_be_allowed {
            formatter.write_str("; set allow_private_targets = true if it is meant")
        } else {
            formatter.write_str(" and never a target")
        }
    }
}

impl std::error::Error for Refused {}

/// Whether `address` may be connected to. Public addresses may; those of other networks only with `allow_private`; multicast,
/// unspecified and metadata addresses never.
pub fn check(address: IpAddr, allow_private: bool) -> Result<(), Refused> {
    if let Some(what) = never(address) {
        return Err(Refused { what, can_be_allowed: false });
    }
    match special(address) {
        Some(what) if !allow_private => Err(Refused { what, can_be_allowed: true }),
        _ => Ok(()),
    }
}

/// What an address is that nobody should connect to, wherever they stand.
fn never(address: IpAddr) -> Option<&'static str> {
    if address.is_unspecified() {
        return Some("unspecified");
    }
    if address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return Some("multicast");
    }
    let is_metadata = match address {
        IpAddr::V4(v4) => METADATA_V4.contains(&v4),
        IpAddr::V6(v6) => METADATA_V6.contains(&v6),
    };
    if is_metadata {
        return Some("a cloud's metadata service");
    }
    embedded(address).and_then(|inner| never(IpAddr::V4(inner)))
}

fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => special_v4(v4),
        IpAddr::V6(v6) => special_v6(v6),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = address.to_bits();
    let row = SPECIAL_V4.iter().find(|(net, length, _)| (bits ^ net.to_bits()) >> (32 - length) == 0);
    row.map(|(_, _, what)| *what)
}

/// An address of the well-known translation prefix is what it translates to: in networks without version 4 every target has one.
fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        return embedded(IpAddr::V6(address)).and_then(special_v4);
    }
    if address.to_ipv4_mapped().is_some() {
        return Some("one of version 4 in the guise of version 6");
    }
    let bits = address.to_bits();
    let row = SPECIAL_V6.iter().find(|(net, length, _)| (bits ^ net.to_bits()) >> (128 - length) == 0);
    row.map(|(_, _, what)| *what).or_else(|| (bits >> 125 != 1).then_some("reserved"))
}

/// The address of version 4 within one of version 6: mapped, compatible, translated (RFC 6052) or of a 6to4 tunnel.
fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = address else { return None };
    let parts = v6.segments();
    let joined = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match parts {
        [0x2002, high, low, ..] => Some(joined(high, low)),
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(joined(high, low))
        }
        _ => None,
    }
}

/// Looks up names. Injected, so that tests decide where names lead.
pub trait Lookup: Send + Sync + 'static {
    /// The addresses of a host.
    fn lookup(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The operating system's resolver.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// A resolver for an HTTP client that gives only addresses that may be connected to: the client has no others to choose from, however
/// often the name is looked up.
pub struct Guard {
    lookup: Arc<dyn Lookup>,
    allow_private: bool,
}

impl Guard {
    /// A guard on `lookup`.
    pub fn new(lookup: Arc<dyn Lookup>, allow_private: bool) -> Self {
        Self { lookup, allow_private }
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let (found, allow_private) = (self.lookup.lookup(name.as_str().to_owned()), self.allow_private);
        Box::pin(async move { Ok(permitted(found.await?, allow_private)?) })
    }
}

/// The addresses that may be connected to; an error when there are only others.
pub(crate) fn permitted(found: Vec<IpAddr>, allow_private: bool) -> Result<Addrs, Refused> {
    let (mut good, mut refused) = (Vec::new(), None);
    for address in found {
        match check(address, allow_private) {
            Ok(()) => good.push(SocketAddr::new(address, 0)),
            Err(why) => refused = Some(why),
        }
    }
    match refused {
        Some(why) if good.is_empty() => Err(why),
        _ => Ok(Box::new(good.into_iter())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: &str, allow_private: bool) -> bool {
        check(address.parse().unwrap(), allow_private).is_err()
    }

    #[test]
    fn only_public_addresses_are_targets() {
        let inner = "0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 127.255.0.9 169.254.1.1 172.16.0.1 172.31.255.255 \
             192.0.0.8 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.7 240.0.0.1 \
             ::1 fc00::1 fdff::1 fe80::1 febf::1 fec0::1 2001::1 2001:1ff:: 2001:db8::1 2002:808:808::1 3fff::1 \
             ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::7f00:1 ::8.8.8.8 64:ff9b::127.0.0.1 64:ff9b::10.0.0.1 64:ff9b:1::8.8.8.8 \
             100::1 4000::1 5f00::1";
        for address in inner.split_whitespace() {
            assert!(refused(address, false), "{address}");
            assert!(!refused(address, true), "{address} can be allowed");
        }
        let public = "1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.1 172.15.0.1 172.32.0.1 192.0.1.1 198.17.0.1 198.20.0.1 223.255.255.1 \
             2606:4700::1111 2a00::1 2001:200::1 64:ff9b::8.8.8.8";
        for address in public.split_whitespace() {
            assert!(!refused(address, false), "{address}");
        }
    }

    #[test]
    fn some_addresses_are_never_targets() {
        let never = "0.0.0.0 :: 224.0.0.1 239.1.1.1 255.255.255.255 ff02::1 169.254.169.254 100.100.100.200 168.63.129.16 192.0.0.192 \
             fd00:ec2::254 fd20:ce::254 ::ffff:169.254.169.254 64:ff9b::169.254.169.254 2002:a9fe:a9fe::1 ::ffff:0.0.0.0 ::ffff:224.0.0.1";
        for address in never.split_whitespace() {
            assert!(refused(address, true), "{address}");
        }
    }

    #[test]
    fn of_mixed_answers_only_the_public_part_is_used() {
        let mixed = ["10.0.0.1", "1.1.1.1"].map(|address| address.parse().unwrap());
        let good: Vec<_> = permitted(mixed.to_vec(), false).unwrap().map(|address| address.ip()).collect();
        assert_eq!(good, [mixed[1]]);
        let why = permitted(vec![mixed[0]], false).err().unwrap();
        assert_eq!(
            why.to_string(),
            "the target's address is private; set allow_private_targets = true if it is meant"
        );
        assert_eq!(permitted(Vec::new(), false).unwrap().count(), 0);
    }
}
