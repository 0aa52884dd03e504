//! What is remembered of every block: 32 bits.

use thermocline_types::Lba;

use super::super::per_block::PerBlock;

/// Ticks per capacity.
pub(super) const TICKS: u32 = 256;
/// Half-lives of the two counts, in ticks: a quarter of a capacity, and 16.
pub(super) const FAST: f32 = 64.0;
pub(super) const SLOW: f32 = 4096.0;
/// No interval: the block was written once.
pub(super) const NO_GAP: u32 = 63;
/// Times are kept modulo so many ticks, 16 capacities.
const TIME_MODULUS: u32 = 4096;
/// Ages are pinned here. The sweep comes by every 4 capacities, 1024 ticks, so a block is met before its time wraps.
const OLDEST: u32 = 2944;
/// The sweep visits all blocks once in so many capacities.
const SWEEP: u64 = 4;

/// Write history of all blocks: `time:12 | gap:6 | fast:7 | slow:7`; 0 is a block that was never written.
///
/// * time: the last write, in ticks, modulo 4096.
/// * gap: the last rewrite interval, in quarter octaves of ticks; 63 is none.
/// * fast, slow: rewrites counted with half-lives of 1/4 and 16 capacities, as floats of 4 bits exponent and 3 bits
///   mantissa, rounded at random so that the expectation is kept, and decayed when they are looked at.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct History {
    words: PerBlock<u32>,
    capacity: u64,
    per_tick: u64,
    now: u32,
    next_tick: u64,
    cursor: usize,
    owed: u64,
    noise: u64,
}

/// What the rules see of a block. Ages in ticks; counts decayed to now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    pub(super) age: u32,
    pub(super) gap: u32,
    pub(super) fast: f32,
    pub(super) slow: f32,
}

impl History {
    /// Of a device that exports `capacity` blocks.
    pub(super) fn new(capacity: u64) -> History {
        let per_tick = (capacity / u64::from(TICKS)).max(1);
        History {
            words: PerBlock::default(),
            capacity: capacity.max(1),
            per_tick,
            now: 0,
            next_tick: per_tick,
            cursor: 0,
            owed: 0,
            noise: 1,
        }
    }

    /// Ticks since the beginning, which is for how long counts have been collected.
    pub(super) fn ticks(&self) -> u32 {
        self.now
    }

    /// Brings the word of a block towards the cache.
    #[inline]
    pub(super) fn prefetch(&self, lba: Lba) {
        std::hint::black_box(self.words.get(lba));
    }

    /// The block as it is now.
    #[inline]
    pub(super) fn past(&self, lba: Lba) -> Past {
        self.decayed(self.words.get(lba))
    }

    fn decayed(&self, word: u32) -> Past {
        let past = self.unpacked(word);
        let age = past.age as f32;
        let (fast, slow) = (past.fast * halves(age / FAST), past.slow * halves(age / SLOW));
        Past { fast, slow, ..past }
    }

    fn unpacked(&self, word: u32) -> Past {
        Past {
            age: self.now.wrapping_sub(word >> 20) & (TIME_MODULUS - 1),
            gap: word >> 14 & 63,
            fast: unpack(word >> 7 & 127),
            slow: unpack(word & 127),
        }
    }

    /// Notes a write after `clock` host blocks. The first write of a block counts as no rewrite.
    #[inline]
    pub(super) fn write(&mut self, lba: Lba, clock: u64) -> Past {
        while clock >= self.next_tick {
            self.now = self.now.wrapping_add(1);
            self.next_tick += self.per_tick;
        }
        self.sweep();
        // Knuth's MMIX generator; its upper bits are good.
        self.noise =
            self.noise.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        let random = (self.noise >> 40) as u32;
        let word = self.words.get(lba);
        let (gap, fast, slow) = if word == 0 {
            (NO_GAP, 0, 0)
        } else {
            let past = self.decayed(word);
            (
                quarter_octave(past.age),
                pack(past.fast + 1.0, random),
                pack(past.slow + 1.0, random >> 8),
            )
        };
        // Never 0: a first write has a gap of 63, a rewrite counts of at least 1.
        *self.words.get_mut(lba) =
            (self.now & (TIME_MODULUS - 1)) << 20 | gap << 14 | fast << 7 | slow;
        Past { age: 0, gap, fast: unpack(fast), slow: unpack(slow) }
    }

