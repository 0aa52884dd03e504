use proptest::prelude::*;
use thermocline_types::Rng;

use super::*;

/// What a unit is, kept the plain way.
#[derive(Clone, Copy, Debug)]
struct Model {
    state: UnitState,
    class: Class,
    valid: u32,
    written: u32,
    erases: u32,
    closed_at: u64,
}

const BLOCKS: u32 = 12;

#[derive(Clone, Copy, Debug)]
enum Step {
    Open(u8),
    Add(u32),
    Drop(u32),
    Close(u64),
    BeginRelocation,
    EndRelocation,
    Erase,
    Retire,
    Adopt(UnitState, u64),
}

fn steps() -> impl Strategy<Value = Vec<(u32, Step)>> {
    let state = prop::sample::select(vec![
        UnitState::Free,
        UnitState::Open,
        UnitState::Closed,
        UnitState::Relocating,
        UnitState::Retired,
    ]);
    let step = prop_oneof![
        4 => any::<u8>().prop_map(Step::Open),
        6 => (1..BLOCKS).prop_map(Step::Add),
        6 => (1..BLOCKS).prop_map(Step::Drop),
        4 => (0_u64..100).prop_map(Step::Close),
        2 => Just(Step::BeginRelocation),
        2 => Just(Step::EndRelocation),
        1 => Just(Step::Erase),
        1 => Just(Step::Retire),
        3 => (state, 0_u64..100).prop_map(|(state, at)| Step::Adopt(state, at)),
    ];
    // Few units at the edges of groups are named often, so that each goes through many states.
    let unit = prop_oneof![0_u32..4, 62_u32..67, 126_u32..140];
    prop::collection::vec((unit, step), 1..200)
}

/// Does `step` to both if the state of the unit allows it.
fn act(units: &mut Units, model: &mut [Model], unit: UnitId, step: Step) {
    use UnitState::{Closed, Free, Open, Relocating, Retired};
    let one = &mut model[unit.index()];
    match (step, one.state) {
        (Step::Open(class), Free) => {
            units.open(unit, Class(class));
            *one = Model { state: Open, class: Class(class), written: 0, ..*one };
        }
        (Step::Add(count), _) => {
            let count = count.min(BLOCKS - one.valid);
            (0..count).for_each(|_| units.add_valid(unit));
            one.valid += count;
        }
        (Step::Drop(count), _) => {
            let count = count.min(one.valid);
            (0..count).for_each(|_| units.drop_valid(unit));
            one.valid -= count;
        }
        (Step::Close(now), Open) => {
            units.close(unit, one.valid, now);
            *one = Model { state: Closed, written: one.valid, closed_at: now, ..*one };
        }
        (Step::BeginRelocation, Closed) => {
            units.begin_relocation(unit);
            one.state = Relocating;
        }
        (Step::EndRelocation, Relocating) => {
            units.end_relocation(unit);
            one.state = Closed;
        }
        (Step::Erase, state) if state != Retired => {
            let erases = one.erases + 1;
            assert_eq!(units.erase(unit), erases);
            *one = Model { state: Free, valid: 0, written: 0, erases, ..*one };
        }
        (Step::Retire, _) => {
            units.retire(unit);
            one.state = Retired;
        }
        (Step::Adopt(state, closed_at), _) => {
            units.adopt(unit, state, Class(7), 3, closed_at);
            *one = Model { state, class: Class(7), written: 3, closed_at, ..*one };
        }
        _ => {}
    }
}

/// Compares every unit and every group summary with the model.
fn compare(units: &Units, model: &[Model]) {
    for (unit, one) in units.ids().zip(model) {
        assert_eq!(units.state(unit), one.state, "{unit:?}");
        assert_eq!(units.valid_count(unit), one.valid, "{unit:?}");
        assert_eq!(units.class(unit), one.class, "{unit:?}");
        assert_eq!(units.written(unit), one.written, "{unit:?}");
        assert_eq!(units.erases(unit), one.erases, "{unit:?}");
        assert_eq!(units.closed_at(unit), one.closed_at, "{unit:?}");
    }
    for (index, members) in model.chunks(GROUP).enumerate() {
        let closed = || members.iter().filter(|one| one.state == UnitState::Closed);
        let group = units.groups[index];
        match closed().map(|one| one.valid).min() {
            Some(fewest) => {
                assert_eq!(group.min_valid, fewest, "group {index}");
                let oldest = closed().map(|one| one.closed_at).min();
                assert_eq!(Some(group.oldest), oldest, "group {index}");
            }
            None => assert!(group.min_valid & NOT_CLOSED != 0, "group {index} has no closed unit"),
        }
    }
}

