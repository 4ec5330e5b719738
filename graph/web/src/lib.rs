//! Small server of pages and WebSockets, to look at a running graph.
//!
//! Each connection has a thread; number, time and length are limited, so a client cannot block the
//! graph, its end, or other clients. Requests that pages of other sites make are refused.
//!
//! | module | holds |
//! |---|---|
//! | `server` | [`Server`], which answers by a [`Site`] |
//! | `request` | the head of a request, and the checks of `Host` and `Origin` |
//! | `socket` | [`Socket`], a WebSocket |
//! | `address` | the address of this machine in its network |
//! | `connection` | a connection, in plain text or over TLS |
//! | `identity` | [`Identity`], the certificate of a server, with the feature `tls` |

mod address;
mod connection;
#[cfg(feature = "tls")]
mod identity;
mod request;
mod server;
mod socket;

#[cfg(feature = "tls")]
pub use identity::Identity;
pub use request::Request;
pub use server::{Page, Server, Site};
pub use socket::{Received, Socket, SocketClosed};
pub use tungstenite::Message;

/// Certificate and key of a server: none without the feature `tls`.
#[cfg(not(feature = "tls"))]
#[derive(Clone)]
pub enum Identity {}
