//! Addresses of machines.

use std::net::Ipv6Addr;

use crate::{Address, suggest};

/// Protocols of the links between machines.
const PROTOCOLS: [&str; 2] = ["tcp", "quic"];

/// Fault of an address: message and help.
pub(super) type Fault = (String, String);

/// Checks the form `PROTOCOL/HOST:PORT`. An address to `listen` on may have the host 0.0.0.0 or
/// `[::]`.
pub(super) fn check(address: &str, listen: bool) -> Result<(), Fault> {
    let example = if listen { "quic/0.0.0.0:7450" } else { "quic/10.0.0.2:7450" };
    let form = || {
        let help = format!("it is written \"PROTOCOL/HOST:PORT\", such as \"{example}\"");
        (format!("\"{address}\" is not the address of a machine"), help)
    };
    let (protocol, rest) = address.split_once('/').ok_or_else(form)?;
    if protocol == "tls" {
        // The library reads and writes a TLS stream concurrently without a lock.
        let help = format!(
            "write \"quic/{rest}\", which is encrypted too: tls links of zenoh lose their stream \
             under load (zenoh #2557)"
        );
        return Err((format!("\"{address}\": tls links are not supported"), help));
    }
    if !PROTOCOLS.contains(&protocol) {
        let help = suggest::closest(protocol, PROTOCOLS).map_or_else(
            || format!("the protocols: {}", PROTOCOLS.join(", ")),
            |word| format!("did you mean \"{word}/{rest}\"?"),
        );
        return Err((format!("\"{address}\": unknown protocol \"{protocol}\""), help));
    }
    let (host, port) = rest.rsplit_once(':').ok_or_else(form)?;
    if !port.parse().is_ok_and(|port: u16| port > 0) {
        let message = format!("\"{address}\": the port must be a number from 1 to 65535");
        return Err((message, format!("such as \"{example}\"")));
    }
    let v6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_v6 = v6.is_some_and(|host| host.parse::<Ipv6Addr>().is_ok());
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if !is_v6 && (host.is_empty() || !host.chars().all(is_letter)) {
        return Err(form());
    }
    if Address::split(address).is_some_and(|address| address.is_unspecified()) && !listen {
        let message = format!("\"{address}\" names every network of a machine, not one address");
        return Err((message, format!("such as \"{example}\"")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let told = |address: &str, listen| {
            check(address, listen).map_err(|(text, help)| format!("{text} | {help}"))
        };
        for address in ["tcp/0.0.0.0:7450", "quic/[::]:7450", "quic/robot-1.local:1"] {
            assert_eq!(told(address, true), Ok(()), "{address}");
        }
        for address in ["tcp/10.0.0.2:65535", "quic/[fe80::1]:7450", "quic/robot:7450"] {
            assert_eq!(told(address, false), Ok(()), "{address}");
        }
        let faults = [
            ("", "is not the address"),
            ("10.0.0.2:7450", "is not the address"),
            ("quic/10.0.0.2", "is not the address"),
            ("quic/:7450", "is not the address"),
            ("quic/::1:7450", "is not the address"),
            ("quic/[robot]:7450", "is not the address"),
            ("quic/a b:7450", "is not the address"),
            ("quic/a:0", "from 1 to 65535"),
            ("quic/a:70000", "from 1 to 65535"),
            ("quic/a:7450#iface=eth0", "from 1 to 65535"),
            ("quick/a:7450", "did you mean \"quic/a:7450\"?"),
            ("udp/a:7450", "the protocols: tcp, quic"),
            ("tls/a:7450", "write \"quic/a:7450\""),
            ("quic/0.0.0.0:7450", "names every network"),
            ("tcp/[::]:7450", "names every network"),
        ];
        for (address, expected) in faults {
            let fault = told(address, false).unwrap_err();
            assert!(fault.contains(expected), "{fault}");
        }
    }
}
