//! Why a request failed.

/// Why a request failed. Front ends translate it once, at their edge, to the code of their protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The request ends beyond the target (`EINVAL`; for writes NBD wants `ENOSPC`).
    #[error("the request ends beyond the device")]
    OutOfBounds,
    /// Offset or length is no multiple of the logical block, or the length is zero (`EINVAL`).
    #[error("the request is not made of whole logical blocks")]
    Misaligned,
    /// The target does not do this (`EOPNOTSUPP`).
    #[error("the device does not support this request")]
    Unsupported,
    /// The data does not fit (`ENOSPC`).
    #[error("the device is full")]
    NoSpace,
    /// Media failed, or returned wrong data (`EIO`).
    #[error("input/output error")]
    Io,
    /// The target takes no writes (any more) (`EPERM`).
    #[error("the device is read-only")]
    ReadOnly,
    /// The target stopped before the request was complete (`ESHUTDOWN`). A write may or may not have happened.
    #[error("the device is gone")]
    Gone,
}
