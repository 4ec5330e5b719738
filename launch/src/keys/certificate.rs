//! Certificates of machines: names, dates, and reading of existing ones.

use std::{
    fs,
    net::IpAddr,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use afferent_spec::{Address, Machine};
use anyhow::{Context, anyhow, ensure};
use rcgen::{CertificateParams, DistinguishedName, DnType, SanType, date_time_ymd};
use x509_parser::{
    certificate::X509Certificate,
    extensions::GeneralName,
    pem::{Pem, parse_x509_pem},
    prelude::FromDer,
};

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Time(pub(super) u64);

impl Time {
    pub(super) fn now() -> Self {
        Self(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }

    pub(super) fn plus_days(self, days: u32) -> Self {
        Self(self.0 + u64::from(days) * SECONDS_PER_DAY)
    }

    /// Date in UTC, such as `2027-01-31`.
    pub(super) fn date(self) -> String {
        (date_time_ymd(1970, 1, 1) + Duration::from_secs(self.0)).date().to_string()
    }
}

/// Parameters of a certificate for `name`: valid from a day ago, for machines whose clocks differ.
pub(super) fn params(name: &str, now: Time, end: Time) -> CertificateParams {
    let at = |time: u64| date_time_ymd(1970, 1, 1) + Duration::from_secs(time);
    let mut params = CertificateParams::default();
    params.not_before = at(now.0.saturating_sub(SECONDS_PER_DAY));
    params.not_after = at(end.0);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.use_authority_key_identifier_extension = true;
    params
}

/// Names that the other machines reach a machine by: its own, then the hosts of its addresses.
pub(super) fn names(machine: &Machine) -> Vec<String> {
    let mut names = vec![machine.name.clone()];
    for address in [&machine.address, &machine.listen].into_iter().flatten() {
        let Some(host) = host(address) else { continue };
        if !names.iter().any(|known| known.eq_ignore_ascii_case(&host)) {
            names.push(host);
        }
    }
    names
}

/// Host of a checked address, `PROTOCOL/HOST:PORT`; `None` if it stands for every network.
fn host(address: &str) -> Option<String> {
    let address = Address::split(address).filter(|address| !address.is_unspecified())?;
    // Certificates have one spelling of an IP address.
    Some(address.ip().map_or_else(|| address.host.to_owned(), |ip| ip.to_string()))
}

/// The form of a name in a certificate.
pub(super) fn alternative(name: &str) -> anyhow::Result<SanType> {
    match name.parse() {
        Ok(ip) => Ok(SanType::IpAddress(ip)),
        Err(_) => {
            let text = name.try_into().map_err(|_| anyhow!("{name} is not an ASCII host name"))?;
            Ok(SanType::DnsName(text))
        }
    }
}

/// A certificate of a file.
pub(super) struct Certificate {
    pem: Pem,
    /// Common name of the subject.
    pub(super) name: String,
    /// Subject alternative names.
    pub(super) names: Vec<String>,
    pub(super) end: Time,
}

impl Certificate {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is not a certificate", path.display()))
    }

    pub(super) fn parse(text: &[u8]) -> anyhow::Result<Self> {
        let (_, pem) = parse_x509_pem(text)?;
        let (_, parsed) = X509Certificate::from_der(&pem.contents)?;
        let name = parsed.subject().iter_common_name().next();
        let name = name.and_then(|name| name.as_str().ok()).unwrap_or_default().to_owned();
        let all = parsed.subject_alternative_name()?.map(|all| &all.value.general_names);
        let names = all.into_iter().flatten().filter_map(text_of).collect();
        let end = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0);
        Ok(Self { name, names, end: Time(end), pem })
    }

    /// Runs `check` on the parsed certificate.
    pub(super) fn with<T>(
        &self,
        check: impl FnOnce(&X509Certificate<'_>) -> T,
    ) -> anyhow::Result<T> {
        let (_, parsed) = X509Certificate::from_der(&self.pem.contents)?;
        Ok(check(&parsed))
    }

    /// Fails unless `key` is the private key of the certificate.
    pub(super) fn check_key(&self, key: &rcgen::KeyPair) -> anyhow::Result<()> {
        let public = key.public_key_raw();
        let is_same = self.with(|own| *own.public_key().subject_public_key.data == *public)?;
        ensure!(is_same, "it belongs to another certificate");
        Ok(())
    }

    /// Fails unless `authority` has signed the certificate.
    pub(super) fn check_signed_by(&self, authority: &Self) -> anyhow::Result<()> {
        let checked = self.with(|own| {
            authority.with(|authority| own.verify_signature(Some(authority.public_key())))
        })?;
        Ok(checked??)
    }
}

fn text_of(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match *bytes {
            [a, b, c, d] => Some(IpAddr::from([*a, *b, *c, *d]).to_string()),
            bytes => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string()),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_others_connect_to() {
        let check = |listen: Option<&str>, address: Option<&str>, expected: &[&str]| {
            let [listen, address] = [listen, address].map(|text| text.map(str::to_owned));
            let machine =
                Machine { name: "robot".to_owned(), listen, address, ..Machine::default() };
            assert_eq!(names(&machine), expected);
        };
        check(None, None, &["robot"]);
        check(Some("quic/0.0.0.0:7450"), Some("quic/10.0.0.2:7450"), &["robot", "10.0.0.2"]);
        check(Some("quic/[::]:7450"), Some("quic/[fe80:0::1]:7450"), &["robot", "fe80::1"]);
        check(Some("tcp/127.0.0.1:1"), Some("tcp/Robot:1"), &["robot", "127.0.0.1"]);
    }

    #[test]
    fn dates() {
        assert_eq!(Time(0).date(), "1970-01-01");
        assert_eq!(Time(1_800_000_000).plus_days(366).date(), "2028-01-16");
    }
}
