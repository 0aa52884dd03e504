//! Volumes as superblocks list them.

use std::fmt;

use crate::error::{ErrorKind, require};
use crate::id::VolumeId;
use crate::map::{MapEntry, PAGE_ENTRIES};

/// Most bytes in a volume's name.
pub const MAX_NAME_BYTES: usize = 64;

/// Blocks of a volume that an entry of the root map covers: 2^18, or 1 GiB.
pub const BLOCKS_PER_ROOT: u64 = (PAGE_ENTRIES * PAGE_ENTRIES) as u64;

/// Most blocks in a volume, 256 TiB: as much as a pool of 4096-byte logical blocks can have.
pub const MAX_VOLUME_BLOCKS: u64 = 1 << 36;

/// Name of a volume: up to [`MAX_NAME_BYTES`] bytes of UTF-8 without control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeName(String);

impl VolumeName {
    /// A name, if `text` can be one.
    #[must_use]
    pub fn new(text: &str) -> Option<VolumeName> {
        let fits = text.len() <= MAX_NAME_BYTES && !text.contains(char::is_control);
        fits.then(|| VolumeName(text.to_owned()))
    }

    /// A name for a new volume.
    ///
    /// # Errors
    /// [`NameError`], also for names that are no names of files: volumes become files, and are named in paths.
    pub fn for_new(text: &str) -> Result<VolumeName, NameError> {
        let name = VolumeName::new(text).filter(VolumeName::is_file_name);
        name.ok_or_else(|| NameError(text.to_owned()))
    }

    /// The name for users of snapshot `snapshot` of `volume`: `VOLUME@NAME`. `None` if that is too long.
    #[must_use]
    pub fn of_snapshot(volume: &VolumeName, snapshot: &VolumeName) -> Option<VolumeName> {
        VolumeName::new(&format!("{volume}@{snapshot}"))
    }

    /// Whether a file can have this name. Old pools may have volumes with other names.
    #[must_use]
    pub fn is_file_name(&self) -> bool {
        !matches!(self.as_str(), "" | "." | "..") && !self.0.contains('/')
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name with zeros behind, as it stands on media.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; MAX_NAME_BYTES] {
        let mut bytes = [0; MAX_NAME_BYTES];
        bytes[..self.0.len()].copy_from_slice(self.0.as_bytes());
        bytes
    }

    /// Decodes a name padded with zeros; `None` if the bytes are no valid name.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; MAX_NAME_BYTES]) -> Option<VolumeName> {
        let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        std::str::from_utf8(&bytes[..length]).ok().and_then(VolumeName::new)
    }
}

/// No new volume can have this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot be the name of a volume: a name has 1 to {MAX_NAME_BYTES} bytes, no control characters and no `/`, and \
     is neither `.` nor `..`"
)]
pub struct NameError(String);

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Where the blocks of a volume are to be, in a pool that has fast devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumeMedia {
    /// Writes go to fast devices, and what stays valid for long enough leaves them.
    #[default]
    Auto = 0,
    /// As `Auto`, but what leaves a fast unit is written to another one while that gains anything.
    Fast = 1,
    /// Writes go to the devices for capacity at once.
    Capacity = 2,
}

impl VolumeMedia {
    /// All of them.
    pub const ALL: [VolumeMedia; 3] = [VolumeMedia::Auto, VolumeMedia::Fast, VolumeMedia::Capacity];

    /// The variant with the on-media number `number`.
    pub(crate) fn numbered(number: u64) -> Option<VolumeMedia> {
        VolumeMedia::ALL.into_iter().find(|media| *media as u64 == number)
    }

    /// Its name in settings and output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            VolumeMedia::Auto => "auto",
            VolumeMedia::Fast => "fast",
            VolumeMedia::Capacity => "capacity",
        }
    }
}

impl fmt::Display for VolumeMedia {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for VolumeMedia {
    type Err = VolumeMediaError;

