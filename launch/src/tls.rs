//! The certificate of the page of a running graph.

use std::path::Path;

use afferent_web::Identity;

/// The certificate and key in the files `given`, or else those of the user, made at first.
///
/// # Errors
/// The files cannot be read or written, or the program has no TLS.
#[cfg(feature = "tls")]
pub(crate) fn identity(given: Option<(&Path, &Path)>) -> anyhow::Result<Identity> {
    use anyhow::Context;

    if let Some((certificate, key)) = given {
        return Ok(Identity::read(certificate, key)?);
    }
    let folder = afferent_package::user_cache();
    let folder =
        folder.context("there is no home folder for the certificate: set XDG_CACHE_HOME")?;
    let folder = folder.join("tls");
    Identity::own(&folder).with_context(|| folder.display().to_string())
}

#[cfg(not(feature = "tls"))]
pub(crate) fn identity(_: Option<(&Path, &Path)>) -> anyhow::Result<Identity> {
    anyhow::bail!(
        "`--tls` needs the feature `tls`, which this program was built without: `cargo build \
         --release -p afferent --features tls`"
    )
}
