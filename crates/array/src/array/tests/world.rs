//! A small group on a bench, and a user that writes like the engine: units front to back, in lives.

use thermocline_format::{LogicalBlock, PoolId, RaidLevel};
use thermocline_types::{Class, DeviceId, Rng, UnitId, Version};

use super::super::*;
use super::drives::{BLOCK, Bench, Blocks, Buffer, Heap, TestDrive};
use crate::HealRange;

/// The levels that survive the loss of a member.
pub const LEVELS: [RaidLevel; 2] = [RaidLevel::Parity, RaidLevel::Mirrored];
/// Units that programs write.
pub const UNITS: usize = 3;

/// Blocks of a unit.
const UNIT_BLOCKS: u32 = 33;

/// With parity, rows have six blocks, and the last row of a unit is shorter. With four members, a partial row may lack
/// two pieces.
pub fn shape(level: RaidLevel) -> RaidShape {
    let parity = RaidShape {
        level,
        members: 4,
        logical_block: LogicalBlock::B4096,
        unit_blocks: UNIT_BLOCKS,
        units: UNITS as u32,
        piece: 2 * BLOCK as u32,
        slots: 4,
    };
    match level {
        RaidLevel::Mirrored => {
            RaidShape { members: 2, piece: UNIT_BLOCKS * BLOCK as u32, slots: 0, ..parity }
        }
        RaidLevel::Striped => RaidShape { members: 2, slots: 0, ..parity },
        RaidLevel::Parity => parity,
    }
}

/// Number of members.
pub fn members(level: RaidLevel) -> usize {
    shape(level).members.into()
}

pub fn bench(level: RaidLevel, images: Vec<Blocks>, seed: u64) -> Bench {
    let bench = Bench::new(images, shape(level), seed);
    bench.state().lazy = true;
    bench
}

/// An array and its drives.
pub(super) struct Raid {
    pub array: Array<Heap>,
    drives: Vec<Option<TestDrive>>,
}

impl Raid {
    pub fn submit(&mut self, token: Token, command: Command<Buffer>) {
        self.array.submit(token, command);
    }

    /// Hands commands to drives, lets the drives work, and appends answers to `done`.
    pub fn turn(&mut self, done: &mut Vec<Completion>) {
        self.array.handle_timeout(Time::ZERO);
        while let Some((member, token, command)) = self.array.poll_command() {
            self.drives[member].as_mut().expect("it is there").submit(token, command);
        }
        let mut reaped = Vec::new();
        for (member, drive) in self.drives.iter_mut().enumerate() {
            let Some(drive) = drive else { continue };
            drive.reap(&mut reaped);
            reaped.drain(..).for_each(|completion| self.array.completed(member, completion));
        }
        while let Some(member) = self.array.takes_out() {
            self.drives[member] = None;
        }
        done.extend(std::iter::from_fn(|| self.array.poll_answer()));
    }

    /// Runs the group until a condition holds.
    pub fn work_until(&mut self, what: &str, is_so: impl Fn(&Array<Heap>) -> bool) {
        let mut answers = Vec::new();
        for turn in 0.. {
            if is_so(&self.array) {
                break;
            }
            self.turn(&mut answers);
            assert!(turn < 10_000, "not {what}: {}", state_of(self));
        }
        assert!(answers.is_empty(), "{answers:?}");
    }

    pub fn is_whole(&self) -> bool {
        self.array.status().members.iter().all(|one| *one == MemberState::Current)
    }
}

impl Drop for Raid {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.array.close();
            let mut answers = Vec::new();
            for turn in 0.. {
                if self.array.is_closed() {
                    break;
                }
                self.turn(&mut answers);
                assert!(turn < 10_000, "not closed: {}", state_of(self));
            }
        }
    }
}

/// A group whose members have labels and no data.
pub fn formatted(level: RaidLevel) -> Vec<Blocks> {
    let (shape, members) = (shape(level), members(level));
    let labelled = |member: usize| {
        let first = RaidLabel::of_new(PoolId([5; 16]), 9, 0, shape);
        let label = RaidLabel { member: member as u8, ..first };
        Blocks::from([(0, label.encode().to_vec().into())])
    };
    (0..members).map(labelled).collect()
}

/// Reads a block in a version.
pub fn read_version(
    raid: &mut Raid,
    unit: usize,
    block: usize,
    version: Version,
) -> Result<Vec<u8>, Fault> {
    let into = Buffer::of(&[0; BLOCK]);
    raid.submit(Token(0), Command::Read { at: at(unit, block), into: into.clone(), version });
    wait_for(raid, 1)[0].map(|()| into.bytes())
}

