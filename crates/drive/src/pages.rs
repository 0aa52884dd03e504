//! The pages of an NVMe drive at one time, as the drive gave them.

use std::fmt;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::admin::AdminCommand;
use crate::counter::{Counter, DriveFigure, LogPage};
use crate::fdp::FdpState;
use crate::page::{self, number};
use crate::reading::HealthReading;

/// Schema of a record of pages.
pub(crate) const SCHEMA: &str = "thermocline.drive-pages/1";

/// Bytes of an Identify structure.
const IDENTITY: usize = 4096;
/// Bit of CTRATT: the controller has endurance groups.
const ENDURANCE_GROUPS: u64 = 1 << 4;
/// Bit of CTRATT: the controller has flexible data placement.
const FDP: u64 = 1 << 19;

/// Carries out an admin command and fills the bytes; the number is the status of the drive. A test puts recorded pages
/// or failures in place of the ioctl.
pub type Submit<'a> = &'a dyn Fn(&AdminCommand, &mut [u8]) -> Result<u32, Errno>;

/// The pages of a drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrivePages {
    schema: String,
    /// When the pages were read, in seconds since 1970.
    unix_seconds: u64,
    #[serde(with = "hex")]
    controller: Vec<u8>,
    #[serde(with = "hex")]
    namespace: Vec<u8>,
    pages: Vec<PageRead>,
}

/// A log page, or the status of the drive that refused it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PageRead {
    page: u8,
    /// Log specific field of the command.
    part: u8,
    #[serde(with = "hex")]
    bytes: Vec<u8>,
    /// 0: success.
    status: u16,
}

/// A log page without a known number, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Untold {
    /// Number of the page.
    pub page: u8,
    /// The reason.
    pub reason: UntoldReason,
}

/// Why a log page tells nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UntoldReason {
    /// The drive refused the page with a status.
    Refused(u16),
    /// Length, identifier (GUID) or version is unknown.
    UnknownLayout,
}

impl fmt::Display for Untold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {:02X}h: ", self.page)?;
        match self.reason {
            UntoldReason::UnknownLayout => f.write_str("its length, GUID or version is unknown"),
            // Without the bits "do not retry" and "more".
            UntoldReason::Refused(status) => match status & 0x07FF {
                0x002 | 0x109 => write!(f, "the drive does not have it (status {status:04X}h)"),
                0x029 => write!(f, "flexible data placement is off (status {status:04X}h)"),
                _ => write!(f, "the drive refused it (status {status:04X}h)"),
            },
        }
    }
}

/// What Identify tells of a drive, beside its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DriveTraits {
    /// Bytes of a logical block.
    pub block_bytes: u64,
    /// Preferred write granularity (NPWG) in bytes: the indirection unit of most drives. `None`: not told.
    pub write_unit_bytes: Option<u64>,
    /// Preferred deallocate granularity (NPDG) in bytes. `None`: not told.
    pub deallocate_unit_bytes: Option<u64>,
    /// Whether the drive has a volatile write cache (VWC).
    pub has_write_cache: bool,
    /// Whether the drive has flexible data placement (CTRATT).
    pub has_fdp: bool,
}

impl DrivePages {
    /// Reads the pages of `namespace`, or of the first of the controller, at `unix_seconds`.
    ///
    /// # Errors
    /// The status of Identify, or an error of the kernel. A refused log page is in the record instead.
    pub fn read(
        namespace: Option<u32>,
        unix_seconds: u64,
        submit: Submit<'_>,
    ) -> Result<DrivePages, PagesError> {
        let identify = |kind, of| {
            let mut bytes = vec![0; IDENTITY];
            match submit(&AdminCommand::identify(kind, of), &mut bytes)? {
                0 => Ok(bytes),
                status => Err(PagesError::Identify(status as u16)),
            }
        };
        let controller = identify(1, 0)?;
        let of = match namespace {
            Some(namespace) => namespace,
            None => number::<4>(&identify(2, 0)?, 0) as u32,
        };
        // A controller may have no namespace.
        let namespace = if of == 0 { Vec::new() } else { identify(0, of)? };
        let mut found = DrivePages {
            schema: SCHEMA.to_owned(),
            unix_seconds,
            controller,
            namespace,
            pages: Vec::new(),
        };
        for (page, part, of, len) in found.wanted() {
            let mut bytes = vec![0; len];
            let status = submit(&AdminCommand::log_page(page, part, of, len), &mut bytes)? as u16;
            if status != 0 {
                bytes.clear();
            }
            found.pages.push(PageRead { page, part, bytes, status });
        }
        Ok(found)
    }

    /// Number, part, endurance group and length of each page that such a drive may have.
    fn wanted(&self) -> Vec<(u8, u8, u16, usize)> {
        let attributes = number::<4>(&self.controller, 96);
        let group = match self.namespace.is_empty() {
            true => 0,
            false => number::<2>(&self.namespace, 102) as u16,
        };
        let mut wanted = vec![(0x02, 0, 0, 512), (0xC0, 0, 0, 512)];
        if attributes & ENDURANCE_GROUPS != 0 && group != 0 {
            wanted.push((0x09, 0, group, 512));
        }
        if attributes & FDP != 0 && group != 0 {
            wanted.extend([(0x20, 0), (0x21, 0)].map(|(page, part)| (page, part, group, 4096)));
            wanted.push((0x22, 0, group, 64));
            // Part 1 has the events of hosts, part 0 those of the drive.
            wanted.extend([(0x23, 1), (0x23, 0)].map(|(page, part)| (page, part, group, 4096)));
        }
        wanted
    }

