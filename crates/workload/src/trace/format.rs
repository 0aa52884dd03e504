//! The trace formats that can be read.

use std::fmt;
use std::str::FromStr;

/// A trace format that says of every request what it does, where and how long: enough for write amplification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Our own csv: `timestamp_us,op,offset_bytes,length_bytes[,tenant[,stream]]`.
    ThermoclineCsv,
    /// fio's I/O log, versions 2 and 3.
    FioIolog,
    /// Text output of `blkparse`.
    Blkparse,
    /// `perf script` or ftrace text with `block:block_rq_issue` events.
    Ftrace,
    /// Output of bcc's `biosnoop`.
    Biosnoop,
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
    pub const ALL: [Format; 16] = [
        Format::ThermoclineCsv,
        Format::FioIolog,
        Format::Blkparse,
        Format::Ftrace,
        Format::Biosnoop,
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
            Format::Blkparse => "blkparse",
            Format::Ftrace => "ftrace",
            Format::Biosnoop => "biosnoop",
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

    /// One line on where such files come from and what they look like.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Format::ThermoclineCsv => {
                "own csv: timestamp_us,op,offset_bytes,length_bytes[,tenant[,stream]]; op R W D F Z"
            }
            Format::FioIolog => "fio --write_iolog, versions 2 and 3",
            Format::Blkparse => "blktrace as text by blkparse; D (issue) events, else Q, else C",
            Format::Ftrace => {
                "perf script or ftrace text with block_rq_issue (else block_bio_queue) events"
            }
            Format::Biosnoop => "bcc or libbpf biosnoop, with sector and bytes",
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
        matches!(self, Format::Tencent)
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
