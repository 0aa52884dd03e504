//! Commands and structures of the driver: `include/uapi/linux/ublk_cmd.h` of Linux, the source of every number here.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A number of a command in the encoding of ioctl(2) (`include/uapi/asm-generic/ioctl.h`): direction, size of the
/// structure, type `u`, number.
const fn command(direction: u32, number: u32, structure: usize) -> u32 {
    direction << 30 | (structure as u32) << 16 | (b'u' as u32) << 8 | number
}

/// `_IOR`.
const READ: u32 = 2;
/// `_IOWR`.
const READ_WRITE: u32 = 3;

const fn control(direction: u32, number: u32) -> u32 {
    command(direction, number, size_of::<ControlCommand>())
}

/// `UBLK_U_CMD_GET_DEV_INFO`: fills a [`Registration`].
pub const GET_DEV_INFO: u32 = control(READ, 0x02);
/// `UBLK_U_CMD_ADD_DEV`: takes a [`Registration`], and changes it to what the driver grants.
pub const ADD_DEV: u32 = control(READ_WRITE, 0x04);
/// `UBLK_U_CMD_DEL_DEV`: waits until nobody has the device open.
pub const DEL_DEV: u32 = control(READ_WRITE, 0x05);
/// `UBLK_U_CMD_START_DEV`: `data` is the process. Waits until every tag has its [`FETCH_REQ`].
pub const START_DEV: u32 = control(READ_WRITE, 0x06);
/// `UBLK_U_CMD_STOP_DEV`.
pub const STOP_DEV: u32 = control(READ_WRITE, 0x07);
/// `UBLK_U_CMD_SET_PARAMS`: takes [`Parameters`].
pub const SET_PARAMS: u32 = control(READ_WRITE, 0x08);
/// `UBLK_U_CMD_START_USER_RECOVERY`: `EBUSY` while the last server of the device ends.
pub const START_USER_RECOVERY: u32 = control(READ_WRITE, 0x10);
/// `UBLK_U_CMD_END_USER_RECOVERY`: as [`START_DEV`].
pub const END_USER_RECOVERY: u32 = control(READ_WRITE, 0x11);
/// `UBLK_U_CMD_GET_FEATURES`: fills 64 bits of `UBLK_F_*`.
pub const GET_FEATURES: u32 = control(READ, 0x13);
/// `UBLK_U_CMD_DEL_DEV_ASYNC`: as [`DEL_DEV`], without the wait (Linux 6.7).
pub const DEL_DEV_ASYNC: u32 = control(READ, 0x14);
/// `UBLK_U_CMD_UPDATE_SIZE`: `data` is the new size in sectors.
pub const UPDATE_SIZE: u32 = control(READ_WRITE, 0x15);

/// `UBLK_U_IO_FETCH_REQ`: completes with the first request of a tag.
pub const FETCH_REQ: u32 = command(READ_WRITE, 0x20, size_of::<IoCommand>());
/// `UBLK_U_IO_COMMIT_AND_FETCH_REQ`: answers the request of a tag, completes with the next.
pub const COMMIT_AND_FETCH_REQ: u32 = command(READ_WRITE, 0x21, size_of::<IoCommand>());

/// `UBLK_F_USER_RECOVERY`: the device outlives its server.
pub const F_USER_RECOVERY: u64 = 1 << 3;
/// `UBLK_F_USER_RECOVERY_REISSUE`: the next server gets the unanswered requests of the last.
pub const F_USER_RECOVERY_REISSUE: u64 = 1 << 4;
/// `UBLK_F_CMD_IOCTL_ENCODE`.
pub const F_CMD_IOCTL_ENCODE: u64 = 1 << 6;
/// `UBLK_F_USER_COPY`: bytes of requests by pread(2) and pwrite(2).
pub const F_USER_COPY: u64 = 1 << 7;
/// `UBLK_F_UPDATE_SIZE`.
pub const F_UPDATE_SIZE: u64 = 1 << 10;

/// `UBLK_S_DEV_DEAD`: not started, or stopped.
pub const STATE_DEAD: u16 = 0;