/// The search by a plain scan.
fn best_of(
    model: &[Model],
    range: Range<u32>,
    allowed: impl Fn(UnitId) -> bool,
    score: impl Fn(u32, u64) -> f64,
) -> Option<UnitId> {
    let mut best: Option<(f64, UnitId)> = None;
    for unit in range.map(UnitId).filter(|&unit| allowed(unit)) {
        let one = model[unit.index()];
        let value = score(one.valid, one.closed_at);
        if one.state == UnitState::Closed && best.is_none_or(|(top, _)| value > top) {
            best = Some((value, unit));
        }
    }
    best.map(|(_, unit)| unit)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn behaves_like_a_plain_table(
        count in 140_u32..200,
        steps in steps(),
        (start, end) in (0_u32..70, 60_u32..140),
        allowed in prop::collection::vec(any::<bool>(), 200),
        ranges in 0..=BLOCKS + 2,
    ) {
        let mut units = Units::new(count, BLOCKS);
        if ranges > 0 {
            units = units.keeping_ranges(ranges);
        }
        let fresh = Model {
            state: UnitState::Free,
            class: Class(0),
            valid: 0,
            written: 0,
            erases: 0,
            closed_at: 0,
        };
        let mut model = vec![fresh; count as usize];
        let scores: [fn(u32, u64) -> f64; 4] = [
            |valid, _| -f64::from(valid),
            |_, closed_at| -(closed_at as f64),
            |valid, closed_at| f64::from(BLOCKS - valid) * (101 - closed_at) as f64 / f64::from(valid),
            |valid, closed_at| f64::from(BLOCKS - valid) * (101 - closed_at) as f64,
        ];
        for (unit, step) in steps {
            act(&mut units, &mut model, UnitId(unit), step);
            compare(&units, &model);
            for range in [0..count, start..end.max(start)] {
                for score in scores {
                    let allowed = |unit: UnitId| allowed[unit.index()];
                    prop_assert_eq!(
                        units.best_closed(range.clone(), allowed, score),
                        best_of(&model, range.clone(), allowed, score)
                    );
                }
                prop_assert_eq!(
                    units.emptiest_closed(range.clone()),
                    best_of(&model, range, |_| true, scores[0])
                );
            }
        }
    }
}

#[test]
fn takes_less_than_forty_bytes_a_unit() {
    let units = Units::new(6400, BLOCKS);
    assert_eq!(units.memory_bytes(), 6400 * 28 + 6400 / 4);
    let blocks_of_two_mebibytes = Units::new(6400, 512).keeping_by_age();
    let more = blocks_of_two_mebibytes.memory_bytes() - units.memory_bytes();
    assert!((6400 * 40..6400 * 53).contains(&more), "{more}");
}

/// More closings than there are slots, in order of time as a layer has them, and bits in words far apart.
#[test]
fn units_kept_by_age_are_chosen_as_they_are_without() {
    const COUNT: u32 = 5_000;
    let mut rng = Rng::new(7);
    let mut plain = Units::new(COUNT, BLOCKS);
    let mut by_age = plain.clone().keeping_ranges(5);
    for now in 0..30_000_u64 {
        let unit = UnitId(rng.below(u64::from(COUNT)) as u32);
        let dropped = UnitId(rng.below(u64::from(COUNT)) as u32);
        for units in [&mut plain, &mut by_age] {
            match units.state(unit) {
                UnitState::Free => {
                    units.open(unit, Class(0));
                    (1..BLOCKS).for_each(|_| units.add_valid(unit));
                    units.close(unit, BLOCKS, now / 3);
                }
                _ if units.valid_count(dropped) > 1 => units.drop_valid(dropped),
                _ => {}
            }
        }
        let chosen = [&plain, &by_age].map(|units| {
            units.best_closed(
                0..COUNT,
                |_| true,
                |valid, closed_at| {
                    f64::from(BLOCKS - valid) / f64::from(valid) * (now + 1 - closed_at) as f64
                },
            )
        });
        assert_eq!(chosen[0], chosen[1], "write {now}");
        if now % 2 == 0
            && let Some(victim) = chosen[0]
        {
            for units in [&mut plain, &mut by_age] {
                units.begin_relocation(victim);
                units.erase(victim);
            }
        }
    }
}
