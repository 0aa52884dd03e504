//! The log's volume is as large as the addresses of a trace reach, and its pool as large as asked: what counts is the
//! data that is there at once.

use thermocline_types::Bytes;
use thermocline_workload::remap::Remap;

use super::flush_tests::Trace;
use crate::{Prefill, Settings};

fn settings(capacity: Bytes) -> Settings {
    Settings { capacity: Some(capacity), ..Settings::default() }
}

#[test]
fn addresses_far_apart_stay_as_they_are() {
    let far = Bytes::gib(8).0 / 4096;
    let lines: Vec<_> = (0..3000_u64).map(|n| ('W', n % 3 * far + n % 40, 1, "a")).collect();
    let trace = Trace::of("far", 10, &lines);
    for prefill in [Prefill::FirstTouch, Prefill::None] {
        for stack in ["log:ideal,unit=1MiB", "log:p5316"] {
            let record =
                trace.try_run(stack, Remap::None, prefill, &settings(Bytes::mib(64))).unwrap();
            assert_eq!(record.host_bytes_written, 3000 * 4096, "{stack}");
        }
    }
}

/// A file system that writes on and on and discards behind itself: 1 GiB of addresses, 16 MiB of them live.
fn wandering() -> Trace {
    let write = |piece: u64| ('W', piece * 256, 256, "a");
    let discard = |piece: u64| ('D', piece * 256, 256, "a");
    let lines =
        (0..1024).flat_map(|n| std::iter::once(write(n)).chain(n.checked_sub(16).map(discard)));
    Trace::of("wandering", 1000, &lines.collect::<Vec<_>>())
}

#[test]
fn data_that_fit_are_taken_wherever_they_wander() {
    let trace = wandering();
    for remap in [Remap::Dense, Remap::None] {
        let settings = settings(Bytes::mib(96));
        let record = trace.try_run("log:ideal,unit=1MiB", remap, Prefill::None, &settings).unwrap();
        assert_eq!(record.host_bytes_written, Bytes::gib(1).0);
        assert!(record.waf.unwrap() < 1.05, "nothing is copied: {:?}", record.waf);
    }
}

#[test]
fn data_that_do_not_fit_are_refused_with_how_much_there_is() {
    let trace = wandering();
    let refused = |prefill, capacity| {
        let stack = "log:ideal,unit=1MiB";
        let run = trace.try_run(stack, Remap::None, prefill, &settings(capacity));
        run.unwrap_err().to_string()
    };
    let error = refused(Prefill::None, Bytes::mib(20));
    assert!(error.contains("17 MiB of data at once, the log"), "{error}");
    let error = refused(Prefill::FirstTouch, Bytes::mib(96));
    assert!(error.contains("1 GiB of data at once, those of the prefill included"), "{error}");
    assert!(error.contains("`prefill` none"), "{error}");
}
