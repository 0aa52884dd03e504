//! Tests of logs and what they show.

use thermocline_nand::Profile;
use thermocline_types::Bytes;

use super::{Curve, CurveComparison, Forecast, Onset, RealDrive, Shown, Sourced, predict, read};
use crate::Stack;

/// The curve in a log of `text`, or what is wrong with it.
fn curve(text: &str) -> Result<Curve, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("drive.log");
    std::fs::write(&file, text).unwrap();
    read(&file).map_err(|error| error.to_string())
}

fn shown(text: &str) -> Shown {
    Shown::of(&curve(text).unwrap(), Bytes(1000 << 20))
}

const FORMS: [&str; 5] = [
    "Mon Nov 30 10:00:00\nHost Bytes with Metadata Written (HBMW): 5,000\n\
     Media Bytes with Metadata Written (MBMW): 6000\nMedia Bytes Erased (MBE): 0\n\
     12:00 Host Bytes with Metadata Written (HBMW) : 7000\n\
     Media Bytes with Metadata Written (MBMW) : 9000\nMedia Bytes Erased (MBE) : 4096\n",
    "{\n  \"hbmw\":5000,\n  \"mbmw\":6000,\n  \"mbe\":0\n}\n12:00\n\
     {\"hbmw\": \"7000\", \"mbmw\": \"9000\", \"mbe\": 4096}",
    "{\"host_bytes\":5000,\"media_bytes\":6000,\"erased_bytes\":0,\"host_bytes_per_second\":1.5}\n\
     {\"host_bytes\":7000,\"media_bytes\":9000,\"erased_bytes\":4096,\"waf\":1.5}\n",
    "seconds,host_bytes,media_bytes,erased_bytes\n0,5000,6000,0\n60,7000,9000,4096\n",
    "mbmw,hbmw\n1,1\n90000,90000\n6000,5000\n9000,7000\n",
];

#[test]
fn each_form_of_a_log_is_read() {
    for text in FORMS {
        let curve = curve(text).unwrap();
        assert!(curve.points().eq([[0.0, 0.0], [2000.0, 3000.0]]), "{text}: {curve:?}");
        let erased = !text.starts_with("mbmw");
        assert_eq!(curve.erases().next().is_some(), erased, "{text}");
    }
}

#[test]
fn a_log_without_counters_is_refused() {
    let check = |text: &str, said: &str| {
        let error = curve(text).unwrap_err();
        assert!(error.contains("drive.log") && error.contains(said), "{text}: {error}");
    };
    check("", "neither output of `nvme fdp stats` nor a table");
    check("a,b\n1,2\n", "it has a, b");
    check("host_bytes,media_bytes\n1,x\n", "`x` as `media_bytes`");
    check("host_bytes,media_bytes\n5,5\n", "has 1 counts");
    check("host_bytes,media_bytes\n5,5\n5,6\n", "without host writes");
    check("x (HBMW): none\n", "has 0 counts");
}

/// A table of fills and media fills of a drive of 1000 MiB, and MiB erased.
fn table(rows: &[(f64, f64, u64)]) -> String {
    let bytes = |fills: f64| (fills * 1000.0) as u64 * (1 << 20);
    let row = |(host, media, erased): &(f64, f64, u64)| {
        format!("{},{},{}\n", bytes(*host), bytes(*media), erased << 20)
    };
    let rows: String = rows.iter().map(row).collect();
    format!("hbmw,mbmw,mbe\n0,0,0\n{rows}")
}

#[test]
fn the_onset_of_relocation_and_the_erase_quantum_are_found() {
    let found = shown(&table(&[(0.9, 0.9, 0), (1.18, 1.18, 84), (1.2, 1.21, 126)]));
    assert_eq!(found.onset, Onset::Between { low: 1.18, high: 1.2 });
    assert_eq!(found.unit, Some(Bytes(42 << 20)));
    // One per cent for metadata is no relocation.
    let found = shown(&table(&[(0.9, 0.909, 7), (1.4, 1.414, 14), (1.5, 1.525, 21)]));
    assert_eq!(found.onset, Onset::Between { low: 1.4, high: 1.5 });
    assert!((found.fills - 1.5).abs() < 1e-9);
    let found = shown(&table(&[(0.5, 0.7, 0), (1.5, 2.5, 0)]));
    assert_eq!((found.onset, found.unit), (Onset::AtOnce, None));
    let found = shown(&table(&[(3.0, 3.0, 200)]));
    assert_eq!((found.onset, found.unit), (Onset::NotWithin(3.0), None), "5 units are too few");
}