    /// Pins ages that would wrap, and folds the decay that is lost by it into the counts; a few blocks at each write.
    #[inline]
    fn sweep(&mut self) {
        self.owed += self.words.held() as u64;
        while self.owed >= SWEEP * self.capacity {
            self.owed -= SWEEP * self.capacity;
            self.pin_next();
        }
    }

    fn pin_next(&mut self) {
        let Some((at, word)) = self.words.at_or_after(self.cursor) else {
            self.cursor = 0;
            return;
        };
        self.cursor = at + 1;
        let past = self.unpacked(word);
        if word != 0 && past.age > OLDEST {
            let lost = (past.age - OLDEST) as f32;
            let time = self.now.wrapping_sub(OLDEST) & (TIME_MODULUS - 1);
            let random = self.noise as u32 >> 8;
            let fast = pack(past.fast * halves(lost / FAST), random);
            let slow = pack(past.slow * halves(lost / SLOW), random >> 8);
            *self.words.get_mut(Lba(at as u64)) = time << 20 | past.gap << 14 | fast << 7 | slow;
        }
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.words.memory_bytes()
    }
}

/// 2^-x, straight between powers: at most 6 % high.
pub(super) fn halves(x: f32) -> f32 {
    let whole = x as u32;
    if whole > 30 {
        return 0.0;
    }
    (1.0 - 0.5 * (x - whole as f32)) / (1_u32 << whole) as f32
}

/// The middle of an interval class, in ticks.
pub(super) fn gap_ticks(gap: u32) -> f32 {
    (1_u32 << (gap >> 2)) as f32 * (1.125 + 0.25 * (gap & 3) as f32)
}

fn quarter_octave(ticks: u32) -> u32 {
    let bits = (ticks.max(1) as f32).to_bits();
    ((bits >> 21) - (127 << 2)).min(NO_GAP - 1)
}

fn unpack(code: u32) -> f32 {
    let (exponent, mantissa) = (code >> 3, code & 7);
    if exponent == 0 {
        mantissa as f32 / 8.0
    } else {
        (8 + mantissa) as f32 / 8.0 * (1_u32 << (exponent - 1)) as f32
    }
}

fn pack(count: f32, random: u32) -> u32 {
    let exponent = if count < 1.0 { 0 } else { (count.to_bits() >> 23) - 126 };
    let unit = if exponent == 0 { 0.125 } else { (1_u32 << (exponent - 1)) as f32 / 8.0 };
    let units = count / unit;
    let whole = units as u32;
    let up = ((units - whole as f32) * 256.0) as u32 > random & 255;
    let code = if exponent == 0 { whole } else { (exponent << 3) + whole - 8 };
    (code + u32::from(up)).min(127)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_back_and_keep_their_expectation() {
        for code in 0..128 {
            assert_eq!(pack(unpack(code), 255), code);
            assert_eq!(pack(unpack(code), 0), code);
        }
        // 9.25 is a quarter of the way from 9 to 10.
        let ups = (0..256).filter(|&random| pack(9.25, random) == pack(10.0, 255)).count();
        assert_eq!(ups, 64);
        assert_eq!(pack(1e9, 0), 127);
    }

    #[test]
    fn intervals_are_quarter_octaves() {
        assert_eq!([1, 2, 3, 4, 5, 256].map(quarter_octave), [0, 4, 6, 8, 9, 32]);
        assert!((gap_ticks(8) - 4.5).abs() < 1e-6);
    }

    #[test]
    fn a_block_remembers_age_interval_and_counts() {
        // Ticks of 10 writes.
        let mut history = History::new(2560);
        assert_eq!(history.write(Lba(7), 0).gap, NO_GAP);
        let past = history.write(Lba(7), 640);
        assert_eq!((past.gap, past.fast, past.slow), (24, 1.0, 1.0));
        // 64 ticks on, half of the fast count is gone.
        history.write(Lba(8), 1280);
        let past = history.past(Lba(7));
        assert_eq!((past.age, past.fast), (64, 0.5));
        assert!((past.slow - 0.99).abs() < 0.01);
    }

    #[test]
    fn ages_are_pinned_before_time_wraps() {
        let mut history = History::new(8192);
        history.write(Lba(0), 0);
        for clock in 1..1_000_000 {
            history.write(Lba(1 + clock % 8191), clock);
            assert!(clock < 32 * 2944 || history.past(Lba(0)).age > 2900, "{clock}");
        }
    }
}
