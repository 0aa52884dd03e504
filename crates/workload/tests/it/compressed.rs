//! Compression is found by content, in one piece or several, and damage is reported.

use std::io::Write;

use thermocline_workload::trace::{ErrorKind, Options, open};

use crate::{drain, read, samples};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

/// A trace long enough to span many buffers.
fn long_csv() -> Vec<u8> {
    (0..100_000_u64)
        .flat_map(|i| {
            format!("{},W,{},4096\n", i * 7, i * 2_654_435_761 % 1_000_003 * 4096).into_bytes()
        })
        .collect()
}

#[test]
fn gzip_and_zstd_of_every_sample_read_like_the_plain_file() {
    for sample in samples::all() {
        for packed in [gzip(&sample.bytes), zst(&sample.bytes)] {
            let requests = read(&packed, &Options::default()).unwrap();
            assert_eq!(requests, sample.requests, "{}", sample.format);
        }
    }
}

#[test]
fn files_made_of_several_members_are_read_to_the_end() {
    let bytes = long_csv();
    let (first, second) = bytes.split_at(bytes.len() / 3);
    let plain = read(&bytes, &Options::default()).unwrap();
    assert_eq!(plain.len(), 100_000);
    for pack in [gzip, zst] {
        let packed = [pack(first), pack(second)].concat();
        assert_eq!(read(&packed, &Options::default()).unwrap(), plain);
    }
}

#[test]
fn the_name_of_a_file_says_nothing_about_its_compression() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.csv");
    let bytes = long_csv();
    std::fs::write(&path, gzip(&bytes)).unwrap();
    let mut trace = open(&path, &Options::default()).unwrap();
    let mut batch = Vec::new();
    thermocline_workload::Source::fill(&mut trace, &mut batch).unwrap();
    let early = thermocline_workload::Source::fraction_done(&trace);
    assert_eq!(batch.len() + drain(&mut trace).unwrap().len(), 100_000);
    let late = thermocline_workload::Source::fraction_done(&trace);
    assert!((0.0..1.0).contains(&early) && late >= 1.0, "{early} {late}");
}

#[test]
fn truncation_and_corruption_are_told_after_what_could_be_read() {
    for (pack, name) in [(gzip as fn(&[u8]) -> Vec<u8>, "gzip"), (zst, "zstd")] {
        let packed = pack(&long_csv());
        let error = read(&packed[..packed.len() - 10], &Options::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        assert!(
            error.to_string().contains(name) && error.to_string().contains("truncated"),
            "{error}"
        );
        let mut broken = packed.clone();
        for byte in &mut broken[packed.len() / 2..packed.len() / 2 + 64] {
            *byte ^= 0x5a;
        }
        // Flipped bytes may decode to wrong text before the checksum is met.
        let error = read(&broken, &Options::default()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Damaged | ErrorKind::BadRecord), "{error}");
        let stub = read(&packed[..12], &Options::default()).unwrap_err();
        assert_eq!(stub.kind(), ErrorKind::Damaged, "{stub}");
    }
}

#[test]
fn a_short_truncated_file_is_still_recognised_and_then_reported() {
    let packed = gzip(b"timestamp_us,op,offset_bytes,length_bytes\n0,W,0,4096\n1,W,4096,4096\n");
    let error = read(&packed[..packed.len() - 6], &Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}
