use proptest::prelude::*;

use super::*;

struct Two;

impl Catalogue for Two {
    fn names(&self) -> Vec<String> {
        vec!["main".to_owned(), "second".to_owned()]
    }

    fn facts(&self, name: &str) -> Option<Facts> {
        let name = if name.is_empty() { "main" } else { name };
        let flags = export_flag::SEND_FLUSH;
        let (block_min, block_preferred) = (512, 4096);
        let name = self.names().into_iter().find(|one| one == name)?;
        let contexts = Context::all(&[]);
        Some(Facts { name, size: 1 << 20, flags, block_min, block_preferred, contexts })
    }
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u64(OPTION_MAGIC);
    bytes.put_u32(number);
    bytes.put_u32(data.len() as u32);
    bytes.extend_from_slice(data);
    bytes
}

fn go(name: &str) -> Vec<u8> {
    let mut data = Vec::new();
    data.put_text(name);
    data.put_u16(0);
    data
}

fn contexts(name: &str) -> Vec<u8> {
    let mut data = Vec::new();
    data.put_text(name);
    data.put_u32(1);
    data.put_text(super::super::option::ALLOCATION.0);
    data
}

/// A client that said hello.
fn met(encryption: Encryption) -> Handshake {
    let mut out = Vec::new();
    let mut handshake = Handshake::begin(encryption, 1 << 20, &mut out);
    assert_eq!(&out[..16], b"NBDMAGICIHAVEOPT");
    assert_eq!(handshake.advance(&[0, 0, 0, 3], &Two, &mut out), Ok((4, Step::More)));
    handshake
}

/// Sends options; returns the last step and the kinds of all answers.
fn send(
    handshake: &mut Handshake,
    options: &[(u32, Vec<u8>)],
) -> (Result<Step, ProtocolError>, Vec<u32>) {
    let bytes: Vec<u8> = options.iter().flat_map(|(number, data)| option(*number, data)).collect();
    let mut out = Vec::new();
    let result = handshake.advance(&bytes, &Two, &mut out);
    if let Ok((taken, _)) = result {
        assert_eq!(taken, bytes.len());
    }
    let mut kinds = Vec::new();
    let mut reader = Reader::new(&out);
    while let Some(magic) = reader.u64() {
        assert_eq!(magic, super::super::wire::OPTION_REPLY_MAGIC);
        reader.u32().unwrap();
        kinds.push(reader.u32().unwrap());
        let length = reader.u32().unwrap();
        reader.bytes(length as usize).unwrap();
    }
    (result.map(|(_, step)| step), kinds)
}

fn numbers(answers: &[Answer]) -> Vec<u32> {
    answers.iter().map(|answer| answer.number()).collect()
}

#[test]
fn a_modern_client_gets_what_it_asks_for() {
    let mut handshake = met(Encryption::None);
    let options = [
        (number::STRUCTURED_REPLY, Vec::new()),
        (number::LIST, Vec::new()),
        (number::SET_META_CONTEXT, contexts("")),
        (number::INFO, go("second")),
        (number::GO, go("main")),
    ];
    let (step, kinds) = send(&mut handshake, &options);
    let agreement =
        Agreement { export: "main".into(), framing: Framing::Structured, contexts: vec![1] };
    assert_eq!(step, Ok(Step::Serve(agreement)));
    use Answer::{Ack, Info, MetaContext, Server};
    let expected = [Ack, Server, Server, Ack, MetaContext, Ack, Info, Info, Ack, Info, Info, Ack];
    assert_eq!(kinds, numbers(&expected));
}

#[test]
fn a_context_is_of_the_export_it_was_asked_for() {
    let mut handshake = met(Encryption::None);
    let options = [
        (number::EXTENDED_HEADERS, Vec::new()),
        (number::SET_META_CONTEXT, contexts("second")),
        (number::GO, go("main")),
    ];
    let (step, _) = send(&mut handshake, &options);
    let Ok(Step::Serve(agreement)) = step else { panic!("{step:?}") };
    assert_eq!((agreement.framing, agreement.contexts), (Framing::Extended, vec![]));
}

#[test]
fn what_makes_no_sense_is_refused_and_the_talk_goes_on() {
    let mut handshake = met(Encryption::None);
    let options = [
        (number::SET_META_CONTEXT, contexts("main")),
        (number::GO, go("none")),
        (number::GO, vec![0, 0, 0, 9]),
        (99, vec![1, 2, 3]),
        (number::LIST, vec![1]),
        (number::STARTTLS, Vec::new()),
        (number::EXTENDED_HEADERS, Vec::new()),
        (number::STRUCTURED_REPLY, Vec::new()),
    ];
    let (step, kinds) = send(&mut handshake, &options);
    assert_eq!(step, Ok(Step::More));
    use Answer::{Ack, ExtendedHeaders, Invalid, Policy, Unknown, Unsupported};
    let expected = [Invalid, Unknown, Invalid, Unsupported, Invalid, Policy, Ack, ExtendedHeaders];
    assert_eq!(kinds, numbers(&expected));
}

