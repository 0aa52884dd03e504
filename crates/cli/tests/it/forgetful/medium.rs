//! The bytes of a file that forgets: all changes since the last flush are kept apart, and a power cut keeps any part of
//! them.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_types::Rng;

/// Bytes of a page of the kernel.
pub const PAGE: usize = 4096;

/// Pages by their number; missing pages are zeros.
pub type Pages = BTreeMap<u64, Arc<[u8; PAGE]>>;

/// A write that no flush covers yet. A hole is a write of zeros.
#[derive(Clone)]
struct Change {
    offset: u64,
    data: Arc<[u8]>,
}

/// Which unflushed changes of a file survive.
#[derive(Clone, Copy, Debug)]
pub enum Loss {
    Nothing,
    Everything,
    /// All changes up to one, which is torn.
    Suffix,
    /// Each change survives as a whole with this probability in percent.
    Changes(u64),
    /// Each page of a change survives with this probability in percent.
    Pages(u64),
    /// Each sector of a change survives with this probability in percent.
    Sectors(u64),
    /// Each change survives whole, in part or not at all. A part ends at any byte.
    Torn,
}

impl Loss {
    pub fn draw(rng: &mut Rng) -> Loss {
        let percent = [10, 50, 90][rng.below(3) as usize];
        match rng.below(10) {
            0 => Loss::Nothing,
            1 => Loss::Everything,
            2 | 3 => Loss::Suffix,
            4 => Loss::Changes(percent),
            5 => Loss::Pages(percent),
            6 | 7 => Loss::Sectors(percent),
            _ => Loss::Torn,
        }
    }
}

/// A file. A clone shares the pages.
#[derive(Clone)]
pub struct Medium {
    pub bytes: u64,
    stable: Pages,
    /// The stable pages with all changes.
    current: Pages,
    changes: Vec<Change>,
    /// Number of flushes until one fails.
    pub fails_after: Option<u32>,
    /// Number of writes so far.
    pub writes: u64,
}

impl Medium {
    /// A file of `bytes` zeros.
    pub fn new(bytes: u64) -> Medium {
        let (stable, current) = (Pages::new(), Pages::new());
        Medium { bytes, stable, current, changes: Vec::new(), fails_after: None, writes: 0 }
    }

    pub fn read(&self, offset: u64, length: u64) -> Vec<u8> {
        let end = (offset + length).min(self.bytes);
        let mut found = Vec::with_capacity(length as usize);
        let mut at = offset;
        while at < end {
            let from = (at % PAGE as u64) as usize;
            let to = PAGE.min(from + (end - at) as usize);
            match self.current.get(&(at / PAGE as u64)) {
                Some(page) => found.extend_from_slice(&page[from..to]),
                None => found.resize(found.len() + to - from, 0),
            }
            at += (to - from) as u64;
        }
        found
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        self.writes += 1;
        put(&mut self.current, offset, data);
        self.changes.push(Change { offset, data: data.into() });
    }

    /// Number of writes that no flush covers.
    pub fn unflushed(&self) -> usize {
        self.changes.len()
    }

    /// Returns whether it succeeds. A failed flush loses what `loss` says, and the next flush does not report that.
    pub fn flush(&mut self, rng: &mut Rng) -> bool {
        self.fails_after = self.fails_after.map(|left| left.saturating_sub(1));
        if self.fails_after == Some(0) {
            self.fails_after = None;
            self.lose(Loss::draw(rng), rng);
            return false;
        }
        for Change { offset, data } in self.changes.drain(..) {
            let last = (offset + data.len() as u64).div_ceil(PAGE as u64);
            for number in offset / PAGE as u64..last {
                self.stable.insert(number, Arc::clone(&self.current[&number]));
            }
        }
        true
    }

