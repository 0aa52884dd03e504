//! The trace formats that can be read.

use std::fmt;
use std::str::FromStr;

/// A trace format with operation, address and length of every request: enough for write amplification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Our own csv: `timestamp_us,op,offset_bytes,length_bytes[,tenant[,stream[,outstanding]]]`.
    ThermoclineCsv,
    /// fio's I/O log, versions 2 and 3.
    FioIolog,
    /// fio's logs of latencies, bandwidths or operations, with offsets.
    FioLog,
    /// Text output of `blkparse`.
    Blkparse,
    /// `perf script`, `perf trace` or ftrace text with events of the block layer.
    Ftrace,
    /// Output of bcc's `biosnoop`, or of perf-tools' `iosnoop`.
    Biosnoop,
    /// Florida International University (SNIA IOTTA 391 and 414).
    Fiu,
    /// Microsoft Research Cambridge csv (SNIA IOTTA).
    Msr,
    /// Storage Performance Council / UMass repository.
    Spc,
    /// Alibaba block traces of 2020.
    Alibaba,
    /// Tencent cloud block storage.
    Tencent,
    /// SYSTOR '17 virtual desktop traces.
    Systor17,
    /// CloudPhysics vscsi, binary, versions 1 and 2.
    Vscsi,
    /// CloudPhysics as csv: `version,time,op,size,lbn`.
    CloudPhysicsCsv,
    /// DiskSim's five ASCII columns.
    DiskSim,
    /// MQSim's five ASCII columns.
    MqSim,
    /// The csv of FEMU's trace replayer.
    Femu,
    /// Desnoyers' ftlsim: `addr len` in 4 KiB pages, all writes.
    Ftlsim,
}

impl Format {
    /// Every format, in the order `lab list` shows them.
    pub const ALL: [Format; 18] = [
        Format::ThermoclineCsv,
        Format::FioIolog,
        Format::FioLog,
        Format::Blkparse,
        Format::Ftrace,
        Format::Biosnoop,
        Format::Fiu,
        Format::Msr,
        Format::Spc,
        Format::Alibaba,
        Format::Tencent,
        Format::Systor17,
        Format::Vscsi,
        Format::CloudPhysicsCsv,
        Format::DiskSim,
        Format::MqSim,
        Format::Femu,
        Format::Ftlsim,
    ];

