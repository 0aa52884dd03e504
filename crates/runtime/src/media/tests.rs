use std::os::unix::fs::FileExt as _;

use super::*;
use crate::Driver;

fn settings(folder: &Path, device: &str) -> Settings {
    let text = format!("[device]\npath = '{}'\n{device}", folder.join("pool.img").display());
    Settings::from_toml("pool.toml", &text).expect("sound settings")
}

fn format(settings: &Settings) -> PoolId {
    let media = settings.new_media().expect("room for a pool");
    let config = settings.config(media.geometry).expect("a pool can be");
    let pool = new_pool_id().expect("randomness");
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
    let units = |size: Bytes| size.0 / default_unit(size).0;
    assert_eq!(default_unit(Bytes::gib(1)), Bytes::mib(2));
    assert_eq!(default_unit(Bytes::mib(64)), Bytes::mib(1));
    assert!((512..1024).contains(&units(Bytes(100_000_000_000))));
    assert_eq!(default_unit(Bytes::gib(16 << 10)), Bytes::mib(256));
}

#[test]
fn a_pool_keeps_to_the_active_zones_of_its_drive() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = |device: &str| {
        let settings = settings(folder.path(), &format!("size = '256MiB'\nkind = {device}"));
        let geometry = settings.new_media().expect("room for a pool").geometry;
        settings.config(geometry)
    };
    let zones = config("'simulated'\nprofile = 'zn540'").expect("enough zones");
    assert!(zones.frontiers() + 3 <= 14, "it lets 14 be active: {}", zones.frontiers());
    let none = config("'simulated'\nprofile = 'p5316'").expect("no zones");
    assert_eq!(none.max_open_units, u32::MAX);
    let wide = "'simulated'\nprofile = 'zn540'\n[pool]\nplacement = 'dac:14'";
    let error = config(wide).map(|_| ()).expect_err("too many classes");
    assert!(
        error.to_string().starts_with("pool.toml: pool.placement: the placement writes up to"),
        "{error}"
    );
}

#[test]
fn what_is_there_is_recognised() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = settings(folder.path(), "size = '64MiB'");
    let file = fs::File::create(&settings.device.path).expect("writable");
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
    let error = settings(folder.path(), "").new_media().map(|_| ()).expect_err("no size");
    assert!(error.to_string().starts_with("pool.toml: device.size: "), "{error}");
    let error = settings(folder.path(), "size = '1MiB'\nunit = '16KiB'").new_media();
    let error = error.map(|_| ()).expect_err("small units");
    assert!(error.to_string().starts_with("pool.toml: device.unit: "), "{error}");
}
