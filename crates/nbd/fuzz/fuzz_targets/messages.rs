//! Requests, replies and the data of options from arbitrary bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_nbd::protocol::option::{Context, Contexts, Wanted};
use thermocline_nbd::protocol::reply::Front;
use thermocline_nbd::protocol::request::{Framing, Header};

fuzz_target!(|bytes: &[u8]| {
    for framing in [Framing::Simple, Framing::Structured, Framing::Extended] {
        if let Ok(Some(header)) = Header::parse(bytes, framing) {
            let mut again = Vec::new();
            header.encode(framing, &mut again);
            assert_eq!(again, bytes[..again.len()]);
        }
    }
    if let Ok(Some((_, size))) = Front::parse(bytes) {
        assert!(size <= bytes.len());
    }
    if let Some(contexts) = Contexts::parse(bytes) {
        assert!(contexts.name.len() + contexts.queries.len() * 4 <= bytes.len());
        let _ = Context::all(&[]).iter().filter(|one| contexts.mean(one, true)).count();
    }
    if let Some(wanted) = Wanted::parse(bytes) {
        assert!(wanted.kinds.len() * 2 <= bytes.len());
    }
});
