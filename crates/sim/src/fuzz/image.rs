//! Images of pools, changed with knowledge of the format: fields changed under sound checksums, units swapped, copied,
//! rolled back or cut short; also random bytes.

use std::rc::Rc;

use thermocline_engine::wire::find_superblocks;
use thermocline_engine::{Extent, HostRequest};
use thermocline_format::{
    BLOCK_BYTES, CHUNK_PREFIX_BYTES, Location, MapEntry, PAGE_ENTRIES, SUPERBLOCK_PREFIX_BYTES,
    Superblock, VolumeId, crc32c, prefix_checksum,
};
use thermocline_types::{Rng, UnitId};

use super::Bytes;
use crate::damage::{Structure, Target, targets};
use crate::data::{Arena, Content, SECTOR_BYTES, Sector};
use crate::disk::{Disk, Image, Latency};
use crate::machine::{Machine, Trouble};
use crate::settings::{Scale, Settings};
use crate::world::World;

/// Settings that pools of images have, by seed: each is made once.
const POOLS: u64 = 16;

/// Changes of one image, at most.
const MOST: usize = 8;

/// Blocks of a volume that are read: a forged record may promise any number.
const READ: u64 = 512;

/// Entries and units that may be looked through for each unit and each page of a pool, from opening to closing: a
/// handful of walks over all of them. Chosen, not measured.
const LOOKED_AT: u64 = 1 << 14;

/// Offset of a structure's length in its prefix: `docs/develop/FORMAT.md`, sections 2 and 4.
const CHUNK_LENGTH: usize = 76;
const SUPERBLOCK_LENGTH: usize = 68;

/// A pool, with an earlier image from halfway through its life.
#[derive(Debug)]
pub struct Forge {
    arena: Rc<Arena>,
    settings: Settings,
    sound: Image,
    earlier: Image,
    targets: Vec<Target>,
}

impl Forge {
    /// The pool that `seed` draws, closed in order, or left after its last request if `seed` is odd.
    #[must_use]
    pub fn new(seed: u64) -> Forge {
        let mut settings = Settings::draw(seed, Scale::Small);
        let requests = settings.requests;
        settings.requests /= 2;
        let mut world = World::new(seed, settings.clone(), Vec::new());
        world.run_requests(0);
        let earlier = world.machine.disk.cache().current().clone();
        world.settings.requests = requests;
        world.run_requests(0);
        if seed.is_multiple_of(2) {
            // A pool that stopped at a close is as good.
            let _ = world.machine.close();
        }
        let sound = world.machine.disk.cache().current().clone();
        let arena = Rc::clone(&world.arena);
        settings.requests = requests;
        let targets = targets(&arena, &sound);
        Forge { arena, settings, sound, earlier, targets }
    }

    /// Changes the image as `bytes` say, and opens, reads, scrubs, writes and closes it.
    ///
    /// # Errors
    /// What was wrong: data that was never written there, work without end, or too much of it.
    pub fn try_image(&self, bytes: &[u8]) -> Result<(), String> {
        let mark = self.arena.mark();
        let mut bytes = Bytes(bytes);
        let mut image = self.sound.clone();
        for _ in 0..MOST {
            if bytes.0.is_empty() {
                break;
            }
            self.change(&mut image, &mut bytes);
        }
        let result = self.probe(&image);
        drop(image);
        self.arena.truncate(mark);
        result
    }

