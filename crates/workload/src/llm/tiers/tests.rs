//! Small cases, and the reference values of the trace that comes along.

use super::*;
use crate::llm::{BUILT_IN, LlmModel, Prompts};

fn prompt(blocks: &[PromptBlock]) -> Prompt {
    Prompt { at: Time::ZERO, blocks: blocks.to_vec(), partial: false }
}

fn changes(
    rule: Admission,
    sizes: Sizes,
    prompts: &[&[PromptBlock]],
) -> (Vec<Change>, CacheCounts) {
    let (mut tiers, mut all) = (Tiers::new(rule, sizes, 16), Vec::new());
    prompts.iter().for_each(|blocks| tiers.serve(&prompt(blocks), &mut |change| all.push(change)));
    (all, tiers.counts())
}

#[test]
fn a_full_flash_tier_gives_the_slot_of_the_evicted_block_to_the_new_one() {
    let sizes = Sizes { dram: 1, flash: 2 };
    let (all, counts) = changes(Admission::All, sizes, &[&[0, 1], &[0], &[2]]);
    let write = |slot| Change::Write { slot, uses: 1 };
    let expected =
        [write(0), write(1), Change::Read { slot: 0 }, Change::Delete { slot: 1 }, write(1)];
    assert_eq!(all, expected);
    assert_eq!((counts.references, counts.dram_hits, counts.flash_hits), (4, 0, 1));
}

#[test]
fn a_block_on_probation_is_in_one_tier_and_partial_blocks_are_in_none() {
    let sizes = Sizes { dram: 2, flash: 4 };
    let rule = Admission::ProbationWith(0.0);
    let (all, counts) = changes(rule, sizes, &[&[0], &[0], &[1, 2], &[1, 2], &[0]]);
    let write = |slot| Change::Write { slot, uses: 2 };
    assert_eq!(all, [write(0), write(1), write(2), Change::Read { slot: 0 }]);
    assert_eq!((counts.dram_hits, counts.flash_hits), (3, 1));
    let mut tiers = Tiers::new(rule, sizes, 4);
    let partial = Prompt { partial: true, ..prompt(&[3]) };
    tiers.serve(&partial, &mut |_| panic!("nothing is written"));
    tiers.serve(&partial, &mut |_| ());
    assert_eq!((tiers.counts().hits(), tiers.counts().writes), (0, 1));
    // Half of what DRAM evicts after one use.
    let (all, _) = changes(Admission::ProbationWith(0.5), sizes, &[&[0, 1, 2, 3, 4, 5]]);
    assert_eq!(all, [Change::Write { slot: 0, uses: 1 }, Change::Write { slot: 1, uses: 1 }]);
}

#[test]
fn a_budget_holds_back_writes_until_time_has_passed() {
    let sizes = Sizes { dram: 1, flash: 4 };
    // Two blocks a second.
    let mut tiers = Tiers::new(Admission::Budget(43_200.0), sizes, 16);
    let mut writes = Vec::new();
    for (second, first) in [0_u64, 1, 2].into_iter().zip([0, 5, 10]) {
        let blocks = (first..first + 5).collect();
        let prompt = Prompt { at: Time::seconds(second), blocks, partial: false };
        tiers.serve(&prompt, &mut |_| ());
        writes.push(tiers.counts().writes);
    }
    assert_eq!(writes, [0, 2, 4]);
}

#[test]
fn frequency_and_distance_look_at_when_a_block_was_used_before() {
    let sizes = Sizes { dram: 2, flash: 3 };
    let soon: &[&[PromptBlock]] = &[&[0], &[0]];
    let late: &[&[PromptBlock]] = &[&[0, 1, 2, 3, 4, 5], &[0]];
    let writes = |rule, prompts| changes(rule, sizes, prompts).1.writes;
    assert_eq!(
        (writes(Admission::Frequency(1.0), soon), writes(Admission::Frequency(1.0), late)),
        (1, 0)
    );
    assert_eq!((writes(Admission::Distance, soon), writes(Admission::Distance, late)), (0, 1));
}

