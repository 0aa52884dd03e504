//! `drive probe`: the indirection unit of a drive, by measurement.
//!
//! A write that covers a part of a unit makes the drive read the rest and write the whole unit. Writes of one size are
//! measured twice: at multiples of their size, and shifted by half of it. At the size of the unit the first ones cover
//! units, and each of the second ones covers two halves. From twice that size on both cover the same number of units.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde::Serialize;
use thermocline_types::{Bytes, Rng};

use crate::lab::args::CONVENTIONS;
use crate::progress::Progress;
use crate::table::draw;

/// Sizes of writes. The smallest shifted by its half is at multiples of a block of 4 KiB.
const SIZES: [u64; 6] = [8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10];
/// From how many times as many aligned writes on a shift has a cost. At half of the unit the quotient is 1.5.
const COST: f64 = 1.75;
/// Measurements of each size, of which the median counts.
const ROUNDS: usize = 3;
/// Writes under way.
const DEPTH: usize = 16;
/// Memory of direct writes begins at multiples of this.
const ALIGNED: usize = 4096;

const ABOUT: &str = "\
Writes of one size are measured twice: at multiples of their size, and shifted by half of it. At the size of the
indirection unit a shift costs a read and a write of a second unit; at twice the size it costs nothing. Data is written
first to the whole span. A path that does not exist becomes a file, which is removed at the end: so a drive with a file
system can be probed, without harm. A whole drive shows it better, and loses its data; it takes root and
--yes-destroy /dev/nvme0n1, its name again.

A drive may write from memory for a while, and a short probe then shows no unit: raise --seconds and --span.

Example:
  thermocline drive probe probe.tmp --span 32MiB --seconds 0.02";

/// Arguments of `drive probe`.
#[derive(Args)]
#[command(after_help = format!("{ABOUT}\n\n{CONVENTIONS}"))]
pub struct ProbeArgs {
    /// A drive, or a new file on it
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Destroy the data of the drive, named again
    #[arg(long, value_name = "PATH")]
    yes_destroy: Option<PathBuf>,
    /// Bytes to write to, from the first one on
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    span: Bytes,
    /// Time of each measurement, of which there are 36
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    seconds: f64,
    /// Print JSON, schema thermocline.probe/1
    #[arg(long)]
    json: bool,
}

/// What takes writes.
trait Writable {
    /// Writes per second: `size` bytes each, at random multiples of `size`, each plus `shift`.
    fn rate(&mut self, size: u64, shift: u64) -> io::Result<f64>;
}

/// Writes of one size.
#[derive(Clone, Copy, Debug, Serialize)]
struct ProbeRow {
    size_bytes: u64,
    aligned_per_second: f64,
    shifted_per_second: f64,
    /// Median of aligned over shifted, of each round.
    ratio: f64,
}

/// The output of `--json`.
#[derive(Serialize)]
struct ProbeOutput<'a> {
    schema: &'static str,
    path: &'a Path,
    indirection_unit_bytes: Option<u64>,
    rows: &'a [ProbeRow],
}

