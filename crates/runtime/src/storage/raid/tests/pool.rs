//! Whole pools on a group. The engine writes, power cuts tear rows, a member dies or is missing. Flushed data stays
//! readable, with all members and then without each one.

use std::collections::BTreeMap;

use thermocline_array::bugs::{ArrayBug, set};
use thermocline_array::{StartError, decide, layout_on};
use thermocline_engine::{Config, Extent, HostRequest, Reply, RequestId};
use thermocline_format::{
    Geometry, LogicalBlock, PoolId, RaidLabel, RaidShape, VolumeId, VolumeName,
};
use thermocline_types::{Rng, UnitId};

use super::super::*;
use crate::Driver;
use crate::storage::bench::{BLOCK, Bench, Blocks, Death};

const MEMBERS: usize = 4;

/// Number of blocks to write. Few blocks, for many overwrites.
const SPAN: u64 = 200;

const DEPTH: usize = 6;

fn shape() -> RaidShape {
    RaidShape::new(RaidLevel::Parity, MEMBERS, LogicalBlock::B4096, 64, 40).expect("it can be")
}

fn config() -> Config {
    let shape = shape();
    let superblocks = [UnitId(0), UnitId(1)];
    let geometry = Geometry::new(shape.logical_block, shape.unit_blocks, shape.units, superblocks);
    Config::new(geometry.expect("a small pool"))
}

fn bench(images: Vec<Blocks>, seed: u64) -> Bench {
    Bench::new(images, layout_on(&shape()), seed)
}

/// A group whose members have labels and no data.
fn labelled() -> Vec<Blocks> {
    let shape = shape();
    let bench = Bench::new(vec![Blocks::new(); MEMBERS], layout_on(&shape), 1);
    for member in 0..MEMBERS {
        let first = RaidLabel::of_new(PoolId([5; 16]), 9, 0, shape);
        let label = RaidLabel { member: member as u8, ..first };
        write_label(&mut *bench.drive(member), &label).expect("it is well");
    }
    let state = bench.state();
    state.drives.iter().map(|drive| drive.durable.clone()).collect()
}

/// Opens the group with the members in `there`; `None` if the power is cut.
fn open(bench: &Bench, there: [bool; MEMBERS]) -> Result<Option<(Raid, Group)>, StartError> {
    let mut storages: Vec<_> = (0..MEMBERS).map(|member| Some(bench.drive(member))).collect();
    let find = |(member, storage): (usize, &mut Option<Box<dyn Storage>>)| {
        let storage = storage.as_mut().filter(|_| there[member])?;
        find(&mut **storage, None).ok().flatten()
    };
    let labels: Vec<_> = storages.iter_mut().enumerate().map(find).collect();
    if labels.iter().all(Option::is_none) {
        // The power is cut.
        return Ok(None);
    }
    let refs: Vec<_> = labels.iter().map(|label| label.as_ref().map(|(label, _)| label)).collect();
    let start = decide(&refs, Access::ReadWrite)?;
    let found = storages.into_iter().zip(&labels).map(|(storage, label)| {
        let (_, place) = label.as_ref()?;
        Some(FoundMember { storage: storage?, place: *place })
    });
    let (name, why, rate, access) = ("g".to_owned(), None, None, Access::ReadWrite);
    let paths = ["a", "b", "c", "d"].map(PathBuf::from).to_vec();
    let storages = found.collect();
    let found = FoundRaid { name, paths, why, storages, start, rate, access, avoid: None };
    Ok(Some(Raid::open(found)))
}

