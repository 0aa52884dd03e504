//! Pools on mirrored pairs and striped groups, with labels and logs changed as somebody would who knows the format:
//! fields under sound checksums, labels of another member or of earlier, and anything at all.
//!
//! What comes of them is told, and a panic is wrong too. `proptest` and `cargo fuzz` drive the same code.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thermocline_format::{RAID_PLACE_BYTES, RaidShape, crc32c, prefix_checksum};
use thermocline_runtime::storage::{Access, Command, Storage as _, Token};
use thermocline_runtime::{AnyStorage, Buffer, Driver, Settings, UnitStorage, new_pool_id};
use thermocline_types::{Bytes, Class, DeviceId, Rng, UnitId};

/// Bytes of a block of the image.
const BLOCK: usize = 4096;
/// Bytes of a member, and of a unit of the pool: the least that such pools take, about.
const SIZE: u64 = 4 << 20;
const UNIT: u64 = 256 << 10;
/// Changes of one image, at most.
const MOST: usize = 6;
/// Turns in which a command has to end, each of a millisecond at most.
const TURNS: usize = 20_000;

/// Kinds of groups, with the number of their members.
const KINDS: [(&str, usize); 6] =
    [("mirror", 2), ("raid5", 3), ("raid5", 4), ("raid0", 2), ("raid0", 3), ("raid0", 4)];

/// Takes bytes one by one; zeros behind their end.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn next(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn below(&mut self, bound: usize) -> usize {
        (usize::from(self.next()) << 8 | usize::from(self.next())) % bound.max(1)
    }
}

/// The blocks of a member that are not zeros, by number.
type Image = BTreeMap<u64, Vec<u8>>;

/// A label, or the head of a log.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u64,
    bytes: usize,
    /// Bytes of its prefix, whose last four are its checksum.
    prefix: usize,
}

/// What comes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was refused, and nothing was written.
    Refused,
    /// It serves.
    Serves,
}

/// A pool on one group, as its members were left while it was written to, and halfway.
pub struct Forge {
    folder: tempfile::TempDir,
    settings: Settings,
    paths: Vec<PathBuf>,
    sound: Vec<Image>,
    earlier: Vec<Image>,
    places: Vec<Place>,
}

impl Forge {
    /// All of them, in the order in which [`attempt`] picks them.
    pub fn all() -> Vec<Forge> {
        KINDS.into_iter().map(|(kind, members)| Forge::new(kind, members)).collect()
    }

    fn new(kind: &str, members: usize) -> Forge {
        let folder = tempfile::tempdir().expect("a folder");
        let paths: Vec<_> = (0..members).map(|one| folder.path().join(format!("m{one}"))).collect();
        let device = |path: &PathBuf| {
            let group = format!("{kind} = 'g'\nsize = '{SIZE}'\nunit = '{UNIT}'\nio = 'inline'");
            format!("[[device]]\npath = '{}'\n{group}\n", path.display())
        };
        let text: String = paths.iter().map(device).collect();
        let settings = Settings::from_toml("pool.toml", &text).expect("sound settings");
        let pool = new_pool_id().expect("randomness");
        let media = settings.new_media(pool).expect("room for a pool");
        let config = settings.config(media.geometry).expect("a pool can be");
        drop(Driver::format(config, pool, media.storage).expect("nothing fails"));
        let UnitStorage { mut storage, .. } =
            settings.media(Access::ReadWrite).expect("it is there");
        let places = places(kind);
        let mut contents = Contents::new(1);
        let left: Vec<Vec<Image>> = [(2, 3), (3, 7)]
            .map(|(unit, blocks)| {
                contents.write(&mut storage, unit, blocks).expect("it is well");
                paths.iter().map(|path| image_of(path)).collect()
            })
            .into();
        drop(storage);
        let [earlier, sound] = left.try_into().expect("there are two");
        Forge { folder, settings, paths, sound, earlier, places }
    }

    /// Changes the members as `bytes` say, and opens the pool.
    ///
    /// # Errors
    /// What was wrong.
    fn attempt(&self, bytes: &mut Cursor<'_>) -> Result<Outcome, String> {
        let mut images = self.sound.clone();
        for _ in 0..MOST {
            if bytes.0.is_empty() {
                break;
            }
            self.change(&mut images, bytes);
        }
        self.open(&images)
    }

    /// Opens the pool with this field of all labels changed.
    ///
    /// # Errors
    /// What was wrong.
    pub fn with_field(&self, at: usize, value: &[u8]) -> Result<Outcome, String> {
        let mut images = self.sound.clone();
        for image in &mut images {
            for place in self.places.iter().filter(|place| place.prefix == self.places[0].prefix) {
                let mut raw = read(image, *place);
                raw[at..at + value.len()].copy_from_slice(value);
                seal(&mut raw, *place);
                write(image, *place, &raw);
            }
        }
        self.open(&images)
    }

