//! One member is wrong: a version without the member gives the flushed data, and a heal rewrites the member.

use thermocline_format::RaidLevel;
use thermocline_types::{Bytes, DeviceError, DeviceId, Rng, UnitId, Version};

use super::super::*;
use super::drives::{BLOCK, Bench, Blocks, Buffer, Death};
use super::world::{
    ASIDE, Doing, LEVELS, Raid, UNITS, Written, at, bench, carry_out, fates, fill_up, formatted,
    members, open, open_well, read_version, shape,
};
use super::{PROGRAM, SHORT, open_some, presences, with_a_stale_member};
use crate::HealRange;
use crate::bugs::{ArrayBug, set};

/// A program that writes to another unit than the examined one.
const ELSEWHERE: [Doing; 2] = [Doing::Append(&[(2, 1)]), Doing::Flush];

/// The drives after a crash during a program.
fn crashed(level: RaidLevel, seed: u64, rng: &mut Rng) -> (Vec<Blocks>, Written) {
    let bench = bench(level, formatted(level), seed);
    let mut written = Written::new(seed);
    bench.state().left = 60 + rng.below(400);
    if let Some(mut raid) = open(&bench).expect("it was formatted") {
        written.run(&mut raid, &PROGRAM).expect("nothing is wrong");
    }
    let drives = bench.state().drives.clone();
    let counts: Vec<usize> = drives.iter().map(|drive| drive.cached.len()).collect();
    let all = fates(&counts, rng);
    let fates = &all[rng.below(all.len() as u64) as usize];
    (drives.iter().zip(fates).map(|(drive, fates)| drive.after_cut(fates)).collect(), written)
}

/// Changes bytes of some blocks of a member, except its labels.
fn flip(image: &mut Blocks, rng: &mut Rng) {
    let labels = 2;
    for (&block, bytes) in image.iter_mut().filter(|(block, _)| **block >= labels) {
        if rng.below(2) == 0 {
            let mut wrong = bytes.to_vec();
            wrong[rng.below(BLOCK as u64) as usize] ^= 1 + (block as u8 | 1);
            *bytes = wrong.into();
        }
    }
}

/// Reads all data with each member missing in turn.
fn compare_without_each(bench: &Bench, written: &Written) -> Result<(), String> {
    let images: Vec<Blocks> = {
        let state = bench.state();
        assert!(state.drives.iter().all(|drive| drive.cached.is_empty()), "it was closed");
        state.drives.iter().map(|drive| drive.durable.clone()).collect()
    };
    for there in presences(bench.level()) {
        let bench = super::world::bench(bench.level(), images.clone(), 5);
        let mut raid = open_some(&bench, &there, None)
            .map_err(|error| error.to_string())?
            .expect("it is well");
        written.compare(&mut raid).map_err(|why| format!("{there:?}: {why}"))?;
    }
    Ok(())
}

/// Crashes with one wrong member. With `early`, the group writes before all data is read.
fn wrong_members(level: RaidLevel, seeds: std::ops::Range<u64>, early: bool) -> Result<(), String> {
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let (mut images, mut written) = crashed(level, seed, &mut rng);
        let wrong = rng.below(members(level) as u64) as usize;
        flip(&mut images[wrong], &mut rng);
        let bench = bench(level, images, seed);
        let case = |why: String| format!("seed {seed}, member {wrong} is wrong: {why}");
        let mut raid = open_well(&bench);
        if early {
            begin(&mut raid);
            assert_eq!(carry_out(&mut raid, Command::Flush(DeviceId(0))).result, Ok(()));
            written.judge(&mut raid, false).map_err(case)?;
        }
        written.judge(&mut raid, true).map_err(case)?;
        written.run(&mut raid, &[Doing::Flush]).map_err(case)?;
        written.compare(&mut raid).map_err(case)?;
        written.run(&mut raid, &SHORT).map_err(case)?;
        written.run(&mut raid, &ELSEWHERE).map_err(case)?;
        drop(raid);
        compare_without_each(&bench, &written).map_err(case)?;
    }
    Ok(())
}

