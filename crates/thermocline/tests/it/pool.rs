//! Pools on a file.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::thread;

use thermocline::{ErrorKind, Pool};

const MIB: u64 = 1 << 20;

/// The settings of a pool in `folder`.
fn settings(folder: &Path) -> PathBuf {
    let path = folder.join("pool.toml");
    let text = "device = { path = 'pool.img', size = '256MiB' }\n\
                volumes = [{ name = 'main', size = '32MiB' }]\n";
    std::fs::write(&path, text).expect("the folder can be written");
    path
}

#[test]
fn data_is_found_again_after_a_close_and_after_a_drop() {
    let folder = tempfile::tempdir().unwrap();
    let path = settings(folder.path());
    let pool = Pool::create(&path).unwrap();
    let volume = pool.volume("main").unwrap();
    assert_eq!((volume.name(), volume.size()), ("main", 32 * MIB));
    let long: Vec<u8> = (0..9 * MIB).map(|at| (at % 251) as u8).collect();
    volume.write_at(4095, &long).unwrap();
    pool.close().unwrap();

    let pool = Pool::open(&path).unwrap();
    let volume = pool.volume("main").unwrap();
    let mut read = vec![1; long.len() + 2];
    volume.read_at(4094, &mut read).unwrap();
    assert_eq!((read[0], read[long.len() + 1]), (0, 0), "bytes beside it are zero");
    assert!(read[1..=long.len()] == long[..]);
    volume.write_at(7, b"dropped").unwrap();
    drop(pool);
    assert_eq!(volume.write_at(0, b"x").unwrap_err().kind(), ErrorKind::Closed);

    let pool = Pool::open(&path).unwrap();
    let mut word = [0; 7];
    pool.volume("main").unwrap().read_at(7, &mut word).unwrap();
    assert_eq!(&word, b"dropped");
}

#[test]
fn trims_give_back_whole_blocks_only() {
    let folder = tempfile::tempdir().unwrap();
    let pool = Pool::create(settings(folder.path())).unwrap();
    let volume = pool.volume("main").unwrap();
    volume.write_at(0, &[7; 16384]).unwrap();
    volume.trim(1, 12287).unwrap();
    volume.trim(1, 4094).unwrap();
    volume.flush().unwrap();
    let mut read = [1; 16384];
    volume.read_at(0, &mut read).unwrap();
    assert!(read[..4096].iter().all(|byte| *byte == 7));
    assert!(read[4096..12288].iter().all(|byte| *byte == 0));
    assert!(read[12288..].iter().all(|byte| *byte == 7));
}

#[test]
fn threads_share_blocks_and_lose_no_byte_of_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let pool = Pool::create(settings(folder.path())).unwrap();
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let volume = pool.volume("main").unwrap();
            scope.spawn(move || {
                for word in 0..64 {
                    let at = (word * 4 + thread) * 8;
                    volume.write_at(at, &at.to_le_bytes()).unwrap();
                }
                volume.flush().unwrap();
            });
        }
    });
    let mut read = [0; 2048];
    pool.volume("main").unwrap().read_at(0, &mut read).unwrap();
    for (word, bytes) in read.chunks(8).enumerate() {
        assert_eq!(bytes, (word as u64 * 8).to_le_bytes());
    }
}

#[test]
fn volumes_are_made_resized_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = settings(folder.path());
    let pool = Pool::create(&path).unwrap();
    let other = pool.create_volume("other", 4 * MIB).unwrap();
    other.write_at(4 * MIB - 4, b"last").unwrap();
    pool.resize_volume("other", 8 * MIB).unwrap();
    assert_eq!(other.size(), 8 * MIB);
    assert_eq!(pool.volumes(), ["main", "other"]);
    let error = pool.create_volume("other", 4 * MIB).unwrap_err();
    assert_eq!((error.kind(), error.volume()), (ErrorKind::Name, Some("other")));
    assert_eq!(pool.create_volume("x/y", MIB).unwrap_err().kind(), ErrorKind::Name);
    assert_eq!(pool.create_volume("third", 4097).unwrap_err().kind(), ErrorKind::OutOfRange);
    pool.delete_volume("other").unwrap();
    assert_eq!(other.read_at(0, &mut [0]).unwrap_err().kind(), ErrorKind::Closed);
    let error = pool.volume("other").unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::NoVolume, Some(path.as_path())));
    pool.create_volume("other", MIB).unwrap();
    assert_eq!(pool.volume("other").unwrap().size(), MIB);
}

#[test]
fn errors_have_a_kind_and_facts() {
    let folder = tempfile::tempdir().unwrap();
    let path = settings(folder.path());
    let image = folder.path().join("pool.img");

    let error = Pool::open(&path).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::NoPool, Some(image.as_path())));
    let error = Pool::open(folder.path().join("none.toml")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Settings);
    assert!(error.to_string().contains("none.toml"), "{error}");

    let pool = Pool::create(&path).unwrap();
    let error = Pool::open(&path).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::InUse, Some(image.as_path())));
    let error = pool.volume("main").unwrap().write_at(32 * MIB - 1, b"ab").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfRange);
    assert_eq!((error.volume(), error.offset()), (Some("main"), Some(32 * MIB - 1)));
    let shown = "volume `main`: byte 33554431: the range ends beyond the volume";
    assert_eq!(error.to_string(), shown);
    assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::InvalidInput);
    pool.close().unwrap();

    let error = Pool::create(&path).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::Occupied, Some(image.as_path())));
    std::fs::write(&path, "device = { path = 'pool.img', size = 'much' }").unwrap();
    let error = Pool::open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Settings);
    assert!(error.source().is_some());
}

#[test]
fn a_pool_that_cannot_be_made_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = settings(folder.path());
    std::fs::write(&path, "device = { path = 'pool.img', size = '64KiB' }").unwrap();
    assert_eq!(Pool::create(&path).unwrap_err().kind(), ErrorKind::Settings);
    assert!(!folder.path().join("pool.img").exists());
}

#[test]
fn a_device_outside_the_pool_is_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let path = settings(folder.path());
    Pool::create(&path).unwrap().close().unwrap();
    std::fs::write(folder.path().join("more.img"), vec![0; 64 << 20]).unwrap();
    let text = "device = [{ path = 'pool.img' }, { path = 'more.img' }]";
    std::fs::write(&path, text).unwrap();
    let pool = Pool::open(&path).unwrap();
    assert!(pool.notes()[0].contains("more.img"), "{:?}", pool.notes());
    assert!(!pool.notes()[0].contains("thermocline "), "advice is for the command line");
}