#[test]
fn another_pass_begins_with_what_the_tiers_hold_and_uses_none_of_it() {
    let sizes = Sizes { dram: 1, flash: 2 };
    let mut tiers = Tiers::new(Admission::All, sizes, 4);
    let mut all = Vec::new();
    for _ in 0..3 {
        tiers.serve(&prompt(&[0, 1]), &mut |change| all.push(change));
        tiers.next_pass();
    }
    assert_eq!(tiers.counts().hits(), 0);
    let slots: Vec<u32> = all
        .iter()
        .filter_map(|change| match change {
            Change::Write { slot, .. } => Some(*slot),
            _ => None,
        })
        .collect();
    assert_eq!(slots, [0, 1, 0, 1, 0, 1]);
}

#[test]
fn the_references_of_the_mooncake_trace_come_back() {
    let prompts = Prompts::open(BUILT_IN).unwrap();
    let day = 86_400.0 / prompts.duration().as_secs_f64();
    let block = "70b".parse::<LlmModel>().unwrap().block().as_f64();
    let share = |percent: usize| prompts.distinct * percent / 100;
    // DRAM and flash in % of the blocks, hits of both in thousandths, TB written, TB a day.
    for (rule, dram, flash, hits, written, daily) in [
        (Admission::First, 2, 50, [79, 284], 30.7, 749),
        (Admission::All, 2, 50, [79, 284], 30.8, 753),
        (Admission::Evicted, 2, 50, [79, 285], 30.4, 742),
        (Admission::Second, 2, 50, [79, 150], 7.4, 181),
        (Admission::EvictedTwice, 2, 50, [79, 150], 7.3, 179),
        (Admission::First, 5, 50, [195, 168], 30.7, 749),
        (Admission::All, 5, 50, [195, 168], 30.8, 753),
        (Admission::Evicted, 5, 50, [195, 168], 29.6, 724),
        (Admission::Second, 5, 50, [195, 86], 7.4, 181),
        (Admission::EvictedTwice, 5, 50, [195, 86], 7.1, 173),
    ] {
        let sizes = Sizes { dram: share(dram), flash: share(flash) };
        let mut tiers = Tiers::new(rule, sizes, prompts.distinct);
        prompts.all.iter().for_each(|prompt| tiers.serve(prompt, &mut |_| ()));
        let counts = tiers.counts();
        let ratio = |hits: u64| (hits as f64 / counts.references as f64 * 1e3).round() as u64;
        assert_eq!([counts.dram_hits, counts.flash_hits].map(ratio), hits, "{rule} {dram} %");
        let bytes = counts.writes as f64 * block / 1e12;
        assert!((bytes - written).abs() < 0.051, "{rule} {dram} %: {bytes} TB");
        assert_eq!((bytes * day).round() as u64, daily, "{rule} {dram} %");
    }
}

#[test]
fn one_tier_has_the_hit_ratios_of_the_reference() {
    let prompts = Prompts::open(BUILT_IN).unwrap();
    // Hits in thousandths, and bytes written over those of distinct blocks in hundredths.
    for (percent, hits, written) in [(5, 195, 127), (10, 278, 114), (25, 353, 102), (50, 363, 101)]
    {
        let sizes = Sizes { dram: prompts.distinct * percent / 100, flash: 1 };
        let mut tiers = Tiers::new(Admission::Second, sizes, prompts.distinct);
        prompts.all.iter().for_each(|prompt| tiers.serve(prompt, &mut |_| ()));
        let counts = tiers.counts();
        let ratio = counts.dram_hits as f64 / counts.references as f64;
        assert_eq!((ratio * 1e3).round() as u64, hits, "{percent} %");
        let misses = (counts.references - counts.dram_hits) as f64 / prompts.distinct as f64;
        assert_eq!((misses * 1e2).round() as u64, written, "{percent} %");
    }
}
