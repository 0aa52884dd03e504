use thermocline_engine::{Extent, HostRequest};
use thermocline_format::{PoolId, VolumeId};
use thermocline_ftl::placement::Below;
use thermocline_lab::log::plan::Plan;
use thermocline_lab::{Room, Settings as LabSettings, Stack};
use thermocline_nand::Counters;
use thermocline_runtime::storage::Storage as _;
use thermocline_runtime::{Buffer, DeviceKind, Driver};
use thermocline_types::{Op, Request, Rng, StreamId, TenantId, Time};

use super::*;

fn settings(folder: &std::path::Path, device: &str, pool: &str) -> Settings {
    let path = folder.join("pool.img");
    let text = format!(
        "[device]\npath = '{}'\n{device}\n[pool]\n{pool}\n[[volumes]]\nname = 'v'",
        path.display()
    );
    Settings::from_toml("pool.toml", &text).expect("sound")
}

fn plan(settings: &Settings) -> Plan {
    let run = LabRun::of(settings).expect("known");
    let stack = Stack::parse(&run.stack, &run.set).expect("a stack");
    let (capacity, fast_capacity) = (Some(run.capacity), run.fast_capacity);
    let lab = LabSettings { capacity, fast_capacity, ..LabSettings::default() };
    Plan::new(&stack.untimed(), &lab, Room::all_of(Bytes::mib(32))).expect("a plan")
}

/// What `status --lab-command` prints is what is served: every field of the engine's configuration is the same,
/// whether it is stated or not.
#[test]
fn the_lab_and_a_pool_set_the_engine_up_alike_field_by_field() {
    let stated = "placement = 'sepgc'\nvictim = 'cost-benefit'\nread_plan = 'segment'\nahead_units = 9
write_cache = false\ncheckpoint = '64MiB'\nreserved_units = 20\nmemory = '1GiB'\nmax_requests = 77\nstaged = '8MiB'
write_depth = 3\nspare = 0.3";
    let devices = [
        "size = '2GiB'\nkind = 'simulated'\nprofile = 'p5316'",
        "size = '2GiB'\nkind = 'simulated'\nprofile = 'zn540'",
        "size = '1GiB'\nkind = 'simulated'\nprofile = 'pm9d3'\nunit = '4MiB'",
        "size = '1GiB'\nkind = 'simulated'\nprofile = 'p5800x'",
        "size = '1000MiB'",
        "size = '1GiB'\nlogical_block = 512\nunit = '3MiB'",
    ];
    let folder = tempfile::tempdir().expect("a folder");
    for device in devices {
        for pool in ["", stated] {
            let settings = settings(folder.path(), device, pool);
            let mut served = settings.config(settings.geometry().expect("known")).expect("sound");
            let volumes = settings.volume_sizes(&served).expect("room");
            let plan = plan(&settings);
            if settings.kind() == DeviceKind::File {
                // The lab takes media of the log's own where it knows nothing of the drive.
                assert_eq!(plan.config.below, Below::Apart);
                served.below = Below::Apart;
            }
            assert_eq!(format!("{:#?}", plan.config), format!("{served:#?}"), "{device} {pool}");
            assert_eq!(plan.blocks, volumes[0].1, "{device} {pool}");
        }
    }
    assert!(!folder.path().join("pool.img").exists(), "nothing was made");
}

