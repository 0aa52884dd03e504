//! Finding out what a trace is by looking at its first 64 KiB.
//!
//! In this order: marks of binary files; header lines; lines of a single recorder; then every text format's
//! own parser tries the lines, the formats that read most of them stay, and among those the ones whose clocks and sizes
//! make sense. Lines that still fit several formats are an error with the names of these formats.

use memchr::memmem;

use super::error::{ErrorKind, quote};
use super::format::Format;
use super::formats::{self, Layout, Parser};
use super::record::Record;

/// Why no format was found.
type Refusal = (ErrorKind, String);

/// What any trace can be converted to.
const CSV: &str = "timestamp_us,op,offset_bytes,length_bytes` with op one of R, W, D, F, Z";

/// How many lines are tried.
const TRIED: usize = 256;

/// The format of a trace that begins with `head`; `complete` if `head` is the whole trace.
pub(super) fn format(head: &[u8], complete: bool) -> Result<Format, Refusal> {
    if let Some(refusal) = foreign(head) {
        return Err(refusal);
    }
    if head.contains(&0) {
        return binary(head);
    }
    let lines = lines(head, complete);
    // bpftrace begins with how many probes it attaches.
    let is_banner = |line: &[u8]| {
        let banners = [&b"#"[..], b"Attaching ", b"Attached ", b"Tracing ", b"Possibly lost "];
        banners.iter().any(|banner| line.starts_with(banner))
    };
    let Some(first) = lines.iter().copied().find(|line| !is_banner(line)) else {
        return Err(unrecognised(head));
    };
    if let Some(known) = by_header(first) {
        return known;
    }
    if let Some(known) = by_shape(&lines) {
        return known;
    }
    if is_csv_header(first) {
        return Err(unknown_csv(first));
    }
    by_content(head, &lines).unwrap_or_else(|| Err(unrecognised(first)))
}

/// The format by lines of a single recorder, wherever among the first lines.
fn by_shape(lines: &[&[u8]]) -> Option<Result<Format, Refusal>> {
    let any = |is: fn(&[u8]) -> bool| lines.iter().any(|line| is(line));
    if any(formats::is_blkparse_event) {
        return Some(Ok(Format::Blkparse));
    }
    if any(formats::is_ftrace_event) {
        return Some(Ok(Format::Ftrace));
    }
    if lines.iter().all(|line| formats::log_has_offset(line).is_some()) {
        let has_offsets = lines.iter().any(|line| formats::log_has_offset(line) == Some(true));
        let reason = "is a log of fio without offsets, so it does not say what is overwritten; run fio with \
                      `--log_offset=1`, or record with `--write_iolog=FILE`";
        return Some(if has_offsets {
            Ok(Format::FioLog)
        } else {
            Err((ErrorKind::Unusable, reason.to_owned()))
        });
    }
    let (_, tool, advice) = UNREAD.iter().find(|(is, ..)| any(*is))?;
    Some(Err((ErrorKind::Unusable, format!("is {tool}; {advice}"))))
}

/// Whether a line is of a recorder that is not read.
type Is = fn(&[u8]) -> bool;

/// What to record instead of sums.
const RECORD_REQUESTS: &str = "it has sums, not requests; record with `blktrace -d DEVICE -o - | blkparse -i -`, with \
                               `perf record -e block:block_rq_issue`, or with bcc's biosnoop";

/// What to record instead of calls of programs.
const RECORD_BLOCKS: &str = "it has calls of programs, not what the file system made of them below its cache; record \
                             with `perf trace -e block:block_rq_issue`, or `blktrace -d DEVICE -o - | blkparse -i -`";

/// Recorders that are not read, how their lines are told, and what to record instead.
const UNREAD: [(Is, &str, &str); 9] = [
    (is_strace, "the output of strace or of `perf trace` with calls", RECORD_BLOCKS),
    (|line| has_words(line, &[b"%RND", b"%SEQ"]), "the output of biopattern", RECORD_REQUESTS),
    (
        |line| has_words(line, &[b"MAJ", b"MIN", b"DISK", b"I/O"]),
        "the output of biotop",
        RECORD_REQUESTS,
    ),
    (
        |line| has_words(line, &[b"count", b"distribution"]),
        "a histogram such as biolatency's or bitesize's",
        RECORD_REQUESTS,
    ),
    (|line| has_words(line, &[b"Device", b"r/s", b"w/s"]), "the output of iostat", RECORD_REQUESTS),
    (|line| has_words(line, &[b"Device:", b"rrqm/s"]), "the output of iostat", RECORD_REQUESTS),
    (|line| has_words(line, &[b"DEV", b"tps"]), "the output of sar", RECORD_REQUESTS),
    (
        |line| has_words(line, &[b"BLOCK", b"SIZE", b"COMM"]),
        "the output of DTrace's iosnoop",
        "it is not read; make a csv of it: timestamp_us,op,offset_bytes,length_bytes with op one of R, W, D, F, Z",
    ),
    (
        |line| has_words(line, &[b"BLOCK", b"BYTES", b"LATms"]),
        "iosnoop's output without times",
        "record with `iosnoop -ts`",
    ),
];