    fn change(&self, image: &mut Image, bytes: &mut Bytes<'_>) {
        let geometry = self.settings.media.geometry;
        let kind = bytes.next() % 9;
        let [one, other] = [(); 2].map(|()| UnitId(bytes.below(geometry.units().into()) as u32));
        let length = u64::from(self.settings.media.sectors_per_unit());
        match kind {
            0 => {
                let (first, second) = (image.unit(one).to_vec(), image.unit(other).to_vec());
                image.put(one, 0, &second);
                image.put(other, 0, &first);
            }
            1 => {
                let copied = image.unit(one).to_vec();
                image.put(other, 0, &copied);
            }
            2 => image.put(one, 0, self.earlier.unit(one)),
            3 => {
                let from = bytes.below(length);
                image.put(one, from as u32, &vec![Sector::ZEROS; (length - from) as usize]);
            }
            8 => {
                let from = bytes.below(length) as u32;
                let count = (1 + bytes.next() % 8).min(length - u64::from(from));
                // Random bytes, possibly behind the magic of a structure.
                let magic = [&b""[..], b"THERMOCH", b"THERMOSB"][bytes.next() as usize % 3];
                let mut rng = Rng::new(bytes.below(1 << 16));
                let mut raw = magic.to_vec();
                raw.resize_with(count as usize * SECTOR_BYTES, || rng.below(256) as u8);
                let mut sectors = Vec::new();
                self.arena.sectors(&raw, &mut sectors);
                image.put(one, from, &sectors);
            }
            _ if self.targets.is_empty() => {}
            4 | 5 => self.change_field(image, bytes),
            6 => self.change_page(image, bytes),
            _ => {
                let [from, to] = [(); 2].map(|()| self.target(bytes).at);
                let block = image.logical(from, 1).to_vec();
                let start = to.block * image.media().sectors_per_logical();
                image.put(to.unit, start, &block);
            }
        }
    }

    fn target(&self, bytes: &mut Bytes<'_>) -> &Target {
        &self.targets[bytes.below(self.targets.len() as u64) as usize]
    }

    /// Changes some bytes of a superblock record or a header, and makes its checksums right.
    fn change_field(&self, image: &mut Image, bytes: &mut Bytes<'_>) {
        let is_sealed = |target: &&Target| {
            !matches!(target.structure, Structure::Block | Structure::Page | Structure::Root)
        };
        let all: Vec<&Target> = self.targets.iter().filter(is_sealed).collect();
        let target = all[bytes.below(all.len() as u64) as usize];
        let mut raw = self.read(image, target.at, target.bytes);
        for _ in 0..=bytes.next() % 3 {
            // The prefix has most of what can be got wrong.
            let most =
                if bytes.next().is_multiple_of(4) { target.bytes } else { CHUNK_PREFIX_BYTES };
            let at = bytes.below(most as u64) as usize;
            raw[at] = match bytes.next() % 4 {
                0 => 0,
                1 => 0xFF,
                2 => raw[at].wrapping_add(1),
                _ => bytes.next() as u8,
            };
        }
        seal(&mut raw);
        self.write(image, target.at, &raw);
    }

    /// Changes the tag of an entry of a map page, and makes right what leads to it.
    fn change_page(&self, image: &mut Image, bytes: &mut Bytes<'_>) {
        let geometry = self.settings.media.geometry;
        let pages: Vec<&Target> =
            self.targets.iter().filter(|target| target.structure == Structure::Page).collect();
        let Some(page) = pages.get(bytes.below(pages.len() as u64) as usize) else { return };
        let mut raw = self.read(image, page.at, BLOCK_BYTES);
        // The tag of an entry, not its place: where blocks are valid is counted, and nothing checks that no two entries
        // share a place.
        let entry = bytes.below(PAGE_ENTRIES as u64) as usize * 8;
        raw[entry + bytes.next() as usize % 3] ^= 1 << (bytes.next() % 8);
        self.write(image, page.at, &raw);
        let (volume, lba, _) = page.leads_to[0];
        let number = lba / PAGE_ENTRIES as u64;
        let parent = |at, raw: &[u8]| MapEntry::new(&geometry, at, crc32c(raw));
        let leads =
            |root: &&Target| root.structure == Structure::Root && root.concerns(volume, lba);
        let Some(root) = self.targets.iter().find(leads) else { return };
        let mut above = self.read(image, root.at, BLOCK_BYTES);
        // What something else has changed already may lead anywhere.
        if above != self.read(&self.sound, root.at, BLOCK_BYTES) {
            return;
        }
        let slot = (number % PAGE_ENTRIES as u64) as usize * 8;
        above[slot..slot + 8].copy_from_slice(&parent(page.at, &raw).pack().to_le_bytes());
        self.write(image, root.at, &above);
        self.lead_to(
            image,
            volume,
            (number / PAGE_ENTRIES as u64) as usize,
            parent(root.at, &above),
        );
    }

