use super::*;
use crate::Input;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thermocline_types::Bytes;
use thermocline_workload::synthetic::{Limit, Options, Spec};

#[test]
fn a_drive_that_falls_behind_the_clock_is_measured_to_its_last_completion() {
    // 32 KiB per program of 575 us on 16 dies; a million writes of 4 KiB per second is 4.5 times that.
    let dies = 16.0 * 32_768.0 / 575e-6;
    let stack = Stack::parse("raw:micron2300", &[]).unwrap();
    let span = Bytes::mib(128);
    let limit = Limit::drive_writes(2.0, span).unwrap();
    let options = Options { rate: Some(1e6), ..Options::new(span, limit) };
    let input = Input::Synthetic { spec: Spec::load("seq").unwrap(), options };
    let mut workload = Prepared::new(input, None, stack.profile.mapping_unit, None).unwrap();
    let record = run(&mut workload, &stack, &Settings::default(), &mut |_| {}).unwrap();
    let bandwidth = record.bandwidth.unwrap();
    let share = bandwidth.host_write_bytes_per_second / dies;
    assert!((0.95..1.03).contains(&share), "{share} of what the dies can take");
    let last = record.series.last().unwrap();
    assert!((last.seconds - bandwidth.seconds).abs() < 1e-9);
}

/// What buffers and the log's memory hold at the end of a short run has not been written yet.
#[test]
fn rates_of_short_runs_are_no_more_than_the_media_can_program() {
    for stack in ["raw:p5316", "raw:micron2300", "log:p5316", "log:micron2300"] {
        // The log's memory takes all of less in no time, which has no rate.
        for written in [Bytes::mib(51), Bytes::mib(100)] {
            let stack = Stack::parse(stack, &[]).unwrap();
            let io_size = Some(Bytes::kib(128));
            let limit = Limit::BytesWritten(written);
            let options = Options { io_size, ..Options::new(Bytes::mib(256), limit) };
            let input = Input::Synthetic { spec: Spec::load("seq").unwrap(), options };
            let granule = stack.profile.mapping_unit;
            let mut workload = Prepared::new(input, None, granule, None).unwrap();
            let settings = Settings { utilisation: 0.8, ..Settings::default() };
            let record = run(&mut workload, &stack, &settings, &mut |_| {}).unwrap();
            let rates = record.bandwidth.unwrap();
            let (run, all) = (rates.seconds, rates.seconds_to_media.unwrap());
            let share = rates.share_of_theoretical().unwrap();
            let text = &stack.text;
            assert!((0.3..1.02).contains(&share), "{text}: {share} in {all} s, {run} s of the run");
            assert!(all > run, "{text}: {all}, {run}");
            let rate = record.host_bytes_written as f64 / all;
            assert!((rates.host_write_bytes_per_second / rate - 1.0).abs() < 1e-9);
        }
    }
}

#[test]
fn a_run_that_is_told_to_stop_is_measured_so_far_and_never_steady() {
    for stack in ["raw:ideal", "log:ideal,unit=512KiB,garbage=0.3"] {
        let stack = Stack::parse(stack, &[]).unwrap();
        let span = Bytes::mib(64);
        let options = Options::new(span, Limit::drive_writes(20.0, span).unwrap());
        let input = Input::Synthetic { spec: Spec::load("uniform").unwrap(), options };
        let mut workload = Prepared::new(input, None, Bytes::BLOCK, None).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        workload.stop_on(Arc::clone(&stop));
        let mut progress = |share| stop.store(share > 0.75, Ordering::Relaxed);
        let record = run(&mut workload, &stack, &Settings::default(), &mut progress).unwrap();
        let done = record.interrupted.unwrap();
        assert!((0.75..0.8).contains(&done), "{done}");
        let written = record.host_bytes_written as f64 / (20.0 * span.as_f64());
        assert!((written - done).abs() < 0.01, "{written} of it was written");
        assert!(record.waf.is_some() && !record.steady_state.reached);
        assert!(record.notes.iter().any(|note| note.starts_with("interrupted at 7")));
        stop.store(true, Ordering::Relaxed);
        let none = run(&mut workload, &stack, &Settings::default(), &mut |_| {});
        assert!(matches!(none, Err(Error::Interrupted)), "it is not even filled");
    }
}

