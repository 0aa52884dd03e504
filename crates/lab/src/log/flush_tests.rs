//! Flushes of a trace are barriers, on every kind of stack, at any depth and speed.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use thermocline_record::RunRecord;
use thermocline_types::Bytes;
use thermocline_workload::remap::Remap;
use thermocline_workload::trace;

use crate::{Input, Pacing, Prefill, Prepared, Settings, Stack, run};

/// A trace in a file of its own, removed when this is dropped.
pub struct Trace(PathBuf);

impl Trace {
    /// Of `lines` of `op,block,blocks,volume`, `gap_us` apart.
    pub fn of(name: &str, gap_us: u64, lines: &[(char, u64, u64, &str)]) -> Trace {
        // Tests of one process run side by side.
        static TRACES: AtomicU32 = AtomicU32::new(0);
        let number = TRACES.fetch_add(1, Ordering::Relaxed);
        let file = format!("thermocline-{name}-{}-{number}.csv", std::process::id());
        let path = std::env::temp_dir().join(file);
        let mut out = std::fs::File::create(&path).expect("a file");
        writeln!(out, "timestamp_us,op,offset_bytes,length_bytes,volume").expect("written");
        for (index, (op, block, blocks, volume)) in lines.iter().enumerate() {
            let (at, offset, length) = (index as u64 * gap_us, block * 4096, blocks * 4096);
            writeln!(out, "{at},{op},{offset},{length},{volume}").expect("written");
        }
        Trace(path)
    }

    /// The record of one pass on `stack`.
    pub fn run(&self, stack: &str, prefill: Prefill, settings: &Settings) -> RunRecord {
        self.try_run(stack, Remap::Dense, prefill, settings).expect("it runs")
    }

    pub fn try_run(
        &self,
        stack: &str,
        remap: Remap,
        prefill: Prefill,
        settings: &Settings,
    ) -> Result<RunRecord, crate::Error> {
        self.passes(1, stack, remap, prefill, settings)
    }

