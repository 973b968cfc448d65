//! Listening where probes come from: both address families where the kernel has both, IPv4 where it has no IPv6 (C60).

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;

/// Sockets that listen on one port.
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

    /// The sockets, to serve on all of them.
    pub fn into_listeners(self) -> Vec<TcpListener> {
        self.listeners
    }
}

/// Listens on `addr`, which the flag `flag` gave.
pub async fn bind(addr: SocketAddr, flag: &'static str) -> Result<Bound, BindError> {
    bind_with(addr, flag, TcpListener::bind).await
}

async fn bind_with<F, Fut>(addr: SocketAddr, flag: &'static str, listen: F) -> Result<Bound, BindError>
where
    F: Fn(SocketAddr) -> Fut,
    Fut: Future<Output = io::Result<TcpListener>>,
{
    let error = |source: io::Error| BindError { addr, flag, hint: hint(&source), source };
    let any_v6 = addr.is_ipv6() && addr.ip().is_unspecified();
    let on_v4 = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
    let mut listeners = match listen(addr).await {
        Ok(listener) => vec![listener],
        Err(source) if any_v6 && no_ipv6(&source) => {
            tracing::info!(%addr, "this kernel has no IPv6, listening on IPv4");
            vec![listen(on_v4(addr.port())).await.map_err(error)?]
        }
        Err(source) => return Err(error(source)),
    };
    let bound = listeners[0].local_addr().map_err(error)?;
    // Usually [::] takes IPv4 too and this is refused; where the kernel separates them (bindv6only) it is needed.
    if bound.is_ipv6()
        && any_v6
        && let Ok(listener) = listen(on_v4(bound.port())).await
    {
        listeners.push(listener);
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
    use tokio::net::TcpStream;

    use super::*;

    const ANY: &str = "[::]:0";

    async fn reaches(bound: &Bound, ip: &str) -> bool {
        TcpStream::connect((ip.parse::<IpAddr>().unwrap(), bound.addr().port())).await.is_ok()
    }

    #[tokio::test]
    async fn c60_both_families_reach_the_port() {
        let bound = bind(ANY.parse().unwrap(), "--health-addr").await.unwrap();
        assert!(reaches(&bound, "127.0.0.1").await);
        assert!(reaches(&bound, "::1").await);
    }

    #[tokio::test]
    async fn c60_without_ipv6_in_the_kernel_it_listens_on_ipv4() {
        let no_family = |addr: SocketAddr| async move {
            if addr.is_ipv6() {
                return Err(io::Error::from_raw_os_error(97)); // EAFNOSUPPORT
            }
            TcpListener::bind(addr).await
        };
        let bound = bind_with(ANY.parse().unwrap(), "--health-addr", no_family).await.unwrap();
        assert!(bound.addr().is_ipv4());
        assert!(reaches(&bound, "127.0.0.1").await);

        let named = bind_with("[::1]:0".parse().unwrap(), "--health-addr", no_family).await;
        assert!(named.is_err(), "an address that was named is not replaced");
    }

    #[tokio::test]
    async fn c60_where_the_kernel_separates_the_families_both_are_opened() {
        // Binding ::1 stands for [::] with bindv6only: it takes no IPv4.
        let separate = |addr: SocketAddr| async move {
            let ip = if addr.is_ipv6() { "::1" } else { "127.0.0.1" };
            TcpListener::bind(SocketAddr::new(ip.parse().unwrap(), addr.port())).await
        };
        let bound = bind_with(ANY.parse().unwrap(), "--health-addr", separate).await.unwrap();
        assert!(reaches(&bound, "127.0.0.1").await && reaches(&bound, "::1").await);
    }

    #[tokio::test]
    async fn a_port_in_use_is_told_with_its_flag_and_what_to_do() {
        let first = bind("127.0.0.1:0".parse().unwrap(), "--admin-addr").await.unwrap();
        let error = bind(first.addr(), "--admin-addr").await.unwrap_err().to_string();
        assert!(error.contains("--admin-addr") && error.contains("another process has this port"), "{error}");
    }
}
