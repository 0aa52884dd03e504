//! Options: a client's requests before it uses an export, and the server's replies.

use thermocline_target::{Property, Snapshot};

use super::wire::{OPTION_REPLY_MAGIC, Put as _, Reader};

/// Bytes before the data of an option: magic, number and length.
pub const OPTION_HEADER: usize = 16;

/// The longest name of an export, in bytes.
pub const NAME_MAX: usize = 4096;

/// The metadata context of allocation, and the number that it has in replies.
pub const ALLOCATION: (&str, u32) = ("base:allocation", 1);

/// The metadata contexts of changes since a snapshot. The name of the snapshot follows the name. Its number, added to
/// this one, is the number in replies. QEMU and libnbd know these contexts as dirty bitmaps.
pub const CHANGES: (&str, u32) = ("qemu:dirty-bitmap:", 2);

/// A metadata context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The number that it has in replies.
    pub id: u32,
    /// Its name.
    pub name: String,
}

impl Context {
    /// All contexts of an export with these snapshots.
    #[must_use]
    pub fn all(snapshots: &[Snapshot]) -> Vec<Context> {
        let allocation = Context { id: ALLOCATION.1, name: ALLOCATION.0.to_owned() };
        let changes = snapshots.iter().filter_map(|snapshot| {
            let id = snapshot.number.checked_add(CHANGES.1)?;
            Some(Context { id, name: format!("{}{}", CHANGES.0, snapshot.name) })
        });
        std::iter::once(allocation).chain(changes).collect()
    }

    /// The property that the context with this number in replies is about.
    #[must_use]
    pub fn property(id: u32) -> Property {
        id.checked_sub(CHANGES.1).map_or(Property::Mapped, Property::ChangedSince)
    }
}

/// Numbers of options.
pub mod number {
    #![expect(missing_docs, reason = "named as in the protocol, each with the prefix NBD_OPT_")]
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Kinds of information about an export.
pub mod info {
    #![expect(missing_docs, reason = "named as in the protocol, each with the prefix NBD_INFO_")]
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// How an option is answered, `NBD_REP_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Ack,
    /// An export.
    Server,
    /// Information about an export.
    Info,
    /// A metadata context.
    MetaContext,
    /// The option is not known.
    Unsupported,
    /// The server is not set up to allow this.
    Policy,
    /// The option's data, or the option at this point, makes no sense.
    Invalid,
    /// Only after `STARTTLS`.
    TlsRequired,
    /// The export does not exist.
    Unknown,
    /// The option is longer than is taken.
    TooBig,
    /// Extended headers, once had, are not given up.
    ExtendedHeaders,
}

impl Answer {
    /// Its number.
    #[must_use]
    pub fn number(self) -> u32 {
        /// Set in every refusal.
        const REFUSED: u32 = 1 << 31;
        match self {
            Answer::Ack => 1,
            Answer::Server => 2,
            Answer::Info => 3,
            Answer::MetaContext => 4,
            Answer::Unsupported => REFUSED | 1,
            Answer::Policy => REFUSED | 2,
            Answer::Invalid => REFUSED | 3,
            Answer::TlsRequired => REFUSED | 5,
            Answer::Unknown => REFUSED | 6,
            Answer::TooBig => REFUSED | 9,
            Answer::ExtendedHeaders => REFUSED | 10,
        }
    }
}

/// Appends an answer to option `number` to `out`.
pub fn answer(out: &mut Vec<u8>, number: u32, answer: Answer, data: &[u8]) {
    out.put_u64(OPTION_REPLY_MAGIC);
    out.put_u32(number);
    out.put_u32(answer.number());
    out.put_u32(data.len() as u32);
    out.extend_from_slice(data);
}

/// Data of `INFO` and `GO`: an export and the wanted kinds of information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The name of the export.
    pub name: &'a str,
    /// Kinds of information.
    pub kinds: Vec<u16>,
}

impl<'a> Wanted<'a> {
    /// Parses the data of the option; `None` if malformed.
    #[must_use]
    pub fn parse(data: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(data);
        let name = reader.text().filter(|name| name.len() <= NAME_MAX)?;
        let count = reader.u16()?;
        let kinds = (0..count).map(|_| reader.u16()).collect::<Option<_>>()?;
        reader.rest().is_empty().then_some(Wanted { name, kinds })
    }
}