    fn passes(
        &self,
        loops: u32,
        stack: &str,
        remap: Remap,
        prefill: Prefill,
        settings: &Settings,
    ) -> Result<RunRecord, crate::Error> {
        let input = Input::Trace {
            path: self.0.clone(),
            options: trace::Options::default(),
            remap,
            loops,
            ignore_trims: false,
        };
        let stack = Stack::parse(stack, &[])?;
        let (unit, capacity) = (stack.profile.mapping_unit, settings.capacity);
        let mut workload = Prepared::thin(input, Some(prefill), unit, capacity)?;
        run(&mut workload, &stack, settings, &mut |_| {})
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The same 64 blocks written and flushed, again and again: as a database does its log and its hot pages.
fn database(name: &str, gap_us: u64) -> Trace {
    let round = |_| (0..64).map(|block| ('W', block * 16, 16, "a")).chain([('F', 0, 0, "a")]);
    Trace::of(name, gap_us, &(0..40).flat_map(round).collect::<Vec<_>>())
}

/// Blocks that memory above the drive, and its own, kept from being written.
fn absorbed(record: &RunRecord) -> u64 {
    let drive = record.media_bytes_written.absorbed_in_buffer;
    let log = record.engine_bytes_written.get("capacity");
    log.map_or(drive, |causes| record.host_bytes_written - causes["host"])
}

fn paces() -> Vec<Settings> {
    let depth = |depth| Some(Pacing::QueueDepth(depth));
    let speed = |speed| Some(Pacing::Clock { speed });
    let all = [depth(1), depth(32), depth(1024), None, speed(1.0), speed(1e4)];
    let capacity = Some(Bytes::mib(256));
    all.map(|pacing| Settings { pacing, capacity, ..Settings::default() }).into()
}

#[test]
fn memory_absorbs_nothing_across_a_flush_at_any_pace() {
    let trace = database("absorbed", 5);
    for stack in ["log:ideal,unit=1MiB", "log:p5316", "log:zn540", "log:p5316,pool.write_cache=off"]
    {
        for settings in paces() {
            let record = trace.run(stack, Prefill::FirstTouch, &settings);
            let pacing = settings.pacing;
            assert_eq!(absorbed(&record), 0, "{stack} at {pacing:?}: {:?}", record.notes);
            assert_eq!(record.requests, 40 * 65, "{stack} at {pacing:?}");
        }
    }
}

#[test]
fn without_flushes_memory_absorbs_what_is_written_again_soon_and_the_run_says_so() {
    let writes = (0..40).flat_map(|_| (0..64).map(|block| ('W', block * 16, 16, "a")));
    let trace = Trace::of("unflushed", 5, &writes.collect::<Vec<_>>());
    let settings = Settings { capacity: Some(Bytes::mib(256)), ..Settings::default() };
    let record = trace.run("log:p5316", Prefill::FirstTouch, &settings);
    assert!(absorbed(&record) > record.host_bytes_written / 4, "{:?}", record.engine_bytes_written);
    let told = |record: &RunRecord| record.notes.iter().any(|note| note.contains("no flushes"));
    assert!(told(&record), "{:?}", record.notes);
    let flushed = database("flushed", 5).run("log:p5316", Prefill::FirstTouch, &settings);
    assert!(!told(&flushed), "{:?}", flushed.notes);
}

#[test]
fn a_pass_that_ends_with_what_was_held_back_counts_as_a_pass() {
    let pairs = (0..500).flat_map(|block| [('F', 0, 0, "a"), ('W', block * 40, 40, "a")]);
    let trace = Trace::of("passes", 5, &pairs.collect::<Vec<_>>());
    for stack in ["raw:micron2300", "raw:ideal,unit=1MiB,op=0.2", "log:p5316"] {
        let pacing = Some(Pacing::QueueDepth(32));
        let settings = Settings { pacing, capacity: Some(Bytes::mib(128)), ..Settings::default() };
        let record = trace.passes(5, stack, Remap::Dense, Prefill::FirstTouch, &settings).unwrap();
        assert!(record.steady_state.reached, "{stack}: five equal passes, {:?}", record.waf);
    }
}

/// Each write is followed by a flush, so there is never more than one request to be in flight.
#[test]
fn who_flushes_after_each_write_is_no_faster_at_depth_32() {
    let pairs = (0..500).flat_map(|block| [('W', block, 1, "a"), ('F', 0, 0, "a")]);
    let trace = Trace::of("pairs", 1, &pairs.collect::<Vec<_>>());
    for stack in ["raw:micron2300", "tag:pm9d3", "log:p5316", "log:p5316,pool.write_cache=off"] {
        let seconds = |pacing| {
            let capacity = Some(Bytes::mib(256));
            let settings = Settings { pacing: Some(pacing), capacity, ..Settings::default() };
            trace.run(stack, Prefill::FirstTouch, &settings).bandwidth.expect("timed").seconds
        };
        let one = seconds(Pacing::QueueDepth(1));
        for pacing in [Pacing::QueueDepth(32), Pacing::Clock { speed: 1e6 }] {
            let many = seconds(pacing);
            assert!((many / one - 1.0).abs() < 0.01, "{stack}, {pacing:?}: {many} s, {one} s");
        }
    }
}

#[test]
fn a_volume_does_not_wait_for_the_flushes_of_another() {
    let of =
        |volume| (0..400).flat_map(move |block| [('W', block, 1, volume), ('F', 0, 0, volume)]);
    let seconds = |name, lines: &[(char, u64, u64, &str)]| {
        let pacing = Some(Pacing::QueueDepth(8));
        let settings = Settings { pacing, capacity: Some(Bytes::mib(256)), ..Settings::default() };
        let trace = Trace::of(name, 0, lines);
        trace.run("raw:micron2300", Prefill::FirstTouch, &settings).bandwidth.unwrap().seconds
    };
    let one = seconds("one", &of("a").chain(of("a")).collect::<Vec<_>>());
    let both: Vec<_> = of("a").zip(of("b")).flat_map(|(a, b)| [a, b]).collect();
    let two = seconds("two", &both);
    assert!(two < 0.75 * one, "two volumes take {two} s, one that writes as much {one} s");
}

/// A drive whose buffer does not survive a power cut programs it for a flush; one whose buffer does keeps it.
#[test]
fn a_drive_absorbs_across_flushes_only_what_no_power_cut_takes() {
    let trace = database("buffer", 5);
    for settings in paces() {
        let waf = |protected: bool| {
            let stack = format!("raw:pm9d3,buffer.power_loss_protection={protected}");
            trace.run(&stack, Prefill::FirstTouch, &settings)
        };
        assert_eq!(absorbed(&waf(false)), 0, "{:?}", settings.pacing);
        let protected = waf(true);
        assert!(absorbed(&protected) > 0);
        assert!(protected.notes.iter().any(|note| note.contains("across flushes")));
    }
}
