//! No bytes make a reader panic, and what it accepts is always in range and in order.

use proptest::prelude::*;
use thermocline_types::Op;
use thermocline_workload::trace::{Format, Options};

use crate::{read, samples};

/// Reads `bytes` as `format`, or as what they look like, and checks what comes out.
fn survives(bytes: &[u8], format: Option<Format>) {
    for skip_bad in [false, true] {
        let options = Options { format, skip_bad, ..Options::default() };
        let Ok(requests) = read(bytes, &options) else { continue };
        assert!(requests.iter().map(|r| r.at).is_sorted());
        for request in requests {
            assert_eq!(request.length.get() == 0, request.op == Op::Flush);
            let end = request.offset.get().checked_add(request.length.get());
            assert!(end.is_some_and(|end| end <= 1 << 63), "{request:?}");
        }
    }
}

/// Pieces that get further into the parsers than random bytes do.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(",".to_owned()),
        Just(" ".to_owned()),
        Just("\n".to_owned()),
        Just("+".to_owned()),
        Just("W".to_owned()),
        Just("18446744073709551615".to_owned()),
        Just("9223372036854775808".to_owned()),
        Just("block_rq_issue: 8,0 ".to_owned()),
        Just("1e308".to_owned()),
        Just("-1".to_owned()),
        "[0-9]{1,22}",
        "[0-9]{1,4}\\.[0-9]{1,12}",
        "[A-Za-z]{1,6}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        survives(&bytes, None);
        for format in Format::ALL {
            survives(&bytes, Some(format));
        }
    }

    #[test]
    fn lines_made_of_likely_pieces(pieces in proptest::collection::vec(piece(), 0..60)) {
        let text = pieces.concat();
        survives(text.as_bytes(), None);
        for format in Format::ALL {
            survives(text.as_bytes(), Some(format));
        }
    }

    #[test]
    fn samples_with_changed_bytes(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        for sample in samples::all() {
            let mut bytes = sample.bytes;
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            survives(&bytes, None);
            survives(&bytes, Some(sample.format));
            survives(&bytes[..cut.index(bytes.len())], Some(sample.format));
        }
    }
}

#[test]
fn a_line_without_end_is_one_bad_line() {
    let mut bytes = b"0,W,0,4096\n".to_vec();
    bytes.extend(std::iter::repeat_n(b'x', 3 << 20));
    bytes.extend(b"\n5,W,4096,4096\n");
    let options = Options { skip_bad: true, ..Options::default() };
    assert_eq!(read(&bytes, &options).unwrap().len(), 2);
    assert_eq!(read(&bytes, &Options::default()).unwrap_err().line(), Some(2));
}
