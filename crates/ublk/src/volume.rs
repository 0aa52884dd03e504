//! The requests of one device: from the kernel to the target, and back.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use thermocline_target::{
    BlockTarget, Buffer, BufferPool, Completion, Export, Mailbox, Request, TargetError,
};
use thermocline_types::Bytes;

use crate::abi::{
    IO_FUA, IO_NOUNMAP, IoDescriptor, OP_DISCARD, OP_FLUSH, OP_READ, OP_WRITE, OP_WRITE_ZEROES,
    SECTOR,
};

/// Bytes of the longest read or write. Chosen: as of FUSE, so that a request is no large part of the memory.
pub const LONGEST: u32 = 1 << 20;

/// Bytes of requests, where the kernel keeps them.
pub trait Payloads {
    /// Copies the bytes of the write with a tag.
    ///
    /// # Errors
    /// When the kernel gives less.
    fn take(&self, tag: u16, buffer: &mut [u8]) -> io::Result<()>;

    /// Copies bytes to the read with a tag.
    ///
    /// # Errors
    /// When the kernel takes less.
    fn give(&self, tag: u16, bytes: &[u8]) -> io::Result<()>;
}

/// The requests of a device.
pub struct Volume<T> {
    target: Arc<dyn BlockTarget>,
    read_only: bool,
    pub transport: T,
    mailbox: Arc<Mailbox>,
    pool: BufferPool,
    /// The number of tag 0.
    first: u64,
    /// By tag, bytes of the request that the target has.
    under_way: Vec<Option<u32>>,
    /// Requests that memory is missing for, the oldest first.
    waiting: VecDeque<(u16, IoDescriptor)>,
    /// Bytes of memory in use.
    held: u64,
}

impl<T: Payloads> Volume<T> {
    /// Of a device with `depth` tags. Numbers of requests begin with `first`.
    pub fn new(
        export: &Export,
        transport: T,
        mailbox: Arc<Mailbox>,
        pool: BufferPool,
        first: u64,
        depth: u16,
    ) -> Self {
        Volume {
            target: Arc::clone(&export.target),
            read_only: export.read_only,
            transport,
            mailbox,
            pool,
            first,
            under_way: vec![None; usize::from(depth)],
            waiting: VecDeque::new(),
            held: 0,
        }
    }

    /// Whether the target has no request.
    pub fn is_idle(&self) -> bool {
        self.under_way.iter().all(Option::is_none)
    }

    /// Begins the request of a tag, or keeps it until the requests under way leave room in `share` bytes. Appends the
    /// result of a request that ends at once.
    pub fn arrived(
        &mut self,
        tag: u16,
        request: IoDescriptor,
        share: u64,
        results: &mut Vec<(u16, i32)>,
    ) {
        let waits =
            memory(&request) > 0 && !(self.waiting.is_empty() && self.fits(&request, share));
        if waits {
            self.waiting.push_back((tag, request));
        } else if let Err(errno) = self.begin(tag, &request) {
            results.push((tag, -errno.raw_os_error()));
        }
    }

    /// Ends the request of a tag, and begins requests that waited. Appends results.
    pub fn answered(
        &mut self,
        tag: u16,
        answer: Result<Option<Buffer>, TargetError>,
        share: u64,
        results: &mut Vec<(u16, i32)>,
    ) {
        let Some(bytes) = self.under_way[usize::from(tag)].take() else { return };
        self.held -= u64::from(bytes);
        let result = match answer {
            Ok(Some(buffer)) => self.transport.give(tag, &buffer).map_err(|_| Errno::IO),
            Ok(None) => Ok(()),
            Err(error) => Err(errno(error)),
        };
        results.push((
            tag,
            result.map_or_else(|errno| -errno.raw_os_error(), |()| bytes.cast_signed()),
        ));
        while let Some((tag, request)) =
            self.waiting.pop_front_if(|(_, request)| fits(self.held, request, share))
        {
            if let Err(errno) = self.begin(tag, &request) {
                results.push((tag, -errno.raw_os_error()));
            }
        }
    }

    fn fits(&self, request: &IoDescriptor, share: u64) -> bool {
        fits(self.held, request, share)
    }

    /// Hands a request to the target.
    fn begin(&mut self, tag: u16, request: &IoDescriptor) -> Result<(), Errno> {
        let number = self.first + u64::from(tag);
        let length = Bytes(u64::from(request.sectors) * SECTOR);
        let operation = request.operation as u8;
        if self.read_only && !matches!(operation, OP_READ | OP_FLUSH) {
            return Err(Errno::ROFS);
        }
        let held = memory(request);
        if held > LONGEST {
            return Err(Errno::INVAL);
        }
        let fua = request.operation & IO_FUA != 0;
        let owner = Arc::clone(&self.mailbox);
        // The start of a flush has no meaning.
        let start = if operation == OP_FLUSH { 0 } else { request.start };
        let offset = Bytes(start.checked_mul(SECTOR).ok_or(Errno::INVAL)?);
        let request = match operation {
            OP_READ => {
                let buffer = self.pool.take(held as usize);
                Request::Read { offset, buffer, done: Completion::of(owner, number) }
            }
            OP_WRITE => {
                let mut buffer = self.pool.take(held as usize);
                self.transport.take(tag, &mut buffer).map_err(|_| Errno::IO)?;
                Request::Write {
                    offset,
                    buffer,
                    fua,
                    handle: 0,
                    done: Completion::of(owner, number),
                }
            }
            OP_FLUSH => Request::Flush { done: Completion::of(owner, number) },
            OP_DISCARD => Request::Trim { offset, length, done: Completion::of(owner, number) },
            OP_WRITE_ZEROES => {
                let no_hole = request.operation & IO_NOUNMAP != 0;
                Request::WriteZeroes {
                    offset,
                    length,
                    no_hole,
                    fua,
                    done: Completion::of(owner, number),
                }
            }
            _ => return Err(Errno::OPNOTSUPP),
        };
        self.under_way[usize::from(tag)] = Some(held);
        self.held += u64::from(held);
        self.target.submit(request);
        Ok(())
    }
}

/// Bytes of memory that a request takes, which are the bytes that it reads or writes.
fn memory(request: &IoDescriptor) -> u32 {
    match request.operation as u8 {
        OP_READ | OP_WRITE => request.sectors.saturating_mul(SECTOR as u32),
        _ => 0,
    }
}

/// Whether there is room in `share` bytes beside `held` bytes. A single request always has room.
fn fits(held: u64, request: &IoDescriptor, share: u64) -> bool {
    held == 0 || held + u64::from(memory(request)) <= share
}

/// What a failed request is for the block layer.
fn errno(error: TargetError) -> Errno {
    match error {
        TargetError::OutOfBounds | TargetError::Misaligned => Errno::INVAL,
        TargetError::Unsupported => Errno::OPNOTSUPP,
        TargetError::NoSpace => Errno::NOSPC,
        TargetError::ReadOnly => Errno::ROFS,
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests;
