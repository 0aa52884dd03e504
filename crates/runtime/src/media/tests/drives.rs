//! Groups of simulated drives: what all of them count is told, one may be missing, and a new one is filled.

use std::time::{Duration, Instant};

use thermocline_engine::{Extent, HostRequest, Reply};
use thermocline_format::{VolumeId, VolumeName};
use thermocline_nand::Counters;

use super::*;
use crate::storage::{GroupKind, MemberState};
use crate::{Buffer, Driver};

const BLOCKS: u64 = 512;

/// Settings of a pool on so many drives, `0`, `1` and so on, that are one device.
fn on_drives(folder: &Path, kind: GroupKind, drives: usize, size: &str) -> Settings {
    let key = kind.name();
    let one = format!(
        "{key} = 'g'\nkind = 'simulated'\nprofile = 'p5316'\nsize = '{size}'\nunit = '1MiB'\nio = 'inline'"
    );
    let names: Vec<String> = (0..drives).map(|number| number.to_string()).collect();
    let all: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), one.as_str())).collect();
    of_devices(folder, &all)
}

struct Open {
    driver: Driver<AnyStorage>,
    group: Group,
}

impl Open {
    fn new(settings: &Settings) -> Open {
        let UnitStorage { storage, geometry, mut groups } =
            settings.media(Access::ReadWrite).expect("it is there");
        let config = settings.config(geometry).expect("a pool can be");
        let driver = Driver::open(config, storage).expect("it opens");
        Open { driver, group: groups.remove(0).1 }
    }

    fn ask(&mut self, what: HostRequest<Buffer>) -> Reply {
        self.driver.carry_out(what).expect("nothing fails")
    }

    fn counters(&self) -> Counters {
        let counters = self.driver.device().storage().drive_counters().expect("drives count");
        assert_eq!(counters.check(), Ok(()));
        counters
    }

    /// Writes each block, in small requests that are durable at once.
    fn write(&mut self, version: u8) {
        for lba in (0..BLOCKS).step_by(4) {
            let bytes: Vec<u8> = (lba..lba + 4).flat_map(|lba| content(lba, version)).collect();
            let data = Buffer::new(thermocline_target::Buffer::from_bytes(&bytes));
            let extent = Extent { volume: VolumeId(1), lba, blocks: 4 };
            self.ask(HostRequest::Write { extent, data, fua: true, handle: 0 });
        }
    }

    fn check(&mut self, version: u8) {
        for lba in 0..BLOCKS {
            let into = Buffer::new(thermocline_target::Buffer::zeroed(4096));
            let extent = Extent { volume: VolumeId(1), lba, blocks: 1 };
            self.ask(HostRequest::Read { extent, into: into.clone() });
            assert!(*into.read() == *content(lba, version), "block {lba}");
        }
    }

    fn standing(&self, member: usize) -> MemberState {
        self.group.status().members[member].standing
    }

    fn wait_until_whole(&mut self) {
        let began = Instant::now();
        while !self.group.status().is_whole() {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", self.group);
            self.driver.poll(Some(Duration::from_millis(1)), &mut Vec::new());
        }
    }
}

