//! What can be wrong with a workload's description.

use std::path::PathBuf;

use thermocline_types::choices;

/// Why a workload cannot be generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text names no workload.
    #[error(
        "`{text}` is not a workload, and a file of tenants ends in .toml; {}",
        choices(text, super::forms().map(|form| form.syntax))
    )]
    UnknownForm {
        /// The text as given.
        text: String,
    },
    /// The text names a workload but a parameter is missing, superfluous or out of range.
    #[error("workload `{text}`: {what}; write {syntax}")]
    Parameter {
        /// The text as given.
        text: String,
        /// What is wrong with which parameter.
        what: String,
        /// How this workload is written.
        syntax: &'static str,
    },
    /// A key of an application is unknown, or its value out of range or against another one.
    #[error("{app} {key} is `{value}`: {what}; `thermocline lab list {app}` explains the keys")]
    Key {
        /// The application.
        app: String,
        /// Its key.
        key: String,
        /// The value as given, or in bytes.
        value: String,
        /// What would be right.
        what: String,
    },
    /// The file of tenants cannot be read, or says something impossible.
    #[error("workload file {}", path.display())]
    File {
        /// The file as given.
        path: PathBuf,
        /// The system's error, or a variant below.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The description of tenants is not TOML, or has keys or types that do not belong there.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// A tenant of the file is described wrongly.
    #[error("tenant `{tenant}`: {what}")]
    Tenant {
        /// The tenant's name.
        tenant: String,
        /// What is wrong.
        what: String,
    },
    /// Span, sizes, shares or limits that contradict each other.
    #[error("{0}")]
    Options(String),
}
