use std::sync::Arc;

use thermocline_target::{Export, Features, Memory};
use thermocline_types::Bytes;

use super::*;

#[test]
fn the_kernel_learns_what_the_target_can() {
    let features = Features { flush: true, fua: true, trim: true, zeroes: false };
    let info = Info { size: Bytes::mib(3), logical_block: Bytes(512), features };
    let told = parameters(&info, false);
    assert_eq!((told.sectors, told.logical_shift, told.physical_shift), (6144, 9, 12));
    assert_eq!(told.attributes, abi::ATTR_VOLATILE_CACHE | abi::ATTR_FUA);
    assert_eq!((told.discard_sectors, told.zeroes_sectors), (2 << 20, 0));
    let told = parameters(&info, true);
    assert_eq!(told.attributes & abi::ATTR_READ_ONLY, abi::ATTR_READ_ONLY);
    assert_eq!(told.discard_sectors, 0);
}

#[test]
fn devices_and_partitions_in_use_are_found_by_name() {
    let used = InUse(
        "22 1 259:3 / /mnt rw - ext4 /dev/ublkb4 rw\n23 1 259:4 / /a rw - xfs /dev/ublkb12p1 rw\n\
         Filename Type\n/dev/ublkb7 partition 8 0 -2\n"
            .to_owned(),
    );
    let names: Vec<u32> = (0..20).filter(|&number| used.names(number)).collect();
    assert_eq!(names, [4, 7, 12]);
}

#[test]
fn pools_and_places_differ_in_identity() {
    let ours = identity("a", Path::new("/x/pool.ublk"));
    assert_eq!(ours, identity("a", Path::new("/x/pool.ublk")));
    assert_ne!(ours, identity("b", Path::new("/x/pool.ublk")));
    assert_ne!(ours, identity("a", Path::new("/y/pool.ublk")));
    assert_eq!(hash(b"foobar".iter().copied()), 0x8594_4171_f739_67e8, "as published for FNV-1a");
}

#[test]
fn a_volume_is_a_device_until_the_end() {
    if let Err(error) = probe() {
        return println!("SKIPPED: {error}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let target = Arc::new(Memory::new(Bytes::mib(8), Bytes(512)));
    let exports = Exports::new(vec![Export { name: "a".to_owned(), target, read_only: false }]);
    let record = folder.path().join("pool.ublk");
    let options = || Options {
        record: record.clone(),
        pool: "p".to_owned(),
        outlives_kill: false,
        watcher: Box::new(|_| ()),
    };
    let ublk = Ublk::serve(&exports, options()).expect("served");
    let device = ublk.devices()("a").expect("a device");
    fs::write(&device, vec![7; 1 << 20]).expect("written");
    ublk.end();
    assert!(!Path::new(&device).exists());
    let ublk = Ublk::serve(&exports, options()).expect("served");
    assert_eq!(ublk.devices()("a"), Some(device.clone()), "the number stays");
    assert!(fs::read(&device).expect("read")[..1 << 20].iter().all(|&byte| byte == 7));
    ublk.end();
}