/// A drive of 128 MiB.
fn drive(op: f64, apart: bool) -> RealDrive {
    RealDrive {
        name: "a \"drive\"".to_owned(),
        capacity: Sourced::new(Bytes::mib(128), "stated"),
        op: Sourced::new(op, "from\nthe log"),
        unit: Sourced::new(Bytes::kib(512), "stated"),
        apart: Sourced::new(apart, "assumed"),
        handles: Some(Sourced::new(3, "stated")),
        buffer: Some(Sourced::new(Bytes::kib(64), "stated")),
    }
}

fn forecast(op: f64, seed: u64) -> Forecast {
    let profile = Profile::from_toml("drive.toml", &drive(op, true).profile()).unwrap();
    let (stack, generator) = (Stack::raw(profile), "uniform".to_owned());
    Forecast { stack, generator, span: Bytes::mib(128), seed }
}

#[test]
fn a_profile_has_each_number_and_its_source() {
    let profile = Profile::from_toml("drive.toml", &drive(0.2, false).profile()).unwrap();
    assert_eq!((profile.name.as_str(), profile.capacity), ("a \"drive\"", Bytes::mib(128)));
    assert!((profile.op - 0.2).abs() < 1e-9 && !profile.gc.separate);
    assert_eq!(profile.product_unit(), Some(Bytes::kib(512)));
    assert_eq!(profile.fdp.as_ref().map(|fdp| fdp.handles), Some(3));
    assert_eq!(profile.buffer.as_ref().map(|buffer| buffer.size), Some(Bytes::kib(64)));
    assert_eq!(profile.source["op"], "from\nthe log");
}

/// A simulated drive relocates from where its spare was derived from, and predicts its own curve with another seed.
#[test]
fn a_curve_gives_back_the_drive_that_wrote_it() {
    let op = RealDrive::op_of_onset(1.25, Bytes::mib(128), Bytes::kib(512));
    let blank = Curve::new(vec![[0.0, 0.0], [6.0 * 134_217_728.0, 6.0 * 134_217_728.0]], vec![]);
    let blank = blank.unwrap();
    let mut last = 0.0;
    let (written, against_blank) =
        predict(&blank, &forecast(op, 1), &mut |share| last = share).unwrap();
    assert!(last > 0.5, "{last}");
    assert!(against_blank.median_error > 0.5, "{against_blank:?}");
    let Onset::Between { low, high } = Shown::of(&written, Bytes::mib(128)).onset else {
        panic!("{written:?}")
    };
    assert!(low < 1.26 && high > 1.24 && high - low < 0.03, "{low} {high}");
    let (_, again) = predict(&written, &forecast(op, 2), &mut |_| ()).unwrap();
    assert!(again.median_error < 0.01, "{again:?}");
    let (_, other) = predict(&written, &forecast(op + 0.1, 2), &mut |_| ()).unwrap();
    assert!(other.median_error > 0.1, "{other:?}");
}

/// A drive that was written before has its steady state from the first tenth on, and a curve beyond what is simulated
/// goes on as it was.
#[test]
fn a_drive_that_was_written_starts_aged() {
    let fills = |fills: f64| fills * 134_217_728.0;
    let written =
        Curve::new(vec![[0.0, 0.0], [fills(0.5), fills(1.5)], [fills(60.0), fills(180.0)]], vec![]);
    let (curve, CurveComparison { predicted, .. }) =
        predict(&written.unwrap(), &forecast(0.25, 1), &mut |_| ()).unwrap();
    assert!((curve.host_bytes() / fills(60.0) - 1.0).abs() < 1e-6);
    assert!((predicted[0] / predicted[9] - 1.0).abs() < 0.05, "{predicted:?}");
    assert!(predicted[0] > 2.0, "{predicted:?}");
}