    /// The pages in `text`; `None` of another text.
    pub(crate) fn recorded(text: &str) -> Option<DrivePages> {
        let pages: DrivePages = serde_json::from_str(text).ok()?;
        let is_whole = pages.controller.len() == IDENTITY
            && (pages.namespace.is_empty() || pages.namespace.len() == IDENTITY);
        (pages.schema == SCHEMA && is_whole).then_some(pages)
    }

    /// The record, as JSON.
    #[must_use]
    pub fn record(&self) -> String {
        serde_json::to_string_pretty(self).expect("texts and numbers") + "\n"
    }

    /// The counters in the pages.
    #[must_use]
    pub fn reading(&self) -> HealthReading {
        let text = |from, to| {
            let text = String::from_utf8_lossy(&self.controller[from..to]).into_owned();
            Some(text.trim_matches(['\0', ' ']).to_owned()).filter(|text| !text.is_empty())
        };
        let mut reading = HealthReading {
            serial: text(4, 24),
            model: text(24, 64),
            firmware: text(64, 72),
            ..HealthReading::default()
        };
        let capacity = self.capacity();
        if capacity > 0 {
            let (figure, page) = (DriveFigure::Capacity, LogPage::Identity);
            reading.counters.push(Counter { figure, value: capacity, step: 1, page });
        }
        for one in &self.pages {
            let PageRead { page, status, ref bytes, .. } = *one;
            let untold = match (status, (0x20..=0x23).contains(&page) && page != 0x22) {
                (0, true) => continue,
                (0, false) => match page::of_page(page, bytes) {
                    Some(counters) => {
                        reading.counters.extend(counters);
                        continue;
                    }
                    None => UntoldReason::UnknownLayout,
                },
                (status, _) => UntoldReason::Refused(status),
            };
            reading.untold.push(Untold { page, reason: untold });
        }
        let bytes = |page, part| {
            let is_wanted = |one: &&PageRead| (one.page, one.part, one.status) == (page, part, 0);
            self.pages.iter().find(is_wanted).map_or(&[][..], |one| &one.bytes)
        };
        let events = [bytes(0x23, 1), bytes(0x23, 0)];
        reading.fdp = FdpState::of(bytes(0x20, 0), bytes(0x21, 0), events);
        reading
    }

    /// What Identify tells; `None` without a namespace.
    #[must_use]
    pub fn traits(&self) -> Option<DriveTraits> {
        let namespace = Some(&self.namespace).filter(|bytes| !bytes.is_empty())?;
        let block_bytes = self.block();
        // NSFEAT bit 4: NPWG, NPWA, NPDG, NPDA and NOWS are told, in blocks and from 0.
        let is_told = namespace[24] & (1 << 4) != 0;
        let unit = |at| is_told.then(|| (number::<2>(namespace, at) + 1) * block_bytes);
        Some(DriveTraits {
            block_bytes,
            write_unit_bytes: unit(64),
            deallocate_unit_bytes: unit(68),
            has_write_cache: self.controller[525] & 1 != 0,
            has_fdp: number::<4>(&self.controller, 96) & FDP != 0,
        })
    }

    /// Bytes of a logical block: the low 4 bits of FLBAS choose the format, bits 5 and 6 continue them.
    fn block(&self) -> u64 {
        let chosen = self.namespace[26];
        let format = usize::from((chosen & 0xF) | (chosen >> 1 & 0x30));
        1_u64.checked_shl(self.namespace[128 + 4 * format + 2].into()).unwrap_or(0)
    }

    /// Bytes of the drive (TNVMCAP); of the namespace, if the drive does not tell.
    fn capacity(&self) -> u64 {
        match number::<16>(&self.controller, 280) {
            0 if self.namespace.is_empty() => 0,
            0 => number::<8>(&self.namespace, 0).saturating_mul(self.block()),
            bytes => bytes,
        }
    }
}

/// Why the pages of a drive could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PagesError {
    /// The drive refused Identify with this status.
    #[error("the drive refused Identify (status {0:04X}h)")]
    Identify(u16),
    /// An error of the kernel.
    #[error(transparent)]
    Kernel(#[from] Errno),
}

/// Bytes as hexadecimal digits; zeros at the end are a number, `0000+4092`.
mod hex {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let mut text: String = bytes[..end].iter().map(|byte| format!("{byte:02x}")).collect();
        if end < bytes.len() {
            text += &format!("+{}", bytes.len() - end);
        }
        to.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        parse(&text).ok_or_else(|| D::Error::custom("no hexadecimal digits"))
    }

    fn parse(text: &str) -> Option<Vec<u8>> {
        let (digits, zeros) = text.split_once('+').unwrap_or((text, "0"));
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let mut bytes: Vec<u8> = digits.as_bytes().chunks(2).map(pair).collect::<Option<_>>()?;
        let zeros: u16 = zeros.parse().ok()?;
        bytes.resize(bytes.len() + usize::from(zeros), 0);
        Some(bytes)
    }
}
