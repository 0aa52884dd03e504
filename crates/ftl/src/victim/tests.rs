use super::*;
use thermocline_types::Class;

type Score = &'static dyn Fn(f64, f64) -> f64;

/// Six units of eight blocks, of which four were closed in order at host writes 8, 16, 24, 32, with `valid[i]` blocks
/// left in each.
fn closed_units(valid: [u32; 4]) -> Units {
    let mut units = Units::new(6, 8);
    for (index, keep) in valid.into_iter().enumerate() {
        let unit = UnitId(index as u32);
        units.open(unit, Class(0));
        (0..8).for_each(|_| units.add_valid(unit));
        units.close(unit, 8, (index as u64 + 1) * 8);
        (keep..8).for_each(|_| units.drop_valid(unit));
    }
    units
}

fn choose(victim: Victim, valid: [u32; 4]) -> UnitId {
    let units = closed_units(valid);
    victim.choose(&units, 0..6, 32, &mut Rng::new(1)).unwrap()
}

#[test]
fn greedy_takes_the_emptiest_and_the_lowest_of_equals() {
    assert_eq!(choose(Victim::Greedy, [7, 3, 5, 3]), UnitId(1));
    assert_eq!(choose(Victim::Greedy, [8, 8, 8, 8]), UnitId(0));
}

#[test]
fn fifo_takes_the_oldest_whatever_it_holds() {
    assert_eq!(choose(Victim::Fifo, [8, 0, 0, 0]), UnitId(0));
}

#[test]
fn windowed_greedy_looks_at_the_oldest_only() {
    assert_eq!(choose(Victim::Windowed { share: 0.5 }, [7, 6, 0, 1]), UnitId(1));
    assert_eq!(choose(Victim::Windowed { share: 1.0 }, [7, 6, 0, 1]), UnitId(2));
}

#[test]
fn cost_benefit_scores_match_hand_calculation() {
    // Ages 24, 16, 8, 0 host writes, plus one.
    let by_hand = |valid: [u32; 4], score: Score| {
        let scores: Vec<f64> =
            (0..4).map(|i| score(f64::from(valid[i]) / 8.0, 25.0 - 8.0 * i as f64)).collect();
        let best = (0..4).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap();
        UnitId(best as u32)
    };
    for valid in [[6, 4, 3, 2], [7, 7, 6, 1], [5, 4, 4, 4], [7, 5, 2, 1]] {
        let forms: [(CostBenefit, Score); 4] = [
            (CostBenefit::Lfs, &|u, age| (1.0 - u) * age / (1.0 + u)),
            (CostBenefit::Kawaguchi, &|u, age| (1.0 - u) * age / (2.0 * u)),
            (CostBenefit::SquareRootAge, &|u, age| (1.0 - u) / u * age.powf(0.5)),
            (CostBenefit::FourthRootAge, &|u, age| (1.0 - u) / u * age.powf(0.25)),
        ];
        for (form, score) in forms {
            assert_eq!(
                choose(Victim::CostBenefit(form), valid),
                by_hand(valid, score),
                "{form:?} {valid:?}"
            );
        }
    }
}

#[test]
fn declining_cost_weighs_the_square_of_what_is_gained_by_the_time_since_updates() {
    // Ages 25, 17, 9 and 1; 2, 3, 4 and 6 of 8 blocks gained: 100, 153, 144, 36.
    assert_eq!(choose(Victim::DecliningCost, [6, 5, 4, 2]), UnitId(1));
    // With times of updates noted, these count and not when the unit was closed.
    let mut units = closed_units([6, 5, 4, 2]);
    units.track_updates();
    [30, 30, 30, 0].into_iter().zip(units.ids()).for_each(|(at, unit)| units.note_update(unit, at));
    let choice = Victim::DecliningCost.choose(&units, 0..6, 32, &mut Rng::new(1));
    assert_eq!(choice, Some(UnitId(3)));
    units.note_update(UnitId(3), 40);
    assert_eq!(units.mean_update(UnitId(3)), 20, "the mean of its blocks");
}

#[test]
fn choices_of_many_find_the_emptiest_and_of_one_vary() {
    assert_eq!(choose(Victim::Choices { d: 64 }, [7, 3, 5, 6]), UnitId(1));
    let units = closed_units([4, 4, 4, 4]);
    let mut rng = Rng::new(3);
    let mut seen = [false; 4];
    for _ in 0..64 {
        seen[Victim::Choices { d: 1 }.choose(&units, 0..6, 32, &mut rng).unwrap().index()] = true;
    }
    assert_eq!(seen, [true; 4]);
}

#[test]
fn nothing_closed_means_no_victim() {
    let units = Units::new(6, 8);
    for (victim, _) in Victim::list() {
        assert_eq!(victim.choose(&units, 0..6, 0, &mut Rng::new(1)), None, "{victim}");
    }
}

#[test]
fn names_round_trip_and_unknown_ones_are_listed() {
    for (victim, _) in Victim::list() {
        assert_eq!(victim.to_string().parse(), Ok(victim));
    }
    let error = "gredy".parse::<Victim>().unwrap_err().to_string();
    assert!(error.contains("`gredy`") && error.contains("greedy, "), "{error}");
    assert!("choices:0".parse::<Victim>().is_err() && "windowed:1.5".parse::<Victim>().is_err());
}

#[test]
fn what_is_not_allowed_counts_for_nothing() {
    let units = closed_units([0, 3, 5, 2]);
    for (victim, _) in Victim::list() {
        let only = |allowed: &[u32]| {
            let allowed = |unit: UnitId| allowed.contains(&unit.0);
            victim.choose_where(&units, 0..6, 32, &mut Rng::new(1), allowed)
        };
        assert_eq!(only(&[2]), Some(UnitId(2)), "{victim}");
        assert_eq!(only(&[4, 5]), None, "{victim}: only free units allowed");
        assert_eq!(only(&[]), None, "{victim}");
    }
    // Half of units 1 to 3, oldest first, are units 1 and 2.
    let windowed = Victim::Windowed { share: 0.5 };
    let not_first = |unit: UnitId| unit.0 > 0;
    assert_eq!(
        windowed.choose_where(&units, 0..6, 32, &mut Rng::new(1), not_first),
        Some(UnitId(1))
    );
}

#[test]
fn a_unit_under_relocation_is_no_victim() {
    let mut units = closed_units([0, 3, 5, 2]);
    (0..3).for_each(|unit| units.begin_relocation(UnitId(unit)));
    for (victim, _) in Victim::list() {
        let choice = victim.choose(&units, 0..6, 32, &mut Rng::new(1));
        assert_eq!(choice, Some(UnitId(3)), "{victim}");
    }
}
