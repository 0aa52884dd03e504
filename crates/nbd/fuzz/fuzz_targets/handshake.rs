//! A handshake with arbitrary bytes: at once, and in two pieces.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use thermocline_nbd::protocol::handshake::{Encryption, Handshake, Step};
use thermocline_target::{Export, Exports, Memory};
use thermocline_types::Bytes;

/// What comes of `pieces`: whether it is an error, the last step, the bytes taken and those sent.
fn talk(encryption: Encryption, exports: &Exports, pieces: [&[u8]; 2]) -> (bool, Vec<u8>) {
    let mut out = Vec::new();
    let mut handshake = Handshake::begin(encryption, 1 << 20, &mut out);
    let mut input = Vec::new();
    for piece in pieces {
        input.extend_from_slice(piece);
        match handshake.advance(&input, exports, &mut out) {
            Ok((taken, Step::More)) => drop(input.drain(..taken)),
            Ok((taken, _)) => {
                assert!(taken <= input.len());
                return (true, out);
            }
            Err(_) => return (false, out),
        }
    }
    (true, out)
}

fuzz_target!(|bytes: &[u8]| {
    let target = Arc::new(Memory::new(Bytes::mib(1), Bytes(512)));
    let export = Export { name: "main".to_owned(), target, read_only: false };
    let exports = Exports::new(vec![export]);
    // Sound flags first, or nothing is ever reached.
    let hello: Vec<u8> = [0, 0, 0, 3].iter().chain(bytes).copied().collect();
    for encryption in [Encryption::None, Encryption::Required] {
        let cut = hello.len() / 2;
        let whole = talk(encryption, &exports, [&hello, &[]]);
        assert_eq!(whole, talk(encryption, &exports, [&hello[..cut], &hello[cut..]]));
        let _ = talk(encryption, &exports, [bytes, &[]]);
    }
});
