//! Memory that kernel and process share: the rings of commands, and the descriptors of requests.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::ptr::NonNull;

use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use thermocline_target::Bell;
use zerocopy::IntoBytes as _;

use crate::abi::{ControlCommand, IoCommand, IoDescriptor};

/// Where devices are made.
pub const CONTROL: &str = "/dev/ublk-control";

/// Commands given to the kernel by a single system call. Chosen, not measured.
const ENTRIES: u32 = 256;
/// Room for completions: more than one for each tag of all devices.
pub const COMPLETIONS: u32 = 1 << 15;

/// The number of the completion that says that [`Wake::wake`] was called.
const WAKE: u64 = u64::MAX;

/// The ring of control commands, one at a time.
pub struct Control {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    file: File,
}

impl Control {
    /// # Errors
    /// When there is no driver, or this process may not use it.
    pub fn open() -> io::Result<Control> {
        let file = OpenOptions::new().read(true).write(true).open(CONTROL)?;
        Ok(Control { ring: IoUring::builder().build(2)?, file })
    }

    /// Has the driver carry out command `operation` for a device, with `buffer` as its structure.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn command(
        &mut self,
        operation: u32,
        device: u32,
        data: u64,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let length = u16::try_from(buffer.len()).map_err(|_| Errno::INVAL)?;
        let address =
            if buffer.is_empty() { 0 } else { buffer.as_mut_ptr().expose_provenance() as u64 };
        let queue = u16::MAX;
        let command = ControlCommand {
            device,
            queue,
            length,
            address,
            data,
            path_length: 0,
            pad: 0,
            reserved: 0,
        };
        let mut bytes = [0; 80];
        bytes[..size_of::<ControlCommand>()].copy_from_slice(command.as_bytes());
        let entry =
            opcode::UringCmd80::new(Fd(self.file.as_raw_fd()), operation).cmd(bytes).build();
        // SAFETY: the entry points at `buffer`, which is borrowed until the completion below.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| Errno::BUSY)?;
        loop {
            // An error such as EINTR leaves the command under way: only its completion ends the borrow.
            let waited = self.ring.submit_and_wait(1);
            if let Some(done) = self.ring.completion().next() {
                let result = done.result();
                return if result < 0 {
                    Err(io::Error::from_raw_os_error(-result))
                } else {
                    Ok(())
                };
            }
            drop(waited);
        }
    }
}

/// A ring of requests of any number of devices, for the thread that made it.
pub struct Ring {
    ring: IoUring,
    bell: Bell,
    /// Whether the kernel watches `bell`.
    watched: bool,
}

impl Ring {
    /// # Errors
    /// When the kernel has no such ring, or does not allow it.
    pub fn new(bell: Bell) -> io::Result<Ring> {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(COMPLETIONS).setup_single_issuer().setup_defer_taskrun();
        Ok(Ring { ring: builder.build(ENTRIES)?, bell, watched: false })
    }

    /// Queues a command for the device open as `file`; its completion has `number`.
    pub fn push(&mut self, file: impl AsFd, operation: u32, command: &IoCommand, number: u64) {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(command.as_bytes());
        let entry = opcode::UringCmd16::new(Fd(file.as_fd().as_raw_fd()), operation).cmd(bytes);
        self.push_entry(&entry.build().user_data(number));
    }

    fn push_entry(&mut self, entry: &squeue::Entry) {
        // SAFETY: no entry points at memory: commands have no address with UBLK_F_USER_COPY, and polls have none.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.submit();
        }
    }

    /// Gives the kernel what is queued.
    pub fn submit(&mut self) {
        // An error is of the moment, or comes with the completion of a command.
        let _again = self.ring.submit();
    }

    /// Gives the kernel what is queued, and waits for a completion or for the bell.
    pub fn wait(&mut self) {
        if !self.watched {
            let event = Fd(self.bell.as_fd().as_raw_fd());
            let flags = PollFlags::IN.bits().into();
            self.push_entry(&opcode::PollAdd::new(event, flags).build().user_data(WAKE));
            self.watched = true;
        }
        // As of `submit`; a signal ends the wait.
        let _looked_at_next = self.ring.submit_and_wait(1);
    }

    /// Appends numbers and results of completed commands.
    pub fn take(&mut self, completed: &mut Vec<(u64, i32)>) {
        for entry in self.ring.completion() {
            if entry.user_data() == WAKE {
                self.watched = false;
                self.bell.silence();
            } else {
                completed.push((entry.user_data(), entry.result()));
            }
        }
    }
}

/// The descriptors of queue 0 of a device.
pub struct Descriptors {
    first: NonNull<IoDescriptor>,
    depth: u16,
    bytes: usize,
}

// SAFETY: the memory is of no thread; only the kernel writes it.
unsafe impl Send for Descriptors {}

impl Descriptors {
    /// Of the device open as `file`, with `depth` tags.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn map(file: &File, depth: u16) -> io::Result<Descriptors> {
        let page = rustix::param::page_size();
        let bytes = (usize::from(depth) * size_of::<IoDescriptor>()).next_multiple_of(page);
        // SAFETY: the kernel chooses a place that nothing else has.
        let first = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        let first = NonNull::new(first.cast()).ok_or(Errno::INVAL)?;
        Ok(Descriptors { first, depth, bytes })
    }

    /// The request of `tag`, which the kernel wrote before it completed the tag's command.
    ///
    /// # Panics
    /// When the queue has no such tag.
    pub fn get(&self, tag: u16) -> IoDescriptor {
        assert!(tag < self.depth, "tag {tag} of {}", self.depth);
        // SAFETY: within the mapping, aligned as a page is; any bytes are a descriptor; the kernel writes none of the
        // tag while the server has it, and the read is volatile.
        unsafe { self.first.add(usize::from(tag)).read_volatile() }
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference into it was given.
        let _unmapped = unsafe { rustix::mm::munmap(self.first.as_ptr().cast(), self.bytes) };
    }
}
