//! Drives whose media is written in place: no erase, no garbage collection, write amplification 1.

use thermocline_ftl::Media as _;
use thermocline_types::{Bytes, Cause, Op, Pba, Request, Time, UnitId};

use crate::counters::Counters;
use crate::error::DriveError;
use crate::media::NandArray;
use crate::profile::{Cut, Profile};

/// A drive that writes every block where it belongs.
#[derive(Clone, Debug)]
pub struct Direct {
    cut: Cut,
    media: NandArray,
    counters: Counters,
}

impl Direct {
    /// A fresh drive.
    #[must_use]
    pub fn new(profile: &Profile, cut: Cut, seed: u64) -> Self {
        Direct { media: NandArray::new(profile, &cut, seed), cut, counters: Counters::default() }
    }

    /// How the drive is cut.
    #[must_use]
    pub fn cut(&self) -> &Cut {
        &self.cut
    }

    /// The media.
    #[must_use]
    pub fn media(&self) -> &NandArray {
        &self.media
    }

    /// The media, to say whose the data is.
    pub(crate) fn media_mut(&mut self) -> &mut NandArray {
        &mut self.media
    }

    /// Bytes through the drive so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Serves `request`, which arrives at `at`; returns when it is complete.
    ///
    /// # Errors
    /// [`DriveError::OutOfRange`] for addresses beyond the capacity.
    pub fn submit(&mut self, at: Time, request: &Request) -> Result<Time, DriveError> {
        if request.end() > self.cut.capacity() {
            return Err(DriveError::OutOfRange {
                end: request.end(),
                capacity: self.cut.capacity(),
            });
        }
        self.media.arrive(at);
        let (shape, unit) = (self.cut.shape, self.cut.mapping_unit.0);
        let per_unit = u64::from(shape.blocks_per_unit());
        let blocks = (request.offset.0 / unit..request.end().0.div_ceil(unit))
            .map(|block| shape.pba(UnitId((block / per_unit) as u32), (block % per_unit) as u32));
        match request.op {
            Op::Read => {
                self.counters.host_read += request.length.0;
                Ok(self.media.read_for_host(at, request.offset, request.length, blocks.map(Some)))
            }
            Op::Write => {
                self.write(request.length, blocks);
                Ok(self.media.acknowledged())
            }
            Op::Trim | Op::WriteZeroes => {
                self.counters.host_trimmed += request.length.0;
                self.media.handle();
                Ok(self.media.acknowledged())
            }
            Op::Flush => {
                self.media.handle();
                Ok(self.media.acknowledged())
            }
        }
    }

    fn write(&mut self, length: Bytes, blocks: impl Iterator<Item = Pba>) {
        self.media.receive(length);
        let mut programmed = 0;
        for pba in blocks {
            self.media.program(pba, None, Cause::Host);
            programmed += self.cut.mapping_unit.0;
        }
        self.counters.host_written += length.0;
        self.counters.media[Cause::Host.index()] += length.0;
        self.counters.media[Cause::ReadModifyWrite.index()] += programmed - length.0;
        self.media.written(length.0);
        self.media.charge(Cause::ReadModifyWrite, programmed - length.0);
        self.counters.media_total += programmed;
    }
}
