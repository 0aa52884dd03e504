//! Bytes of members by cause, and an array over buffers without bytes.

use thermocline_format::{LogicalBlock, PoolId, RaidLevel};
use thermocline_types::{Bytes, Class, DeviceId, Rng, UnitId};

use super::super::*;
use super::drives::{Buffer, Heap};
use crate::{ByteCause, WrittenBytes};

/// Buffers with a length only.
#[derive(Debug)]
struct Lengths;

impl Memory for Lengths {
    type Buffer = usize;
    const HAS_BYTES: bool = false;

    fn room(&self, bytes: usize) -> usize {
        bytes
    }

    fn len(buffer: &usize) -> usize {
        *buffer
    }

    fn part(_buffer: &usize, _from: usize, bytes: usize) -> usize {
        bytes
    }

    fn read<R>(_buffer: &usize, with: impl FnOnce(&[u8]) -> R) -> R {
        with(&[])
    }

    fn write<R>(_buffer: &usize, with: impl FnOnce(&mut [u8]) -> R) -> R {
        with(&mut [])
    }

    fn holding(&self, bytes: &[u8]) -> usize {
        bytes.len()
    }
}

const LEVELS: [(RaidLevel, usize); 5] = [
    (RaidLevel::Parity, 3),
    (RaidLevel::Parity, 5),
    (RaidLevel::Mirrored, 2),
    (RaidLevel::Striped, 2),
    (RaidLevel::Striped, 4),
];

/// Logical blocks of a unit.
const UNIT_BLOCKS: u32 = 300;

/// A new group whose members carry out every command at once, and the writes of each member.
struct Group<M: Memory> {
    array: Array<M>,
    /// The first byte and the number of bytes.
    writes: Vec<Vec<(u64, u64)>>,
    commands: u64,
}

impl<M: Memory> Group<M> {
    fn new(shape: RaidShape, memory: M) -> Group<M> {
        let (number, label) = (shape.members, RaidLabel::of_new(PoolId([5; 16]), 9, 0, shape));
        let members = (0..number.into()).map(|member| (Some(member), MemberStart::Current));
        let start = ArrayStart { label, members: members.collect() };
        let (places, rate, access, avoid) =
            (vec![Some(0); number.into()], None, Access::ReadWrite, None);
        let array = Array::open(FoundArray { start, places, rate, access, avoid, memory });
        let mut group = Group { array, writes: vec![Vec::new(); number.into()], commands: 0 };
        group.work();
        group
    }

    fn work(&mut self) {
        while let Some((member, token, command)) = self.array.poll_command() {
            self.commands += 1;
            if let Command::Write { at, parts, .. } = command {
                let bytes = parts.iter().map(|part| M::len(part) as u64).sum();
                self.writes[member].push((at.0, bytes));
            }
            self.array.completed(member, Completion::new(token, Ok(())));
        }
    }

    fn carry_out(&mut self, command: Command<M::Buffer>) {
        self.array.submit(Token(7), command);
        self.work();
        assert_eq!(self.array.poll_answer(), Some(Completion::new(Token(7), Ok(()))));
    }

    fn close(&mut self) {
        self.array.close();
        self.work();
        assert!(self.array.is_closed());
    }
}

/// Writes units front to back with flushes between, finishes and resets some units, and closes the group. Returns the
/// bytes written.
fn used<M: Memory>(
    group: &mut Group<M>,
    block: u64,
    buffer: impl Fn(usize) -> M::Buffer,
    seed: u64,
) -> u64 {
    let (mut rng, mut all, mut ends) = (Rng::new(seed), 0, [0_u64; 3]);
    let unit_bytes = u64::from(UNIT_BLOCKS) * block;
    for _ in 0..200 {
        let unit = rng.below(3) as usize;
        let bytes = (block * (1 + rng.below(70))).min(unit_bytes - ends[unit]);
        let id = UnitId(unit as u32);
        match rng.below(10) {
            0 => {
                group.carry_out(Command::Finish(id));
                group.carry_out(Command::Reset(id));
                ends[unit] = 0;
            }
            1..4 => group.carry_out(Command::Flush(DeviceId(0))),
            _ if bytes > 0 => {
                let at = Bytes(unit as u64 * unit_bytes + ends[unit]);
                let parts = vec![buffer(block as usize), buffer((bytes - block) as usize)];
                group.carry_out(Command::Write { at, parts, class: Class(0) });
                ends[unit] += bytes;
                all += bytes;
            }
            _ => {}
        }
    }
    group.close();
    all
}

#[test]
fn bytes_of_members_have_causes_and_are_the_same_without_bytes() {
    for (seed, (level, members)) in (1..).zip(LEVELS) {
        for block in [LogicalBlock::B512, LogicalBlock::B4096] {
            let shape = RaidShape::new(level, members, block, UNIT_BLOCKS, 3).expect("it can be");
            let bytes = block.bytes() as u64;
            let mut real = Group::new(shape, Heap);
            let data = used(&mut real, bytes, |bytes| Buffer::of(&vec![3; bytes]), seed);
            let mut sizes = Group::new(shape, Lengths);
            assert_eq!(used(&mut sizes, bytes, |bytes| bytes, seed), data);
            assert_eq!(sizes.writes, real.writes, "{level:?} {members}");
            assert_eq!(sizes.commands, real.commands, "{level:?} {members}");
            assert_eq!(sizes.array.written(), real.array.written());
            let mut all = WrittenBytes::default();
            for (written, writes) in real.array.written().iter().zip(&real.writes) {
                assert_eq!(written.total(), writes.iter().map(|(_, bytes)| bytes).sum::<u64>());
                all = all.plus(written);
            }
            check(level, members as u64, data, &all);
        }
    }
}

fn check(level: RaidLevel, members: u64, data: u64, all: &WrittenBytes) {
    assert_eq!(all.of(ByteCause::Data), data);
    assert_eq!(all.of(ByteCause::Restored), 0);
    // Three labels: two of the opening, and one of the closing.
    assert_eq!(all.of(ByteCause::Label), members * 3 * 4096);
    let of = |cause| all.of(cause);
    match level {
        RaidLevel::Striped => assert_eq!(all.added(), of(ByteCause::Label)),
        RaidLevel::Mirrored => {
            assert_eq!(of(ByteCause::Parity), data);
            assert_eq!(all.added(), data + of(ByteCause::Label));
        }
        RaidLevel::Parity => {
            let full = data + of(ByteCause::Padding);
            let share = of(ByteCause::Parity) as f64 / (full as f64 / (members - 1) as f64);
            assert!((0.8..1.2).contains(&share), "{all:?}");
            assert!(of(ByteCause::Log) > 0 && of(ByteCause::LogHead) > 0, "{all:?}");
        }
    }
}