    /// The name `--format` takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Format::ThermoclineCsv => "thermocline-csv",
            Format::FioIolog => "fio-iolog",
            Format::FioLog => "fio-log",
            Format::Blkparse => "blkparse",
            Format::Ftrace => "ftrace",
            Format::Biosnoop => "biosnoop",
            Format::Fiu => "fiu",
            Format::Msr => "msr",
            Format::Spc => "spc",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::Systor17 => "systor17",
            Format::Vscsi => "vscsi",
            Format::CloudPhysicsCsv => "cloudphysics-csv",
            Format::DiskSim => "disksim",
            Format::MqSim => "mqsim",
            Format::Femu => "femu",
            Format::Ftlsim => "ftlsim",
        }
    }

    /// A line on the origin and the layout of files in the format.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Format::ThermoclineCsv => {
                "own csv: timestamp_us,op,offset_bytes,length_bytes[,tenant[,stream[,outstanding]]]; op R W D F Z"
            }
            Format::FioIolog => "fio --write_iolog, versions 2 and 3",
            Format::FioLog => {
                "fio --write_lat_log --log_offset=1: ms, value, direction, length, offset"
            }
            Format::Blkparse => {
                "blktrace as text by blkparse; of each device D (issue) events, else Q, else C"
            }
            Format::Ftrace => {
                "perf script, perf trace or ftrace text with block_rq_issue (else block_bio_queue) events"
            }
            Format::Biosnoop => {
                "bcc or libbpf biosnoop, or perf-tools iosnoop -st, with sector and bytes"
            }
            Format::Fiu => "FIU: ns pid process lba sectors R|W major minor [md5]",
            Format::Msr => {
                "MSR Cambridge: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime"
            }
            Format::Spc => "SPC / UMass: ASU,LBA,Size,Opcode,Timestamp",
            Format::Alibaba => "Alibaba 2020: device_id,opcode,offset,length,timestamp",
            Format::Tencent => {
                "Tencent CBS: Timestamp,Offset,Size,IOType,VolumeID in seconds and sectors"
            }
            Format::Systor17 => "SYSTOR '17: Timestamp,Response,IOType,LUN,Offset,Size",
            Format::Vscsi => "CloudPhysics vscsi, binary records of version 1 or 2",
            Format::CloudPhysicsCsv => "CloudPhysics csv: version,time,op,size,lbn",
            Format::DiskSim => "DiskSim: arrival_ms device lba sectors flags (bit 0 set reads)",
            Format::MqSim => "MQSim: arrival_ns device lba sectors type (0 writes, 1 reads)",
            Format::Femu => "FEMU replayer: ms,disk,offset,size,type (0 writes, 1 reads)",
            Format::Ftlsim => "ftlsim: page address and count, decimal or 0x, all writes, no clock",
        }
    }

    /// Whether the clock counts whole seconds only.
    pub(super) const fn ticks_in_seconds(self) -> bool {
        matches!(self, Format::Tencent | Format::CloudPhysicsCsv)
    }

    /// A message suffix: why all requests of a trace may have no bytes, and a remedy.
    pub(super) const fn why_empty(self) -> &'static str {
        match self {
            Format::Biosnoop => {
                ": this biosnoop does not find the lengths on this kernel; use a newer one, or record with blktrace or \
                 `perf record -e block:block_rq_issue`"
            }
            Format::FioLog => {
                ": each line stands for many, as with `--log_avg_msec`; record without that, or with `--write_iolog`"
            }
            _ => ", so that nothing can be replayed; record the lengths as well",
        }
    }

    /// A message suffix: events missing from a trace without requests.
    pub(super) const fn what_to_record(self) -> &'static str {
        match self {
            Format::Blkparse => {
                "; record issues or at least queueing (`blktrace -a issue -a queue`)"
            }
            Format::Ftrace => "; record with `perf record -e block:block_rq_issue`",
            _ => "",
        }
    }

    /// What the clock counts where stamps are times of the calendar, and the first and the last nanoseconds of the
    /// years 2001 to 2100 on it.
    pub(super) const fn calendar(self) -> Option<(&'static str, u64, u64)> {
        const SINCE_1970: (u64, u64) = (978_307_200_000_000_000, 4_133_980_800_000_000_000);
        const SINCE_1601: u64 = 11_644_473_600_000_000_000;
        let (first, last) = SINCE_1970;
        match self {
            Format::Alibaba => Some(("microseconds", first, last)),
            Format::Tencent | Format::Systor17 => Some(("seconds", first, last)),
            Format::Msr => Some(("units of 100 ns", first + SINCE_1601, last + SINCE_1601)),
            _ => None,
        }
    }

    /// What the clock was taken to count, where neither the file nor the size of its stamps tells for sure.
    pub(super) const fn assumed_clock(self) -> Option<&'static str> {
        match self {
            Format::CloudPhysicsCsv => Some("seconds"),
            Format::DiskSim | Format::Femu => Some("milliseconds"),
            Format::MqSim => Some("nanoseconds"),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A format name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a trace format; known are {}", names())]
pub struct UnknownFormat {
    name: String,
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let canonical = match name {
            "perf" | "perf-script" => "ftrace",
            "csv" => "thermocline-csv",
            other => other,
        };
        let found = Format::ALL.into_iter().find(|format| format.name() == canonical);
        found.ok_or_else(|| UnknownFormat { name: name.to_owned() })
    }
}

fn names() -> String {
    Format::ALL.map(Format::name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_format() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
            assert!(!format.description().is_empty());
        }
    }

    #[test]
    fn an_unknown_name_is_quoted_with_the_known_ones() {
        let text = "msrc".parse::<Format>().unwrap_err().to_string();
        assert!(text.contains("`msrc`") && text.contains("blkparse, ftrace"), "{text}");
    }
}