    /// Has the newest records lead to this root page.
    fn lead_to(&self, image: &mut Image, volume: VolumeId, number: usize, root: MapEntry) {
        self.change_records(image, |record| {
            let roots = record.volumes.iter_mut().find(|one| one.id == volume)?;
            *roots.roots.get_mut(number)? = root;
            Some(())
        });
    }

    /// Changes the newest records, where `change` does.
    fn change_records(&self, image: &mut Image, change: impl Fn(&mut Superblock) -> Option<()>) {
        let geometry = self.settings.media.geometry;
        for target in self.targets.iter().filter(|one| one.structure == Structure::Newest) {
            let unit = self.unit(image, target.at.unit);
            let records = find_superblocks(&unit, target.at.unit, None, &geometry).into_iter();
            // Something else may have put another record here.
            let same = |record: &Superblock| {
                record.location == target.at && record.record_bytes() == target.bytes
            };
            let mut here = records.filter(same);
            let Some(mut record) = here.next() else { continue };
            if change(&mut record).is_none() {
                continue;
            }
            let mut changed = Vec::new();
            record.encode(&mut changed);
            self.write(image, target.at, &changed);
        }
    }

    /// Has the newest records know one volume less, and then one that is smaller than what was written to it since, as
    /// the format allows: volumes may be newer than the checkpoint. No writer of ours makes such a record.
    ///
    /// # Errors
    /// As [`Forge::try_image`].
    pub fn try_newer_volumes(&self) -> Result<(), String> {
        let less = |record: &mut Superblock| record.volumes.pop().map(drop);
        let smaller = |record: &mut Superblock| {
            let last = record.volumes.last_mut()?;
            last.blocks = 1;
            last.roots.truncate(1);
            Some(())
        };
        let mut image = self.sound.clone();
        self.change_records(&mut image, less);
        self.probe(&image)?;
        let mut image = self.sound.clone();
        self.change_records(&mut image, smaller);
        self.probe(&image)
    }

    fn unit(&self, image: &Image, unit: UnitId) -> Vec<u8> {
        let mut raw = Vec::new();
        self.arena.copy_out(image.unit(unit), &mut raw);
        raw
    }

    fn read(&self, image: &Image, at: Location, bytes: usize) -> Vec<u8> {
        let mut raw = Vec::new();
        let from = (at.block * image.media().sectors_per_logical()) as usize;
        let sectors = &image.unit(at.unit)[from..from + bytes.div_ceil(SECTOR_BYTES)];
        self.arena.copy_out(sectors, &mut raw);
        raw
    }

    fn write(&self, image: &mut Image, at: Location, raw: &[u8]) {
        let mut sectors = Vec::new();
        self.arena.sectors(raw, &mut sectors);
        image.put(at.unit, at.block * image.media().sectors_per_logical(), &sectors);
    }