/// A drive that half of is data at rest has all of its spare for the other half.
#[test]
fn data_at_rest_fills_the_drive_on_every_stack_and_is_never_moved_by_much() {
    let record = |stack: &str, at_rest: f64| {
        let stack = Stack::parse(stack, &[]).unwrap();
        let span = Bytes::mib(64);
        let options = Options::new(span, Limit::drive_writes(8.0, span).unwrap());
        let input = Input::Synthetic { spec: Spec::load("uniform").unwrap(), options };
        let workload = Prepared::new(input, None, Bytes::BLOCK, None).unwrap();
        let mut workload = workload.with_data_at_rest(at_rest).unwrap();
        run(&mut workload, &stack, &Settings::default(), &mut |_| {}).unwrap()
    };
    let half = record("raw:ideal,unit=256KiB,op=0.15", 0.5);
    assert_eq!(half.prefill_bytes_written, Bytes::mib(128).0);
    assert_eq!(half.device.capacity_bytes, Bytes::mib(128).0);
    let (half, spare) =
        (half.waf.unwrap(), record("raw:ideal,unit=256KiB,op=0.3", 0.0).waf.unwrap());
    assert!((half / spare - 1.0).abs() < 0.06, "{half} against {spare} with all of the spare");
    let log = record("log:ideal,unit=512KiB,garbage=0.3", 0.5);
    assert_eq!(log.prefill_bytes_written, Bytes::mib(128).0);
}

/// The law of interactive response time: X = N / (R + Z) (Denning and Buzen, Computing Surveys 1978).
#[test]
fn clients_that_think_ask_for_as_much_as_the_law_says() {
    for stack in ["raw:micron2300", "log:micron2300,unit=1MiB,op=0.5"] {
        let stack = Stack::parse(stack, &["pool.write_cache=off".to_owned()]).unwrap();
        let options =
            Options { read_share: 0.9, ..Options::new(Bytes::mib(64), Limit::Requests(4000)) };
        let input = Input::Synthetic { spec: Spec::load("uniform").unwrap(), options };
        let mut workload = Prepared::new(input, None, Bytes::BLOCK, None).unwrap();
        let pacing =
            Some(Pacing::Clients { count: 8, think: thermocline_types::Time::micros(5000) });
        let settings = Settings { pacing, ..Settings::default() };
        let record = run(&mut workload, &stack, &settings, &mut |_| {}).unwrap();
        let latencies = record.latency_ns.unwrap();
        let mean: f64 =
            latencies.values().map(|l| l.mean.unwrap_or(0.0) * l.count as f64).sum::<f64>()
                / 4000.0;
        let expected = 8.0 / (mean / 1e9 + 5e-3);
        let found = record.bandwidth.unwrap().requests_per_second;
        assert!((found / expected - 1.0).abs() < 0.05, "{found} against {expected}");
    }
}

/// Clients do not think while the volume is filled: no thought of the fill delays the first commits.
#[test]
fn a_database_whose_clients_think_commits_once_a_thought() {
    for stack in ["raw:micron2300", "log:micron2300,unit=1MiB,op=0.5"] {
        let seconds = |think: &str| {
            let stack = Stack::parse(stack, &[]).unwrap();
            let options = Options::new(Bytes::mib(256), Limit::BytesWritten(Bytes::mib(16)));
            let spec = Spec::load(&format!("btree:pool=50%,think={think}")).unwrap();
            let input = Input::Synthetic { spec, options };
            let mut workload = Prepared::new(input, None, Bytes::BLOCK, None).unwrap();
            let settings = Settings { utilisation: 0.7, ..Settings::default() };
            let record = run(&mut workload, &stack, &settings, &mut |_| {}).unwrap();
            let flushes = record.latency_ns.unwrap()["flush"].count;
            (record.bandwidth.unwrap().seconds, flushes as f64)
        };
        let ((fast, _), (slow, flushes)) = (seconds("1us"), seconds("20ms"));
        let thought = (slow - fast) / flushes;
        let share = thought / 20e-3;
        assert!((0.8..1.2).contains(&share), "{stack}: {thought} s for each of {flushes}");
    }
}