#[test]
fn nothing_is_told_before_encryption() {
    let mut handshake = met(Encryption::Required);
    let (step, kinds) =
        send(&mut handshake, &[(number::LIST, Vec::new()), (number::GO, go("main"))]);
    assert_eq!((step, kinds), (Ok(Step::More), numbers(&[Answer::TlsRequired; 2])));
    let mut other = handshake.clone();
    assert_eq!(
        send(&mut other, &[(number::EXPORT_NAME, Vec::new())]).0,
        Err(ProtocolError::Refused)
    );
    assert_eq!(send(&mut handshake, &[(number::STARTTLS, Vec::new())]).0, Ok(Step::StartTls));
    handshake.encrypted();
    let (step, kinds) = send(&mut handshake, &[(number::STARTTLS, Vec::new())]);
    assert_eq!((step, kinds), (Ok(Step::More), numbers(&[Answer::Invalid])));
    assert!(matches!(send(&mut handshake, &[(number::GO, go("main"))]).0, Ok(Step::Serve(_))));
}

#[test]
fn the_old_way_works_and_ends_in_silence_if_it_does_not() {
    for (flags, length) in [(1, 134), (3, 10)] {
        let mut out = Vec::new();
        let mut handshake = Handshake::begin(Encryption::None, 1 << 20, &mut out);
        out.clear();
        let mut bytes = vec![0, 0, 0, flags];
        bytes.extend(option(number::EXPORT_NAME, b"second"));
        let (_, step) = handshake.advance(&bytes, &Two, &mut out).expect("it exists");
        let Step::Serve(agreement) = step else { panic!("{step:?}") };
        assert_eq!((agreement.export.as_str(), out.len()), ("second", length));
    }
    let mut handshake = met(Encryption::None);
    let (step, kinds) = send(&mut handshake, &[(number::EXPORT_NAME, b"none".to_vec())]);
    assert_eq!((step, kinds), (Err(ProtocolError::Refused), Vec::new()));
}

#[test]
fn who_does_not_come_to_the_point_is_sent_away() {
    let mut handshake = met(Encryption::None);
    let options = vec![(number::LIST, Vec::new()); OPTIONS_MAX as usize + 1];
    assert_eq!(send(&mut handshake, &options).0, Err(ProtocolError::TooManyOptions));
    let mut handshake = met(Encryption::None);
    assert_eq!(send(&mut handshake, &[(number::ABORT, Vec::new())]).0, Err(ProtocolError::Aborted));
}

#[test]
fn a_long_option_is_refused_before_it_is_waited_for() {
    let mut handshake = met(Encryption::None);
    let mut bytes = option(number::GO, &[]);
    bytes[12..16].copy_from_slice(&[0xFF; 4]);
    let refused = Err(ProtocolError::TooLong(u32::MAX.into()));
    assert_eq!(handshake.advance(&bytes, &Two, &mut Vec::new()), refused);
    let mut handshake = met(Encryption::None);
    let wrong = handshake.advance(b"GET / HTTP/1.1", &Two, &mut Vec::new());
    assert!(matches!(wrong, Err(ProtocolError::Magic(_))));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>, data: Vec<u8>, number in 0_u32..14) {
        for encryption in [Encryption::None, Encryption::Required] {
            let mut out = Vec::new();
            let mut handshake = Handshake::begin(encryption, 1 << 20, &mut out);
            let _ = handshake.advance(&bytes, &Two, &mut out);
            let _ = met(encryption).advance(&option(number, &data), &Two, &mut out);
        }
    }

    /// However the bytes arrive, the same comes of them.
    #[test]
    fn pieces_make_no_difference(cut in 0_usize..120) {
        let mut bytes = option(number::STRUCTURED_REPLY, &[]);
        bytes.extend(option(number::SET_META_CONTEXT, &contexts("main")));
        bytes.extend(option(number::GO, &go("main")));
        let cut = cut.min(bytes.len());
        let (mut whole, mut parts) = (Vec::new(), Vec::new());
        let at_once = met(Encryption::None).advance(&bytes, &Two, &mut whole);
        let mut handshake = met(Encryption::None);
        let (taken, step) = handshake.advance(&bytes[..cut], &Two, &mut parts).expect("sound");
        let (rest, step) = match step {
            Step::More => handshake.advance(&bytes[taken..], &Two, &mut parts).expect("sound"),
            step => (0, step),
        };
        prop_assert_eq!(at_once, Ok((taken + rest, step)));
        prop_assert_eq!(whole, parts);
    }
}
