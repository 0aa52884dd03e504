//! The newest superblock record of a served pool, for `inspect`.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use thermocline_format::{Location, Superblock};

use crate::Error;

/// Schema of a [`SuperblockReport`].
const SCHEMA: &str = "thermocline.superblock/1";

/// A superblock record as it stands on media.
#[derive(Serialize, Deserialize)]
pub struct SuperblockReport {
    schema: String,
    /// The place of the record.
    unit: u32,
    block: u32,
    /// Its bytes, two hexadecimal digits each.
    record: String,
}

impl SuperblockReport {
    /// Of a record.
    pub(crate) fn new(superblock: &Superblock) -> SuperblockReport {
        let Location { unit, block } = superblock.location;
        let mut bytes = Vec::new();
        superblock.encode(&mut bytes);
        let mut record = String::with_capacity(2 * bytes.len());
        bytes.iter().for_each(|byte| write!(record, "{byte:02x}").expect("memory takes text"));
        SuperblockReport { schema: SCHEMA.to_owned(), unit: unit.0, block, record }
    }

    /// The record.
    ///
    /// # Errors
    /// When the server has another format than this program.
    pub fn decode(&self) -> Result<Superblock, Error> {
        let digit = |at: usize| self.record.get(at..at + 2);
        let byte = |at| digit(at).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let bytes = (0..self.record.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>();
        let bytes = bytes.ok_or_else(|| Error::refused("the server sent no superblock"))?;
        let at = Location::new(self.unit, self.block);
        Superblock::decode(&bytes, at, None).map_err(Error::refused)
    }
}