    fn from_str(text: &str) -> Result<VolumeMedia, VolumeMediaError> {
        let named = VolumeMedia::ALL.into_iter().find(|media| media.name() == text);
        named.ok_or_else(|| VolumeMediaError(text.to_owned()))
    }
}

/// No media of a volume are called so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} are no media of a volume: choose auto, fast or capacity")]
pub struct VolumeMediaError(String);

/// What a volume has as a layer of a stack: of a volume with snapshots, or with blocks of deleted ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackLayer {
    /// The identifier for users: of the volume, or of the snapshot.
    pub user: VolumeId,
    /// The layer below, if there is one.
    pub below: Option<VolumeId>,
    /// The smallest size in blocks that it had: blocks beyond are in no layer below.
    pub least: u64,
    /// Whether it is frozen: a snapshot, or once one.
    pub frozen: bool,
    /// Whether it was a snapshot that was deleted: only the layers above read its blocks.
    pub nameless: bool,
    /// Whether the layers below belong to another volume, of which this one is a clone.
    pub clone: bool,
}

/// A volume and where its map begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its identifier.
    pub id: VolumeId,
    /// Its name; may be empty.
    pub name: VolumeName,
    /// Its size in blocks of 4 KiB.
    pub blocks: u64,
    /// Whether it was deleted, and its map still leads to blocks that are counted as valid: it is no volume any more,
    /// and whoever opens the pool goes on with unmapping it.
    pub deleted: bool,
    /// Where its blocks are to be.
    pub media: VolumeMedia,
    /// What it has as a layer of a stack; `None` for a volume that is its only layer.
    pub layer: Option<StackLayer>,
    /// Where the pages of the map of its map are: [`Volume::roots_for`] its size, in order.
    pub roots: Vec<MapEntry>,
}

impl Volume {
    /// Entries in the root map of a volume of `blocks` blocks.
    #[must_use]
    pub const fn roots_for(blocks: u64) -> usize {
        blocks.div_ceil(BLOCKS_PER_ROOT) as usize
    }
}

/// Checks an identifier and a size that were read for a user's volume.
pub(crate) fn check_volume(volume: VolumeId, blocks: u64) -> Result<(), ErrorKind> {
    let found = u64::from(volume.0);
    require(volume.is_user(), "volume", found, "this identifier is reserved")?;
    require(blocks <= MAX_VOLUME_BLOCKS, "blocks of a volume", blocks, "at most 2^36")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_from_their_bytes() {
        let longest = "ä".repeat(MAX_NAME_BYTES / 2);
        for text in ["", "data", "db-1 Sicherung", &longest] {
            let name = VolumeName::new(text).unwrap();
            assert_eq!(VolumeName::from_bytes(&name.to_bytes()), Some(name));
        }
    }

    #[test]
    fn new_volumes_have_names_of_files() {
        for text in ["", ".", "..", "a/b", "/", "two\nlines", &"x".repeat(65)] {
            let error = VolumeName::for_new(text).expect_err(text).to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains("no `/`"), "{error}");
        }
        for text in ["a", "...", "a b", ".hidden", "ä"] {
            assert_eq!(VolumeName::for_new(text).map(|name| name.to_string()), Ok(text.to_owned()));
        }
        let old = VolumeName::new("a/b").expect("what is there can be read");
        assert!(!old.is_file_name());
    }

    #[test]
    fn what_is_no_name_is_refused() {
        assert_eq!(VolumeName::new(&"x".repeat(MAX_NAME_BYTES + 1)), None);
        assert_eq!(VolumeName::new("two\nlines"), None);
        let mut bytes = [0; MAX_NAME_BYTES];
        bytes[1] = b'a';
        assert_eq!(VolumeName::from_bytes(&bytes), None, "a zero before the end");
        bytes[0] = 0xFF;
        assert_eq!(VolumeName::from_bytes(&bytes), None, "no UTF-8");
    }

    #[test]
    fn a_root_for_every_started_gibibyte() {
        assert_eq!(Volume::roots_for(0), 0);
        assert_eq!(Volume::roots_for(1), 1);
        assert_eq!(Volume::roots_for(1 << 18), 1);
        assert_eq!(Volume::roots_for((1 << 18) + 1), 2);
        assert_eq!(Volume::roots_for(MAX_VOLUME_BLOCKS), 1 << 18);
    }
}
