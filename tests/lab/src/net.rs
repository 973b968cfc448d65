//! Loopback addresses of one test cluster: 127.N.0.0/16, claimed for as long as the value lives.
//!
//! With addresses of its own a cluster can use fixed ports: nothing is guessed, nothing is taken by a passing client
//! connection, a server restarts on the port it had, and pods can all listen on the port their manifest names.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, bail};

use crate::random;

/// Values of N. Low ones and 127.64.0.0/16 are left to others.
const NETWORKS: std::ops::RangeInclusive<u8> = 65..=250;
/// A listener on this port is the claim: exclusive in a network namespace, and released by the kernel with its holder.
const CLAIM_PORT: u16 = 16_440;
/// Port of the API server. Not 6443: whoever listens there on all addresses would be in the way.
pub(crate) const API_SERVER_PORT: u16 = 16_443;
/// Ports of etcd, for clients and for peers.
pub(crate) const ETCD_PORTS: (u16, u16) = (12_379, 12_380);
/// Host numbers used per /24, without the first and last ones.
const HOSTS: u16 = 250;

/// A claimed /16 of loopback addresses.
#[derive(Debug)]
pub struct Net {
    number: u8,
    given: AtomicU16,
    claim: Mutex<Option<TcpListener>>,
}

impl Net {
    /// Claims a free network.
    pub fn claim() -> Result<Self> {
        let count = u64::from(NETWORKS.end() - NETWORKS.start()) + 1;
        let start = random::u64()? % count;
        for offset in 0..count {
            let number = NETWORKS.start() + u8::try_from((start + offset) % count).context("network number")?;
            match TcpListener::bind((Ipv4Addr::new(127, number, 0, 1), CLAIM_PORT)) {
                Ok(claim) => return Ok(Self { number, given: AtomicU16::new(0), claim: Mutex::new(Some(claim)) }),
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                Err(error) => return Err(error).context("cannot listen on loopback addresses"),
            }
        }
        bail!("no free network in 127.{}.0.0 to 127.{}.0.0", NETWORKS.start(), NETWORKS.end())
    }

    /// Address of the API server.
    pub fn api_server(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::new(127, self.number, 0, 1), API_SERVER_PORT))
    }

    /// Address of etcd.
    pub(crate) fn etcd(&self) -> Ipv4Addr {
        Ipv4Addr::new(127, self.number, 0, 2)
    }

    /// An address for a pod, or for whatever a test listens with; never the same twice.
    pub fn next_ip(&self) -> Ipv4Addr {
        let given = self.given.fetch_add(1, Ordering::Relaxed);
        let [_, third] = (1 + given / HOSTS).to_be_bytes();
        let [_, fourth] = (1 + given % HOSTS).to_be_bytes();
        Ipv4Addr::new(127, self.number, third, fourth)
    }

    /// Gives the network back before the value goes.
    pub(crate) fn release(&self) {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn networks_and_addresses_are_distinct() {
        let (one, two) = (Net::claim().unwrap(), Net::claim().unwrap());
        assert_ne!(one.api_server(), two.api_server());
        let pods: BTreeSet<_> = (0..1_000).map(|_| one.next_ip()).collect();
        assert_eq!(pods.len(), 1_000);
        assert!(pods.iter().all(|ip| ip.octets()[1] == one.number && ip.octets()[2] > 0));
    }

    #[test]
    fn a_network_is_free_again_after_its_release() {
        let net = Net::claim().unwrap();
        let again = || TcpListener::bind((Ipv4Addr::new(127, net.number, 0, 1), CLAIM_PORT));
        assert_eq!(again().unwrap_err().kind(), ErrorKind::AddrInUse);
        net.release();
        again().unwrap();
    }
}
