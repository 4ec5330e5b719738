//! `afferent keys`: a certificate authority, and a certificate for each machine of a graph.

#[cfg(feature = "net")]
mod authority;
#[cfg(feature = "net")]
mod certificate;
#[cfg(feature = "net")]
mod files;
#[cfg(feature = "net")]
mod make;

use std::{path::PathBuf, process::ExitCode};

use clap::Args;

use crate::{App, graph_file::GraphFile, placement::AddressArgs};

#[derive(Args)]
pub(crate) struct KeysArgs {
    #[command(flatten)]
    file: GraphFile,
    /// Folder of the certificates and keys; one that exists is continued
    #[arg(long, value_name = "DIR", default_value = "keys")]
    dir: PathBuf,
    /// Days that new certificates are valid for
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// Make the certificate of this machine only; may be given several times
    #[arg(long, value_name = "NAME")]
    machine: Vec<String>,
    /// Replace the certificate and the key of this machine; may be given several times
    #[arg(long, value_name = "NAME")]
    renew: Vec<String>,
    #[command(flatten)]
    addresses: AddressArgs,
}

#[cfg(feature = "net")]
pub(crate) fn keys(app: App, args: &KeysArgs) -> anyhow::Result<ExitCode> {
    make::make(app, args)
}

#[cfg(not(feature = "net"))]
pub(crate) fn keys(_: App, _: &KeysArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "`afferent keys` needs the feature `net`, which this program was built without: `cargo \
         build --release -p afferent --features net`"
    )
}
