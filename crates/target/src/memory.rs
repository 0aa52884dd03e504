//! A target in memory, for tests of front ends.

use std::sync::{PoisonError, RwLock};

use thermocline_types::Bytes;

use crate::{BlockTarget, Features, Info, Request, TargetError};

/// Bytes in memory. Requests are complete when `submit` returns. Nothing survives the process, so a flush is a no-op.
#[derive(Debug)]
pub struct Memory {
    info: Info,
    bytes: RwLock<Vec<u8>>,
}

impl Memory {
    /// `size` bytes, all zero, in logical blocks of `logical_block` bytes.
    ///
    /// # Panics
    /// If the logical block is neither 512 nor 4096 bytes, or the size no multiple of it.
    #[must_use]
    pub fn new(size: Bytes, logical_block: Bytes) -> Memory {
        assert!(matches!(logical_block.0, 512 | 4096), "logical blocks have 512 or 4096 bytes");
        assert!(size.0.is_multiple_of(logical_block.0), "a device has whole logical blocks");
        let features = Features { flush: true, fua: true, trim: true, zeroes: true };
        let info = Info { size, logical_block, features };
        Memory { info, bytes: RwLock::new(vec![0; size.0 as usize]) }
    }

    fn change(&self, offset: Bytes, change: impl FnOnce(&mut [u8])) -> Result<(), TargetError> {
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut bytes[offset.0 as usize..]);
        Ok(())
    }
}

impl BlockTarget for Memory {
    fn info(&self) -> Info {
        self.info
    }

    fn submit(&self, request: Request) {
        if let Err(error) = request.check(&self.info) {
            return request.fail(error);
        }
        match request {
            Request::Read { offset, mut buffer, done } => {
                let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
                let (from, len) = (offset.0 as usize, buffer.len());
                buffer.copy_from_slice(&bytes[from..from + len]);
                drop(bytes);
                done.complete(Ok(buffer));
            }
            Request::Write { offset, buffer, done, .. } => {
                let copy = |bytes: &mut [u8]| bytes[..buffer.len()].copy_from_slice(&buffer);
                done.complete(self.change(offset, copy));
            }
            Request::Flush { done } => done.complete(Ok(())),
            Request::Trim { offset, length, done }
            | Request::WriteZeroes { offset, length, done, .. } => {
                let clear = |bytes: &mut [u8]| bytes[..length.0 as usize].fill(0);
                done.complete(self.change(offset, clear));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    #[test]
    fn conforms() {
        conformance::run(&Memory::new(Bytes::mib(1), Bytes(4096)));
        conformance::run(&Memory::new(Bytes::mib(1), Bytes(512)));
    }
}
