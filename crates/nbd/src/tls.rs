//! Encryption with certificates on both sides.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// Why there is no encryption.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or has no PEM of the kind that is needed.
    #[error("{} has no {what} that can be read", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What was looked for.
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

/// Keys of a server, and whom it trusts: clients that show a certificate of a certain authority.
#[derive(Clone, Debug)]
pub struct Tls(Arc<ServerConfig>);

impl Tls {
    /// From PEM files: the server's certificates, its own first; its key; the certificates of the authorities whose
    /// clients may connect.
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