/// The lab takes the numbers that a pool takes, and refuses those that it refuses.
#[test]
fn the_lab_and_a_pool_take_the_same_numbers() {
    let counts = ["ahead_units", "reserved_units", "max_requests", "write_depth", "max_age"];
    let sizes = ["checkpoint", "memory", "staged", "bypass", "at_risk"];
    let numbers = ["0", "1", "1024", "1025", "65536", "65537", "1048577", "4294967295"];
    let bytes = ["0", "1", "1MiB", "4GiB", "4097MiB", "1PiB"];
    let counts = counts.iter().flat_map(|key| numbers.map(|value| (*key, value.to_owned())));
    let sizes = sizes.iter().flat_map(|key| bytes.map(|value| (*key, format!("'{value}'"))));
    for (key, value) in counts.chain(sizes) {
        let text = format!("[device]\npath = 'a'\n[pool]\n{key} = {value}\n");
        let pool = Settings::from_toml("pool.toml", &text).map_err(|error| error.to_string());
        let group = if key == "ahead_units" { "gc." } else { "" };
        let set = format!("log.{group}{key}={}", value.trim_matches('\''));
        let lab = Stack::parse("tier:ideal+ideal", &[set]).map_err(|error| error.to_string());
        assert_eq!(pool.is_ok(), lab.is_ok(), "{key} = {value}: {:?} {:?}", pool.err(), lab.err());
    }
}

/// Of a tier on files the lab knows the units of both devices.
#[test]
fn the_lab_and_a_tier_on_files_set_the_engine_up_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    for divided in ["unit = '4MiB'", "logical_block = 512\nunit = '1MiB'"] {
        let device = |name: &str, more: &str| {
            let path = folder.path().join(name);
            format!("[[device]]\npath = '{}'\n{divided}\n{more}\n", path.display())
        };
        let devices = [("fast", "class = 'fast'\nsize = '128MiB'"), ("cap", "size = '1GiB'")];
        let devices: String = devices.map(|(name, more)| device(name, more)).concat();
        let text = devices + "[pool]\nmax_age = 600\n[[volumes]]\nname = 'v'\nsize = '256MiB'";
        let settings = Settings::from_toml("pool.toml", &text).expect("sound");
        let mut served = settings.config(settings.geometry().expect("known")).expect("sound");
        let plan = plan(&settings);
        assert_eq!(plan.config.below, Below::Apart);
        served.below = Below::Apart;
        assert_eq!(format!("{:#?}", plan.config), format!("{served:#?}"), "{divided}");
    }
}

/// A pool on a group of simulated drives, or of files, each of 1 GiB.
fn on_group(folder: &std::path::Path, key: &str, members: usize, device: &str) -> Settings {
    let member = |number| {
        let path = folder.join(format!("{number}"));
        format!("[[device]]\npath = '{}'\n{device}\n{key} = 'g'\n", path.display())
    };
    let text: String = (0..members).map(member).collect();
    Settings::from_toml("pool.toml", &(text + "[[volumes]]\nname = 'v'")).expect("sound")
}

/// A pool on a group is the same group to the lab: the engine is set up alike, field by field.
#[test]
fn the_lab_and_a_pool_on_a_group_set_the_engine_up_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let drives = "kind = 'simulated'\nprofile = 'p5316'\nsize = '1GiB'";
    for (key, members) in [("raid5", 4), ("raid5", 3), ("raid0", 2), ("mirror", 2)] {
        let files = "size = '1GiB'\nlogical_block = 512\nunit = '3MiB'";
        for device in [drives, "size = '1GiB'", files] {
            let settings = on_group(folder.path(), key, members, device);
            let mut served = settings.config(settings.geometry().expect("known")).expect("sound");
            let plan = plan(&settings);
            if device != drives {
                assert_eq!(plan.config.below, Below::Apart);
                served.below = Below::Apart;
            }
            assert_eq!(format!("{:#?}", plan.config), format!("{served:#?}"), "{key} {device}");
            let shape = plan.groups[0].expect("a group");
            assert_eq!((shape.level.name(), usize::from(shape.members)), (key, members));
            let whole = LabRun::of(&settings).expect("known").capacity.0;
            let all = (members as u64) << 30;
            assert!((all - all / 50..=all).contains(&whole), "{key} {device}: {whole}");
        }
    }
}

/// The first blocks of writes of 16 blocks: all of a volume of `blocks`, then a tenth of it nine times out of ten.
fn writes(blocks: u64) -> impl Iterator<Item = u64> {
    let pieces = blocks / 16;
    let mut rng = Rng::new(7);
    let hot_and_cold = (0..4 * pieces)
        .map(move |_| if rng.below(10) > 0 { rng.below(pieces / 10) } else { rng.below(pieces) });
    (0..pieces).chain(hot_and_cold).map(|piece| piece * 16)
}

