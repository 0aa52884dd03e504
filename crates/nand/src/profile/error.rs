//! What is wrong with a profile.

use std::fmt;

/// What is wrong with a profile: file, key, reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError {
    file: String,
    key: String,
    reason: String,
}

impl ProfileError {
    /// `key` may be empty when the text as a whole is wrong.
    #[must_use]
    pub fn new(file: &str, key: &str, reason: &str) -> Self {
        ProfileError { file: file.into(), key: key.into(), reason: reason.into() }
    }

    /// The dotted key that is wrong, empty when the text as a whole is.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device profile {}: ", self.file)?;
        if !self.key.is_empty() {
            write!(f, "`{}`: ", self.key)?;
        }
        write!(f, "{}", self.reason)
    }
}

impl std::error::Error for ProfileError {}
