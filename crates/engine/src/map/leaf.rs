//! The pages of a root: their places on media, which are in memory, and which may be evicted.

use rustc_hash::FxHashMap;
use thermocline_format::{MapEntry, PAGE_ENTRIES};

use super::Frame;
use super::patch::Patch;

/// One bit for each page of a root.
pub(super) type Bits = [u64; PAGE_ENTRIES / 64];

/// The number of pages of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Pages whose entries are in memory.
    pub(crate) frames: u64,
    /// Pages in memory in which a block is mapped.
    pub(crate) used: u64,
    /// Pages that are on media only.
    pub(crate) absent: u64,
    /// Pages that have a copy on media, current or obsolete.
    pub(crate) placed: u64,
    /// Pages that differ from their copies on media: a checkpoint writes the pages.
    pub(crate) differing: u64,
    /// Pages that differ from media and that only a checkpoint lets go, even emptied pages without memory; patched
    /// pages are counted apart.
    pub(crate) dirty: u64,
    /// Pages that were emptied and gave their memory back, and that an opening would need as they were before.
    pub(crate) emptied: u64,
    /// Pages in memory that could be read again, unchanged or with a patch.
    pub(crate) idle: u64,
    /// Pages on media only of which some entries are known to differ, and bytes of memory that these take.
    pub(crate) patched: u64,
    pub(crate) patch_bytes: u64,
    /// Patched entries whose old block on media counts as valid in addition.
    pub(crate) doubled: u64,
    /// Entries that are mapped: of a page on media only, as it was when it was in memory last.
    pub(crate) blocks: u64,
    /// Pages on media that were not in memory since the opening: their entries are uncounted.
    pub(crate) uncounted: u64,
}

/// The number of mapped entries of a page that was not in memory since the opening.
pub(super) const UNCOUNTED: u16 = u16::MAX;

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, more: Tally) {
        self.frames += more.frames;
        self.used += more.used;
        self.absent += more.absent;
        self.placed += more.placed;
        self.differing += more.differing;
        self.dirty += more.dirty;
        self.emptied += more.emptied;
        self.idle += more.idle;
        self.patched += more.patched;
        self.patch_bytes += more.patch_bytes;
        self.doubled += more.doubled;
        self.blocks += more.blocks;
        self.uncounted += more.uncounted;
    }
}

impl std::ops::SubAssign for Tally {
    fn sub_assign(&mut self, less: Tally) {
        self.frames -= less.frames;
        self.used -= less.used;
        self.absent -= less.absent;
        self.placed -= less.placed;
        self.differing -= less.differing;
        self.dirty -= less.dirty;
        self.emptied -= less.emptied;
        self.idle -= less.idle;
        self.patched -= less.patched;
        self.patch_bytes -= less.patch_bytes;
        self.doubled -= less.doubled;
        self.blocks -= less.blocks;
        self.uncounted -= less.uncounted;
    }
}

/// The pages of a root.
#[derive(Debug)]
pub(super) struct Leaf {
    /// Where they are on media.
    pub(super) at: [MapEntry; PAGE_ENTRIES],
    /// Their entries; `None` where nothing is mapped, or the page is not loaded.
    pub(super) frames: [Option<Box<Frame>>; PAGE_ENTRIES],
    /// How many entries of each are mapped; of a page on media only, how many were when it was in memory last.
    pub(super) mapped: [u16; PAGE_ENTRIES],
    pub(super) loaded: Bits,
    pub(super) dirty: Bits,
    /// Written or dropped pages whose change is not in a flushed record yet.
    pub(super) flying: Bits,
    /// Needed by garbage collection.
    pub(super) pinned: Bits,
    /// Used since the hand came by.
    pub(super) referenced: Bits,
    /// In memory.
    pub(super) resident: Bits,
    /// On media.
    pub(super) placed: Bits,
    /// In memory with more changes than are worth a patch.
    pub(super) changed: Bits,
    /// On media only, with a patch.
    pub(super) patched: Bits,
    pub(super) patches: FxHashMap<u16, Patch>,
}

/// Whether bit `index` is set.
#[inline]
pub(super) fn has(bits: &Bits, index: usize) -> bool {
    bits[index / 64] >> (index % 64) & 1 == 1
}