/// Some fates of each drive's unflushed changes.
fn fates(counts: &[usize], rng: &mut Rng) -> Vec<Vec<Vec<u8>>> {
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

/// All members present, and each one missing in turn.
fn presences() -> impl Iterator<Item = [bool; MEMBERS]> {
    let without = |gone: usize| std::array::from_fn(|member| member != gone);
    (0..=MEMBERS).map(without)
}

fn may_be_too_few(there: [bool; MEMBERS], died: Option<usize>) -> bool {
    died.is_some_and(|died| (0..MEMBERS).any(|member| member != died && !there[member]))
}

/// For each block, the newest version sent and the oldest version allowed.
#[derive(Clone)]
struct Ledger(Vec<(u64, u64)>);

fn content(lba: u64, version: u64) -> Buffer {
    let mut rng = Rng::new(lba << 32 | version);
    let mut bytes = [lba.to_le_bytes(), version.to_le_bytes()].concat();
    while bytes.len() < BLOCK {
        bytes.extend(rng.next_u64().to_le_bytes());
    }
    Buffer::new(thermocline_target::Buffer::from_bytes(&bytes))
}

/// A closed, empty pool with one volume.
fn formatted() -> (Vec<Blocks>, VolumeId) {
    let bench = bench(labelled(), 1);
    let (raid, _) = open(&bench, [true; MEMBERS]).unwrap().expect("it is well");
    let mut driver = Driver::format(config(), PoolId([5; 16]), raid).expect("there is room");
    let (name, blocks) = (VolumeName::new("v").expect("a name"), SPAN);
    let made = driver.carry_out(HostRequest::CreateVolume { name, blocks });
    let Ok(Reply::Created(volume)) = made else { panic!("{made:?}") };
    assert_eq!(driver.carry_out(HostRequest::Close), Ok(Reply::Done));
    drop(driver);
    let drives = bench.state().drives.iter().map(|drive| drive.durable.clone()).collect();
    (drives, volume)
}

/// Writes random blocks with flushes between. Stops at the first failure or after `most` answers.
fn write(
    driver: &mut Driver<Raid>,
    volume: VolumeId,
    ledger: &mut Ledger,
    rng: &mut Rng,
    most: u64,
) {
    let mut under_way = BTreeMap::<RequestId, (u64, u64, bool)>::new();
    let (mut ended, mut done, mut number) = (Vec::new(), 0, 0);
    while done < most {
        while under_way.len() < DEPTH {
            let lba = rng.below(SPAN);
            if under_way.values().any(|(other, ..)| *other == lba) {
                continue;
            }
            number += 1;
            let (version, fua) = (ledger.0[lba as usize].0 + 1, rng.below(5) == 0);
            let (extent, data) = (Extent { volume, lba, blocks: 1 }, content(lba, version));
            let request = HostRequest::Write { extent, data, fua, handle: 0 };
            if driver.submit(RequestId(number), request).is_err() {
                return;
            }
            ledger.0[lba as usize].0 = version;
            under_way.insert(RequestId(number), (lba, version, fua));
        }
        driver.poll(Some(Duration::from_millis(1)), &mut ended);
        for one in ended.drain(..) {
            if one.result != Ok(Reply::Done) {
                return;
            }
            done += 1;
            let (lba, version, fua) = under_way.remove(&one.request).expect("it was submitted");
            if fua {
                ledger.0[lba as usize].1 = version;
            }
        }
    }
}

/// Reads all blocks. From now on the versions found must stay.
fn read(driver: &mut Driver<Raid>, volume: VolumeId, ledger: &mut Ledger) -> Result<(), String> {
    for (lba, known) in (0..).zip(&mut ledger.0) {
        let into = Buffer::new(thermocline_target::Buffer::zeroed(BLOCK));
        let extent = Extent { volume, lba, blocks: 1 };
        let result = driver.carry_out(HostRequest::Read { extent, into: into.clone() });
        if result != Ok(Reply::Done) {
            return Err(format!("block {lba}: {result:?}"));
        }
        let found = into.read().to_vec();
        let version = u64::from_le_bytes(found[8..16].try_into().expect("eight bytes"));
        let (sent, durable) = *known;
        let is_it =
            if version == 0 { vec![0; BLOCK] } else { content(lba, version).read().to_vec() };
        if found != is_it || !(durable..=sent).contains(&version) {
            return Err(format!("block {lba}: {durable} <= {version} <= {sent}"));
        }
        *known = (version, version);
    }
    Ok(())
}

/// Opens the pool with the members in `there`, reads all blocks, writes more, and reads again without another member.
fn recovered(
    bench: &Bench,
    there: [bool; MEMBERS],
    died: Option<usize>,
    volume: VolumeId,
    mut ledger: Ledger,
    rng: &mut Rng,
) -> Result<(), String> {
    let raid = match open(bench, there) {
        Ok(raid) => raid.ok_or("the drives are well, and it does not open")?.0,
        Err(StartError::TooFew { .. }) if may_be_too_few(there, died) => return Ok(()),
        Err(error) => return Err(format!("refused: {error}")),
    };
    let mut driver = Driver::open(config(), raid).map_err(|error| format!("opening: {error}"))?;
    read(&mut driver, volume, &mut ledger).map_err(|why| format!("at first: {why}"))?;
    if driver.carry_out(HostRequest::Flush) != Ok(Reply::Done) {
        return Err("the drives are well, and a flush failed".to_owned());
    }
    let whole = driver.device().storage().group.status().is_whole();
    if there == [true; MEMBERS] && whole {
        let gone = rng.below(MEMBERS as u64) as usize;
        bench.state().death = Some(Death { side: gone, after: 0, error: DeviceError::Gone });
        read(&mut driver, volume, &mut ledger).map_err(|why| format!("without {gone}: {why}"))?;
        write(&mut driver, volume, &mut ledger, rng, 20);
    }
    Ok(())
}

/// Commands to all members until the pool is open.
fn commands_of_opening(images: &[Blocks]) -> u64 {
    let bench = bench(images.to_vec(), 1);
    let (raid, _) = open(&bench, [true; MEMBERS]).expect("it was formatted").expect("it is well");
    let driver = Driver::open(config(), raid).expect("it was closed");
    let commands = bench.state().done;
    drop(driver);
    commands
}

/// Cuts the power at a random command, for each seed. In every second world a member dies before. Returns the number of
/// states examined.
fn cut(seeds: std::ops::Range<u64>) -> Result<u64, String> {
    let (images, volume) = formatted();
    let opening = commands_of_opening(&images);
    let mut states = 0;
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let bench = bench(images.clone(), seed);
        let after = opening / MEMBERS as u64 + rng.below(80);
        let side = rng.below(MEMBERS as u64) as usize;
        let error = if rng.below(2) == 0 { DeviceError::Gone } else { DeviceError::Io };
        let death = (seed % 2 == 1).then_some(Death { side, after, error });
        let mut ledger = Ledger(vec![(0, 0); SPAN as usize]);
        let left = opening + rng.below(700);
        (bench.state().left, bench.state().death, bench.state().lazy) = (left, death, true);
        if let Some((raid, _)) = open(&bench, [true; MEMBERS]).expect("it was formatted")
            && let Ok(mut driver) = Driver::open(config(), raid)
        {
            write(&mut driver, volume, &mut ledger, &mut rng, 2_000);
        }
        let drives = bench.state().drives.clone();
        let counts: Vec<usize> = drives.iter().map(|drive| drive.cached.len()).collect();
        for fates in fates(&counts, &mut rng) {
            for there in presences() {
                let drives = drives.iter().zip(&fates);
                let images = drives.map(|(drive, fates)| drive.after_cut(fates)).collect();
                let bench = self::bench(images, seed);
                let died = death.map(|death| death.side);
                recovered(&bench, there, died, volume, ledger.clone(), &mut rng).map_err(
                    |why| {
                        format!(
                            "seed {seed}, {death:?}, cut after {left}, {fates:?}, {there:?}: {why}"
                        )
                    },
                )?;
                states += 1;
            }
        }
    }
    Ok(states)
}

#[test]
fn a_pool_on_a_group_loses_nothing_with_power_and_a_member() {
    let states = cut(0..24).unwrap();
    println!("{states} states");
    assert!(states > 100, "{states}");
}

#[test]
fn torn_rows_are_caught_in_a_pool() {
    for bug in [
        ArrayBug::ParityNotHealed,
        ArrayBug::ParityNotFlushed,
        ArrayBug::LogAheadOfData,
        ArrayBug::PartialInPlace,
    ] {
        set(Some(bug));
        let caught = cut(0..40);
        set(None);
        println!("{bug:?}: {:.400}", format!("{caught:?}"));
        assert!(caught.is_err(), "{bug:?} is not noticed");
    }
}
