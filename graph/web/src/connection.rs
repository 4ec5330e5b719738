//! A connection, in plain text or over TLS.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use crate::Identity;

/// A connection.
pub(crate) enum Connection {
    Plain(Stream),
    #[cfg(feature = "tls")]
    Tls(Box<rustls::StreamOwned<rustls::ServerConnection, Stream>>),
}

/// A TCP stream, which a client may read and write until a deadline, however slowly its bytes come.
pub(crate) struct Stream {
    tcp: TcpStream,
    end: Option<Instant>,
}

impl Connection {
    /// The connection over `tcp`, over TLS with an identity.
    pub(crate) fn new(tcp: TcpStream, identity: Option<&Identity>) -> io::Result<Self> {
        let stream = Stream { tcp, end: None };
        match identity {
            None => Ok(Self::Plain(stream)),
            #[cfg(feature = "tls")]
            Some(identity) => {
                let server = rustls::ServerConnection::new(identity.config());
                let server = server.map_err(io::Error::other)?;
                Ok(Self::Tls(Box::new(rustls::StreamOwned::new(server, stream))))
            }
            #[cfg(not(feature = "tls"))]
            Some(none) => match *none {},
        }
    }

    /// Ends reads `limit` from now; `None` for no end.
    pub(crate) fn limit_reads(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let stream = match self {
            Self::Plain(stream) => stream,
            #[cfg(feature = "tls")]
            Self::Tls(tls) => &mut tls.sock,
        };
        stream.end = limit.map(|limit| Instant::now() + limit);
        stream.tcp.set_read_timeout(limit)
    }

    /// The TCP stream below.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => &stream.tcp,
            #[cfg(feature = "tls")]
            Self::Tls(tls) => &tls.sock.tcp,
        }
    }

    /// Tells the client that nothing follows.
    pub(crate) fn close(&mut self) {
        #[cfg(feature = "tls")]
        if let Self::Tls(tls) = self {
            tls.conn.send_close_notify();
            // The client may have gone.
            drop(tls.flush());
        }
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.flush(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(end) = self.end {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.tcp.set_read_timeout(Some(left))?;
        }
        self.tcp.read(buffer)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tcp.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}