/// Carries out one command.
pub fn carry_out(raid: &mut Raid, command: Command<Buffer>) -> Completion {
    raid.submit(Token(0), command);
    let mut done = Vec::new();
    for turn in 0.. {
        if let Some(&one) = done.first() {
            return one;
        }
        raid.turn(&mut done);
        assert!(turn < 10_000, "nothing comes of a command: {}", state_of(raid));
    }
    unreachable!("it ends")
}

/// The newest label on a drive, and its place.
fn find(drive: &mut TestDrive) -> Option<(RaidLabel, usize)> {
    let mut place = |place: usize| {
        let (at, into) = (Bytes(RaidShape::label_place(place)), Buffer::of(&[0; BLOCK]));
        drive.at_once(Command::Read { at, into: into.clone(), version: Version::AS_READ }).ok()?;
        Some(into.bytes())
    };
    let (one, other) = (place(0)?, place(1)?);
    newest_label([&one, &other], None)
}

/// Opens the group with all members; `None` if the power is cut.
pub fn open(bench: &Bench) -> Result<Option<Raid>, StartError> {
    let all = vec![true; members(bench.level())];
    open_with(bench, &all, Access::ReadWrite)
}

/// Opens the group with all members; all drives are well.
pub fn open_well(bench: &Bench) -> Raid {
    open(bench).expect("labels are right").expect("it is well")
}

/// Opens the group with the members in `there`; `None` if the power is cut. With read-only `access`, a lone member of a
/// mirror is accepted.
pub fn open_with(
    bench: &Bench,
    there: &[bool],
    access: Access,
) -> Result<Option<Raid>, StartError> {
    let mut drives: Vec<_> = (0..there.len()).map(|member| bench.drive(member)).collect();
    let labels: Vec<_> =
        drives.iter_mut().zip(there).map(|(drive, there)| find(drive).filter(|_| *there)).collect();
    if labels.iter().all(Option::is_none) {
        // The power is cut.
        return Ok(None);
    }
    let refs: Vec<_> = labels.iter().map(|label| label.as_ref().map(|(label, _)| label)).collect();
    let start = decide(&refs, access)?;
    let places: Vec<_> = labels.iter().map(|label| Some(label.as_ref()?.1)).collect();
    let drives = drives.into_iter().zip(&places);
    let drives = drives.map(|(drive, place)| place.map(|_| drive)).collect();
    let (rate, access, avoid, memory) = (None, Access::ReadWrite, None, Heap);
    let found = FoundArray { start, places, rate, access, avoid, memory };
    let mut raid = Raid { array: Array::open(found), drives };
    let mut answers = Vec::new();
    for turn in 0.. {
        if raid.array.is_open() {
            break;
        }
        raid.turn(&mut answers);
        assert!(turn < 10_000, "not open: {}", state_of(&raid));
    }
    Ok(raid.array.broken().is_none().then_some(raid))
}

/// The token of a command that nobody waits for.
pub const ASIDE: Token = Token(u64::MAX);

/// Waits for this number of commands. Returns their results in the order of their tokens.
fn wait_for(raid: &mut Raid, commands: usize) -> Vec<Result<(), Fault>> {
    let mut done = Vec::new();
    for turn in 0.. {
        if done.len() >= commands {
            break;
        }
        raid.turn(&mut done);
        done.retain(|completion| completion.token != ASIDE);
        assert!(turn < 10_000, "nothing comes of a command: {}", state_of(raid));
    }
    done.sort_by_key(|completion| completion.token.0);
    done.into_iter().map(|completion| completion.result).collect()
}

fn state_of(raid: &Raid) -> String {
    let raid = &raid.array;
    let Array { members, held, changes, round, job, loads, fronts, inner, .. } = raid;
    format!(
        "{members:?} held {held:?} changes {changes:?} round {round:?} job {job:?} loads {loads:?} fronts {:?} inner \
         {inner:?} unsettled {:?} heals {:?} readings {:?} gathers {:?} relabel {:?} flushes {:?} \
         wants {} journals {:?} left {:?} full {:?}",
        fronts
            .iter()
            .map(|(unit, front)| (unit, front.row, front.logged, front.guard))
            .collect::<Vec<_>>(),
        raid.unsettled,
        raid.heals,
        raid.readings.len(),
        raid.gathers.len(),
        raid.relabel,
        raid.flushes,
        raid.wants_round,
        raid.journals,
        raid.left.keys().collect::<Vec<_>>(),
        raid.full,
    )
}

