//! Steps that resolve an error or a risk of a pool. They are facts: a program with users words them.

use std::path::PathBuf;

/// A step that resolves an error or a risk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Make a new pool.
    Format,
    /// Use the newer program that wrote this format.
    NewerProgram,
    /// Copy the data with the older program that wrote this format, into a new pool.
    OlderProgram,
    /// Attach the device to the pool, or remove the device from the settings.
    Attach {
        /// The device.
        path: PathBuf,
    },
    /// Drain the device.
    Drain,
    /// Drain the device, if it is still readable.
    DrainIfReadable,
    /// Go on without the device, and without its data.
    Lose {
        /// The device.
        path: PathBuf,
    },
    /// Exchange the pair or striped group for a larger device.
    Exchange,
    /// Put a new device in the place of the member that is out.
    ReplaceMember,
    /// Choose the side of a pair whose data is to be lost.
    ChooseLost,
    /// Choose the member that is authoritative.
    ChooseKept,
    /// Overwrite this side of a pair, whose data is lost.
    Overwrite {
        /// The side.
        path: PathBuf,
    },
    /// Declare a side authoritative, if the other side is lost.
    Keep {
        /// The side that remains.
        path: PathBuf,
        /// The side that is lost.
        lost: PathBuf,
        /// Whether data that only the lost side has is lost with it.
        despite_loss: bool,
    },
}
