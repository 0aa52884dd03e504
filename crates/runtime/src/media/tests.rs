use std::os::unix::fs::FileExt as _;

use thermocline_format::MediaClass;

use super::*;
use crate::Driver;

fn settings(folder: &Path, device: &str) -> Settings {
    let text = format!("[device]\npath = '{}'\n{device}", folder.join("pool.img").display());
    Settings::from_toml("pool.toml", &text).expect("sound settings")
}

fn format(settings: &Settings) -> PoolId {
    let pool = new_pool_id().expect("randomness");
    let media = settings.new_media(pool).expect("room for a pool");
    let config = settings.config(media.geometry).expect("a pool can be");
    Driver::format(config, pool, media.storage).expect("nothing fails");
    pool
}

#[test]
fn a_pool_says_how_it_is_divided() {
    for device in [
        "size = '64MiB'",
        "size = '64MiB'\nlogical_block = 512\nunit = '768KiB'",
        "size = '64MiB'\nkind = 'simulated'\nprofile = 'ideal'\nunit = '1MiB'",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let made = settings(folder.path(), device);
        assert_eq!(made.contents().expect("it can be read"), Contents::Nothing);
        let pool = format(&made);
        assert_eq!(made.contents().expect("it can be read"), Contents::Pool(pool));
        let expected = made.media(Access::ReadOnly).expect("it is there").geometry;
        let found = made.media(Access::ReadWrite).expect("it is there").geometry;
        assert_eq!(found, expected, "{device}");
        let wrong = settings(folder.path(), &device.replace("unit = '768KiB'", "unit = '2MiB'"));
        assert_eq!(wrong.media(Access::ReadOnly).is_ok(), !device.contains("768KiB"));
    }
}

#[test]
fn the_default_unit_gives_some_hundred_units() {
    let unit = |size: Bytes| default_unit(size, None);
    let units = |size: Bytes| size.0 / unit(size).0;
    assert_eq!(unit(Bytes::gib(1)), Bytes::mib(2));
    assert_eq!(unit(Bytes::mib(64)), Bytes::mib(1));
    assert_eq!(unit(Bytes::mib(16)), Bytes::kib(256));
    assert_eq!(unit(Bytes::mib(1)), Bytes::kib(64));
    assert!((512..1024).contains(&units(Bytes(100_000_000_000))));
    assert_eq!(unit(Bytes::gib(16 << 10)), Bytes::gib(8));
    // A fast device of 5 % has 32 units at least.
    assert_eq!(default_unit(Bytes::gib(8), Some(Bytes::mib(427))), Bytes::mib(8));
    assert_eq!(default_unit(Bytes::gib(4), Some(Bytes::mib(16))), Bytes::mib(1));
}

#[test]
fn a_pool_keeps_to_the_active_zones_of_its_drive() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = |device: &str| {
        let settings = settings(folder.path(), &format!("size = '256MiB'\nkind = {device}"));
        let geometry = settings.new_media(PoolId([1; 16])).expect("room for a pool").geometry;
        settings.config(geometry)
    };
    let zones = config("'simulated'\nprofile = 'zn540'").expect("enough zones");
    assert!(zones.frontiers() + 3 <= 14, "it lets 14 be active: {}", zones.frontiers());
    let none = config("'simulated'\nprofile = 'p5316'").expect("no zones");
    assert_eq!(none.max_open_units, [u32::MAX; 2]);
    let profile = thermocline_nand::profile::builtin("zn540").expect("it is built in");
    let narrow = folder.path().join("narrow.toml");
    fs::write(&narrow, profile.replace("= 14", "= 5")).expect("room");
    let narrow =
        format!("'simulated'\nprofile = '{}'\n[pool]\nplacement = 'auto'", narrow.display());
    let error = config(&narrow).map(|_| ()).expect_err("too many classes");
    assert!(
        error.to_string().starts_with("pool.toml: pool.placement: the placement writes up to"),
        "{error}"
    );
}

#[test]
fn what_is_there_is_recognised() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path(), "size = '64MiB'");
    let file = fs::File::create(&settings.device().path).expect("writable");
    file.set_len(8 << 20).expect("room");
    let contents = || settings.contents().expect("it can be read");
    assert_eq!(contents(), Contents::Nothing);
    file.write_all_at(&[1], (8 << 20) - 1).expect("writable");
    assert_eq!(contents(), Contents::Unknown);
    file.write_all_at(&[0x53, 0xEF], 0x438).expect("writable");
    assert_eq!(contents(), Contents::Known("an ext2, ext3 or ext4 file system"));
    let missing = settings.media(Access::ReadOnly).map(|_| ()).expect_err("no pool");
    assert!(matches!(missing, MediaError::NoPool { .. }), "{missing}");
}

#[test]
fn a_file_without_size_cannot_be_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let error =
        settings(folder.path(), "").new_media(PoolId([1; 16])).map(|_| ()).expect_err("no size");
    assert!(error.to_string().starts_with("pool.toml: device.size: "), "{error}");
    let error =
        settings(folder.path(), "size = '1MiB'\nunit = '100000'").new_media(PoolId([1; 16]));
    let error = error.map(|_| ()).expect_err("no whole blocks");
    assert!(error.to_string().starts_with("pool.toml: device.unit: "), "{error}");
}