/// `UBLK_ATTR_READ_ONLY`.
pub const ATTR_READ_ONLY: u32 = 1 << 0;
/// `UBLK_ATTR_VOLATILE_CACHE`.
pub const ATTR_VOLATILE_CACHE: u32 = 1 << 2;
/// `UBLK_ATTR_FUA`.
pub const ATTR_FUA: u32 = 1 << 3;
/// `UBLK_PARAM_TYPE_BASIC` and `UBLK_PARAM_TYPE_DISCARD`.
pub const PARAM_TYPES: u32 = 1 << 0 | 1 << 1;

/// `UBLK_IO_OP_READ`.
pub const OP_READ: u8 = 0;
/// `UBLK_IO_OP_WRITE`.
pub const OP_WRITE: u8 = 1;
/// `UBLK_IO_OP_FLUSH`.
pub const OP_FLUSH: u8 = 2;
/// `UBLK_IO_OP_DISCARD`.
pub const OP_DISCARD: u8 = 3;
/// `UBLK_IO_OP_WRITE_ZEROES`.
pub const OP_WRITE_ZEROES: u8 = 5;
/// `UBLK_IO_F_FUA`.
pub const IO_FUA: u32 = 1 << 13;
/// `UBLK_IO_F_NOUNMAP`.
pub const IO_NOUNMAP: u32 = 1 << 15;

/// Bytes in a sector, the unit of the driver.
pub const SECTOR: u64 = 512;

/// Where pread(2) and pwrite(2) find the bytes of the request with a tag in queue 0: `UBLKSRV_IO_BUF_OFFSET`, and the
/// tag above `UBLK_IO_BUF_BITS`.
pub const fn bytes_at(tag: u16) -> u64 {
    0x8000_0000 + ((tag as u64) << 25)
}

/// `struct ublksrv_ctrl_cmd`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct ControlCommand {
    pub device: u32,
    /// `u16::MAX`: the command is of no queue.
    pub queue: u16,
    /// Bytes at `address`.
    pub length: u16,
    pub address: u64,
    pub data: u64,
    pub path_length: u16,
    pub pad: u16,
    pub reserved: u32,
}

/// `struct ublksrv_ctrl_dev_info`.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Registration {
    pub queues: u16,
    pub depth: u16,
    pub state: u16,
    pub pad0: u16,
    /// Bytes of the longest request.
    pub longest: u32,
    pub device: u32,
    pub process: i32,
    pub pad1: u32,
    pub flags: u64,
    /// Kept for the server; the driver does not look at it.
    pub server: u64,
    pub owner_uid: u32,
    pub owner_gid: u32,
    pub reserved: [u64; 2],
}

/// `struct ublk_params` as far as to its first 4 bytes of `devt`, which the driver does not read.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Parameters {
    /// Bytes of this structure.
    pub length: u32,
    pub types: u32,
    pub attributes: u32,
    pub logical_shift: u8,
    pub physical_shift: u8,
    pub optimal_shift: u8,
    pub least_shift: u8,
    /// Sectors of the longest request.
    pub longest: u32,
    pub chunk: u32,
    /// Size in sectors.
    pub sectors: u64,
    pub virtual_boundary: u64,
    pub discard_alignment: u32,
    /// Bytes.
    pub discard_granularity: u32,
    pub discard_sectors: u32,
    pub zeroes_sectors: u32,
    pub discard_segments: u16,
    pub reserved: u16,
    pub unread: u32,
}

/// `struct ublksrv_io_desc`: a request.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct IoDescriptor {
    /// Operation in the lowest 8 bits, `UBLK_IO_F_*` above.
    pub operation: u32,
    pub sectors: u32,
    pub start: u64,
    /// Not used with [`F_USER_COPY`].
    pub address: u64,
}

/// `struct ublksrv_io_cmd`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct IoCommand {
    pub queue: u16,
    pub tag: u16,
    /// Bytes done, or a negative error number.
    pub result: i32,
    /// 0 with [`F_USER_COPY`].
    pub address: u64,
}

