/// How a device fails a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The device reports an error for these blocks or this command.
    #[error("the device reports an error")]
    Io,
    /// The unit can be read but not written or reset any more.
    #[error("the unit is read-only")]
    ReadOnly,
    /// The unit cannot be read any more either.
    #[error("the unit is offline")]
    Offline,
    /// The device takes no commands any more.
    #[error("the device is gone")]
    Gone,
}
