//! The certificate authority of a graph.

use std::{fs, path::Path};

use afferent_spec::Machine;
use anyhow::{Context, ensure};
use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use super::{
    certificate::{Certificate, Time, alternative, names, params},
    files::Pair,
};

/// Name of the files of the authority.
pub(super) const NAME: &str = "ca";
/// Days that an authority is valid for, if its certificates are not valid for longer.
const DAYS: u32 = 3650;

/// Certificate and key of an authority.
pub(super) struct Authority {
    pub(super) certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
    /// Files to write; `None` for an authority that was read.
    new: Option<[String; 2]>,
}

impl Authority {
    /// Reads the authority of `folder`, or makes one for the graph `name`.
    pub(super) fn open(folder: &Path, name: &str, days: u32) -> anyhow::Result<Self> {
        let pair = Pair::new(folder, NAME);
        let remedy = "only the folder with the key of the authority can make certificates; for a \
                      new authority, choose another --dir";
        if !pair.exists(remedy)? {
            return Self::make(name, days);
        }
        let certificate = Certificate::read(&pair.certificate)?;
        let key = read_key(&pair.key)?;
        certificate.check_key(&key).with_context(|| pair.key.display().to_string())?;
        let is_authority = certificate.with(|own| own.is_ca())?;
        let path = pair.certificate.display();
        ensure!(is_authority, "{path} is not the certificate of an authority");
        let end = certificate.end;
        ensure!(
            end > Time::now(),
            "{path} has expired on {}: make a new authority in another --dir, and copy its files to \
             all machines",
            end.date()
        );
        let text = fs::read_to_string(&pair.certificate)?;
        let issuer = Issuer::from_ca_cert_pem(&text, key)?;
        Ok(Self { certificate, issuer, new: None })
    }

    fn make(name: &str, days: u32) -> anyhow::Result<Self> {
        let now = Time::now();
        let mut params =
            params(&format!("authority of {name}"), now, now.plus_days(days.max(DAYS)));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let text = params.self_signed(&key)?.pem();
        let certificate = Certificate::parse(text.as_bytes())?;
        let new = Some([text, key.serialize_pem()]);
        Ok(Self { certificate, issuer: Issuer::new(params, key), new })
    }

    /// True if the files are not written yet.
    pub(super) fn is_new(&self) -> bool {
        self.new.is_some()
    }

    /// Writes the files of a new authority.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let Some([certificate, key]) = &self.new else { return Ok(()) };
        Pair::new(folder, NAME).write(certificate, key)
    }

    /// Writes a new certificate and a new key for `machine`. The certificate ends with that of the
    /// authority at the latest.
    pub(super) fn issue(
        &self,
        machine: &Machine,
        days: u32,
        pair: &Pair,
    ) -> anyhow::Result<Certificate> {
        let now = Time::now();
        let end = now.plus_days(days).min(self.certificate.end);
        let mut params = params(&machine.name, now, end);
        let names = names(machine);
        params.subject_alt_names =
            names.iter().map(|name| alternative(name)).collect::<Result<_, _>>()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let text = params.signed_by(&key, &self.issuer)?.pem();
        pair.write(&text, &key.serialize_pem())?;
        Certificate::parse(text.as_bytes())
    }

    /// Reads the certificate of the machine `name` and checks it against its key and the authority.
    pub(super) fn read(&self, name: &str, pair: &Pair) -> anyhow::Result<Certificate> {
        let certificate = Certificate::read(&pair.certificate)?;
        let path = pair.certificate.display();
        ensure!(certificate.name == name, "{path} is that of \"{}\"", certificate.name);
        let signed = certificate.check_signed_by(&self.certificate);
        signed.with_context(|| format!("{path} is not of this authority"))?;
        let key = read_key(&pair.key)?;
        certificate.check_key(&key).with_context(|| pair.key.display().to_string())?;
        Ok(certificate)
    }
}

fn read_key(path: &Path) -> anyhow::Result<KeyPair> {
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    KeyPair::from_pem(&text).with_context(|| format!("{name} is not a private key"))
}