    /// What comes of these members.
    fn open(&self, images: &[Image]) -> Result<Outcome, String> {
        for (path, image) in self.paths.iter().zip(images) {
            put(path, image);
        }
        if self.probe(Access::ReadOnly, images)? == Outcome::Serves {
            let now: Vec<Image> = self.paths.iter().map(|path| image_of(path)).collect();
            if now != images {
                return Err("written to, though it was only to be read".to_owned());
            }
        }
        self.probe(Access::ReadWrite, images)
    }

    fn change(&self, images: &mut [Image], bytes: &mut Cursor<'_>) {
        let [one, other] = [(); 2].map(|()| bytes.below(images.len()));
        let place = self.places[bytes.below(self.places.len())];
        match bytes.next() % 8 {
            0 => {
                let mut raw = read(&images[one], place);
                let magic = [&b""[..], &raw[..12]][usize::from(bytes.next() % 2)].to_vec();
                let mut rng = Rng::new(bytes.below(1 << 16) as u64);
                raw.fill_with(|| rng.below(256) as u8);
                raw[..magic.len()].copy_from_slice(&magic);
                if bytes.next().is_multiple_of(2) {
                    seal(&mut raw, place);
                }
                write(&mut images[one], place, &raw);
            }
            1 => {
                let raw = read(&images[other], place);
                write(&mut images[one], place, &raw);
            }
            2 => {
                let raw = read(&self.earlier[one], place);
                write(&mut images[one], place, &raw);
            }
            3 => images[one].clone_from(&self.earlier[one]),
            4 => write(&mut images[one], place, &vec![0; place.bytes]),
            5 => self.change_fields(&mut images[one..=one], &self.places, bytes),
            6 => self.change_fields(images, &self.places, bytes),
            _ => self.change_fields(&mut images[one..=one], &[place], bytes),
        }
    }

    /// Changes the same bytes of all these labels, and makes their checksums right.
    fn change_fields(&self, images: &mut [Image], places: &[Place], bytes: &mut Cursor<'_>) {
        let prefix = places[0].prefix;
        for _ in 0..=bytes.next() % 3 {
            // Seldom what is reserved: that is always refused.
            let fields = [bytes.below(prefix - 12), bytes.below(prefix / 2)];
            let at = 8 + fields[usize::from(!bytes.next().is_multiple_of(8))];
            let (how, value) = (bytes.next() % 8, bytes.next());
            for image in &mut *images {
                for place in places.iter().filter(|place| place.prefix == prefix) {
                    let mut raw = read(image, *place);
                    match how {
                        0 => raw[at..at + 4].fill(0xFF),
                        1 => raw[at..at + 4].fill(0),
                        2 => raw[at] = raw[at].wrapping_add(1),
                        3 => raw[at] = raw[at].wrapping_sub(1),
                        4 => raw[at] ^= 1 << (value % 8),
                        5 => raw[at] = 0x40,
                        _ => raw[at] = value,
                    }
                    seal(&mut raw, *place);
                    write(image, *place, &raw);
                }
            }
        }
    }

    /// Opens the pool, and sees what comes of it.
    fn probe(&self, access: Access, images: &[Image]) -> Result<Outcome, String> {
        match self.settings.media(access) {
            Err(error) => {
                let message = error.to_string();
                if !self.paths.iter().any(|path| message.contains(&*path.to_string_lossy())) {
                    return Err(format!("the refusal names no member: {message}"));
                }
                for (path, image) in self.paths.iter().zip(images) {
                    if image_of(path) != *image {
                        return Err(format!("{} was written to: {message}", path.display()));
                    }
                }
                return Ok(Outcome::Refused);
            }
            Ok(_) if access == Access::ReadOnly => return Ok(Outcome::Serves),
            Ok(mut media) => {
                let mut contents = Contents::new(2);
                for (unit, blocks) in [(2, 5), (4, 9)] {
                    contents.write(&mut media.storage, unit, blocks)?;
                }
                contents.compare(&mut media.storage)?;
                drop(media);
                let again = self.settings.media(Access::ReadWrite);
                let mut again = again.map_err(|error| format!("not a second time: {error}"))?;
                contents.compare(&mut again.storage).map_err(|why| format!("again: {why}"))?;
            }
        }
        Ok(Outcome::Serves)
    }
}

/// Changes a pool as `bytes` say, the first of which picks it, and opens it.
///
/// # Errors
/// What was wrong.
pub fn attempt(pools: &[Forge], bytes: &[u8]) -> Result<Outcome, String> {
    let mut bytes = Cursor(bytes);
    let pool = &pools[usize::from(bytes.next()) % pools.len()];
    pool.attempt(&mut bytes).map_err(|why| why.replace(&*pool.folder.path().to_string_lossy(), ""))
}

