use thermocline_types::Lba;

use super::*;
use crate::data::Stamp;

const VOLUME: VolumeId = VolumeId(1);

fn name(text: &str) -> VolumeName {
    VolumeName::new(text).expect("a sound name")
}

fn extent(lba: u64, blocks: u64) -> Extent {
    Extent { volume: VOLUME, lba, blocks }
}

fn data(lba: u64, version: WriteNumber) -> Content {
    Content::User(Stamp { volume: VOLUME, lba: Lba(lba), version })
}

/// A model with one volume of eight blocks; its creation is version 1.
fn model() -> Model {
    let mut model = Model::default();
    let version = model.begin_create(name("a"), 8);
    model.end_create(version, Some(VOLUME));
    model
}

fn found(contents: &[Content]) -> Vec<FoundVolume> {
    let blocks = contents.iter().copied().map(Some).collect();
    vec![FoundVolume {
        volume: VOLUME,
        name: name("a"),
        media: VolumeMedia::Auto,
        snapshot_of: None,
        blocks,
    }]
}

/// Whether the model allows block 0 to be `content` after a crash, the rest being zeros.
fn survives(model: &Model, content: Content) -> bool {
    let mut contents = [Content::Zeros; 8];
    contents[0] = content;
    model.judge_found(&found(&contents)).is_empty()
}

fn write(model: &mut Model, lba: u64, outcome: Outcome) -> WriteNumber {
    let version = model.begin_change(extent(lba, 1), false);
    model.end_change(version, outcome);
    version
}

fn flush(model: &mut Model) {
    let flush = model.begin_flush(None);
    model.end_flush(flush);
}

#[test]
fn what_was_flushed_or_written_later_survives_and_nothing_else() {
    let mut model = model();
    let old = write(&mut model, 0, Outcome::Done);
    let flushed = write(&mut model, 0, Outcome::Done);
    flush(&mut model);
    let acknowledged = write(&mut model, 0, Outcome::Done);
    let open = model.begin_change(extent(0, 1), false);
    for (version, right) in [(old, false), (flushed, true), (acknowledged, true), (open, true)] {
        assert_eq!(survives(&model, data(0, version)), right, "version {version}");
    }
    assert!(!survives(&model, Content::Zeros));
    assert!(!survives(&model, Content::Other));
    assert!(!survives(&model, data(1, flushed)), "another block");
    assert!(!survives(&model, data(0, open + 1)), "a version of the future");
}

#[test]
fn a_flush_covers_what_was_acknowledged_before_its_submission() {
    let mut model = model();
    let before = write(&mut model, 0, Outcome::Done);
    let crossing = model.begin_change(extent(1, 1), false);
    let flush = model.begin_flush(None);
    model.end_change(crossing, Outcome::Done);
    assert!(survives(&model, Content::Zeros), "the flush is not done");
    model.end_flush(flush);
    assert!(!survives(&model, Content::Zeros));
    assert!(survives(&model, data(0, before)), "block 1 need not be durable yet");
}

#[test]
fn fua_is_durable_at_completion_and_a_failed_write_may_be_there_or_not() {
    let mut model = model();
    let durable = write(&mut model, 0, Outcome::Durable);
    assert!(!survives(&model, Content::Zeros));
    let failed = write(&mut model, 0, Outcome::Failed);
    flush(&mut model);
    assert!(survives(&model, data(0, durable)) && survives(&model, data(0, failed)));
}

#[test]
fn changes_that_are_on_their_way_at_once_may_be_done_in_any_order() {
    let mut model = model();
    let before = write(&mut model, 0, Outcome::Done);
    let first = model.begin_change(extent(0, 1), false);
    let second = model.begin_change(extent(0, 1), true);
    model.end_change(second, Outcome::Durable);
    model.end_change(first, Outcome::Durable);
    assert!(survives(&model, data(0, first)) && survives(&model, Content::Zeros));
    assert!(!survives(&model, data(0, before)));
    let third = write(&mut model, 0, Outcome::Durable);
    assert!(survives(&model, data(0, third)));
    assert!(!survives(&model, data(0, first)) && !survives(&model, Content::Zeros));
}

#[test]
fn trims_are_versions() {
    let mut model = model();
    let written = write(&mut model, 0, Outcome::Durable);
    let trim = model.begin_change(extent(0, 8), true);
    assert!(survives(&model, data(0, written)) && survives(&model, Content::Zeros));
    model.end_change(trim, Outcome::Done);
    flush(&mut model);
    assert!(!survives(&model, data(0, written)) && survives(&model, Content::Zeros));
}