/// Sets bit `index`.
#[inline]
pub(super) fn set(bits: &mut Bits, index: usize) {
    bits[index / 64] |= 1 << (index % 64);
}

/// Clears bit `index`.
#[inline]
pub(super) fn clear(bits: &mut Bits, index: usize) {
    bits[index / 64] &= !(1 << (index % 64));
}

impl Leaf {
    pub(super) fn new() -> Box<Leaf> {
        const NONE: Bits = [0; PAGE_ENTRIES / 64];
        Box::new(Leaf {
            at: [MapEntry::UNMAPPED; PAGE_ENTRIES],
            frames: [const { None }; PAGE_ENTRIES],
            mapped: [0; PAGE_ENTRIES],
            loaded: [u64::MAX; PAGE_ENTRIES / 64],
            dirty: NONE,
            flying: NONE,
            pinned: NONE,
            referenced: NONE,
            resident: NONE,
            placed: NONE,
            changed: NONE,
            patched: NONE,
            patches: FxHashMap::default(),
        })
    }

    /// The share of page `index` in the tally of its volume.
    pub(super) fn tally(&self, index: usize) -> Tally {
        let resident = has(&self.resident, index);
        let idle = self.idle(index / 64) >> (index % 64) & 1 == 1;
        let emptied = self.emptied(index / 64) >> (index % 64) & 1 == 1;
        let (patch, loaded) = (self.patch(index), has(&self.loaded, index));
        let counted = self.mapped[index] != UNCOUNTED;
        Tally {
            frames: resident.into(),
            used: (loaded && self.mapped[index] > 0).into(),
            absent: (!loaded).into(),
            placed: has(&self.placed, index).into(),
            differing: has(&self.dirty, index).into(),
            dirty: (has(&self.dirty, index) && patch.is_none() && !idle).into(),
            emptied: emptied.into(),
            idle: idle.into(),
            patched: patch.is_some().into(),
            patch_bytes: patch.map_or(0, Patch::memory_bytes),
            doubled: patch.map_or(0, Patch::counted),
            blocks: if counted { self.mapped[index].into() } else { 0 },
            uncounted: (!counted).into(),
        }
    }

    /// Which of 64 pages are in memory and could be read again, unchanged or with a patch.
    pub(super) fn idle(&self, word: usize) -> u64 {
        self.resident[word] & self.placed[word] & !self.pinned[word] & !self.changed[word]
    }

    /// Where page `index` is on media has changed.
    pub(super) fn note_place(&mut self, index: usize) {
        if self.at[index].is_unmapped() {
            clear(&mut self.placed, index);
        } else {
            set(&mut self.placed, index);
        }
    }

    /// Which of 64 pages have no memory, and differ from the pages of the newest flushed record.
    pub(super) fn emptied(&self, word: usize) -> u64 {
        (self.dirty[word] | self.flying[word]) & !self.resident[word] & self.loaded[word]
    }

    /// The patch of page `index`, if it has one.
    #[inline]
    pub(super) fn patch(&self, index: usize) -> Option<&Patch> {
        if has(&self.patched, index) { self.patches.get(&(index as u16)) } else { None }
    }

    /// The patch of page `index`, which has one from now on.
    pub(super) fn patch_mut(&mut self, index: usize) -> &mut Patch {
        set(&mut self.patched, index);
        self.patches.entry(index as u16).or_default()
    }

    /// Takes the patch of page `index`, if it has one.
    pub(super) fn take_patch(&mut self, index: usize) -> Patch {
        clear(&mut self.patched, index);
        self.patches.remove(&(index as u16)).unwrap_or_default()
    }

    /// Gives page `index` a frame.
    pub(super) fn put(&mut self, index: usize, frame: Box<Frame>) {
        self.frames[index] = Some(frame);
        set(&mut self.resident, index);
    }

    /// Takes the frame of page `index`, whose entries need not stay in memory.
    pub(super) fn take(&mut self, index: usize) {
        self.frames[index] = None;
        clear(&mut self.resident, index);
        clear(&mut self.referenced, index);
        clear(&mut self.changed, index);
    }
}