fn has_words(line: &[u8], words: &[&[u8]]) -> bool {
    let mut found = line.split(u8::is_ascii_whitespace);
    words.iter().all(|word| found.any(|found| found == *word))
}

/// Whether a line is of a call with its arguments and its result, as `pwrite64(3, ..., 4096, 0) = 4096`.
fn is_strace(line: &[u8]) -> bool {
    const CALLS: [&[u8]; 6] =
        [b"read(", b"write(", b"pread64(", b"pwrite64(", b"fsync(", b"openat("];
    let call = CALLS.iter().find_map(|call| memmem::find(line, call));
    call.is_some_and(|at| memmem::find(&line[at..], b" = ").is_some())
}

/// Files that hold a trace but have to be converted first.
fn foreign(head: &[u8]) -> Option<Refusal> {
    const TAR_MARK: usize = 257;
    let advice = if head.starts_with(b"\x07tae") {
        "is blktrace's binary output; convert it with `blkparse -i FILE > trace.txt`"
    } else if head.starts_with(b"PERFILE2") {
        "is perf's binary output; convert it with `perf script -i FILE > trace.txt`"
    } else if head.starts_with(b"\x17\x08\x44tracing") {
        "is trace-cmd's binary output; convert it with `trace-cmd report FILE > trace.txt`"
    } else if head.get(TAR_MARK..).is_some_and(|rest| rest.starts_with(b"ustar")) {
        "is a tar archive; read a member of it with `tar -xOf FILE MEMBER` piped into `--trace -`"
    } else if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
        "is UTF-16 text; convert it with `iconv -f UTF-16 -t UTF-8 FILE`"
    } else {
        return None;
    };
    Some((ErrorKind::Unusable, advice.to_owned()))
}

fn binary(head: &[u8]) -> Result<Format, Refusal> {
    if Layout::of(head).is_some() {
        return Ok(Format::Vscsi);
    }
    if is_oracle_general(head) {
        let reason = "is an oracleGeneral cache trace: it has object numbers but neither operations nor \
                      addresses, so write amplification cannot be computed from it; use the block trace it \
                      was made from";
        return Err((ErrorKind::Unusable, reason.to_owned()));
    }
    Err(unrecognised(head))
}

/// libCacheSim's packed 24-byte records `u32 seconds, u64 object, u32 size, i64 next access (-1 for none)`.
fn is_oracle_general(head: &[u8]) -> bool {
    const RECORD: usize = 24;
    let u32_at =
        |record: &[u8], at: usize| u32::from_le_bytes(std::array::from_fn(|i| record[at + i]));
    let i64_at =
        |record: &[u8], at: usize| i64::from_le_bytes(std::array::from_fn(|i| record[at + i]));
    let records: Vec<&[u8]> = head.chunks_exact(RECORD).take(TRIED).collect();
    let sizes_fit = records.iter().all(|r| (1..1 << 31).contains(&u32_at(r, 12)));
    let nexts_fit =
        records.iter().all(|r| i64_at(r, 16) == -1 || (1..1 << 48).contains(&i64_at(r, 16)));
    let clock_goes_on = records.windows(2).all(|pair| u32_at(pair[0], 0) <= u32_at(pair[1], 0));
    records.len() >= 2 && sizes_fit && nexts_fit && clock_goes_on
}

/// The first whole lines that are not blank.
fn lines(head: &[u8], complete: bool) -> Vec<&[u8]> {
    let end = match memchr::memrchr(b'\n', head) {
        _ if complete => head.len(),
        Some(end) => end,
        None => 0,
    };
    let lines = head[..end].split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
    lines.filter(|line| !line.is_empty()).take(TRIED).collect()
}

/// The format by header line; `None` if the line is not a known header.
fn by_header(first: &[u8]) -> Option<Result<Format, Refusal>> {
    const HEADERS: [(&[u8], Format); 8] = [
        (formats::THERMOCLINE_HEADER, Format::ThermoclineCsv),
        (formats::SYSTOR_HEADER, Format::Systor17),
        (formats::CLOUDPHYSICS_HEADER, Format::CloudPhysicsCsv),
        (formats::FIO_HEADER_V2, Format::FioIolog),
        (formats::FIO_HEADER_V3, Format::FioIolog),
        (b"device_id,opcode,offset,length,timestamp", Format::Alibaba),
        (b"Timestamp,Hostname,DiskNumber,Type,Offset,Size", Format::Msr),
        (b"Timestamp,Offset,Size,IOType,VolumeID", Format::Tencent),
    ];
    let known = HEADERS.iter().find(|(header, _)| first.starts_with(header));
    if let Some((_, format)) = known {
        return Some(Ok(*format));
    }
    if formats::biosnoop_header(first)? {
        return Some(Ok(Format::Biosnoop));
    }
    let reason = "is biosnoop output without SECTOR and BYTES columns (bpftrace's biosnoop.bt prints neither), so \
                  it does not say what was written; record with bcc's biosnoop, blktrace, or `perf record -e \
                  block:block_rq_issue`";
    Some(Err((ErrorKind::Unusable, reason.to_owned())))
}