/// What the drive of a pool of `settings` counted when it was served these writes one by one.
fn served(settings: &Settings) -> Counters {
    let media = settings.new_media(PoolId([1; 16])).expect("room for a pool");
    let config = settings.config(media.geometry).expect("sound");
    let (name, blocks) = settings.volume_sizes(&config).expect("room").remove(0);
    let mut driver = Driver::format(config, PoolId([1; 16]), media.storage).expect("a pool");
    driver.carry_out(HostRequest::CreateVolume { name, blocks }).expect("a volume");
    let data = Buffer::new(thermocline_target::Buffer::from_bytes(&incompressible()));
    for lba in writes(blocks) {
        let extent = Extent { volume: VolumeId(1), lba, blocks: 16 };
        let write = HostRequest::Write { extent, data: data.clone(), fua: false, handle: 0 };
        driver.carry_out(write).expect("written");
    }
    driver.device().storage().drive_counters().expect("a simulated drive counts")
}

/// Bytes of 16 blocks, none of which packs into a header: in the lab copies never do.
fn incompressible() -> Vec<u8> {
    let mut rng = Rng::new(11);
    (0..16 * BLOCK_BYTES / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

/// What it counts in the lab.
fn measured(settings: &Settings) -> Counters {
    let mut plan = plan(settings);
    plan.packs = 0.0;
    let blocks = plan.blocks;
    let mut machine = plan.build().expect("a pool");
    for lba in writes(blocks) {
        let (offset, length) = (Bytes(lba * 4096), Bytes(16 * 4096));
        let request = Request {
            at: Time::ZERO,
            offset,
            length,
            tenant: TenantId(0),
            stream: StreamId::UNKNOWN,
            op: Op::Write,
            outstanding: None,
        };
        machine.submit(&[request], 0);
        while machine.in_work() > 0 {
            machine.step().expect("it goes on");
        }
    }
    machine.device().drive().counters()
}

#[test]
fn a_drive_with_placement_handles_writes_as_much_when_served_as_in_the_lab() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = "placement = 'auto'\nvictim = 'kawaguchi'\nwrite_cache = false";
    for profile in ["pm9d3", "pm1725a"] {
        let device = format!(
            "size = '128MiB'\nkind = 'simulated'\nprofile = '{profile}'\nunit = '128KiB'\nio = 'inline'"
        );
        let settings = settings(folder.path(), &device, pool);
        let dlwa = |counters: Counters| counters.media_total as f64 / counters.host_written as f64;
        let (served, measured) = (dlwa(served(&settings)), dlwa(measured(&settings)));
        assert!((served / measured - 1.0).abs() < 0.01, "{profile}: {served} served, {measured}");
        std::fs::remove_file(&settings.device().path).expect("there");
    }
}

/// Bytes by cause.
type Causes = Vec<(&'static str, u64)>;

/// A volume is filled, then pieces of `blocks` blocks are written all over it, with a flush after each `flushed`.
fn flushed_writes(size: u64, blocks: u64, flushed: u64) -> impl Iterator<Item = (u64, u64, bool)> {
    let fill = (0..size / 16).map(|piece| (piece * 16, 16, false));
    let mut rng = Rng::new(3);
    let writes = (0..1000).map(move |write| {
        let place = rng.below(size / blocks) * blocks;
        (place, blocks, write % flushed == flushed - 1)
    });
    fill.chain(writes)
}

/// What the members of the group of a pool were given when the pool was served these writes, and what drives counted.
fn members_served(settings: &Settings, blocks: u64, flushed: u64) -> (Causes, Option<u64>) {
    let media = settings.new_media(PoolId([1; 16])).expect("room for a pool");
    let group = media.groups[0].1.clone();
    let config = settings.config(media.geometry).expect("sound");
    let (name, size) = settings.volume_sizes(&config).expect("room").remove(0);
    let mut driver = Driver::format(config, PoolId([1; 16]), media.storage).expect("a pool");
    driver.carry_out(HostRequest::CreateVolume { name, blocks: size }).expect("a volume");
    let data = Buffer::new(thermocline_target::Buffer::from_bytes(&incompressible()));
    for (lba, blocks, flush) in flushed_writes(size, blocks, flushed) {
        let extent = Extent { volume: VolumeId(1), lba, blocks };
        let data = data.part(0, blocks as usize * BLOCK_BYTES);
        let write = HostRequest::Write { extent, data, fua: false, handle: 0 };
        driver.carry_out(write).expect("written");
        if flush {
            driver.carry_out(HostRequest::Flush).expect("flushed");
        }
    }
    driver.carry_out(HostRequest::Flush).expect("flushed");
    let written = group.status().written();
    let causes = written.each().map(|(cause, bytes)| (cause.name(), bytes)).collect();
    let counters = driver.device().storage().drive_counters();
    (causes, counters.map(|counters| counters.host_written))
}

/// What they are given in the lab.
fn members_measured(settings: &Settings, blocks: u64, flushed: u64) -> (Causes, u64) {
    let mut plan = plan(settings);
    plan.packs = 0.0;
    let size = plan.blocks;
    let mut machine = plan.build().expect("a pool");
    let mut ask = |op, lba: u64, blocks: u64| {
        let (offset, length) = (Bytes(lba * 4096), Bytes(blocks * 4096));
        let (tenant, stream) = (TenantId(0), StreamId::UNKNOWN);
        let request =
            Request { at: Time::ZERO, offset, length, tenant, stream, op, outstanding: None };
        machine.submit(&[request], 0);
        while machine.in_work() > 0 {
            machine.step().expect("it goes on");
        }
    };
    for (lba, blocks, flush) in flushed_writes(size, blocks, flushed) {
        ask(Op::Write, lba, blocks);
        if flush {
            ask(Op::Flush, 0, 0);
        }
    }
    ask(Op::Flush, 0, 0);
    let counts = machine.byte_counts();
    let causes = counts.groups[0].expect("a group");
    let causes = causes.each().map(|(cause, bytes)| (cause.name(), bytes)).collect();
    (causes, counts.drive.host_written)
}

/// Members get the same bytes for each cause, whether a pool is served or measured. Drives count these bytes.
#[test]
fn members_of_a_group_get_as_much_when_served_as_in_the_lab() {
    let drives = "kind = 'simulated'\nprofile = 'p5316'\nio = 'inline'";
    let cases = [
        ("raid5", 3, drives, 1, 1),
        ("raid5", 4, "logical_block = 512", 1, 1),
        ("raid5", 4, drives, 4, 1),
        ("raid5", 3, "io = 'inline'", 16, 7),
        ("mirror", 2, drives, 1, 1),
        ("raid0", 2, drives, 1, 1),
    ];
    for (key, members, device, blocks, flushed) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let device = format!("size = '64MiB'\nunit = '1MiB'\n{device}");
        let settings = on_group(folder.path(), key, members, &device);
        let (served, counted) = members_served(&settings, blocks, flushed);
        let (measured, received) = members_measured(&settings, blocks, flushed);
        // Writes without a flush wait in memory by the clock, which the lab does not share.
        let most = if flushed == 1 { 0.01 } else { 0.05 };
        let sum = |causes: &Causes| causes.iter().map(|(_, bytes)| bytes).sum::<u64>();
        // Before the group is open, formatting clears four places of each member and writes a label.
        let counted = counted.map(|counted| counted - members as u64 * 5 * 4096);
        assert_eq!(counted.unwrap_or_else(|| sum(&served)), sum(&served), "{key}");
        assert_eq!(received, sum(&measured), "{key}");
        for ((cause, served), (_, measured)) in served.iter().zip(&measured) {
            let apart = served.abs_diff(*measured) as f64 / received as f64;
            let told = format!("{key} {device} {cause}: {served} served, {measured} in the lab");
            assert!(apart < most, "{told}");
        }
    }
}
