//! The address of this machine.

use std::net::{IpAddr, UdpSocket};

/// Address of this machine in its network; `None` without a network.
pub(crate) fn network_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // An address for documentation: nothing is sent there.
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip())
}