#[test]
fn a_read_returns_what_was_acknowledged_or_written_since() {
    let mut model = model();
    let first = write(&mut model, 0, Outcome::Done);
    let second = write(&mut model, 0, Outcome::Done);
    let pending = model.begin_read(extent(0, 1));
    let third = write(&mut model, 0, Outcome::Durable);
    for (version, right) in [(first, false), (second, true), (third, true)] {
        let wrong = model.end_read(pending.clone(), [data(0, version)].into_iter());
        assert_eq!(wrong.is_none(), right, "version {version}");
        model.reads += 1;
    }
    model.drop_read(pending);
    let later = model.begin_read(extent(0, 1));
    assert!(model.end_read(later, [data(0, second)].into_iter()).is_some());
}

#[test]
fn what_was_found_is_durable_from_then_on() {
    let mut model = model();
    let flushed = write(&mut model, 0, Outcome::Durable);
    let acknowledged = write(&mut model, 0, Outcome::Done);
    let lost = write(&mut model, 0, Outcome::Done);
    let mut contents = [Content::Zeros; 8];
    contents[0] = data(0, acknowledged);
    model.rebase(&found(&contents));
    assert!(survives(&model, data(0, acknowledged)));
    assert!(!survives(&model, data(0, flushed)) && !survives(&model, data(0, lost)));
}

#[test]
fn volumes_come_and_go_with_their_completions() {
    let mut model = model();
    let create = model.begin_create(name("b"), 2);
    let second = |blocks, text| FoundVolume {
        snapshot_of: None,
        media: VolumeMedia::Auto,
        volume: VolumeId(2),
        name: name(text),
        blocks: vec![Some(Content::Zeros); blocks],
    };
    let with = |volume| [found(&[Content::Zeros; 8]), vec![volume]].concat();
    assert!(survives(&model, Content::Zeros), "not made yet");
    assert!(model.judge_found(&with(second(2, "b"))).is_empty());
    assert_eq!(model.judge_found(&with(second(3, "b"))).len(), 1, "another size");
    assert_eq!(model.judge_found(&with(second(2, "c"))).len(), 1, "another name");
    model.end_create(create, Some(VolumeId(2)));
    assert_eq!(model.judge_found(&found(&[Content::Zeros; 8])), [Verdict::VolumeLost(VolumeId(2))]);
    let delete = model.begin_size(VolumeId(2), None);
    assert!(survives(&model, Content::Zeros), "being deleted");
    assert!(model.judge_found(&with(second(2, "b"))).is_empty());
    model.end_change(delete, Outcome::Durable);
    assert!(survives(&model, Content::Zeros));
    assert_eq!(model.judge_found(&with(second(2, "b"))).len(), 1, "deleted for good");
}

#[test]
fn what_a_smaller_size_cut_off_is_zeros_for_good() {
    let mut model = model();
    let written = write(&mut model, 6, Outcome::Durable);
    let smaller = model.begin_size(VOLUME, Some(4));
    let mut contents = [Content::Zeros; 8];
    contents[6] = data(6, written);
    assert!(model.judge_found(&found(&contents)).is_empty(), "not smaller yet");
    assert!(model.judge_found(&found(&contents[..4])).is_empty(), "smaller already");
    assert!(!model.judge_found(&found(&contents[..5])).is_empty(), "a size it never had");
    model.end_change(smaller, Outcome::Durable);
    let larger = model.begin_size(VOLUME, Some(8));
    model.end_change(larger, Outcome::Durable);
    assert!(!model.judge_found(&found(&contents)).is_empty(), "it came back");
    assert!(model.judge_found(&found(&[Content::Zeros; 8])).is_empty());
}

#[test]
fn a_read_may_outlive_its_volume() {
    let mut model = model();
    let one = extent(0, 1);
    let version = write(&mut model, 0, Outcome::Done);
    let (of, reads) = (data(0, version), [(); 2].map(|()| model.begin_read(one)));
    let delete = model.begin_size(one.volume, None);
    model.end_change(delete, Outcome::Done);
    let [read, other] = reads;
    assert_eq!(model.end_read(read, std::iter::once(of)), None);
    assert!(model.end_read(other, std::iter::once(data(1, version))).is_some());
}