const _: () = assert!(size_of::<ControlCommand>() == 32);
const _: () = assert!(size_of::<Registration>() == 64);
const _: () = assert!(size_of::<Parameters>() == 64);
const _: () = assert!(size_of::<IoDescriptor>() == 24);
const _: () = assert!(size_of::<IoCommand>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of hexadecimal digits.
    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    #[test]
    fn commands_are_encoded_as_in_the_header() {
        // _IOWR('u', 0x04, struct ublksrv_ctrl_cmd) with 0x20 bytes; _IOR has 0x8 in front, _IOWR 0xc.
        assert_eq!(ADD_DEV, 0xc020_7504);
        assert_eq!([DEL_DEV, START_DEV, STOP_DEV], [0xc020_7505, 0xc020_7506, 0xc020_7507]);
        assert_eq!([SET_PARAMS, UPDATE_SIZE], [0xc020_7508, 0xc020_7515]);
        assert_eq!([START_USER_RECOVERY, END_USER_RECOVERY], [0xc020_7510, 0xc020_7511]);
        assert_eq!(
            [GET_DEV_INFO, GET_FEATURES, DEL_DEV_ASYNC],
            [0x8020_7502, 0x8020_7513, 0x8020_7514]
        );
        assert_eq!([FETCH_REQ, COMMIT_AND_FETCH_REQ], [0xc010_7520, 0xc010_7521]);
    }

    #[test]
    fn bytes_of_a_tag_begin_32_mib_after_those_of_the_last() {
        assert_eq!(
            [bytes_at(0), bytes_at(1), bytes_at(63)],
            [2 << 30, (2 << 30) + (32 << 20), 0xfe00_0000]
        );
    }

    #[test]
    fn commands_have_the_bytes_of_the_header() {
        let command = ControlCommand {
            device: 0x0403_0201,
            queue: 0xffff,
            length: 0x0605,
            address: 0x0e0d_0c0b_0a09_0807,
            data: 0x1615_1413_1211_100f,
            path_length: 0,
            pad: 0,
            reserved: 0,
        };
        let expected = "01020304 ffff 0506 0708090a0b0c0d0e 0f10111213141516 0000 0000 00000000";
        assert_eq!(command.as_bytes(), hex(expected));
        let command = IoCommand { queue: 0, tag: 0x0201, result: -5, address: 0 };
        assert_eq!(command.as_bytes(), hex("0000 0102 fbffffff 0000000000000000"));
    }

    #[test]
    fn structures_have_the_bytes_of_the_header() {
        let info = Registration {
            queues: 1,
            depth: 64,
            state: 2,
            longest: 1 << 20,
            device: 7,
            process: 258,
            flags: F_USER_RECOVERY | F_USER_RECOVERY_REISSUE | F_CMD_IOCTL_ENCODE | F_USER_COPY,
            server: 0x0807_0605_0403_0201,
            owner_uid: 1000,
            owner_gid: 100,
            ..Registration::default()
        };
        let expected = "0100 4000 0200 0000 00001000 07000000 02010000 00000000 d800000000000000 0102030405060708 \
            e8030000 64000000 0000000000000000 0000000000000000";
        assert_eq!(info.as_bytes(), hex(expected));
        let parameters = Parameters {
            length: 64,
            types: PARAM_TYPES,
            attributes: ATTR_READ_ONLY | ATTR_VOLATILE_CACHE | ATTR_FUA,
            logical_shift: 9,
            physical_shift: 12,
            optimal_shift: 13,
            least_shift: 14,
            longest: 2048,
            chunk: 0,
            sectors: 0x0102_0304,
            virtual_boundary: 0,
            discard_alignment: 0,
            discard_granularity: 4096,
            discard_sectors: 0x10,
            zeroes_sectors: 0x20,
            discard_segments: 1,
            reserved: 0,
            unread: 0,
        };
        let expected = "40000000 03000000 0d000000 09 0c 0d 0e 00080000 00000000 0403020100000000 0000000000000000 \
            00000000 00100000 10000000 20000000 0100 0000 00000000";
        assert_eq!(parameters.as_bytes(), hex(expected));
    }

    #[test]
    fn a_request_is_read_as_the_header_has_it() {
        let bytes = hex("01200000 08000000 0001000000000000 0000000000000000");
        let request = IoDescriptor::read_from_bytes(&bytes).expect("24 bytes");
        assert_eq!(request.operation as u8, OP_WRITE);
        assert_eq!(request.operation & IO_FUA, IO_FUA);
        assert_eq!((request.sectors, request.start), (8, 256));
    }
}