/// A member has an earlier state, with its newest labels.
fn rolled_back(level: RaidLevel, seeds: std::ops::Range<u64>) -> Result<(), String> {
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let bench = bench(level, formatted(level), seed);
        let mut written = Written::new(seed);
        let back = rng.below(members(level) as u64) as usize;
        let mut raid = open_well(&bench);
        let half = 2 + rng.below(6) as usize;
        assert_eq!(written.run(&mut raid, &PROGRAM[..half]), Ok(true));
        let mut early = bench.state().drives[back].durable.clone();
        assert_eq!(written.run(&mut raid, &PROGRAM[half..]), Ok(true));
        let mut images: Vec<Blocks> =
            bench.state().drives.iter().map(|drive| drive.durable.clone()).collect();
        for label in 0..2 {
            early.extend(images[back].get(&label).map(|bytes| (label, bytes.clone())));
        }
        images[back] = early;
        bench.state().left = 0;
        drop(raid);
        let bench = super::world::bench(level, images, seed);
        let case = |why: String| format!("seed {seed}, member {back} was rolled back: {why}");
        let mut raid = open_well(&bench);
        written.judge(&mut raid, false).map_err(case)?;
        let (at, version) = (Bytes(0), Version::without(back));
        let distrust = Command::Distrust { at, version };
        assert_eq!(carry_out(&mut raid, distrust).result, Ok(()));
        // After a power cut now, the member is still not believed.
        let images = bench.state().drives.iter().map(|drive| drive.durable.clone()).collect();
        let cut = super::world::bench(level, images, seed);
        let there = open_well(&cut);
        if there.array.status().members[back] != MemberState::Filling {
            return Err(case("after a power cut it is believed again".to_owned()));
        }
        drop(there);
        written.judge(&mut raid, true).map_err(case)?;
        written.run(&mut raid, &SHORT).map_err(case)?;
        fill_up(&mut raid);
        written.compare(&mut raid).map_err(case)?;
        drop(raid);
        compare_without_each(&bench, &written).map_err(case)?;
    }
    Ok(())
}

#[test]
fn with_one_wrong_member_nothing_is_lost_or_older() {
    for level in LEVELS {
        wrong_members(level, 0..60, false).unwrap();
        wrong_members(level, 60..120, true).unwrap();
    }
}

#[test]
fn a_member_that_was_rolled_back_is_filled() {
    LEVELS.into_iter().for_each(|level| rolled_back(level, 0..24).unwrap());
}

/// The log of one member holds three rows and gives up one. A member has a wrong piece of that row.
fn full_log() -> Result<(), String> {
    let (level, shape) = (RaidLevel::Parity, shape(RaidLevel::Parity));
    let program = [Doing::Append(&[(0, 13), (1, 7), (2, 1)]), Doing::Flush];
    let (mut images, mut written) = reopened(&program);
    let member = shape.member_of(0, 2, 0);
    let block = shape.piece_start(0, 2) / BLOCK as u64;
    images[member].insert(block, vec![7; BLOCK].into());
    let bench = bench(level, images, 5);
    let mut raid = open_well(&bench);
    assert_eq!(raid.array.unsettled.len(), 1);
    begin(&mut raid);
    raid.work_until("settled", |array| array.unsettled.is_empty());
    assert_eq!(carry_out(&mut raid, Command::Flush(DeviceId(0))).result, Ok(()));
    assert_eq!(raid.array.left.len(), 2);
    written.judge(&mut raid, true)?;
    written.compare(&mut raid)
}

#[test]
fn a_log_that_is_full_gives_rows_up_that_it_has_right() {
    full_log().unwrap();
}

/// A group with parity after a program, on drives with their durable blocks.
fn reopened(program: &[Doing]) -> (Vec<Blocks>, Written) {
    reopened_on(RaidLevel::Parity, program)
}

fn reopened_on(level: RaidLevel, program: &[Doing]) -> (Vec<Blocks>, Written) {
    let first = bench(level, formatted(level), 4);
    let mut written = Written::new(4);
    let mut raid = open_well(&first);
    assert_eq!(written.run(&mut raid, program), Ok(true));
    let images = first.state().drives.iter().map(|drive| drive.durable.clone()).collect();
    first.state().left = 0;
    (images, written)
}

