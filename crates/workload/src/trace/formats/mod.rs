//! One parser per format: from the bytes of a line or record to a [`Record`], without allocating.

mod biosnoop;
mod blkparse;
mod cloudphysics;
mod clouds;
mod fio;
mod ftrace;
mod msr;
mod rwbs;
mod simulators;
mod spc;
mod systor;
mod thermocline;

use super::format::Format;
use super::record::Parsed;

pub(super) use cloudphysics::{HEADER as CLOUDPHYSICS_HEADER, Layout};
pub(super) use fio::{HEADER_V2 as FIO_HEADER_V2, HEADER_V3 as FIO_HEADER_V3};
pub(super) use ftrace::{ISSUE, QUEUE};
pub(super) use systor::HEADER as SYSTOR_HEADER;
pub(super) use thermocline::HEADER as THERMOCLINE_HEADER;

/// How a format divides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Lines of text.
    Lines,
    /// Records of this many bytes.
    Records(usize),
}

/// The parser of one trace, with the little state some formats carry from line to line.
#[derive(Debug)]
pub(super) enum Parser {
    Thermocline,
    Fio(fio::Fio),
    Blkparse(blkparse::Blkparse),
    Ftrace(Box<ftrace::Ftrace>),
    Biosnoop,
    Msr,
    Spc,
    Alibaba,
    Tencent,
    Systor,
    Vscsi(Layout),
    CloudPhysicsCsv,
    DiskSim,
    MqSim,
    Femu,
    Ftlsim,
}

impl Parser {
    /// The parser of a `format`, prepared for a trace that begins with `head`.
    pub fn new(format: Format, head: &[u8]) -> Parser {
        match format {
            Format::ThermoclineCsv => Parser::Thermocline,
            Format::FioIolog => Parser::Fio(fio::Fio::default()),
            Format::Blkparse => Parser::Blkparse(blkparse::Blkparse::new(head)),
            Format::Ftrace => Parser::Ftrace(Box::new(ftrace::Ftrace::new(head))),
            Format::Biosnoop => Parser::Biosnoop,
            Format::Msr => Parser::Msr,
            Format::Spc => Parser::Spc,
            Format::Alibaba => Parser::Alibaba,
            Format::Tencent => Parser::Tencent,
            Format::Systor17 => Parser::Systor,
            Format::Vscsi => Parser::Vscsi(Layout::of(head).unwrap_or(Layout::V1)),
            Format::CloudPhysicsCsv => Parser::CloudPhysicsCsv,
            Format::DiskSim => Parser::DiskSim,
            Format::MqSim => Parser::MqSim,
            Format::Femu => Parser::Femu,
            Format::Ftlsim => Parser::Ftlsim,
        }
    }

    /// How the bytes are divided.
    pub fn framing(&self) -> Framing {
        match self {
            Parser::Vscsi(layout) => Framing::Records(layout.record_bytes()),
            _ => Framing::Lines,
        }
    }

    /// Events that the trace says it lacks.
    pub fn lost(&self) -> u64 {
        if let Parser::Ftrace(state) = self { state.lost } else { 0 }
    }

    /// Reads one line (without its end) or one binary record.
    #[inline]
    pub fn parse<'a>(&mut self, bytes: &'a [u8]) -> Parsed<'a> {
        if let Parser::Vscsi(layout) = self {
            return cloudphysics::vscsi(*layout, bytes);
        }
        if matches!(bytes.first(), None | Some(b'#')) || is_blank(bytes) {
            return Ok(None);
        }
        match self {
            Parser::Thermocline => thermocline::line(bytes),
            Parser::Fio(state) => state.line(bytes),
            Parser::Blkparse(state) => state.line(bytes),
            Parser::Ftrace(state) => state.line(bytes),
            Parser::Biosnoop => biosnoop::line(bytes),
            Parser::Msr => msr::line(bytes),
            Parser::Spc => spc::line(bytes),
            Parser::Alibaba => clouds::alibaba(bytes),
            Parser::Tencent => clouds::tencent(bytes),
            Parser::Systor => systor::line(bytes),
            Parser::Vscsi(layout) => cloudphysics::vscsi(*layout, bytes),
            Parser::CloudPhysicsCsv => cloudphysics::csv(bytes),
            Parser::DiskSim => simulators::disksim(bytes),
            Parser::MqSim => simulators::mqsim(bytes),
            Parser::Femu => simulators::femu(bytes),
            Parser::Ftlsim => simulators::ftlsim(bytes),
        }
    }
}

fn is_blank(line: &[u8]) -> bool {
    line[0].is_ascii_whitespace() && line.iter().all(u8::is_ascii_whitespace)
}
