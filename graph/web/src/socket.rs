//! WebSockets.

use std::{
    io::{self, ErrorKind},
    time::Duration,
};

use tungstenite::{Error, Message, WebSocket, protocol::WebSocketConfig};

use crate::connection::Connection;

/// Longest message that is accepted, in bytes.
const MAX_MESSAGE: usize = 8 << 20;

/// Longest time that a client may take to read what it gets.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// A WebSocket.
pub struct Socket {
    socket: WebSocket<Connection>,
}

/// A message that a client sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// The connection has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketClosed(pub String);

impl std::fmt::Display for SocketClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the connection has ended: {}", self.0)
    }
}

impl std::error::Error for SocketClosed {}

fn closed(error: impl std::fmt::Display) -> SocketClosed {
    SocketClosed(error.to_string())
}

impl Socket {
    /// Socket after its handshake.
    pub(crate) fn new(mut client: Connection) -> io::Result<Self> {
        client.limit_reads(None)?;
        client.tcp().set_nodelay(true)?;
        client.tcp().set_write_timeout(Some(WRITE_LIMIT))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        let role = tungstenite::protocol::Role::Server;
        Ok(Self { socket: WebSocket::from_raw_socket(client, role, Some(config)) })
    }

    /// Sends messages with as few writes as their length allows.
    ///
    /// # Errors
    /// As [`Socket::send_text`].
    pub fn send_all(
        &mut self,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<(), SocketClosed> {
        for message in messages {
            self.socket.write(message).map_err(closed)?;
        }
        self.socket.flush().map_err(closed)
    }

    /// Sends a text.
    ///
    /// # Errors
    /// [`SocketClosed`], also if the client does not read.
    pub fn send_text(&mut self, text: &str) -> Result<(), SocketClosed> {
        self.socket.send(Message::text(text)).map_err(closed)
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// As [`Socket::send_text`].
    pub fn send_bytes(&mut self, bytes: Vec<u8>) -> Result<(), SocketClosed> {
        self.socket.send(Message::binary(bytes)).map_err(closed)
    }

    /// The next message; `None` if none comes within `patience`, which is not zero.
    ///
    /// # Errors
    /// [`SocketClosed`].
    pub fn receive(&mut self, patience: Duration) -> Result<Option<Received>, SocketClosed> {
        self.socket.get_ref().tcp().set_read_timeout(Some(patience)).map_err(closed)?;
        loop {
            return match self.socket.read() {
                Ok(Message::Text(text)) => Ok(Some(Received::Text(text.to_string()))),
                Ok(Message::Binary(bytes)) => Ok(Some(Received::Bytes(bytes.to_vec()))),
                // Answers to pings and closes are sent by the library.
                Ok(_) => continue,
                Err(Error::Io(error)) if is_timeout(&error) => Ok(None),
                Err(error) => Err(closed(error)),
            };
        }
    }

    /// Closes the connection, with a reason that browsers show.
    pub fn close(mut self, reason: &str) {
        let frame = tungstenite::protocol::CloseFrame {
            code: tungstenite::protocol::frame::coding::CloseCode::Policy,
            reason: reason.into(),
        };
        // The client may have gone.
        drop(self.socket.close(Some(frame)));
        drop(self.socket.flush());
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