/// A full row has a wrong piece on one member, and a heal verifies another piece.
fn healed_beside_a_wrong_piece() -> Result<(), String> {
    let (mut images, mut written) = reopened(&[Doing::Append(&[(0, 6)]), Doing::Flush]);
    let [(member, block), _] = places(RaidLevel::Parity);
    images[member].insert(block, vec![7; BLOCK].into());
    let bench = bench(RaidLevel::Parity, images, 5);
    let mut raid = open_well(&bench);
    let heal = Command::Heal(vec![HealRange {
        at: at(0, 2),
        bytes: 2 * BLOCK as u64,
        version: Version::AS_READ,
    }]);
    assert_eq!(carry_out(&mut raid, heal).result, Ok(()));
    written.judge(&mut raid, true)
}

/// A crash changed two pieces and the parity of a row alike. One command heals both pieces.
fn healed_together() -> Result<(), String> {
    let (mut images, mut written) = reopened(&[Doing::Append(&[(0, 6)]), Doing::Flush]);
    let (level, shape) = (RaidLevel::Parity, shape(RaidLevel::Parity));
    let [(first, block), (second, _)] = places(level);
    for member in [first, second, shape.parity_of(0, 0).expect("it has parity")] {
        let mut changed = images[member][&block].to_vec();
        changed[..512].iter_mut().for_each(|byte| *byte ^= 0x55);
        images[member].insert(block, changed.into());
    }
    let bench = bench(level, images, 5);
    let mut raid = open_well(&bench);
    let heal = |index, member| {
        let (at, version) = (at(0, index), Version::without(member));
        HealRange { at, bytes: BLOCK as u64, version }
    };
    let both = Command::Heal(vec![heal(0, first), heal(2, second)]);
    assert_eq!(carry_out(&mut raid, both).result, Ok(()));
    let healed = |member: usize| raid.array.status().healed[member].places;
    assert_eq!([healed(first), healed(second)], [1, 1]);
    written.judge(&mut raid, false)?;
    let whole = HealRange { at: at(0, 0), bytes: 6 * BLOCK as u64, version: Version::AS_READ };
    assert_eq!(carry_out(&mut raid, Command::Heal(vec![whole])).result, Ok(()));
    drop(raid);
    compare_without_each(&bench, &written)
}

#[test]
fn pieces_of_a_row_that_changed_alike_are_healed_together() {
    healed_together().unwrap();
}

#[test]
fn a_heal_makes_no_parity_of_bytes_that_nobody_verified() {
    healed_beside_a_wrong_piece().unwrap();
}

#[test]
fn the_log_gives_what_a_missing_member_has_in_a_version_without_another() {
    let (images, _) = reopened(&[Doing::Append(&[(0, 4)]), Doing::Flush]);
    let level = RaidLevel::Parity;
    let [(first, block), (second, _)] = places(level);
    let there: Vec<bool> = (0..members(level)).map(|member| member != first).collect();
    let right = images[first][&block].to_vec();
    let bench = bench(level, images, 5);
    let mut raid =
        open_some(&bench, &there, None).expect("one may be missing").expect("it is well");
    assert_eq!(read_version(&mut raid, 0, 0, Version::without(second)), Ok(right));
}

/// A member is rolled back with labels and log. Its log still has a row that is full by now.
fn put_back_with_its_log() -> Result<(), String> {
    let (images, mut written) = reopened(&[Doing::Append(&[(0, 4)]), Doing::Flush]);
    let level = RaidLevel::Parity;
    let member = shape(level).parity_of(0, 0).expect("it has parity");
    let (early, mut images) = (images[member].clone(), images);
    for _ in 0..2 {
        let bench = bench(level, images, 5);
        let mut raid = open_well(&bench);
        assert_eq!(written.run(&mut raid, &[Doing::Append(&[(0, 2)]), Doing::Flush]), Ok(true));
        images = bench.state().drives.iter().map(|drive| drive.durable.clone()).collect();
        bench.state().left = 0;
    }
    images[member] = early;
    let bench = bench(level, images, 6);
    let raid = open_well(&bench);
    assert_eq!(raid.array.status().members[member], MemberState::Filling);
    match raid.array.left.contains_key(&(0, 0)) {
        true => Err("the log of a member that lacks something is believed".to_owned()),
        false => Ok(()),
    }
}