/// A pool of zeros, and one over another, on media where a reset clears nothing.
#[test]
fn a_pool_is_formatted_over_another_where_resets_clear_nothing() {
    for device in [
        "size = '64MiB'\nio = 'inline'",
        "size = '64MiB'\nio = 'threads'",
        "size = '64MiB'\nio = 'inline'\nkind = 'simulated'\nprofile = 'ideal'\nunit = '1MiB'",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path(), device);
        format(&settings);
        let second = format(&settings);
        assert_eq!(settings.contents().expect("it can be read"), Contents::Pool(second));
        let media = settings.media(Access::ReadWrite).expect("it is there");
        let config = settings.config(media.geometry).expect("a pool can be");
        let driver = Driver::open(config, media.storage).expect("it is one pool");
        assert_eq!(driver.engine().pool_id(), second, "{device}");
    }
}

#[test]
fn a_truncated_pool_is_refused_with_both_sizes_and_left_as_it_is() {
    for device in ["size = '64MiB'", "size = '64MiB'\nkind = 'simulated'\nprofile = 'ideal'"] {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path(), device);
        format(&settings);
        let file = fs::File::options().write(true).open(&settings.device().path).expect("a file");
        let whole = file.metadata().expect("a file").len();
        file.set_len(48 << 20).expect("it can be cut");
        for access in [Access::ReadOnly, Access::ReadWrite] {
            let error = settings.media(access).map(|_| ()).expect_err("it is cut").to_string();
            let both = error.contains("50331648") && error.contains(&whole.to_string());
            assert!(both && error.contains("truncated"), "{error}");
            assert_eq!(file.metadata().expect("a file").len(), 48 << 20);
        }
    }
}

/// Changes bytes of the first part of every record in the first two units, and makes its checksum right again.
fn forge(settings: &Settings, offset: usize, bytes: &[u8]) {
    let file = fs::File::options().read(true).write(true).open(&settings.device().path);
    let file = file.expect("a file");
    for at in (0..2 << 20).step_by(4096) {
        let mut prefix = [0; 256];
        file.read_exact_at(&mut prefix, at).expect("it is that long");
        if !prefix.starts_with(b"THERMOSB") {
            continue;
        }
        prefix[offset..offset + bytes.len()].copy_from_slice(bytes);
        let crc = thermocline_format::prefix_checksum(&prefix[..252]).to_le_bytes();
        prefix[252..].copy_from_slice(&crc);
        file.write_all_at(&prefix, at).expect("writable");
    }
}

#[test]
fn a_superblock_that_no_pool_can_have_is_refused_by_field_value_and_limit() {
    let last = u64::MAX.to_le_bytes();
    let cases: [(usize, &[u8], &str); 8] = [
        (12, &last[..4], "epoch is 4294967295; it is 1 to 2^31"),
        (40, &last, "revision is 18446744073709551615; it is 1 to 2^63"),
        (48, &last, "checkpoint is 18446744073709551615; it is 1 to 2^63"),
        (56, &last, "next generation is 18446744073709551615; it is 1 to 2^63"),
        (80, &[0; 4], "next volume is 0; it is 1 to 0xFFFFFF00"),
        (8, &[9], "version 9; this program reads up to version 8"),
        (120, &[200, 0, 0, 0], "has 67108864 bytes; 209715200 are needed"),
        (120, &[255; 4], "geometry is 4294967295; no pool has it"),
    ];
    for (offset, bytes, expected) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings(folder.path(), "size = '64MiB'\nunit = '1MiB'");
        format(&settings);
        forge(&settings, offset, bytes);
        let error = settings.media(Access::ReadWrite).map(|_| ()).expect_err("it is forged");
        assert!(error.to_string().contains(expected), "{error}");
        let length = fs::metadata(&settings.device().path).expect("a file").len();
        assert_eq!(length, 64 << 20, "its size stays");
        assert_ne!(settings.contents().expect("it can be read"), Contents::Nothing);
        let format_again = settings.new_media(PoolId([1; 16]));
        assert!(format_again.is_ok(), "it can be replaced");
    }
}

/// Settings with a device for each of these, by name, class and size.
fn of_devices(folder: &Path, devices: &[(&str, &str)]) -> Settings {
    let text = devices.iter().map(|(name, rest)| {
        format!("[[device]]\npath = '{}'\n{rest}\n", folder.join(name).display())
    });
    Settings::from_toml("pool.toml", &text.collect::<String>()).expect("sound settings")
}

const BIG: (&str, &str) = ("big", "size = '128MiB'");
const QUICK: (&str, &str) = ("quick", "size = '64MiB'\nclass = 'fast'");

