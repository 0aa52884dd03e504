//! Groups of all kinds and sizes in memory. They behave like any storage, with all members and without one.

use thermocline_array::{HealRange, MemberStart, layout_on};
use thermocline_format::{LogicalBlock, PoolId, RaidLabel, RaidShape};
use thermocline_types::{Bytes, Class, DeviceId, Rng, Version};

use super::super::*;
use crate::storage::tests::suite;
use crate::storage::{File, IoEngine, Memory, Options};

const LEVELS: [(RaidLevel, usize); 6] = [
    (RaidLevel::Parity, 3),
    (RaidLevel::Parity, 4),
    (RaidLevel::Parity, 7),
    (RaidLevel::Mirrored, 2),
    (RaidLevel::Striped, 2),
    (RaidLevel::Striped, 3),
];

/// A new group in memory, without the missing member.
fn group(level: RaidLevel, members: usize, block: LogicalBlock, missing: Option<usize>) -> Raid {
    let memory = |member, layout| -> Box<dyn Storage> {
        Box::new(Memory::new(layout).with_shuffled_completions(member as u64))
    };
    group_on(level, members, block, missing, memory)
}

/// The same on these members.
fn group_on(
    level: RaidLevel,
    members: usize,
    block: LogicalBlock,
    missing: Option<usize>,
    storage: impl Fn(usize, Layout) -> Box<dyn Storage>,
) -> Raid {
    let unit_blocks = (1 << 20) / block.bytes() as u32 + 5;
    let shape = RaidShape::new(level, members, block, unit_blocks, 5).expect("it can be");
    let label = RaidLabel::of_new(PoolId([3; 16]), 1, 0, shape);
    let storages = (0..members).map(|member| {
        let found = FoundMember { storage: storage(member, layout_on(&shape)), place: 0 };
        (missing != Some(member)).then_some(found)
    });
    let starts = (0..members).map(|member| match missing == Some(member) {
        true => (None, MemberStart::Missing),
        false => (Some(member), MemberStart::Current),
    });
    let start = ArrayStart { label, members: starts.collect() };
    let paths = vec![PathBuf::from("a"); members];
    let (name, why, rate, access) = ("g".to_owned(), None, None, Access::ReadWrite);
    let storages = storages.collect();
    let found = FoundRaid { name, paths, why, storages, start, rate, access, avoid: None };
    Raid::open(found).0
}

#[test]
fn groups_do_what_any_storage_does() {
    for (level, members) in LEVELS {
        for block in [LogicalBlock::B512, LogicalBlock::B4096] {
            suite(&mut group(level, members, block, None));
            for missing in (0..members).filter(|_| level.parity() > 0) {
                suite(&mut group(level, members, block, Some(missing)));
            }
        }
    }
}

/// Members whose commands end when they are submitted wake nobody. So the group must ask for its next turn itself while
/// commands of its own follow each other: labels and flushes before the first write are more than one turn carries out.
#[test]
fn a_group_is_not_left_alone_while_its_members_have_completions() {
    let folder = tempfile::tempdir().unwrap();
    for (level, members) in LEVELS {
        let inline = |member, layout| -> Box<dyn Storage> {
            let path = folder.path().join(format!("{level:?}-{members}-{member}"));
            let options = Options { engine: IoEngine::Inline, ..Options::default() };
            Box::new(File::open(&path, true, layout, &options).unwrap())
        };
        let mut raid = group_on(level, members, LogicalBlock::B4096, None, inline);
        let at = raid.layout().start(thermocline_types::UnitId(1));
        let parts = vec![Buffer::new(thermocline_target::Buffer::zeroed(4096))];
        raid.submit(Token(1), Command::Write { at, parts, class: Class(0) });
        let mut done = Vec::new();
        for turn in 0..100 {
            assert_eq!(raid.timeout(), Some(Duration::ZERO), "{level:?}: turn {turn}");
            raid.reap(Some(Duration::ZERO), &mut done);
            if !done.is_empty() {
                break;
            }
        }
        assert_eq!(done.len(), 1, "{level:?}");
    }
}

fn carry_out(raid: &mut Raid, commands: Vec<Command>) {
    let count = commands.len();
    for (token, command) in commands.into_iter().enumerate() {
        raid.submit(Token(token as u64), command);
    }
    let mut done = Vec::new();
    for _ in 0..100_000 {
        if done.len() == count {
            break;
        }
        raid.reap(Some(Duration::from_millis(1)), &mut done);
    }
    assert!(done.len() == count && done.iter().all(|one| one.result.is_ok()), "{done:?}");
}

/// A unit is written in pieces of any length and read in pieces of any other length. The reads use all members or all
/// but one, with flushes between.
#[test]
fn what_was_written_in_any_pieces_is_read_in_any_others() {
    let mut rng = Rng::new(11);
    for (level, members) in LEVELS {
        for missing in
            [None, Some(1)].into_iter().filter(|missing| missing.is_none() || level.parity() > 0)
        {
            let block = LogicalBlock::B512;
            let mut raid = group(level, members, block, missing);
            let bytes = raid.layout().unit_bytes().0 as usize;
            let content: Vec<u8> = (0..bytes).map(|_| rng.below(256) as u8).collect();
            let mut at = 0;
            while at < bytes {
                let length = (512 * (1 + rng.below(300)) as usize).min(bytes - at);
                let parts = vec![Buffer::new(thermocline_target::Buffer::from_bytes(
                    &content[at..at + length],
                ))];
                let place = Bytes(bytes as u64 + at as u64);
                let mut commands = vec![Command::Write { at: place, parts, class: Class(0) }];
                if rng.below(3) == 0 {
                    commands.push(Command::Flush(DeviceId(0)));
                }
                carry_out(&mut raid, commands);
                at += length;
                read_some(&mut raid, &content[..at], &mut rng);
            }
            carry_out(&mut raid, vec![Command::Flush(DeviceId(0))]);
            let (at, version) = (Bytes(bytes as u64), Version::AS_READ);
            let whole = Command::Heal(vec![HealRange { at, bytes: bytes as u64, version }]);
            carry_out(&mut raid, vec![whole]);
            read_some(&mut raid, &content, &mut rng);
        }
    }
}

fn read_some(raid: &mut Raid, content: &[u8], rng: &mut Rng) {
    let blocks = content.len() as u64 / 512;
    let start = raid.layout().unit_bytes().0;
    let ranges = (0..6).map(|_| {
        let from = rng.below(blocks);
        let length = (1 + rng.below(500)).min(blocks - from);
        (from as usize * 512, length as usize * 512)
    });
    let ranges: Vec<_> = ranges.collect();
    let into = ranges.iter().map(|(_, length)| {
        // The buffer starts at any place in memory.
        let all = Buffer::new(thermocline_target::Buffer::zeroed(length + 1536));
        all.part(rng.below(4) as usize * 512, *length)
    });
    let into: Vec<Buffer> = into.collect();
    let commands = ranges
        .iter()
        .zip(&into)
        .map(|((from, _), into)| Command::read(Bytes(start + *from as u64), into.clone()));
    carry_out(raid, commands.collect());
    for ((from, length), into) in ranges.into_iter().zip(into) {
        assert!(*into.read() == content[from..from + length], "{from}, {length}");
    }
}
