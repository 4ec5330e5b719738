//! Connection to a microcontroller: TCP, or a serial port.

use std::{
    io::{ErrorKind, Read},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

use afferent_graph::NodeError;

/// Beginning of the addresses of TCP.
const TCP: &str = "tcp://";

/// Longest wait for a connection. A graph that ends waits for it.
const CONNECT: Duration = Duration::from_millis(500);

/// Longest wait for bytes in one call.
const WAIT: Duration = Duration::from_millis(20);

/// Open connection.
pub(super) struct Line(Box<dyn Read + Send>);

impl Line {
    /// Connects to `device`.
    pub(super) fn open(device: &str, baud: u32) -> Result<Self, NodeError> {
        let failed = |reason: String| NodeError::Device { name: device.to_owned(), reason };
        let Some(address) = device.strip_prefix(TCP) else {
            return serial(device, baud).map(Self).map_err(failed);
        };
        let found = address.to_socket_addrs();
        let found = found.map_err(|error| failed(format!("{error}; write tcp://HOST:PORT")))?;
        let mut reason = "the host has no address".to_owned();
        for address in found {
            let opened = TcpStream::connect_timeout(&address, CONNECT).and_then(|stream| {
                stream.set_read_timeout(Some(WAIT))?;
                Ok(stream)
            });
            match opened {
                Ok(stream) => return Ok(Self(Box::new(stream))),
                Err(error) => reason = error.to_string(),
            }
        }
        Err(failed(reason))
    }

    /// Checks the form of an address without a connection.
    pub(super) fn check(device: &str) -> Result<(), String> {
        match device.strip_prefix(TCP) {
            Some(address) if address.rsplit_once(':').is_none() => {
                Err(format!("{device:?} has no port; write tcp://HOST:PORT"))
            }
            None if cfg!(not(feature = "serial")) => Err(format!(
                "{device:?}: this build has no serial ports; build with the feature `serial`, or \
                 write tcp://HOST:PORT"
            )),
            _ => Ok(()),
        }
    }

    /// Waits a little for bytes, and returns the number of those that came.
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> Result<usize, String> {
        match self.0.read(bytes) {
            Ok(0) => Err("the connection was closed".to_owned()),
            Ok(count) => Ok(count),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(0),
                _ => Err(error.to_string()),
            },
        }
    }
}

#[cfg(feature = "serial")]
fn serial(device: &str, baud: u32) -> Result<Box<dyn Read + Send>, String> {
    let opened = serial2::SerialPort::open(device, baud).and_then(|mut port| {
        port.set_read_timeout(WAIT)?;
        Ok(port)
    });
    opened.map(|port| Box::new(port) as Box<dyn Read + Send>).map_err(|error| error.to_string())
}

#[cfg(not(feature = "serial"))]
fn serial(device: &str, _: u32) -> Result<Box<dyn Read + Send>, String> {
    Err(Line::check(device).err().unwrap_or_default())
}
