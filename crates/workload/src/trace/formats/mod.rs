//! One parser per format: from the bytes of a line or record to a [`Record`], without allocating.

mod biosnoop;
mod blkparse;
mod block_layer;
mod cloudphysics;
mod clouds;
mod fio;
mod fiu;
mod ftrace;
mod losses;
mod msr;
mod rwbs;
mod simulators;
mod spc;
mod systor;
mod thermocline;

use super::format::Format;
use super::record::{Parsed, Record};

pub(super) use biosnoop::header as biosnoop_header;
pub(super) use blkparse::is_event as is_blkparse_event;
pub(super) use cloudphysics::{HEADER as CLOUDPHYSICS_HEADER, Layout};
pub(super) use fio::{HEADER_V2 as FIO_HEADER_V2, HEADER_V3 as FIO_HEADER_V3, log_has_offset};
pub(super) use ftrace::is_event as is_ftrace_event;
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
    FioLog,
    Blkparse(Box<blkparse::Blkparse>),
    Ftrace(Box<ftrace::Ftrace>),
    Biosnoop(biosnoop::Biosnoop),
    Fiu,
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
    /// The parser of a `format`, for a trace that begins with `head`, of which one `volume` may be wanted alone.
    pub fn new(format: Format, head: &[u8], volume: Option<&str>) -> Parser {
        match format {
            Format::ThermoclineCsv => Parser::Thermocline,
            Format::FioIolog => Parser::Fio(fio::Fio::default()),
            Format::FioLog => Parser::FioLog,
            Format::Blkparse => Parser::Blkparse(Box::new(blkparse::Blkparse::new(volume))),
            Format::Ftrace => Parser::Ftrace(Box::new(ftrace::Ftrace::new(volume))),
            Format::Biosnoop => Parser::Biosnoop(biosnoop::Biosnoop::default()),
            Format::Fiu => Parser::Fiu,
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

    /// Events that the trace reports as lost.
    pub fn lost(&self) -> u64 {
        match self {
            Parser::Blkparse(state) => state.lost,
            Parser::Ftrace(state) => state.lost,
            Parser::Biosnoop(state) => state.lost,
            _ => 0,
        }
    }

    /// A request from earlier lines, in formats that spread a request over several lines.
    #[inline]
    pub fn take(&mut self) -> Option<Record<'_>> {
        self.layer_mut()?.take()
    }

    /// No lines are left: requests that were held back can be taken.
    pub fn finish(&mut self) {
        if let Some(layer) = self.layer_mut() {
            layer.finish();
        }
    }

    /// What was left out, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Parser::Blkparse(state) => state.layer.notes(),
            Parser::Ftrace(state) => state.layer.notes(),
            _ => Vec::new(),
        }
    }

    #[inline]
    fn layer_mut(&mut self) -> Option<&mut block_layer::BlockLayer> {
        match self {
            Parser::Blkparse(state) => Some(&mut state.layer),
            Parser::Ftrace(state) => Some(&mut state.layer),
            _ => None,
        }
    }

    /// Reads a line (without the line end) or a binary record.
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
            Parser::FioLog => fio::log_line(bytes),
            Parser::Blkparse(state) => state.line(bytes).map(|()| None),
            Parser::Ftrace(state) => state.line(bytes).map(|()| None),
            Parser::Biosnoop(state) => state.line(bytes),
            Parser::Fiu => fiu::line(bytes),
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