/// The one format whose parser reads the lines and whose values make sense; `None` if no parser reads the lines.
fn by_content(head: &[u8], lines: &[&[u8]]) -> Option<Result<Format, Refusal>> {
    const TOLD_BEFORE: [Format; 5] =
        [Format::Vscsi, Format::FioIolog, Format::FioLog, Format::Blkparse, Format::Ftrace];
    let mut candidates: Vec<(Format, Sample<'_>)> = Format::ALL
        .into_iter()
        .filter(|format| !TOLD_BEFORE.contains(format))
        .map(|format| (format, Sample::take(format, head, lines)))
        .filter(|(_, sample)| sample.is_mostly_read())
        .collect();
    let bad_min = candidates.iter().map(|(_, sample)| sample.bad).min()?;
    candidates.retain(|(_, sample)| sample.bad == bad_min);
    if candidates.len() > 1
        && candidates.iter().any(|(format, sample)| sample.is_plausible(*format))
    {
        candidates.retain(|(format, sample)| sample.is_plausible(*format));
    }
    let names: Vec<&str> = candidates.iter().map(|(format, _)| format.name()).collect();
    Some(match candidates.as_slice() {
        [(format, _)] => Ok(*format),
        _ => Err((
            ErrorKind::Ambiguous,
            format!("could be {}; say which with `--format NAME`", names.join(" or ")),
        )),
    })
}

/// What a format's parser makes of the first lines.
struct Sample<'a> {
    records: Vec<Record<'a>>,
    bad: usize,
}

impl<'a> Sample<'a> {
    fn take(format: Format, head: &[u8], lines: &[&'a [u8]]) -> Self {
        let mut parser = Parser::new(format, head, None);
        let mut sample = Sample { records: Vec::new(), bad: 0 };
        for line in lines {
            match parser.parse(line) {
                Ok(record) => sample.records.extend(record.filter(|record| !record.is_empty())),
                Err(_) => sample.bad += 1,
            }
        }
        sample
    }

    fn is_mostly_read(&self) -> bool {
        !self.records.is_empty() && self.records.len() >= self.bad
    }

    /// Whether the clock and the sizes are what traces of this format have.
    fn is_plausible(&self, format: Format) -> bool {
        const YEAR_2001_NS: u64 = 1_000_000_000_000_000_000;
        const TENANT_DIGITS_MAX: usize = 11;
        let all = |test: fn(&Record<'_>) -> bool| self.records.iter().all(test);
        match format {
            Format::Alibaba | Format::Tencent | Format::Msr => all(|r| r.at >= YEAR_2001_NS),
            Format::ThermoclineCsv => all(|r| r.volume.len() <= TENANT_DIGITS_MAX),
            Format::Femu => all(|r| r.length >= 512),
            Format::DiskSim => self.spacing().is_none_or(|ms| ms < 1_000 * MILLISECOND),
            Format::MqSim => self.spacing().is_none_or(|ns| ns >= 100),
            _ => true,
        }
    }

    /// The mean time between requests in nanoseconds, if there are several times.
    ///
    /// A clock of whole numbers may count ms (DiskSim) or ns (MQSim). Steps of 1000 and more are not ms: that would
    /// be less than a request per second; steps below 100 are not ns: that would be over ten million.
    fn spacing(&self) -> Option<u64> {
        let (first, last) = (self.records.first()?.at, self.records.last()?.at);
        let steps = self.records.len() as u64 - 1;
        (last > first).then(|| (last - first) / steps.max(1))
    }
}

const MILLISECOND: u64 = 1_000_000;

/// Whether a line has nothing but names between its commas.
fn is_csv_header(line: &[u8]) -> bool {
    let is_name = |name: &[u8]| {
        let name = name.trim_ascii();
        name.first().is_some_and(u8::is_ascii_alphabetic) && !name.contains(&b' ')
    };
    let columns = line.split(|&byte| byte == b',');
    columns.clone().count() >= 3 && columns.clone().all(is_name)
}

/// Why a csv with columns of its own cannot be read.
fn unknown_csv(first: &[u8]) -> Refusal {
    const ADDRESSES: [&str; 6] = ["offset", "lba", "lbn", "sector", "addr", "block"];
    let columns = String::from_utf8_lossy(first).to_ascii_lowercase();
    if ADDRESSES.iter().any(|name| columns.contains(name)) {
        let advice = format!(
            "is a csv with the columns {}, which is no known format; convert it to `{CSV}",
            quote(first)
        );
        return (ErrorKind::Unrecognised, advice);
    }
    let reason = format!(
        "is a csv with the columns {}: none is an address, so it cannot tell what is overwritten, which write \
         amplification depends on; record a block trace with offsets, for example by blktrace",
        quote(first)
    );
    (ErrorKind::Unusable, reason)
}

fn unrecognised(head: &[u8]) -> Refusal {
    let first = head.split(|&byte| byte == b'\n').next().unwrap_or(head);
    let detail = format!(
        "is no trace in a known format; it begins with {}. If you know what it is, say so with `--format NAME` \
         (`thermocline lab list formats`); else convert it to `{CSV}",
        quote(first)
    );
    (ErrorKind::Unrecognised, detail)
}