#[test]
fn the_log_of_a_member_that_lacks_something_counts_for_nothing() {
    put_back_with_its_log().unwrap();
}

/// Changes the group without effect, so that the group may write.
fn begin(raid: &mut Raid) {
    let none = Command::Heal(vec![HealRange { at: at(0, 0), bytes: 0, version: Version::AS_READ }]);
    assert_eq!(carry_out(raid, none).result, Ok(()));
}

fn catches(bug: ArrayBug, what: impl Fn() -> Result<(), String>) {
    set(Some(bug));
    let caught = what();
    set(None);
    println!("{bug:?}: {:.300}", format!("{caught:?}"));
    assert!(caught.is_err(), "{bug:?} is not noticed");
}

#[test]
fn deliberate_bugs_of_healing_are_caught() {
    for bug in [
        ArrayBug::VersionNotHeeded,
        ArrayBug::NothingHealed,
        ArrayBug::ParityNotHealed,
        ArrayBug::WrongPieceEndsLog,
    ] {
        catches(bug, || wrong_members(RaidLevel::Parity, 0..60, false));
    }
    catches(ArrayBug::LogNotHeeded, full_log);
    catches(ArrayBug::StaleLog, put_back_with_its_log);
    catches(ArrayBug::UnverifiedBelieved, healed_beside_a_wrong_piece);
    catches(ArrayBug::HealedOneByOne, healed_together);
    for bug in [ArrayBug::VersionNotHeeded, ArrayBug::NothingHealed, ArrayBug::ParityNotHealed] {
        catches(bug, || wrong_members(RaidLevel::Mirrored, 0..60, false));
    }
    for level in LEVELS {
        catches(ArrayBug::ReadOnce, || misread(level, 1));
        catches(ArrayBug::HolesFilled, || filled_with_holes(level));
        catches(ArrayBug::DistrustBeforeLabel, || rolled_back(level, 0..24));
        catches(ArrayBug::WritesBeforeChange, || nothing_is_written(level, 0..6));
    }
}