    /// Keeps of the unflushed changes what `loss` leaves.
    pub fn lose(&mut self, loss: Loss, rng: &mut Rng) {
        let changes = std::mem::take(&mut self.changes);
        let end = rng.below(changes.len() as u64 + 1) as usize;
        for (index, change) in changes.iter().enumerate() {
            let length = change.data.len();
            match loss {
                Loss::Nothing => self.keep(change, 0, length),
                Loss::Everything => {}
                Loss::Suffix if index < end => self.keep(change, 0, length),
                Loss::Suffix if index == end => self.tear(change, rng),
                Loss::Suffix => {}
                Loss::Changes(percent) => self.keep_some(change, length, percent, rng),
                Loss::Pages(percent) => self.keep_some(change, PAGE, percent, rng),
                Loss::Sectors(percent) => self.keep_some(change, 512, percent, rng),
                Loss::Torn => match rng.below(4) {
                    0 => {}
                    1 => self.keep(change, 0, length),
                    _ => self.tear(change, rng),
                },
            }
        }
        self.current = self.stable.clone();
    }

    fn keep(&mut self, change: &Change, from: usize, to: usize) {
        put(&mut self.stable, change.offset + from as u64, &change.data[from..to]);
    }

    fn keep_some(&mut self, change: &Change, grain: usize, percent: u64, rng: &mut Rng) {
        for from in (0..change.data.len()).step_by(grain.max(1)) {
            if rng.below(100) < percent {
                self.keep(change, from, change.data.len().min(from + grain));
            }
        }
    }

    /// Keeps the bytes of a change before any byte, or from there on.
    fn tear(&mut self, change: &Change, rng: &mut Rng) {
        let at = rng.below(change.data.len() as u64 + 1) as usize;
        match rng.below(2) {
            0 => self.keep(change, 0, at),
            _ => self.keep(change, at, change.data.len()),
        }
    }

    /// Writes all bytes to `path`.
    pub fn save(&self, path: &std::path::Path) -> std::io::Result<()> {
        use std::os::unix::fs::FileExt as _;
        let file = std::fs::File::create(path)?;
        file.set_len(self.bytes)?;
        self.current
            .iter()
            .try_for_each(|(number, page)| file.write_all_at(&page[..], number * PAGE as u64))
    }
}

fn put(pages: &mut Pages, offset: u64, data: &[u8]) {
    let (mut left, mut at) = (data, offset);
    while !left.is_empty() {
        let from = (at % PAGE as u64) as usize;
        let piece = left.len().min(PAGE - from);
        let page = pages.entry(at / PAGE as u64).or_insert_with(|| Arc::new([0; PAGE]));
        Arc::make_mut(page)[from..from + piece].copy_from_slice(&left[..piece]);
        at += piece as u64;
        left = &left[piece..];
    }
}

#[test]
fn a_power_cut_keeps_any_part_of_unflushed_changes_and_all_that_was_flushed() {
    let mut rng = Rng::new(3);
    let (mut drawn, mut torn_in_sectors) = (0, 0);
    for _ in 0..2000 {
        let mut medium = Medium::new(1 << 16);
        medium.write(100, &[1; 20_000]);
        assert!(medium.flush(&mut rng));
        medium.write(8192, &[2; 8192]);
        medium.write(9000, &[3; 1000]);
        let before = medium.read(0, 1 << 16);
        medium.lose(Loss::draw(&mut rng), &mut rng);
        let after = medium.read(0, 1 << 16);
        assert!(after[..8192] == before[..8192] && after[16384..] == before[16384..]);
        assert!(after[8192..16384].iter().all(|byte| (1..=3).contains(byte)));
        drawn += u32::from(after != before);
        let sectors = after[8192..9000].chunks(512);
        torn_in_sectors += u32::from(sectors.clone().any(|s| s.iter().any(|byte| *byte != s[0])));
        assert_eq!(medium.unflushed(), 0);
    }
    assert!(drawn > 1000 && torn_in_sectors > 5, "{drawn} {torn_in_sectors}");
}