    fn probe(&self, image: &Image) -> Result<(), String> {
        let disk = Disk::new(&self.arena, image.clone(), Latency::NONE, 1);
        let mut machine = Machine::open(self.settings.config.clone(), &self.arena, disk, 1);
        match machine.wait_until_open() {
            Ok(_) => {}
            Err(Trouble::Refused(_)) => return Ok(()),
            Err(trouble) => return Err(format!("opening: {trouble:?}")),
        }
        self.look(&mut machine)?;
        for request in [HostRequest::Scrub, HostRequest::Flush, HostRequest::Close] {
            let kind = format!("{request:?}");
            // An error is an answer.
            let asked = machine.ask(request).map_err(|trouble| format!("{kind}: {trouble:?}"));
            let _ = asked?;
        }
        let geometry = self.settings.media.geometry;
        let volumes = machine.engine.volumes();
        let pages: u64 = volumes.iter().map(|one| one.blocks / PAGE_ENTRIES as u64 + 1).sum();
        let looked_at = machine.engine.stats().looked_at;
        let most = LOOKED_AT * (u64::from(geometry.units()) + pages);
        if looked_at > most {
            return Err(format!("{looked_at} entries and units looked at, {most} at most"));
        }
        Ok(())
    }

    /// Reads the first blocks of every volume: each shows what was once written to it, or zeros, or is an error.
    fn look(&self, machine: &mut Machine) -> Result<(), String> {
        for info in machine.engine.volumes() {
            for lba in 0..info.blocks.min(READ) {
                let extent = Extent { volume: info.id, lba, blocks: 1 };
                let read = machine.read(extent).map_err(|trouble| format!("{trouble:?}"))?;
                let Some(block) = read.and_then(|data| data.blocks().next()) else { continue };
                let right = match self.arena.content(block) {
                    Content::Zeros => true,
                    Content::User(stamp) => stamp.volume == info.id && stamp.lba.0 == lba,
                    Content::Other => false,
                };
                if !right {
                    let found = self.arena.content(block);
                    return Err(format!("block {lba} of {:?} reads as {found}", info.id));
                }
            }
        }
        Ok(())
    }
}

/// Makes the checksums of a structure right: of what follows its prefix, and of the prefix.
fn seal(raw: &mut [u8]) {
    let (lengths, prefix) = match raw.get(..8) {
        Some(b"THERMOCH") => (CHUNK_LENGTH, CHUNK_PREFIX_BYTES),
        Some(b"THERMOSB") => (SUPERBLOCK_LENGTH, SUPERBLOCK_PREFIX_BYTES),
        _ => return,
    };
    let length = raw[lengths..lengths + 4].try_into().expect("four bytes");
    if let Some(rest) = raw.get(prefix..u32::from_le_bytes(length) as usize) {
        let crc = crc32c(rest).to_le_bytes();
        raw[prefix - 8..prefix - 4].copy_from_slice(&crc);
    }
    let crc = prefix_checksum(&raw[..prefix - 4]).to_le_bytes();
    raw[prefix - 4..prefix].copy_from_slice(&crc);
}

/// Changes an image of one of some pools, which the first byte picks, as the others say, and tries it.
///
/// # Errors
/// As [`Forge::try_image`].
pub fn images(bytes: &[u8]) -> Result<(), String> {
    thread_local! {
        static FORGES: std::cell::RefCell<Vec<Option<Forge>>> =
            std::cell::RefCell::new((0..POOLS).map(|_| None).collect());
    }
    let (seed, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let seed = u64::from(*seed) % POOLS;
    FORGES.with_borrow_mut(|forges| {
        forges[seed as usize].get_or_insert_with(|| Forge::new(seed)).try_image(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealing_what_is_sound_changes_nothing() {
        let forge = Forge::new(1);
        let mut sealed = 0;
        for target in &forge.targets {
            let raw = forge.read(&forge.sound, target.at, target.bytes);
            let mut again = raw.clone();
            seal(&mut again);
            assert_eq!(raw, again, "{:?}", target.structure);
            again[40] ^= 1;
            seal(&mut again);
            sealed += u32::from(raw[..8] == *b"THERMOCH" || raw[..8] == *b"THERMOSB");
        }
        assert!(sealed > 4, "{sealed}");
    }

    #[test]
    fn what_is_not_changed_opens() {
        for seed in 0..POOLS {
            assert_eq!(Forge::new(seed).try_image(&[]), Ok(()), "{seed}");
        }
    }
}