#[test]
fn devices_are_told_apart_by_what_is_on_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let made = of_devices(folder, &[QUICK, BIG]);
    let planned = made.geometry().expect("a pool can be made");
    format(&made);
    let geometry = |devices: &[(&str, &str)]| {
        let found = of_devices(folder, devices).media(Access::ReadOnly);
        found.map(|media| media.geometry).map_err(|error| error.to_string())
    };
    let expected = geometry(&[BIG, QUICK]).expect("both are there");
    assert_eq!((planned, geometry(&[QUICK, BIG])), (expected, Ok(expected)));
    let units = |media| (u64::from(expected.active_units(media)) * expected.unit_bytes()) >> 20;
    assert_eq!((units(MediaClass::Capacity), units(MediaClass::Fast)), (128, 64));

    for name in ["big", "quick"] {
        let copy = format!("{name}.copy");
        fs::copy(folder.join(name), folder.join(copy)).expect("room");
    }
    let other = tempfile::tempdir().expect("a folder");
    format(&of_devices(other.path(), &[BIG, QUICK]));
    fs::copy(other.path().join("quick"), folder.join("other")).expect("room");
    let fast = |name| (name, "class = 'fast'");
    let plain = |name| (name, "");
    for (devices, expected) in [
        (
            vec![BIG],
            "the pool has 2 devices, and its device 1, which is a fast one, is none of those named",
        ),
        (vec![plain("quick")], "pool.toml: device.class: is not what the pool was made with"),
        (vec![BIG, QUICK, plain("big.copy")], "are copies of one device of the pool"),
        (vec![BIG, QUICK, fast("quick.copy")], "are copies of one device of the pool"),
        (vec![BIG, fast("other")], "this is of the pool"),
        (
            vec![BIG, plain("quick")],
            "pool.toml: device[1].class: is not what the pool was made with",
        ),
        (vec![BIG, fast("nowhere")], "nowhere cannot be read. It is the fast device of the pool"),
    ] {
        let message = geometry(&devices).expect_err("it is no pool");
        assert!(message.contains(expected), "{devices:?}: {message}");
    }
}

#[test]
fn devices_of_a_new_pool_are_divided_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let unit = |devices: &[(&str, &str)]| {
        let planned = of_devices(folder, devices).geometry();
        planned.map(|geometry| unit_bytes(&geometry)).map_err(|error| error.to_string())
    };
    assert_eq!(unit(&[BIG, QUICK]), Ok(Bytes::mib(1)));
    let large = ("big", "size = '1TiB'");
    assert_eq!(unit(&[large, ("quick", "size = '64GiB'\nclass = 'fast'")]), Ok(Bytes::gib(2)));
    assert_eq!(unit(&[large, ("quick", "size = '1GiB'\nclass = 'fast'")]), Ok(Bytes::mib(32)));
    assert_eq!(unit(&[("big", "size = '128MiB'\nunit = '2MiB'"), QUICK]), Ok(Bytes::mib(2)));
    let zones = ("big", "size = '8GiB'\nkind = 'simulated'\nprofile = 'zn540'");
    let quick = ("quick", "size = '8GiB'\nclass = 'fast'");
    let zone = unit(&[zones]).expect("zones");
    assert_eq!(unit(&[zones, quick]), Ok(zone), "zones cannot be divided otherwise");
    let other = ("quick", "size = '8GiB'\nclass = 'fast'\nunit = '1MiB'");
    let message = unit(&[zones, other]).expect_err("units of two sizes");
    assert!(message.starts_with("pool.toml: device[1].unit: units of 1 MiB in"), "{message}");
}

mod drives;

#[test]
fn a_group_whose_labels_or_records_are_of_another_version_is_refused_with_the_versions() {
    for (key, members) in [("mirror", 2), ("raid5", 3)] {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let member = format!("size = '64MiB'\nunit = '1MiB'\n{key} = 'g'");
        let names = ["a", "b", "c"].map(|name| (name, &*member));
        let settings = of_devices(folder, &names[..members]);
        format(&settings);
        for (name, _) in &names[..members] {
            let file = fs::File::options().read(true).write(true).open(folder.join(name));
            let file = file.expect("a file");
            for at in [0, 4096] {
                let mut label = [0; 128];
                file.read_exact_at(&mut label, at).expect("it is that long");
                label[8] = 6;
                let crc = thermocline_format::prefix_checksum(&label[..124]).to_le_bytes();
                label[124..].copy_from_slice(&crc);
                file.write_all_at(&label, at).expect("writable");
            }
        }
        let error = settings.media(Access::ReadWrite).map(|_| ()).expect_err("it is older");
        let text = error.to_string();
        assert!(text.contains("version 6; this program reads none before version 7"), "{text}");
    }
    // Pairs of earlier versions had the units of the pool at the front of each side.
    let folder = tempfile::tempdir().expect("a folder");
    let single = settings(folder.path(), "size = '64MiB'\nunit = '1MiB'");
    format(&single);
    forge(&single, 8, &[6]);
    let side = "size = '64MiB'\nunit = '1MiB'\nmirror = 'g'";
    let pair = of_devices(folder.path(), &[("pool.img", side), ("other.img", side)]);
    let text = pair.media(Access::ReadWrite).map(|_| ()).expect_err("it is older").to_string();
    assert!(text.contains("version 6; this program reads none before version 7"), "{text}");
}