/// Opens groups after crashes, whole and without each member. Reads all data in all versions, flushes and closes.
fn nothing_is_written(level: RaidLevel, seeds: std::ops::Range<u64>) -> Result<(), String> {
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let crash = crashed(level, seed, &mut rng);
        let stale = with_a_stale_member(level, seed, (seed % members(level) as u64) as usize);
        for (images, written) in [crash, stale] {
            for there in presences(level) {
                let bench = bench(level, images.clone(), seed);
                let Ok(raid) = open_some(&bench, &there, None) else { continue };
                let mut raid = raid.expect("it is well");
                written.clone().judge(&mut raid, false).ok();
                assert_eq!(carry_out(&mut raid, Command::Flush(DeviceId(0))).result, Ok(()));
                drop(raid);
                for (member, (drive, before)) in
                    bench.state().drives.iter().zip(&images).enumerate()
                {
                    if drive.durable != *before || !drive.cached.is_empty() {
                        return Err(format!("seed {seed}, {there:?}: member {member} was written"));
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn nothing_is_written_before_the_first_change() {
    LEVELS.into_iter().for_each(|level| nothing_is_written(level, 0..12).unwrap());
}

/// A group with data in the first blocks of unit 0.
fn used(level: RaidLevel, seed: u64) -> (Bench, Raid, Written) {
    let bench = bench(level, formatted(level), seed);
    let mut raid = open_well(&bench);
    let mut written = Written::new(seed);
    assert_eq!(written.run(&mut raid, &PROGRAM), Ok(true));
    (bench, raid, written)
}

/// The member with the first piece of unit 0 and another member of the row, with the block on each.
fn places(level: RaidLevel) -> [(usize, u64); 2] {
    let shape = shape(level);
    let copy = shape.parity_of(0, 0).filter(|_| level.copies());
    let members = [shape.member_of(0, 0, 0), copy.unwrap_or_else(|| shape.member_of(0, 0, 1))];
    members.map(|member| (member, shape.piece_start(0, 0) / BLOCK as u64))
}

fn read_first(raid: &mut Raid) -> Completion {
    let (into, version) = (Buffer::of(&[0; BLOCK]), Version::AS_READ);
    carry_out(raid, Command::Read { at: at(0, 0), into, version })
}

#[test]
fn a_bad_place_is_answered_from_the_others_and_written_again_when_it_was_verified() {
    for level in LEVELS {
        let (bench, mut raid, written) = used(level, 7);
        let [first, second] = places(level);
        bench.state().bad.insert(first);
        let version = Version::without(first.0);
        let answer = read_first(&mut raid);
        assert_eq!((answer.result, answer.degraded), (Ok(()), Some(version)));
        written.compare(&mut raid).unwrap();
        assert!(bench.state().bad.contains(&first), "nobody verified what the others have");
        let heal = Command::Heal(vec![HealRange { at: at(0, 0), bytes: BLOCK as u64, version }]);
        assert_eq!(carry_out(&mut raid, heal).result, Ok(()));
        assert!(bench.state().bad.is_empty());
        let healed = raid.array.status().healed[first.0];
        assert_eq!(healed, Healed { places: 1, bytes: BLOCK as u64 });
        let told = std::iter::from_fn(|| raid.array.poll_notice());
        let is_it = |notice: ArrayNotice| {
            matches!(notice, ArrayNotice::Healed { member, unit: 0, from: 0, places: 1, .. }
                if member == first.0)
        };
        assert!(told.into_iter().any(is_it));
        assert_eq!(read_first(&mut raid).degraded, None);
        // A block that two members cannot read is an error, and no member is dropped.
        bench.state().bad.extend([first, second]);
        assert!(written.compare(&mut raid).is_err());
        assert!(raid.is_whole() && bench.state().bad.len() == 2);
    }
}

/// A member gives wrong bytes, to a heal of parity or a copy, to a heal of another member, or to a row that is written
/// on. A bit of `reads` is one for each wrong read of a block, from the next read on.
fn misread(level: RaidLevel, reads: u8) -> Result<(), String> {
    let shape = shape(level);
    let block = shape.piece_start(0, 0) / BLOCK as u64;
    for member in 0..members(level) {
        for (wrong, filled) in [(None, 6), (Some(places(level)[0].0), 6), (None, 4)] {
            // A row that is written on is read where it has pieces.
            let read = shape.piece_on(0, 0, member).is_some_and(|piece| piece < 2);
            if filled < 6 && (level.copies() || !read) {
                continue;
            }
            let program = [Doing::Append(&[(0, 6)]), Doing::Flush];
            let part = [Doing::Append(&[(0, 4)]), Doing::Flush];
            let program = if filled == 6 { &program } else { &part };
            let (mut images, mut written) = reopened_on(level, program);
            if let Some(wrong) = wrong {
                images[wrong].insert(block, vec![7; BLOCK].into());
            }
            let bench = bench(level, images, 5);
            let mut raid = open_well(&bench);
            begin(&mut raid);
            bench.state().misread.insert((member, block), reads);
            let case =
                |why| format!("{level:?}: member {member}, wrong {wrong:?}, {filled}: {why}");
            let heal = |version, blocks| {
                let (at, bytes) = (at(0, 0), (blocks * BLOCK) as u64);
                Command::Heal(vec![HealRange { at, bytes, version }])
            };
            if filled < 6 {
                let rest = [Doing::Append(&[(0, 2)]), Doing::Flush];
                assert_eq!(written.run(&mut raid, &rest).map_err(case), Ok(true));
            } else if let Some(wrong) = wrong {
                assert_eq!(carry_out(&mut raid, heal(Version::without(wrong), 1)).result, Ok(()));
            } else {
                assert_eq!(carry_out(&mut raid, heal(Version::AS_READ, 6)).result, Ok(()));
            }
            drop(raid);
            bench.state().misread.clear();
            compare_without_each(&bench, &written).map_err(case)?;
        }
    }
    Ok(())
}

#[test]
fn wrong_bytes_that_a_member_gives_once_are_written_nowhere() {
    for level in LEVELS {
        misread(level, 0b1).unwrap();
        // The second and the fourth read differ from all reads beside them.
        misread(level, 0b1010).unwrap();
    }
}

#[test]
fn a_row_is_written_on_behind_the_heals_of_it_that_were_asked_for() {
    let level = RaidLevel::Parity;
    let (images, mut written) = reopened_on(level, &[Doing::Append(&[(0, 4)]), Doing::Flush]);
    let heal = |blocks: usize, version| {
        let bytes = (blocks * BLOCK) as u64;
        Command::Heal(vec![HealRange { at: at(0, 0), bytes, version }])
    };
    // The row has parity, and no log.
    let first = bench(level, images, 5);
    let mut raid = open_well(&first);
    assert_eq!(carry_out(&mut raid, heal(4, Version::AS_READ)).result, Ok(()));
    written.run(&mut raid, &[Doing::Flush]).unwrap();
    let durable = |drive: &super::drives::DriveState| drive.durable.clone();
    let mut images: Vec<Blocks> = first.state().drives.iter().map(durable).collect();
    first.state().left = 0;
    let data = u64::from(shape(level).head_units()) * shape(level).strip() / BLOCK as u64;
    images.iter_mut().for_each(|image| image.retain(|block, _| !(2..data).contains(block)));
    let [(wrong, block), _] = places(level);
    images[wrong].insert(block, vec![7; BLOCK].into());
    let bench = bench(level, images, 5);
    let mut raid = open_well(&bench);
    begin(&mut raid);
    raid.submit(ASIDE, heal(1, Version::without(wrong)));
    written.run(&mut raid, &[Doing::Append(&[(0, 2)]), Doing::Flush]).unwrap();
    drop(raid);
    compare_without_each(&bench, &written).unwrap();
}

/// A source of a fill answers every read with an error.
fn filled_with_holes(level: RaidLevel) -> Result<(), String> {
    let (stale, source) = (0, 1);
    let (images, written) = with_a_stale_member(level, 2, stale);
    let bench = bench(level, images, 9);
    let mut raid = open_well(&bench);
    begin(&mut raid);
    let strips = shape(level).head_units() as u64 * shape(level).strip() / BLOCK as u64;
    bench.state().bad = (strips..strips + 500).map(|block| (source, block)).collect();
    fill_up(&mut raid);
    let status = raid.array.status();
    if status.members[stale] != MemberState::Filling {
        return Err("a member with holes counts as whole".to_owned());
    }
    assert!(status.holes > Bytes(0) && status.holes == status.lacking, "{status:?}");
    let said: Vec<ArrayNotice> = std::iter::from_fn(|| raid.array.poll_notice()).collect();
    let holes = said.iter().filter(|one| matches!(one, ArrayNotice::NotFilled { .. })).count();
    assert!((1..20).contains(&holes), "{said:?}");
    drop(raid);
    // The source reads again while the member has holes: the holes are filled later.
    let mut raid = open_well(&bench);
    begin(&mut raid);
    fill_up(&mut raid);
    assert!(!raid.is_whole());
    bench.state().bad.clear();
    raid.array.handle_timeout(Time(120_000_000_000));
    fill_up(&mut raid);
    assert!(raid.is_whole(), "{:?}", raid.array.status());
    assert_eq!(raid.array.status().holes, Bytes(0));
    drop(raid);
    compare_without_each(&bench, &written)
}

#[test]
fn a_member_is_not_whole_where_a_source_of_its_fill_did_not_read() {
    LEVELS.into_iter().for_each(|level| filled_with_holes(level).unwrap());
}

#[test]
fn a_version_that_cannot_be_had_is_an_error_and_costs_no_member_anything() {
    for level in LEVELS {
        let (bench, mut raid, _) = used(level, 8);
        let [(member, _), other] = places(level);
        let (io, gone) = (Err(DeviceError::Io.into()), Err(DeviceError::Gone.into()));
        bench.state().bad.insert(other);
        let without = Version::without(member);
        assert_eq!(read_version(&mut raid, 0, 0, without).map(drop), io);
        let heal =
            Command::Heal(vec![HealRange { at: at(0, 0), bytes: BLOCK as u64, version: without }]);
        assert!(carry_out(&mut raid, heal).result.is_err());
        assert!(raid.is_whole());
        // The other member of the row is gone. No version without this member exists, and the member cannot be
        // distrusted.
        bench.state().death = Some(Death { side: other.0, after: 0, error: DeviceError::Gone });
        assert_eq!(read_version(&mut raid, 0, 0, without).map(drop), gone);
        assert!(raid.is_whole(), "it was asked without blame");
        assert_eq!(read_first(&mut raid).result, Ok(()));
        let (unit, block) = if level.copies() { (1, 0) } else { (0, 2) };
        assert!(read_version(&mut raid, unit, block, Version::AS_READ).is_ok(), "computed");
        assert!(!raid.is_whole());
        let distrust = Command::Distrust { at: Bytes(0), version: without };
        assert_eq!(carry_out(&mut raid, distrust).result, io);
        let before = raid.array.status().members.clone();
        let none = Command::Distrust { at: Bytes(0), version: Version::without(before.len()) };
        assert_eq!(carry_out(&mut raid, none).result, io);
        assert_eq!((raid.array.status().members.clone(), UNITS), (before, 3));
    }
}

#[test]
fn a_member_of_a_mirror_that_is_avoided_is_read_only_where_the_other_one_cannot_be() {
    for slow in [0, 1] {
        let (bench, mut raid, written) = used(RaidLevel::Mirrored, 7);
        raid.array.avoid = Some(slow);
        let unreadable = |side: usize| (0..500).map(move |block| (side, block));
        bench.state().bad = unreadable(slow).collect();
        written.compare(&mut raid).unwrap();
        assert_eq!(read_first(&mut raid).degraded, None);
        bench.state().bad = unreadable(1 - slow).collect();
        written.compare(&mut raid).unwrap();
        assert_eq!(read_first(&mut raid).degraded, Some(Version::without(1 - slow)));
        assert!(raid.is_whole());
    }
}

#[test]
fn a_heal_of_a_mirror_writes_the_verified_bytes_and_no_more() {
    let (bench, mut raid, written) = used(RaidLevel::Mirrored, 3);
    let [_, (copy, first)] = places(RaidLevel::Mirrored);
    let wrong: Blocks = (first..first + 4).map(|block| (block, vec![7; BLOCK].into())).collect();
    bench.state().drives[copy].durable.extend(wrong.clone());
    let heal = Command::Heal(vec![HealRange {
        at: at(0, 1),
        bytes: 2 * BLOCK as u64,
        version: Version::AS_READ,
    }]);
    assert_eq!(carry_out(&mut raid, heal).result, Ok(()));
    assert_eq!(carry_out(&mut raid, Command::Flush(DeviceId(0))).result, Ok(()));
    let blocks = bench.state().drives[copy].durable.clone();
    let is_wrong = [0, 1, 2, 3].map(|block| blocks[&(first + block)] == wrong[&(first + block)]);
    assert_eq!(is_wrong, [true, false, false, true]);
    assert_eq!(raid.array.status().healed[copy].places, 0, "nobody said that it was wrong");
    written.compare(&mut raid).unwrap();
}

#[test]
fn an_array_that_is_only_to_be_read_refuses_changes() {
    for level in LEVELS {
        let bench = bench(level, formatted(level), 3);
        let mut raid = open_well(&bench);
        raid.array.access = Access::ReadOnly;
        let read_only = Err(DeviceError::ReadOnly.into());
        let distrust = Command::Distrust { at: Bytes(0), version: Version::without(0) };
        assert_eq!(carry_out(&mut raid, distrust).result, read_only);
        assert_eq!(carry_out(&mut raid, Command::Reset(UnitId(0))).result, read_only);
        assert_eq!(read_first(&mut raid).result, Ok(()));
    }
}