/// The largest size at which a shift by its half has a cost.
fn unit(rows: &[ProbeRow]) -> Option<u64> {
    rows.iter().filter(|row| row.ratio >= COST).map(|row| row.size_bytes).max()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures all sizes. `told` gets the share done.
fn measure(media: &mut impl Writable, told: &mut dyn FnMut(f64)) -> io::Result<Vec<ProbeRow>> {
    let mut rates = [const { [Vec::new(), Vec::new()] }; SIZES.len()];
    for round in 0..ROUNDS {
        for (number, (&size, rates)) in SIZES.iter().zip(&mut rates).enumerate() {
            for (rates, shift) in rates.iter_mut().zip([0, size / 2]) {
                rates.push(media.rate(size, shift)?);
            }
            told((round * SIZES.len() + number + 1) as f64 / (ROUNDS * SIZES.len()) as f64);
        }
    }
    let row = |(&size_bytes, [aligned, shifted]): (&u64, [Vec<f64>; 2])| ProbeRow {
        size_bytes,
        ratio: median(aligned.iter().zip(&shifted).map(|(one, other)| one / other).collect()),
        aligned_per_second: median(aligned),
        shifted_per_second: median(shifted),
    };
    Ok(SIZES.iter().zip(rates).map(row).collect())
}

/// A file or a drive, with writes past the page cache.
struct Probed {
    file: File,
    span: Bytes,
    time: Duration,
    /// Random bytes, with room for an aligned write.
    data: Vec<u8>,
    rng: Rng,
}

impl Probed {
    fn data(&self, len: usize) -> &[u8] {
        let start = self.data.as_ptr().align_offset(ALIGNED);
        &self.data[start..start + len]
    }

    /// Writes the whole span once: a drive does not read what was never written.
    fn fill(&self) -> io::Result<()> {
        let piece = self.data(1 << 20);
        for at in (0..self.span.0).step_by(piece.len()) {
            self.file.write_all_at(&piece[..(self.span.0 - at).min(1 << 20) as usize], at)?;
        }
        self.file.sync_all()
    }
}

impl Writable for Probed {
    fn rate(&mut self, size: u64, shift: u64) -> io::Result<f64> {
        let (end, begun) = (Instant::now() + self.time, Instant::now());
        let seeds: [u64; DEPTH] = std::array::from_fn(|_| self.rng.next_u64());
        let (data, places) = (self.data(size as usize), self.span.0 / size - 1);
        let writes = |seed| -> io::Result<u64> {
            let (mut rng, mut done) = (Rng::new(seed), 0);
            while Instant::now() < end {
                self.file.write_all_at(data, rng.below(places) * size + shift)?;
                done += 1;
            }
            Ok(done)
        };
        let all: io::Result<u64> = std::thread::scope(|scope| {
            let writers = seeds.map(|seed| scope.spawn(move || writes(seed)));
            let ended = writers.into_iter().map(|one| one.join());
            ended.map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).sum()
        });
        let all = all?;
        self.file.sync_data()?;
        Ok(all as f64 / begun.elapsed().as_secs_f64())
    }
}

/// A file that is removed at the end.
struct Removed(Option<PathBuf>);