/// Bytes that do not pack.
fn content(lba: u64, version: u8) -> Vec<u8> {
    let mut rng = thermocline_types::Rng::new(lba << 8 | u64::from(version));
    (0..512).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

fn formatted(settings: &Settings) {
    format(settings);
    let mut open = Open::new(settings);
    let (name, blocks) = (VolumeName::new("v").expect("a name"), BLOCKS);
    open.ask(HostRequest::CreateVolume { name, blocks });
    open.ask(HostRequest::Close);
}

#[test]
fn what_the_drives_of_a_group_count_is_added_up() {
    for (kind, drives, least, most) in [
        (GroupKind::Parity, 3, 1.5, 6.0),
        (GroupKind::Parity, 4, 1.3, 6.0),
        (GroupKind::Striped, 2, 1.0, 1.1),
        (GroupKind::Mirror, 2, 2.0, 2.2),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = on_drives(folder.path(), kind, drives, "64MiB");
        let planned = settings.geometry().expect("it can be");
        formatted(&settings);
        assert_eq!(planned, settings.geometry().expect("it is there"), "{kind:?}");
        let mut open = Open::new(&settings);
        open.write(1);
        open.check(1);
        let (asked, counted) =
            (open.driver.engine().stats().device_bytes_written(), open.counters());
        let times = counted.host_written as f64 / asked as f64;
        assert!((least..most).contains(&times), "{kind:?} of {drives}: {times}");
        assert!(counted.media_total > asked, "{kind:?}: {counted:?}");
        assert!(counted.host_read >= BLOCKS * 4096, "{kind:?}: reads count as well");
        open.ask(HostRequest::Close);
        drop(open);
        let mut again = Open::new(&settings);
        assert!(again.counters().host_written < counted.host_written / 2, "they begin anew");
        again.check(1);
    }
}

#[test]
fn a_drive_of_a_group_may_be_missing_and_a_new_one_is_filled() {
    for (kind, drives) in [(GroupKind::Parity, 3), (GroupKind::Mirror, 2)] {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = on_drives(folder.path(), kind, drives, "64MiB");
        formatted(&settings);
        let mut open = Open::new(&settings);
        open.write(1);
        drop(open);
        let lost = folder.path().join("1");
        fs::remove_file(&lost).expect("it is there");
        if kind == GroupKind::Mirror {
            settings.keep_side(&folder.path().join("0"), false).expect("it has all");
        }
        let mut open = Open::new(&settings);
        assert_eq!(open.standing(1), MemberState::Out, "{kind:?}");
        open.check(1);
        open.write(2);
        let before = open.counters();
        // While it is used.
        settings.join_side(&lost, &[(0, open.group.clone())]).expect("vacant");
        open.wait_until_whole();
        let filled = open.group.status().filled.0;
        let more = open.counters().host_written - before.host_written;
        assert!(filled > 0 && more >= filled, "{kind:?}: {more} of {filled} are counted");
        open.write(3);
        drop(open);
        // Before it is opened.
        let other = folder.path().join("0");
        fs::remove_file(&other).expect("it is there");
        if kind == GroupKind::Mirror {
            settings.keep_side(&lost, false).expect("it has all");
        }
        settings.replace_side(&other).expect("one is missing");
        let mut open = Open::new(&settings);
        open.check(3);
        open.wait_until_whole();
        open.ask(HostRequest::Close);
    }
}

/// What is believed of a pair is decided once: the other side is given up by its name.
#[test]
fn a_side_is_not_believed_against_one_that_is_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = on_drives(folder.path(), GroupKind::Mirror, 2, "64MiB");
    formatted(&settings);
    let mut open = Open::new(&settings);
    open.write(1);
    open.ask(HostRequest::Close);
    drop(open);
    let [one, other] = ["0", "1"].map(|name| folder.path().join(name));
    settings.keep_side(&other, false).expect("it has all");
    for despite_loss in [false, true] {
        let refused = settings.keep_side(&one, despite_loss).expect_err("the other one was chosen");
        assert!(refused.to_string().contains("alone has everything"), "{refused}");
    }
    settings.replace_side(&other).expect("it was the wrong one");
    let mut open = Open::new(&settings);
    open.check(1);
    open.wait_until_whole();
    open.ask(HostRequest::Close);
    drop(open);
    settings.keep_side(&other, false).expect("it has all");
    settings.replace_side(&one).expect("the other one has all");
    Open::new(&settings).wait_until_whole();
    settings.replace_side(&one).expect("the other one has all");
    let refused = settings.keep_side(&one, true).expect_err("it is empty");
    assert!(refused.to_string().contains("nothing was copied to it yet"), "{refused}");
    Open::new(&settings).check(1);
}

/// A drive that is smaller than the members of the group, and one that is named alone.
#[test]
fn a_drive_that_is_no_member_is_refused() {
    for (kind, drives) in [(GroupKind::Parity, 3), (GroupKind::Mirror, 2)] {
        let folder = tempfile::tempdir().expect("a folder");
        formatted(&on_drives(folder.path(), kind, drives, "64MiB"));
        let smaller = on_drives(folder.path(), kind, drives, "48MiB");
        let error = smaller.media(Access::ReadOnly).map(|_| ()).expect_err("it has no room");
        let text = error.to_string();
        assert!(text.contains("device[0].profile: this drive has 48 MiB, and the pool"), "{text}");
        let larger = on_drives(folder.path(), kind, drives, "96MiB");
        let error = larger.media(Access::ReadOnly).map(|_| ()).expect_err("it has no data there");
        let text = error.to_string();
        assert!(text.contains("67108864 bytes; 100663296 are needed"), "{text}");
        let alone = "kind = 'simulated'\nprofile = 'p5316'\nsize = '64MiB'";
        let error = of_devices(folder.path(), &[("0", alone)]).media(Access::ReadOnly);
        let error = error.map(|_| ()).expect_err("it is not alone");
        assert!(matches!(error, MediaError::OneOfGroup { .. }), "{error}");
    }
}
