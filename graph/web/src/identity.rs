//! Certificates for TLS.

use std::{
    fs::{self, File},
    io::{self, Write},
    net::IpAddr,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use rcgen::{CertificateParams, KeyPair, SanType};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::address::network_address;

/// Time for which a certificate that a server signs itself is valid. Browsers refuse much longer ones.
const VALID_FOR: Duration = Duration::from_secs(365 * 24 * 3600);
/// Age at which it is replaced.
const REPLACED_AFTER: Duration = Duration::from_secs(300 * 24 * 3600);

/// Certificate and key of a server.
#[derive(Clone)]
pub struct Identity {
    config: Arc<ServerConfig>,
}

impl Identity {
    /// The certificates in the PEM file `certificate`, that of the server first, and its `key`.
    ///
    /// # Errors
    /// A file cannot be read, or has no such content; the text names it.
    pub fn read(certificate: &Path, key: &Path) -> io::Result<Self> {
        let in_file =
            |path: &Path, reason: String| io::Error::other(format!("{}: {reason}", path.display()));
        let read = |path: &Path| fs::read(path).map_err(|error| in_file(path, error.to_string()));
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(&read(certificate)?).collect();
        let chain = chain.map_err(|error| in_file(certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(in_file(certificate, "it has no certificate in PEM form".to_owned()));
        }
        let secret = PrivateKeyDer::from_pem_slice(&read(key)?)
            .map_err(|error| in_file(key, format!("it has no private key in PEM form: {error}")))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(|error| in_file(certificate, error.to_string()))?;
        Ok(Self { config: Arc::new(config) })
    }

    /// A certificate that the server signs itself, which browsers ask their users to accept. It is kept
    /// in `folder`, and made if it is not there, cannot be read, or is older than 300 days.
    ///
    /// # Errors
    /// The files cannot be written or read.
    pub fn own(folder: &Path) -> io::Result<Self> {
        let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
        let made = fs::metadata(&certificate).and_then(|metadata| metadata.modified());
        let is_new = made.is_ok_and(|made| {
            SystemTime::now().duration_since(made).is_ok_and(|age| age < REPLACED_AFTER)
        });
        if is_new && let Ok(kept) = Self::read(&certificate, &key) {
            return Ok(kept);
        }
        make(folder, &certificate, &key)?;
        Self::read(&certificate, &key)
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }
}

/// Writes a certificate for this machine, and its key.
fn make(folder: &Path, certificate: &Path, key: &Path) -> io::Result<()> {
    let mut params =
        CertificateParams::new(vec!["localhost".to_owned()]).map_err(io::Error::other)?;
    let addresses = [Some(IpAddr::from([127, 0, 0, 1])), network_address()];
    params.subject_alt_names.extend(addresses.into_iter().flatten().map(SanType::IpAddress));
    let now = SystemTime::now();
    // Clocks of other machines may be late.
    params.not_before = (now - Duration::from_secs(24 * 3600)).into();
    params.not_after = (now + VALID_FOR).into();
    let pair = KeyPair::generate().map_err(io::Error::other)?;
    let signed = params.self_signed(&pair).map_err(io::Error::other)?;
    fs::create_dir_all(folder)?;
    write_secret(key, &pair.serialize_pem())?;
    fs::write(certificate, signed.pem())
}

/// Writes a file that only the user can read.
fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        net::TcpStream,
        sync::atomic::{AtomicBool, Ordering},
    };

    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
    use tungstenite::Message;

    use super::*;
    use crate::{Page, Received, Request, Server, Site, Socket};

    /// A page, and a socket that answers with what it gets.
    struct Hello;

    impl Site for Hello {
        fn page(&self, request: &Request) -> Option<Page> {
            (request.path == "/").then(|| Page::new("text/plain", b"hello".as_slice()))
        }

        fn talk(&self, _: &Request, mut socket: Socket, stops: &AtomicBool) {
            while !stops.load(Ordering::Acquire) {
                match socket.receive(Duration::from_millis(10)) {
                    Ok(Some(Received::Bytes(bytes))) => drop(socket.send_bytes(bytes)),
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        }
    }

    fn start(folder: &Path) -> Server {
        let identity = Identity::own(folder).unwrap();
        Server::start_with("127.0.0.1:0", Arc::new(Hello), Some(identity)).unwrap()
    }

    /// A client that trusts the certificate in `folder`.
    fn connect(folder: &Path, server: &Server) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        let file = fs::read(folder.join("certificate.pem")).unwrap();
        roots.add(CertificateDer::from_pem_slice(&file).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client =
            ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        StreamOwned::new(client, TcpStream::connect(server.address()).unwrap())
    }

    #[test]
    fn pages_and_sockets_are_served_over_tls() {
        let folder = tempfile::tempdir().unwrap();
        let server = start(folder.path());
        let mut client = connect(folder.path(), &server);
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut page = String::new();
        client.read_to_string(&mut page).unwrap();
        assert!(page.starts_with("HTTP/1.1 200 OK") && page.ends_with("hello"), "{page}");

        let url = format!("ws://{}/", server.address());
        let stream = connect(folder.path(), &server);
        let (mut socket, _) = tungstenite::client(url, stream).unwrap();
        let message = Message::binary(vec![7; 200_000]);
        for _ in 0..3 {
            socket.send(message.clone()).unwrap();
            assert_eq!(socket.read().unwrap(), message);
        }
    }

    #[test]
    fn clients_without_tls_get_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let server = start(folder.path());
        let mut client = TcpStream::connect(server.address()).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        drop(client.read_to_end(&mut answer));
        assert!(!answer.windows(5).any(|bytes| bytes == b"hello"));
    }

    #[test]
    fn a_certificate_is_kept_and_wrong_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        Identity::own(folder.path()).unwrap();
        let kept = fs::read(file("certificate.pem")).unwrap();
        Identity::own(folder.path()).unwrap();
        assert_eq!(fs::read(file("certificate.pem")).unwrap(), kept);
        let old = SystemTime::now() - REPLACED_AFTER;
        File::options()
            .append(true)
            .open(file("certificate.pem"))
            .unwrap()
            .set_modified(old)
            .unwrap();
        Identity::own(folder.path()).unwrap();
        assert_ne!(fs::read(file("certificate.pem")).unwrap(), kept);
        fs::write(file("key.pem"), "damaged").unwrap();
        Identity::own(folder.path()).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(file("key.pem")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let error = |certificate: &str, key: &str| {
            Identity::read(&file(certificate), &file(key)).err().unwrap().to_string()
        };
        assert!(error("none.pem", "key.pem").contains("none.pem: No such file"));
        assert!(
            error("key.pem", "key.pem").ends_with("key.pem: it has no certificate in PEM form")
        );
        assert!(error("certificate.pem", "certificate.pem").contains("it has no private key"));
    }
}
