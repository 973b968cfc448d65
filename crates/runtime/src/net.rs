//! Listening where probes come from: both address families where the kernel has both, IPv4 where it has no IPv6 (C60).

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

/// Sockets that listen on one port, of no runtime yet: probes are answered by a runtime of their own.
#[derive(Debug)]
pub struct Bound {
    listeners: Vec<TcpListener>,
    addr: SocketAddr,
}

/// A port could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {addr} ({flag}): {hint}")]
pub struct BindError {
    /// The address.
    pub addr: SocketAddr,
    /// The flag that names it.
    pub flag: &'static str,
    hint: &'static str,
    /// What the kernel said.
    #[source]
    pub source: io::Error,
}

impl BindError {
    /// Stable name for logs.
    pub const fn category(&self) -> &'static str {
        "Bind"
    }
}

impl Bound {
    /// Where it really listens: the port if 0 was asked for, IPv4 if there is no IPv6.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The sockets, to be served by the current Tokio runtime.
    pub fn into_listeners(self) -> io::Result<Vec<tokio::net::TcpListener>> {
        self.listeners.into_iter().map(tokio::net::TcpListener::from_std).collect()
    }
}

/// Listens on `addr`, which the flag `flag` gave.
pub fn bind(addr: SocketAddr, flag: &'static str) -> Result<Bound, BindError> {
    bind_with(addr, flag, TcpListener::bind)
}

fn bind_with(
    addr: SocketAddr,
    flag: &'static str,
    listen: impl Fn(SocketAddr) -> io::Result<TcpListener>,
) -> Result<Bound, BindError> {
    let error = |source: io::Error| BindError { addr, flag, hint: hint(&source), source };
    let any_v6 = addr.is_ipv6() && addr.ip().is_unspecified();
    let on_v4 = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
    let first = match listen(addr) {
        Err(source) if any_v6 && no_ipv6(&source) => {
            tracing::info!(%addr, "this kernel has no IPv6, listening on IPv4");
            listen(on_v4(addr.port()))
        }
        other => other,
    };
    let mut listeners = vec![first.map_err(error)?];
    let bound = listeners[0].local_addr().map_err(error)?;
    // Usually [::] takes IPv4 too and this is refused; where the kernel separates them (bindv6only) it is needed.
    if bound.is_ipv6()
        && any_v6
        && let Ok(listener) = listen(on_v4(bound.port()))
    {
        listeners.push(listener);
    }
    for listener in &listeners {
        listener.set_nonblocking(true).map_err(error)?;
    }
    Ok(Bound { listeners, addr: bound })
}

/// EAFNOSUPPORT has no stable `ErrorKind`, so everything but the two errors that IPv4 would meet as well.
fn no_ipv6(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied)
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another process has this port; choose another or stop it",
        io::ErrorKind::PermissionDenied => {
            "not allowed; ports below 1024 need a privilege that Muster's pods do not have"
        }
        io::ErrorKind::AddrNotAvailable => "this machine does not have that address",
        _ => "the kernel refuses",
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    const ANY: &str = "[::]:0";

    /// The kernel completes the handshake, so nobody has to accept.
    fn reaches(bound: &Bound, ip: &str) -> bool {
        TcpStream::connect((ip.parse::<IpAddr>().unwrap(), bound.addr().port())).is_ok()
    }

    #[test]
    fn c60_both_families_reach_the_port() {
        let bound = bind(ANY.parse().unwrap(), "--health-addr").unwrap();
        assert!(reaches(&bound, "127.0.0.1"));
        assert!(reaches(&bound, "::1"));
    }

    #[test]
    fn c60_without_ipv6_in_the_kernel_it_listens_on_ipv4() {
        let no_family = |addr: SocketAddr| {
            if addr.is_ipv6() {
                return Err(io::Error::from_raw_os_error(97)); // EAFNOSUPPORT
            }
            TcpListener::bind(addr)
        };
        let bound = bind_with(ANY.parse().unwrap(), "--health-addr", no_family).unwrap();
        assert!(bound.addr().is_ipv4());
        assert!(reaches(&bound, "127.0.0.1"));

        let named = bind_with("[::1]:0".parse().unwrap(), "--health-addr", no_family);
        assert!(named.is_err(), "an address that was named is not replaced");
    }

    #[test]
    fn c60_where_the_kernel_separates_the_families_both_are_opened() {
        // Binding ::1 stands for [::] with bindv6only: it takes no IPv4.
        let separate = |addr: SocketAddr| {
            let ip = if addr.is_ipv6() { "::1" } else { "127.0.0.1" };
            TcpListener::bind(SocketAddr::new(ip.parse().unwrap(), addr.port()))
        };
        let bound = bind_with(ANY.parse().unwrap(), "--health-addr", separate).unwrap();
        assert!(reaches(&bound, "127.0.0.1") && reaches(&bound, "::1"));
    }

    #[test]
    fn a_port_in_use_is_told_with_its_flag_and_what_to_do() {
        let first = bind("127.0.0.1:0".parse().unwrap(), "--admin-addr").unwrap();
        let error = bind(first.addr(), "--admin-addr").unwrap_err().to_string();
        assert!(error.contains("--admin-addr") && error.contains("another process has this port"), "{error}");
    }
}