/// Labels and heads of logs of a member: `docs/use/GROUPS.md`.
fn places(kind: &str) -> Vec<Place> {
    let bytes = RAID_PLACE_BYTES;
    let labels =
        [0, 1].map(|place| Place { at: RaidShape::label_place(place), bytes, prefix: 128 });
    let heads = [0, 1].map(|place| Place { at: RaidShape::log_place(place), bytes, prefix: 64 });
    let logs = if kind == "raid5" { &heads[..] } else { &[] };
    labels.into_iter().chain(logs.iter().copied()).collect()
}

/// Makes the checksums right.
fn seal(raw: &mut [u8], place: Place) {
    let four = |at: usize| u32::from_le_bytes(raw[at..at + 4].try_into().expect("four bytes"));
    let rest = match &raw[..8] {
        // Rows of a group with this many pieces: whichever number fits.
        b"THERMORL" => (1..16)
            .map(|data| four(12) as usize * (16 + 4 * data))
            .find(|&rest| raw.get(64..64 + rest).is_some_and(|rest| crc32c(rest) == four(56)))
            .unwrap_or(four(12) as usize * 24),
        _ => 0,
    };
    if place.prefix == 64 {
        let end = raw.len().min(64 + rest);
        let crc = crc32c(&raw[64..end]).to_le_bytes();
        raw[56..60].copy_from_slice(&crc);
    }
    let crc = prefix_checksum(&raw[..place.prefix - 4]).to_le_bytes();
    raw[place.prefix - 4..place.prefix].copy_from_slice(&crc);
}

fn read(image: &Image, place: Place) -> Vec<u8> {
    let blocks = place.at / BLOCK as u64..(place.at + place.bytes as u64).div_ceil(BLOCK as u64);
    let zeros = vec![0; BLOCK];
    blocks.flat_map(|block| image.get(&block).unwrap_or(&zeros).clone()).collect()
}

fn write(image: &mut Image, place: Place, raw: &[u8]) {
    for (block, bytes) in (place.at / BLOCK as u64..).zip(raw.chunks(BLOCK)) {
        image.insert(block, bytes.to_vec());
        if bytes.iter().all(|&byte| byte == 0) {
            image.remove(&block);
        }
    }
}

fn image_of(path: &Path) -> Image {
    let bytes = fs::read(path).expect("a file");
    let blocks = (0..).zip(bytes.chunks(BLOCK));
    let some = blocks.filter(|(_, bytes)| bytes.iter().any(|&byte| byte != 0));
    some.map(|(number, bytes)| (number, bytes.to_vec())).collect()
}

fn put(path: &Path, image: &Image) {
    let file = fs::File::options().write(true).truncate(true).open(path).expect("a file");
    file.set_len(SIZE).expect("room");
    for (block, bytes) in image {
        file.write_all_at(bytes, block * BLOCK as u64).expect("room");
    }
}

/// What was written to a storage, and has to be read.
struct Contents {
    rng: Rng,
    written: Vec<(u64, Vec<u8>)>,
}

impl Contents {
    fn new(seed: u64) -> Contents {
        Contents { rng: Rng::new(seed), written: Vec::new() }
    }

    /// Writes so many blocks to a unit, from its start, and flushes.
    fn write(&mut self, storage: &mut AnyStorage, unit: u32, blocks: usize) -> Result<(), String> {
        let at = u64::from(unit) * UNIT;
        let bytes: Vec<u8> = (0..blocks * BLOCK).map(|_| self.rng.below(256) as u8).collect();
        let parts = vec![Buffer::new(thermocline_target::Buffer::from_bytes(&bytes))];
        carry_out(storage, Command::Reset(UnitId(unit)))?;
        carry_out(storage, Command::Write { at: Bytes(at), parts, class: Class(0) })?;
        carry_out(storage, Command::Flush(DeviceId(0)))?;
        self.written.push((at, bytes));
        Ok(())
    }

    fn compare(&self, storage: &mut AnyStorage) -> Result<(), String> {
        for (at, bytes) in &self.written {
            let into = Buffer::new(thermocline_target::Buffer::zeroed(bytes.len()));
            carry_out(storage, Command::read(Bytes(*at), into.clone()))?;
            if *into.read() != **bytes {
                return Err(format!("other bytes at {at}"));
            }
        }
        Ok(())
    }
}

fn carry_out(storage: &mut AnyStorage, command: Command) -> Result<(), String> {
    let what = format!("{command:.40?}");
    storage.submit(Token(0), command);
    let mut done = Vec::new();
    for _ in 0..TURNS {
        storage.reap(Some(Duration::from_millis(1)), &mut done);
        if let Some(completion) = done.pop() {
            return completion.result.map_err(|fault| format!("{what}: {fault}"));
        }
    }
    Err(format!("{what}: nothing comes of it"))
}
