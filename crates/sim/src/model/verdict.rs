//! Wrong outcomes, described by their cause.

use std::fmt;

use thermocline_format::{VolumeId, VolumeMedia, VolumeName};

use super::history::{History, WriteNumber};
use crate::data::Content;

/// What kind of error a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The block shows content that was never written.
    Damaged,
    /// The block shows the content of another block.
    Foreign,
    /// The block shows content older than a change that must not be lost.
    Lost,
    /// The block shows a change that was never made or had no effect.
    NeverWritten,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Damaged => "damaged bytes were returned",
            Why::Foreign => "another block was returned",
            Why::Lost => "a change was lost",
            Why::NeverWritten => "a version was returned that was never written",
        })
    }
}

/// An outcome that the model does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A block has wrong content.
    Block {
        /// The volume.
        volume: VolumeId,
        /// The block of the volume.
        lba: u64,
        /// The found content.
        found: Content,
        /// The right contents.
        allowed: String,
        /// Kind of the error.
        why: Why,
    },
    /// A volume must not exist, or has a wrong size.
    VolumeWrong {
        /// The volume.
        volume: VolumeId,
        /// The size found, in blocks.
        blocks: u64,
        /// Whether a volume of this identifier may exist.
        known: bool,
    },
    /// A volume that must exist does not.
    VolumeLost(VolumeId),
    /// A volume has a name that it must not have.
    NameWrong {
        /// The volume.
        volume: VolumeId,
        /// Its name.
        name: VolumeName,
    },
    /// The blocks of a volume are to be where nobody wanted them last.
    MediaWrong {
        /// The volume.
        volume: VolumeId,
        /// Where they are to be.
        media: VolumeMedia,
    },
}

impl Verdict {
    /// Whether it comes from a state of earlier, and nothing is wrong with it in itself.
    #[must_use]
    pub const fn is_rollback(&self) -> bool {
        match self {
            Verdict::Block { why, .. } => matches!(why, Why::Lost),
            Verdict::VolumeWrong { .. }
            | Verdict::VolumeLost(_)
            | Verdict::NameWrong { .. }
            | Verdict::MediaWrong { .. } => true,
        }
    }

    /// Whether it shows a change that was once made, and that an earlier power cut undid.
    #[must_use]
    pub const fn is_return(&self) -> bool {
        matches!(self, Verdict::Block { why: Why::NeverWritten, .. })
    }

    /// The verdict about a block that shows `found`, which no change from `floor` on explains.
    #[must_use]
    pub(super) fn block(
        volume: VolumeId,
        lba: u64,
        found: Content,
        floor: WriteNumber,
        history: &History,
    ) -> Verdict {
        let allowed: Vec<String> = history.possible(floor).map(ToString::to_string).collect();
        let why = match found {
            Content::Other => Why::Damaged,
            Content::User(stamp) if stamp.volume != volume || stamp.lba.0 != lba => Why::Foreign,
            Content::User(stamp) if stamp.version > floor => Why::NeverWritten,
            Content::User(_) | Content::Zeros => Why::Lost,
        };
        Verdict::Block { volume, lba, found, allowed: allowed.join(", "), why }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Block { volume, lba, found, allowed, why } => {
                write!(
                    f,
                    "block {lba} of volume {}: {why}: found {found}; right would be version {allowed}",
                    volume.0
                )
            }
            Verdict::VolumeWrong { volume, blocks, known: true } => {
                write!(f, "volume {} has {blocks} blocks, a size that it must not have", volume.0)
            }
            Verdict::VolumeWrong { volume, blocks, known: false } => {
                write!(f, "volume {} of {blocks} blocks exists, and must not", volume.0)
            }
            Verdict::VolumeLost(volume) => write!(f, "volume {} is gone", volume.0),
            Verdict::NameWrong { volume, name } => {
                write!(f, "volume {} is called `{name}`, and must not be", volume.0)
            }
            Verdict::MediaWrong { volume, media } => {
                write!(f, "volume {} is on {media} media, and nobody wants it there", volume.0)
            }
        }
    }
}