/// Runs the group until all members are current and labelled, a member is gone, or filling rests.
pub fn fill_up(raid: &mut Raid) {
    let going =
        |array: &Array<Heap>| array.filling().is_some() || array.stale || array.relabel.is_some();
    let rests = |array: &Array<Heap>| array.rebuild.pace.not_before() > array.now;
    let stops = |array: &Array<Heap>| {
        array.broken().is_some() || array.rebuild.is_stopped() || rests(array)
    };
    raid.work_until("filled", |array| stops(array) || !going(array));
    raid.array.handle_timeout(Time::ZERO);
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Doing {
    /// Appends this number of blocks to units, all at once.
    Append(&'static [(usize, usize)]),
    /// Appends, and flushes while the writes are under way.
    AppendAndFlush(&'static [(usize, usize)]),
    Flush,
    Finish(usize),
    Reset(usize),
}

/// The expected state of a unit.
#[derive(Clone, Debug, Default)]
struct Unit {
    life: u64,
    /// The blocks of this life, and the numbers of written and flushed blocks.
    blocks: Vec<u64>,
    written: usize,
    durable: usize,
}

/// The expected content of all units.
#[derive(Clone, Debug)]
pub(super) struct Written {
    units: Vec<Unit>,
    next: u64,
}

fn content(block: u64) -> Vec<u8> {
    let mut rng = Rng::new(block);
    let words = std::iter::repeat_with(|| rng.next_u64().to_le_bytes());
    words.take(64).collect::<Vec<_>>().concat().repeat(BLOCK / 512)
}

pub fn at(unit: usize, block: usize) -> Bytes {
    Bytes(((unit * UNIT_BLOCKS as usize + block) * BLOCK) as u64)
}

impl Written {
    pub fn new(seed: u64) -> Written {
        Written { units: vec![Unit::default(); UNITS], next: seed << 20 | 1 }
    }

    /// Runs a program until a command fails. Returns whether all commands succeeded.
    pub fn run(&mut self, raid: &mut Raid, program: &[Doing]) -> Result<bool, String> {
        for op in program {
            let commands = self.begin(raid, op);
            let results = wait_for(raid, commands);
            let flushes = matches!(op, Doing::Flush | Doing::AppendAndFlush(_));
            if flushes && results.last() == Some(&Ok(())) {
                self.units.iter_mut().for_each(|unit| unit.durable = unit.written);
            }
            if results.iter().any(Result::is_err) {
                return Ok(false);
            }
            if let Doing::Append(all) | Doing::AppendAndFlush(all) = op {
                for &(unit, _) in *all {
                    self.units[unit].written = self.units[unit].blocks.len();
                }
            }
            if !self.compare_written(raid).map_err(|why| format!("after {op:?}: {why}"))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Submits the commands of an operation. Returns their number.
    fn begin(&mut self, raid: &mut Raid, op: &Doing) -> usize {
        let unit_id = |unit: &usize| UnitId(*unit as u32);
        match op {
            Doing::Append(all) => return self.append(raid, all),
            Doing::AppendAndFlush(all) => {
                let commands = self.append(raid, all);
                raid.submit(Token(commands as u64), Command::Flush(DeviceId(0)));
                return commands + 1;
            }
            Doing::Flush => raid.submit(Token(0), Command::Flush(DeviceId(0))),
            Doing::Finish(unit) => raid.submit(Token(0), Command::Finish(unit_id(unit))),
            Doing::Reset(unit) => {
                let life = self.units[*unit].life + 1;
                self.units[*unit] = Unit { life, ..Unit::default() };
                raid.submit(Token(0), Command::Reset(unit_id(unit)));
            }
        }
        1
    }

    fn append(&mut self, raid: &mut Raid, all: &[(usize, usize)]) -> usize {
        let mut commands = 0;
        for &(unit, blocks) in all {
            let first = self.units[unit].blocks.len();
            let blocks = blocks.min(UNIT_BLOCKS as usize - first);
            if blocks == 0 {
                continue;
            }
            let new: Vec<u64> = (self.next..).take(blocks).collect();
            self.next += blocks as u64;
            self.units[unit].blocks.extend(&new);
            let bytes: Vec<u8> = new.iter().flat_map(|&block| content(block)).collect();
            // The parts may end inside a block.
            let cut = bytes.len() / 3;
            let parts = vec![Buffer::of(&bytes[..cut]), Buffer::of(&bytes[cut..])];
            let command = Command::Write { at: at(unit, first), parts, class: Class(0) };
            raid.submit(Token(commands as u64), command);
            commands += 1;
        }
        commands
    }

    /// The leading blocks of a unit that belong to this life, and whether all blocks could be read.
    fn found(&self, raid: &mut Raid, unit: usize, most: usize) -> (Vec<u64>, bool) {
        let known = &self.units[unit].blocks[..most.min(self.units[unit].blocks.len())];
        let into: Vec<Buffer> = known.iter().map(|_| Buffer::of(&[0; BLOCK])).collect();
        for (block, into) in into.iter().enumerate() {
            let (at, into) = (at(unit, block), into.clone());
            let command = Command::Read { at, into, version: Version::AS_READ };
            raid.submit(Token(block as u64), command);
        }
        let results = wait_for(raid, into.len());
        let readable = results.iter().all(Result::is_ok);
        let good = known.iter().zip(into.iter().zip(results));
        let good = good.take_while(|(block, (into, result))| {
            result.is_ok() && into.bytes() == content(**block)
        });
        (good.map(|(block, _)| *block).collect(), readable)
    }

    /// Takes the blocks found as the content of the group, as the engine does.
    pub fn recover(&mut self, raid: &mut Raid) -> Result<(), String> {
        for unit in 0..UNITS {
            let (found, _) = self.found(raid, unit, usize::MAX);
            let Unit { durable, .. } = self.units[unit];
            if found.len() < durable {
                let (has, state) = (found.len(), state_of(raid));
                return Err(format!("unit {unit}: {has} blocks, {durable} were flushed; {state}"));
            }
            let known = &mut self.units[unit];
            (known.written, known.blocks) = (found.len(), found);
        }
        self.heal_all(raid);
        Ok(())
    }

    /// Heals all units, whose data was verified: parity is made to agree.
    pub fn heal_all(&self, raid: &mut Raid) {
        for (number, unit) in self.units.iter().enumerate() {
            let bytes = (unit.blocks.len().max(1) * BLOCK) as u64;
            let (at, version) = (at(number, 0), Version::AS_READ);
            raid.submit(
                Token(number as u64),
                Command::Heal(vec![HealRange { at, bytes, version }]),
            );
        }
        wait_for(raid, UNITS);
    }

    /// Like [`Written::recover`], but takes each block from any version with the right bytes. The engine does the same
    /// with its checks. With `heals`, wrong bytes are rewritten.
    pub fn judge(&mut self, raid: &mut Raid, heals: bool) -> Result<(), String> {
        for unit in 0..UNITS {
            let mut right = 0;
            for block in 0..self.units[unit].blocks.len() {
                let (expected, members) =
                    (content(self.units[unit].blocks[block]), raid.drives.len());
                let is_right = |version: &Version| {
                    read_version(raid, unit, block, *version).is_ok_and(|found| found == expected)
                };
                let Some(version) = Version::all(members).find(is_right) else { break };
                if version != Version::AS_READ && heals {
                    let heal = Command::Heal(vec![HealRange {
                        at: at(unit, block),
                        bytes: BLOCK as u64,
                        version,
                    }]);
                    raid.submit(Token(0), heal);
                    let healed = wait_for(raid, 1);
                    if healed != [Ok(())] {
                        return Err(format!("unit {unit} block {block} is not healed: {healed:?}"));
                    }
                }
                right += 1;
            }
            let known = &mut self.units[unit];
            if right < known.durable {
                let (durable, state) = (known.durable, state_of(raid));
                return Err(format!(
                    "unit {unit}: {right} of {durable} blocks in any version; {state}"
                ));
            }
            (known.written, known.blocks) = (right, known.blocks[..right].to_vec());
        }
        if heals {
            self.heal_all(raid);
        }
        Ok(())
    }

    /// An error unless all written blocks read back.
    pub fn compare(&self, raid: &mut Raid) -> Result<(), String> {
        let readable = self.compare_written(raid)?;
        if readable { Ok(()) } else { Err(format!("cannot be read: {}", state_of(raid))) }
    }

    /// Whether all written blocks can be read. Wrong content is an error.
    fn compare_written(&self, raid: &mut Raid) -> Result<bool, String> {
        for unit in 0..UNITS {
            let written = self.units[unit].written;
            let (found, readable) = self.found(raid, unit, written);
            if !readable {
                return Ok(false);
            }
            if found.len() < written {
                let (found, state) = (found.len(), state_of(raid));
                return Err(format!("unit {unit}: {found} blocks of {written}; {state}"));
            }
        }
        Ok(true)
    }
}

/// Some fates of each drive's unflushed changes.
pub fn fates(counts: &[usize], rng: &mut Rng) -> Vec<Vec<Vec<u8>>> {
    /// Chosen: a test takes seconds.
    const MOST: usize = 6;
    let all = |fate| counts.iter().map(|&count| vec![fate; count]).collect::<Vec<_>>();
    if counts.iter().all(|&count| count == 0) {
        return vec![all(0)];
    }
    let mut some = vec![all(0), all(1)];
    // One drive keeps all changes or loses all, and the other drives the reverse.
    let one = rng.below(counts.len() as u64) as usize;
    for (one_has, others_have) in [(1, 0), (0, 1)] {
        let mut fates = all(others_have);
        fates[one].fill(one_has);
        some.push(fates);
    }
    while some.len() < MOST {
        let drawn = |&count: &usize| (0..count).map(|_| rng.below(3) as u8).collect();
        some.push(counts.iter().map(drawn).collect());
    }
    some
}
