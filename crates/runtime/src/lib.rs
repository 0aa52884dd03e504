//! The log engine on real media: storages of bytes, and the driver that carries out on them what the engine asks.
//!
//! [`Settings`] say what a pool is made of, and [`opening`] opens or creates that pool. [`Driver`] is the pool on the
//! caller's own thread; [`Pool`] gives it a thread and hands out its volumes as block targets for any number of
//! threads.
//!
//! Invariants:
//! * User data is not copied between the request and the device's own transfer; see [`Buffer`].
//! * A write of a [`storage::Command`] is handed to the system as one vectored write.
//! * Nobody waits without a bound for anything but the device.

mod buffer;
mod device;
mod driver;
mod media;
pub mod opening;
mod pool;
mod remedy;
mod settings;
pub mod storage;
mod trouble;

pub use buffer::{Buffer, Reading, Writing};
pub use device::Device;
pub use driver::{Driver, DriverError, Ended};
pub use media::{
    AnyStorage, Contents, DeviceChange, HeldFiles, MediaError, Paths, UnitStorage, new_pool_id,
    queue_attribute, unit_bytes, write_streams,
};
pub use pool::{
    BareDrive, BareVolume, Counts, DamageFound, Endurance, Event, Fullness, FullnessLevel,
    FullnessMarks, LATENCY_BUCKETS_MICROS, Latencies, Listener, Named, Operation, Poller, Pool,
    PoolUpkeep, ReopenError, ScrubEnd, ScrubFindings, ScrubRecord, ScrubSchedule, ScrubUnderWay,
    Stall, Stepper, Totals, Traffic, View, Volume, VolumeLimitError, VolumeLimits, Wear,
    WearStatus,
};
pub use remedy::Remedy;
pub use settings::{
    DeviceKind, DeviceSettings, GroupSettings, PoolSettings, ServeSettings, ServedLayer, Settings,
    SettingsError, UpkeepSettings, VolumeSettings,
};
pub use storage::{
    Group, GroupChange, GroupKind, GroupNotice, GroupStatus, MemberState, MemberStatus,
};
pub use trouble::{Asked, Range, Trouble};
