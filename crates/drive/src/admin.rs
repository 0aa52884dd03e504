//! NVMe admin commands, by Linux's passthrough.
//!
//! The structure and the numbers are those of the kernel's `include/uapi/linux/nvme_ioctl.h`.

use std::ffi::c_void;
use std::fs::File;

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};

/// `NVME_IOCTL_ID`: the return value is the number of the namespace.
const NAMESPACE: Opcode = opcode::none(b'N', 0x40);
/// `NVME_IOCTL_ADMIN_CMD`.
const ADMIN: Opcode = opcode::read_write::<AdminCommand>(b'N', 0x41);

/// Opcode of Get Log Page.
const GET_LOG_PAGE: u8 = 0x02;
/// Opcode of Identify.
const IDENTIFY: u8 = 0x06;
/// All namespaces.
const ALL: u32 = u32::MAX;
/// Milliseconds that a command may take. Chosen.
const TIMEOUT: u32 = 10_000;

/// `struct nvme_passthru_cmd`: an admin command that reads from the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct AdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_len: u32,
    data_len: u32,
    words_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

impl AdminCommand {
    /// Identify: `kind` is the CNS field.
    pub(crate) fn identify(kind: u8, namespace: u32) -> AdminCommand {
        let words_10_15 = [kind.into(), 0, 0, 0, 0, 0];
        AdminCommand { opcode: IDENTIFY, namespace, words_10_15, ..AdminCommand::default() }
    }

    /// Get Log Page: `len` bytes of `page`. `of` is the endurance group, and `part` the log specific field.
    pub(crate) fn log_page(page: u8, part: u8, of: u16, len: usize) -> AdminCommand {
        let dwords = len as u32 / 4 - 1;
        let head = u32::from(page) | u32::from(part) << 8 | (dwords & 0xFFFF) << 16;
        let words_10_15 = [head, (dwords >> 16) | u32::from(of) << 16, 0, 0, 0, 0];
        AdminCommand {
            opcode: GET_LOG_PAGE,
            namespace: ALL,
            words_10_15,
            ..AdminCommand::default()
        }
    }

    /// The log page that is asked for; `None` of Identify.
    #[must_use]
    pub fn page(&self) -> Option<u8> {
        (self.opcode == GET_LOG_PAGE).then_some(self.words_10_15[0] as u8)
    }
}

/// The number of the namespace behind `device`.
///
/// # Errors
/// `ENOTTY` when it is a controller, or no NVMe device.
pub(crate) fn namespace(device: &File) -> Result<u32, Errno> {
    // SAFETY: NVME_IOCTL_ID takes no argument.
    unsafe { ioctl(device, NamespaceNumber) }
}

/// Has the drive carry out `command`, and fills `data`. Returns the status of the drive; 0 is success.
///
/// # Errors
/// Those of the kernel: `EACCES` without CAP_SYS_ADMIN, `ENOTTY` of other devices.
pub(crate) fn submit(device: &File, command: &AdminCommand, data: &mut [u8]) -> Result<u32, Errno> {
    let address = data.as_mut_ptr().expose_provenance() as u64;
    let data_len = data.len() as u32;
    let mut command = AdminCommand { address, data_len, timeout_ms: TIMEOUT, ..*command };
    // SAFETY: NVME_IOCTL_ADMIN_CMD reads the command, and writes `data_len` bytes at `address`, which are `data`, and
    // the result of the command. Both commands that can be made only move data from the drive.
    unsafe { ioctl(device, Submission(&mut command)) }
}

struct NamespaceNumber;

// SAFETY: the opcode is NVME_IOCTL_ID, which has no argument.
unsafe impl Ioctl for NamespaceNumber {
    type Output = u32;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        NAMESPACE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(returned: IoctlOutput, _: *mut c_void) -> Result<u32, Errno> {
        Ok(returned as u32)
    }
}

struct Submission<'a>(&'a mut AdminCommand);

// SAFETY: the opcode is NVME_IOCTL_ADMIN_CMD and the pointer is to its argument, which it writes.
unsafe impl Ioctl for Submission<'_> {
    type Output = u32;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        ADMIN
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut::<AdminCommand>(self.0).cast()
    }

    unsafe fn output_from_ptr(returned: IoctlOutput, _: *mut c_void) -> Result<u32, Errno> {
        Ok(returned as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    #[test]
    fn numbers_and_structures_are_the_kernels() {
        assert_eq!((NAMESPACE, ADMIN), (0x4E40, 0xC048_4E41));
        assert_eq!(size_of::<AdminCommand>(), 72);
        assert_eq!(offset_of!(AdminCommand, address), 24);
        assert_eq!(offset_of!(AdminCommand, data_len), 36);
        assert_eq!(offset_of!(AdminCommand, words_10_15), 40);
    }

    #[test]
    fn a_log_page_is_asked_for_by_length_part_and_group() {
        let command = AdminCommand::log_page(0x23, 1, 7, 4096);
        assert_eq!(command.words_10_15[..2], [0x03FF_0123, 0x0007_0000]);
        assert_eq!((command.page(), AdminCommand::identify(1, 0).page()), (Some(0x23), None));
    }

    #[test]
    fn a_file_is_no_drive() {
        let file = File::open("Cargo.toml").expect("the crate's manifest");
        assert_eq!(namespace(&file), Err(Errno::NOTTY));
        let command = AdminCommand::identify(1, 0);
        assert_eq!(submit(&file, &command, &mut [0; 4096]), Err(Errno::NOTTY));
    }
}