/// Data of `SET_META_CONTEXT` and `LIST_META_CONTEXT`: an export and names of contexts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contexts<'a> {
    /// The name of the export.
    pub name: &'a str,
    /// Names of contexts, or of groups of them.
    pub queries: Vec<&'a str>,
}

impl<'a> Contexts<'a> {
    /// Parses the data of the option; `None` if malformed.
    #[must_use]
    pub fn parse(data: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(data);
        let name = reader.text().filter(|name| name.len() <= NAME_MAX)?;
        let count = reader.u32()?;
        // Each query takes at least four bytes: the received bytes bound the number of queries.
        let queries = (0..count).map(|_| reader.text()).collect::<Option<_>>()?;
        reader.rest().is_empty().then_some(Contexts { name, queries })
    }

    /// Whether `context` is among them. In a list, no name at all means every context, and so does a beginning with a
    /// colon as its end, such as `base:`.
    #[must_use]
    pub fn mean(&self, context: &Context, listing: bool) -> bool {
        let Context { name, .. } = context;
        let group = |query: &str| listing && query.ends_with(':') && name.starts_with(query);
        let meant = |query: &&str| query == name || group(query);
        listing && self.queries.is_empty() || self.queries.iter().any(meant)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn contexts(queries: &[&str]) -> Vec<u8> {
        let mut data = Vec::new();
        data.put_text("main");
        data.put_u32(queries.len() as u32);
        queries.iter().for_each(|query| data.put_text(query));
        data
    }

    #[test]
    fn the_data_of_go_is_read() {
        let mut data = Vec::new();
        data.put_text("main");
        data.put_u16(1);
        data.put_u16(info::BLOCK_SIZE);
        let expected = Wanted { name: "main", kinds: vec![info::BLOCK_SIZE] };
        assert_eq!(Wanted::parse(&data), Some(expected));
        assert_eq!(Wanted::parse(&data[..data.len() - 1]), None);
        data.push(0);
        assert_eq!(Wanted::parse(&data), None, "a byte too many");
    }

    #[test]
    fn a_list_takes_groups_and_a_choice_does_not() {
        let snapshot = |number, name: &str| Snapshot { number, name: name.to_owned() };
        let all = Context::all(&[snapshot(7, "b"), snapshot(5, "a"), snapshot(u32::MAX, "c")]);
        let chosen = |queries: &[&str], listing| {
            let data = contexts(queries);
            let asked = Contexts::parse(&data).expect("well formed");
            all.iter().filter(|one| asked.mean(one, listing)).map(|one| one.id).collect::<Vec<_>>()
        };
        assert_eq!(chosen(&[], true), [1, 9, 7], "a number too high is not offered");
        assert_eq!(chosen(&["x:", "base:"], true), [1]);
        assert_eq!(
            (chosen(&["qemu:"], true), chosen(&[CHANGES.0], true)),
            (vec![9, 7], vec![9, 7])
        );
        let none: [&[&str]; 4] = [&[], &["base:"], &[CHANGES.0], &["qemu:dirty-bitmap:x"]];
        none.iter().for_each(|queries| assert_eq!(chosen(queries, false), [0; 0]));
        assert_eq!(chosen(&["x:y", "base:allocation"], false), [1]);
        assert_eq!(chosen(&["qemu:dirty-bitmap:a", "base:allocation"], false), [1, 7]);
        let properties = [1, 7].map(Context::property);
        assert_eq!(properties, [Property::Mapped, Property::ChangedSince(5)]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(data: Vec<u8>) {
            let _ = Wanted::parse(&data);
            let _ = Contexts::parse(&data);
        }

        #[test]
        fn a_count_beyond_the_data_is_refused(count in 2_u32.., name in "[a-z]{0,8}") {
            let mut data = Vec::new();
            data.put_text(&name);
            data.put_u32(count);
            data.put_text("base:allocation");
            prop_assert_eq!(Contexts::parse(&data), None);
        }
    }
}
