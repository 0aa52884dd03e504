//! Volumes.

use std::sync::{Arc, mpsc};

use thermocline_runtime as runtime;
use thermocline_target::{BlockTarget as _, Buffer, Completion, Granular, Request, TargetError};
use thermocline_types::Bytes;

use crate::error::of_target;
use crate::pool::{LastTrouble, failed};
use crate::{Error, ErrorKind};

/// Bytes of one transfer; longer ones are cut. Chosen, not measured.
const TRANSFER: usize = 4 << 20;

/// A handle of a volume; clones are handles of the same volume, for any thread.
///
/// Offsets and lengths are in bytes, of any value. Whole blocks of 4096 bytes are fastest: a write of a part of a block
/// reads the block first. A power cut can separate the blocks of one write.
#[derive(Clone, Debug)]
pub struct Volume {
    name: Arc<str>,
    target: Arc<Granular<runtime::Volume>>,
    trouble: LastTrouble,
}

impl Volume {
    pub(crate) fn new(
        name: &str,
        target: Granular<runtime::Volume>,
        trouble: LastTrouble,
    ) -> Volume {
        Volume { name: name.into(), target: Arc::new(target), trouble }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its size in bytes; 0 after it was deleted.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.target.info().size.0
    }

    /// Fills `buffer` with the bytes from `offset` on. Bytes that were never written are zero.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`], [`ErrorKind::Io`], [`ErrorKind::Closed`].
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let mut at = self.within(offset, buffer.len() as u64)?;
        for part in buffer.chunks_mut(TRANSFER) {
            let room = Buffer::zeroed(part.len());
            let read = |done| Request::Read { offset: Bytes(at), buffer: room, done };
            part.copy_from_slice(&self.wait(at, read)?);
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Writes `data` from `offset` on. Completed writes survive a power cut after the next [`Volume::flush`].
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`], [`ErrorKind::NoSpace`], [`ErrorKind::Io`], [`ErrorKind::Closed`]. A part of the data
    /// may be written.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let mut at = self.within(offset, data.len() as u64)?;
        for part in data.chunks(TRANSFER) {
            let buffer = Buffer::from_bytes(part);
            let write =
                |done| Request::Write { offset: Bytes(at), buffer, fua: false, handle: 0, done };
            self.wait(at, write)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Gives the space of whole blocks among `length` bytes back. The bytes of these blocks are zero afterwards.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`], [`ErrorKind::Io`], [`ErrorKind::Closed`].
    pub fn trim(&self, offset: u64, length: u64) -> Result<(), Error> {
        let block = Bytes::BLOCK.0;
        let end = self.within(offset, length)? + length;
        let (first, end) = (offset.next_multiple_of(block), end / block * block);
        if first >= end {
            return Ok(());
        }
        let (at, length) = (Bytes(first), Bytes(end - first));
        self.wait(first, |done| Request::Trim { offset: at, length, done })
    }

    /// Makes every completed write durable.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], [`ErrorKind::Closed`].
    pub fn flush(&self) -> Result<(), Error> {
        self.wait(0, |done| Request::Flush { done })
    }

    /// `offset`, if `length` bytes from there on are in the volume.
    fn within(&self, offset: u64, length: u64) -> Result<u64, Error> {
        let size = self.size();
        match offset.checked_add(length) {
            Some(end) if end <= size => Ok(offset),
            _ => {
                let kind = if size == 0 { ErrorKind::Closed } else { ErrorKind::OutOfRange };
                Err(Error::new(kind).of_volume(&self.name).at_byte(offset))
            }
        }
    }

    /// Hands in a request, and waits for its end.
    fn wait<T: Send + 'static>(
        &self,
        offset: u64,
        request: impl FnOnce(Completion<T>) -> Request,
    ) -> Result<T, Error> {
        let (sender, receiver) = mpsc::sync_channel(1);
        // The receiver waits below.
        let done = Completion::new(move |result| _ = sender.send(result));
        self.target.submit(request(done));
        let ended = receiver.recv().unwrap_or(Err(TargetError::Gone));
        ended.map_err(|error| {
            let error = failed(of_target(error), error, &self.trouble);
            error.of_volume(&self.name).at_byte(offset)
        })
    }
}