impl Drop for Removed {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The caller learns of it by the file.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Opens what is to be written to. A drive in use, or one that is not named again, is refused.
fn open(args: &ProbeArgs) -> anyhow::Result<(Probed, Removed)> {
    let path = &args.path;
    ensure!(args.seconds > 0.0, "--seconds {}: must be above 0", args.seconds);
    let least = Bytes(64 * SIZES[SIZES.len() - 1]);
    ensure!(args.span >= least, "--span {}: must be {least} or more", args.span);
    let found = std::fs::metadata(path).ok();
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let mut flags = rustix::fs::OFlags::DIRECT;
    let mut removed = Removed(None);
    match found {
        None => {
            options.create_new(true);
            removed.0 = Some(path.clone());
        }
        Some(found) if !found.file_type().is_block_device() => {
            bail!("{} exists: name a drive, or a file that does not exist", path.display());
        }
        Some(_) if args.yes_destroy.as_ref() != Some(path) => bail!(
            "all data on {path} would be lost: say --yes-destroy {path}, or name a new file on a file system of the \
             drive",
            path = path.display()
        ),
        // Without O_CREAT, O_EXCL refuses a block device in use.
        Some(_) => flags |= rustix::fs::OFlags::EXCL,
    }
    let file = options.custom_flags(flags.bits() as i32).open(path);
    let file =
        file.with_context(|| format!("{} cannot be opened past the page cache", path.display()))?;
    let mut rng = Rng::new(1);
    let data = (0..(1 << 20) + ALIGNED).map(|_| rng.next_u64() as u8).collect();
    let time = Duration::from_secs_f64(args.seconds);
    Ok((Probed { file, span: args.span, time, data, rng }, removed))
}

/// Measures the indirection unit, and prints it.
///
/// # Errors
/// When the drive cannot be opened or written, or its data is not given up.
pub fn probe(args: &ProbeArgs) -> anyhow::Result<()> {
    let (mut media, _removed) = open(args)?;
    let bar = Progress::default().bar("probe");
    let written = || format!("{} cannot be written", args.path.display());
    media.fill().with_context(written)?;
    let rows = measure(&mut media, &mut |share| bar.set(share)).with_context(written)?;
    drop(bar);
    let unit = unit(&rows);
    let mut out = io::stdout().lock();
    if args.json {
        let (schema, path) = ("thermocline.probe/1", args.path.as_path());
        let output = ProbeOutput { schema, path, indirection_unit_bytes: unit, rows: &rows };
        writeln!(out, "{}", serde_json::to_string_pretty(&output)?)?;
        return Ok(());
    }
    let heads = ["writes of", "aligned, per second", "shifted by half", "aligned / shifted"];
    let cells = |row: &ProbeRow| {
        let [aligned, shifted] = [row.aligned_per_second, row.shifted_per_second];
        let ratio = format!("{:.2}", row.ratio);
        vec![
            Bytes(row.size_bytes).to_string(),
            format!("{aligned:.0}"),
            format!("{shifted:.0}"),
            ratio,
        ]
    };
    let lines: Vec<Vec<String>> = rows.iter().map(cells).collect();
    writeln!(out, "{}", draw(&heads.map(str::to_owned), &lines))?;
    match unit {
        Some(unit) => writeln!(
            out,
            "indirection unit: {}: the largest size at which a shift by half has a cost (aligned / shifted of {COST} \
             or more)",
            Bytes(unit)
        )?,
        None => writeln!(
            out,
            "indirection unit: 4 KiB or less, or the drive wrote from memory (--seconds, --span): no size shows the \
             cost of a shift"
        )?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use thermocline_nand::profile::builtin;
    use thermocline_nand::{Drive, Profile};
    use thermocline_types::{Op, Request, StreamId, TenantId, Time};

    use super::*;

    /// A simulated drive in virtual time.
    struct Virtual {
        drive: Drive,
        span: Bytes,
        now: Time,
        rng: Rng,
    }

    impl Virtual {
        fn new(profile: &str) -> Virtual {
            let profile = Profile::from_toml(profile, builtin(profile).expect("a drive"));
            let drive = Drive::new(&profile.expect("a profile"), Some(Bytes::gib(1)), 1);
            let span = Bytes::mib(512);
            let (drive, rng) = (drive.expect("a drive"), Rng::new(1));
            let mut media = Virtual { drive, span, now: Time::ZERO, rng };
            (0..span.0 / (1 << 20)).for_each(|at| media.now = media.write(at << 20, 1 << 20));
            media
        }

        fn write(&mut self, at: u64, length: u64) -> Time {
            let request = Request {
                at: self.now,
                offset: Bytes(at),
                length: Bytes(length),
                tenant: TenantId(0),
                stream: StreamId::UNKNOWN,
                op: Op::Write,
                outstanding: None,
            };
            self.drive.submit(self.now, &request, 0).expect("it writes")
        }
    }

    impl Writable for Virtual {
        fn rate(&mut self, size: u64, shift: u64) -> io::Result<f64> {
            let (writes, places, begun) = (2000, self.span.0 / size - 1, self.now);
            let mut due = BinaryHeap::from([Reverse(self.now); DEPTH]);
            for _ in 0..writes {
                let Reverse(next) = due.pop().expect("some are under way");
                self.now = self.now.max(next);
                let at = self.rng.below(places) * size + shift;
                let end = self.write(at, size);
                due.push(Reverse(end));
            }
            Ok(f64::from(writes) / self.now.since(begun).as_secs_f64())
        }
    }

    #[test]
    fn the_unit_of_simulated_drives_is_found() {
        for (drive, expected) in
            [("p5316", Some(64 << 10)), ("p5336", Some(16 << 10)), ("pm9d3", None)]
        {
            let rows = measure(&mut Virtual::new(drive), &mut |_| ()).expect("it writes");
            assert_eq!(unit(&rows), expected, "{drive}: {rows:#?}");
        }
    }
}
