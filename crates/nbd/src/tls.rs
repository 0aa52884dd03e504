//! Encryption with certificates on both sides.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, Error, RootCertStore, ServerConfig};

/// Why encryption cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or has no PEM of the kind that is needed.
    #[error("{} has no {what} that can be read", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// The kind of PEM section.
        what: &'static str,
        /// Why not.
        source: Box<pem::Error>,
    },
    /// A file has no certificate.
    #[error("{} has no certificate", .0.display())]
    Empty(PathBuf),
    /// Key and certificates do not make a server.
    #[error("key and certificates cannot be used")]
    Unusable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Keys of a server and the authorities whose clients it trusts.
#[derive(Clone, Debug)]
pub struct Tls(Arc<ServerConfig>);

impl Tls {
    /// From PEM files. `certificate` has the server's certificate first, then its chain. `authority` has the
    /// certificates of the authorities whose clients may connect.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn from_files(certificate: &Path, key: &Path, authority: &Path) -> Result<Tls, TlsError> {
        let error = |path: &Path, what| {
            let path = path.to_owned();
            move |source| TlsError::File { path, what, source: Box::new(source) }
        };
        let own = certificates(certificate)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(error(key, "private key"))?;
        let mut roots = RootCertStore::empty();
        for root in certificates(authority)? {
            roots.add(root).map_err(unusable)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = verifier.build().map_err(unusable)?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(own, private)
            .map_err(unusable)?;
        Ok(Tls(Arc::new(config)))
    }

    pub(crate) fn config(&self) -> &Arc<ServerConfig> {
        &self.0
    }
}

/// Whether certificates are valid at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// All certificates are valid.
    Valid,
    /// A certificate becomes valid at a later time.
    From(SystemTime),
    /// A certificate has expired.
    Until(SystemTime),
}

/// Whether all certificates in a PEM file, the server's own and the intermediate authorities', are valid at a time.
///
/// # Errors
/// [`TlsError`], when the file has no readable certificate.
pub fn validity(certificate: &Path, at: SystemTime) -> Result<Validity, TlsError> {
    for one in certificates(certificate)? {
        match validity_of(&one, at)? {
            Validity::Valid => {}
            other => return Ok(other),
        }
    }
    Ok(Validity::Valid)
}

/// The verifier checks times before issuers (`check_issuer_independent_properties` of rustls-webpki). Errors that do
/// not concern time count as valid.
fn validity_of(
    certificate: &CertificateDer<'static>,
    at: SystemTime,
) -> Result<Validity, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).map_err(unusable)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = verifier.build().map_err(unusable)?;
    let name = ServerName::try_from("localhost").map_err(unusable)?;
    let at = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let at = UnixTime::since_unix_epoch(at);
    let time = |time: UnixTime| SystemTime::UNIX_EPOCH + Duration::from_secs(time.as_secs());
    Ok(match verifier.verify_server_cert(certificate, &[], &name, &[], at) {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Validity::Until(time(not_after))
        }
        Err(Error::InvalidCertificate(CertificateError::NotValidYetContext {
            not_before, ..
        })) => Validity::From(time(not_before)),
        Ok(_) | Err(_) => Validity::Valid,
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let error = |source| {
        let path = path.to_owned();
        TlsError::File { path, what: "certificate", source: Box::new(source) }
    };
    let all = CertificateDer::pem_file_iter(path).map_err(error)?;
    let all = all.collect::<Result<Vec<_>, _>>().map_err(error)?;
    if all.is_empty() { Err(TlsError::Empty(path.to_owned())) } else { Ok(all) }
}

fn unusable(source: impl std::error::Error + Send + Sync + 'static) -> TlsError {
    TlsError::Unusable(Box::new(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tests/tls/of-2020.pem` counts from 2020-01-01 to 2021-01-01.
    #[test]
    fn a_certificate_counts_from_its_first_day_to_its_last() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls/of-2020.pem");
        let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let (from, until) = (time(1_577_836_800), time(1_609_459_200));
        let second = Duration::from_secs(1);
        for (at, expected) in [
            (SystemTime::UNIX_EPOCH, Validity::From(from)),
            (from - second, Validity::From(from)),
            (from, Validity::Valid),
            (until, Validity::Valid),
            (until + second, Validity::Until(until)),
        ] {
            assert_eq!(validity(&path, at).unwrap(), expected, "{at:?}");
        }
        let none = path.with_file_name("key.pem");
        assert!(matches!(validity(&none, from), Err(TlsError::Empty(_))));
    }
}
