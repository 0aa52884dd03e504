//! Numbers on the wire, all big-endian.
#![expect(clippy::big_endian_bytes, reason = "the protocol is big-endian")]

/// First word of a server: `NBDMAGIC`.
pub const SERVER_MAGIC: u64 = 0x4E42_444D_4147_4943;
/// Second word of a server, and first of every option: `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
/// First word of the reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_E889_0455_65A9;

/// Takes values off the front of bytes; `None` when too few bytes are left.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A reader of `bytes` from the start.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*taken))
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*taken))
    }

    /// The next eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*taken))
    }

    /// A text behind its length of four bytes; `None` if the bytes are not UTF-8.
    pub fn text(&mut self) -> Option<&'a str> {
        let length = self.u32()?;
        std::str::from_utf8(self.bytes(length as usize)?).ok()
    }

    /// What is left.
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// Appends values to bytes.
pub trait Put {
    /// Two bytes.
    fn put_u16(&mut self, value: u16);
    /// Four bytes.
    fn put_u32(&mut self, value: u32);
    /// Eight bytes.
    fn put_u64(&mut self, value: u64);
    /// A text behind its length of four bytes.
    fn put_text(&mut self, text: &str);
}

impl Put for Vec<u8> {
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_text(&mut self, text: &str) {
        self.put_u32(text.len() as u32);
        self.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_read() {
        let mut bytes = Vec::new();
        bytes.put_u16(0x0102);
        bytes.put_u32(3);
        bytes.put_u64(4);
        bytes.put_text("name");
        assert_eq!(bytes[..6], [1, 2, 0, 0, 0, 3]);
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.u16(), reader.u32(), reader.u64()), (Some(0x0102), Some(3), Some(4)));
        assert_eq!((reader.text(), reader.rest().len()), (Some("name"), 0));
    }

    #[test]
    fn too_few_bytes_and_no_text_are_nothing() {
        let mut reader = Reader::new(&[0, 0, 0, 9, b'a']);
        assert_eq!(reader.u64(), None);
        assert_eq!(reader.text(), None);
        assert_eq!(Reader::new(&[0, 0, 0, 1, 0xFF]).text(), None);
    }
}
