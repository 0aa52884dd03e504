//! What is remembered of every block, or of one of several neighbours: 24 bits.

use std::f32::consts::LOG2_E;

use thermocline_types::Lba;

use super::super::per_block::PerBlock;

/// Ticks per capacity.
pub(super) const TICKS: u32 = 128;
/// Half-lives of the two counts, in ticks: a quarter of a capacity, and 16.
pub(super) const FAST: f32 = 32.0;
pub(super) const SLOW: f32 = 2048.0;
/// No interval: the block was written once.
pub(super) const NO_GAP: u32 = 31;
/// Times are kept modulo so many ticks, two capacities.
const TIME_MODULUS: u32 = 256;
/// Ages are pinned here, and intervals from here on are as none: no rule tells apart what is well beyond a capacity.
const OLDEST: u32 = 184;
/// Times that the sweep visits all blocks per capacity: every 64 ticks, before the time of a block wraps.
const SWEEPS: u64 = 2;
/// Bits of the mantissa of either count. With one bit for the slow one, Zipf 1.0 and 0.8 lost 1.3 %.
const FAST_BITS: u32 = 1;
const SLOW_BITS: u32 = 2;

/// Blocks of which each has a history of its own, 1 TiB: 768 MiB. On larger drives two neighbours share a history, or
/// four, and so on: the history of the first neighbour.
const OWN: u64 = 1 << 28;

/// Write history of all blocks, 24 bits each: `time:8 | gap:5 | fast:5 | slow:6`; 0 is a block that was never written.
///
/// * time: the last write, in ticks, modulo 256.
/// * gap: the last rewrite interval, in half octaves of ticks; 31 is none.
/// * fast, slow: rewrites counted with half-lives of 1/4 and 16 capacities, as floats of 4 bits exponent and 1 or 2
///   bits mantissa, rounded at random so that the expectation is kept, and decayed when they are looked at.
///
/// The history of the first of several neighbours represents the group. If every neighbour updated the word, a
/// sequential write would look like an immediate rewrite.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct History {
    words: PerBlock<Word>,
    /// A history is that of `1 << shift` neighbours.
    shift: u32,
    capacity: u64,
    per_tick: u64,
    now: u32,
    seen: Seen,
    next_tick: u64,
    cursor: usize,
    owed: u64,
    noise: u64,
}

/// The history of one block, in three bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Word([u8; 3]);

impl Word {
    fn new(time: u32, gap: u32, fast: u32, slow: u32) -> Word {
        let bits = (time & (TIME_MODULUS - 1)) << 16 | gap << 11 | fast << 6 | slow;
        let [first, second, third, _] = bits.to_le_bytes();
        Word([first, second, third])
    }

    fn bits(self) -> u32 {
        let [first, second, third] = self.0;
        u32::from_le_bytes([first, second, third, 0])
    }

    /// Whether the block was ever written: a first write has a gap of 31, a rewrite counts of at least 1.
    fn is_known(self) -> bool {
        self.0 != [0; 3]
    }
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
        History::of_neighbours(capacity, capacity.div_ceil(OWN).next_power_of_two().ilog2())
    }

    /// As [`History::new`], with a history for `1 << shift` neighbours.
    pub(super) fn of_neighbours(capacity: u64, shift: u32) -> History {
        let per_tick = (capacity / u64::from(TICKS)).max(1);
        History {
            words: PerBlock::default(),
            shift,
            capacity: capacity.max(1),
            per_tick,
            now: 0,
            seen: Seen::in_ticks(0),
            next_tick: per_tick,
            cursor: 0,
            owed: 0,
            noise: 1,
        }
    }

    /// What counts have seen since the beginning.
    #[inline]
    pub(super) fn seen(&self) -> Seen {
        self.seen
    }

    /// Brings the word of a block towards the cache.
    #[inline]
    pub(super) fn prefetch(&self, lba: Lba) {
        self.words.prefetch(self.place(lba));
    }

    /// The block as it is now.
    #[inline]
    pub(super) fn past(&self, lba: Lba) -> Past {
        self.decayed(self.word(lba))
    }

    /// Where the history of a block is.
    #[inline]
    fn place(&self, lba: Lba) -> Lba {
        Lba(lba.0 >> self.shift)
    }

    #[inline]
    fn word(&self, lba: Lba) -> Word {
        self.words.get(self.place(lba))
    }

    /// Whether a history is of this block.
    #[inline]
    fn is_first(&self, lba: Lba) -> bool {
        lba.0 & ((1 << self.shift) - 1) == 0
    }

    fn decayed(&self, word: Word) -> Past {
        let past = self.unpacked(word);
        let [fast, slow] = DECAYS[past.age as usize];
        Past { fast: past.fast * fast, slow: past.slow * slow, ..past }
    }

    fn age(&self, word: Word) -> u32 {
        self.now.wrapping_sub(word.bits() >> 16) & (TIME_MODULUS - 1)
    }

    fn unpacked(&self, word: Word) -> Past {
        let bits = word.bits();
        Past {
            age: self.age(word),
            gap: bits >> 11 & 31,
            fast: FASTS[(bits >> 6 & 31) as usize],
            slow: SLOWS[(bits & 63) as usize],
        }
    }

    /// Notes a write after `clock` host blocks. The first write of a block counts as no rewrite.
    #[inline]
    pub(super) fn write(&mut self, lba: Lba, clock: u64) -> Past {
        while clock >= self.next_tick {
            self.now = self.now.wrapping_add(1);
            self.seen = Seen::in_ticks(self.now);
            self.next_tick += self.per_tick;
        }
        self.sweep();
        // Knuth's MMIX generator; its upper bits are good.
        self.noise =
            self.noise.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        let random = (self.noise >> 40) as u32;
        let word = self.word(lba);
        if !self.is_first(lba) {
            let known = word.is_known();
            let past = self.decayed(word);
            return Past { age: 0, gap: if known { past.gap } else { NO_GAP }, ..past };
        }
        let (gap, fast, slow) = if word.is_known() {
            let past = self.decayed(word);
            let (fast, slow) = (past.fast + 1.0, past.slow + 1.0);
            (
                half_octave(past.age),
                pack(fast, FAST_BITS, random),
                pack(slow, SLOW_BITS, random >> 8),
            )
        } else {
            (NO_GAP, 0, 0)
        };
        *self.words.get_mut(self.place(lba)) = Word::new(self.now, gap, fast, slow);
        Past { age: 0, gap, fast: FASTS[fast as usize], slow: SLOWS[slow as usize] }
    }

    /// Pins ages that would wrap, and folds the decay that is lost by it into the counts; a few blocks at each write.
    #[inline]
    fn sweep(&mut self) {
        self.owed += SWEEPS * self.words.held() as u64;
        while self.owed >= self.capacity {
            self.owed -= self.capacity;
            self.pin_next();
        }
    }

    fn pin_next(&mut self) {
        let Some((at, word)) = self.words.at_or_after(self.cursor) else {
            self.cursor = 0;
            return;
        };
        self.cursor = at + 1;
        let age = self.age(word);
        if word.is_known() && age > OLDEST {
            let past = self.unpacked(word);
            let [fast, slow] = DECAYS[(age - OLDEST) as usize];
            let time = self.now.wrapping_sub(OLDEST);
            let random = self.noise as u32 >> 8;
            let fast = pack(past.fast * fast, FAST_BITS, random);
            let slow = pack(past.slow * slow, SLOW_BITS, random >> 8);
            *self.words.get_mut(Lba(at as u64)) = Word::new(time, past.gap, fast, slow);
        }
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.words.memory_bytes()
    }
}

/// How many capacities each count has seen: of one that is halved every `h`, `τ (1 − 2^(−t / h))` after `t`, with
/// `τ = h / ln 2`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) fast: f32,
    pub(super) slow: f32,
}

impl Seen {
    /// After so many ticks.
    pub(super) fn in_ticks(ticks: u32) -> Seen {
        let seen = |half: f32| half * LOG2_E * (1.0 - halves(ticks as f32 / half)) / TICKS as f32;
        Seen { fast: seen(FAST), slow: seen(SLOW) }
    }
}

/// 2^-x, straight between powers: at most 6 % high.
pub(super) const fn halves(x: f32) -> f32 {
    let whole = x as u32;
    if whole > 30 {
        return 0.0;
    }
    (1.0 - 0.5 * (x - whole as f32)) / (1_u32 << whole) as f32
}

/// What is left of the fast and of the slow count after so many ticks.
static DECAYS: [[f32; 2]; TIME_MODULUS as usize] = {
    let mut decays = [[0.0; 2]; TIME_MODULUS as usize];
    let mut age = 0;
    while age < decays.len() {
        decays[age] = [halves(age as f32 / FAST), halves(age as f32 / SLOW)];
        age += 1;
    }
    decays
};

/// The middle of an interval class, in ticks.
pub(super) fn gap_ticks(gap: u32) -> f32 {
    (1_u32 << (gap >> 1)) as f32 * (1.25 + 0.5 * (gap & 1) as f32)
}

fn half_octave(ticks: u32) -> u32 {
    if ticks >= OLDEST {
        return NO_GAP;
    }
    let bits = (ticks.max(1) as f32).to_bits();
    (bits >> 22) - (127 << 1)
}

/// The count with this code: an exponent of four bits, and a mantissa of `bits`.
const fn unpack(code: u32, bits: u32) -> f32 {
    let (exponent, one) = (code >> bits, 1 << bits);
    let mantissa = code & (one - 1);
    if exponent == 0 {
        mantissa as f32 / one as f32
    } else {
        (one + mantissa) as f32 / one as f32 * (1_u32 << (exponent - 1)) as f32
    }
}

/// The counts of all codes with a mantissa of `bits`.
const fn counts<const CODES: usize>(bits: u32) -> [f32; CODES] {
    let mut counts = [0.0; CODES];
    let mut code = 0;
    while code < CODES {
        counts[code] = unpack(code as u32, bits);
        code += 1;
    }
    counts
}

static FASTS: [f32; 16 << FAST_BITS] = counts(FAST_BITS);
static SLOWS: [f32; 16 << SLOW_BITS] = counts(SLOW_BITS);

/// The code of a count, rounded up as often as it is nearer to the next.
#[inline]
fn pack(count: f32, bits: u32, random: u32) -> u32 {
    let one = 1_u32 << bits;
    // In 256ths of the last place of the mantissa: from 1 on the upper bits of that of the float.
    let (float, exponent) = (count.to_bits(), (count.to_bits() >> 23).saturating_sub(126));
    let parts = match exponent {
        0 => (count * (256 * one) as f32) as u32,
        _ => (float & 0x7F_FFFF | 0x80_0000) >> (15 - bits),
    };
    let (whole, up) = (parts >> 8, parts & 255 > random & 255);
    let code = if exponent == 0 { whole } else { (exponent << bits) + whole - one };
    (code + u32::from(up)).min(16 * one - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_back_and_keep_their_expectation() {
        for bits in [FAST_BITS, SLOW_BITS] {
            let last = (16 << bits) - 1;
            for code in 0..=last {
                assert_eq!(pack(unpack(code, bits), bits, 255), code);
                assert_eq!(pack(unpack(code, bits), bits, 0), code);
            }
            assert_eq!(pack(1e9, bits, 0), last);
        }
        // 10.5 is a quarter of the way from 10 to 12.
        let up = |random: &u32| pack(10.5, SLOW_BITS, *random) == pack(12.0, SLOW_BITS, 255);
        assert_eq!((0..256).filter(up).count(), 64);
    }

    #[test]
    fn a_count_is_packed_as_its_formula_says() {
        let formula = |count: f32, bits: u32, random: u32| {
            let above = |exponent: u32| count >= (1_u32 << exponent) as f32;
            let exponent = (0..20).take_while(|&exponent| above(exponent)).count() as i32;
            let unit = 2_f32.powi(exponent.max(1) - 1 - bits as i32);
            let whole = (count / unit).floor();
            let up = ((count / unit - whole) * 256.0).floor() > random as f32;
            let next = (whole + f32::from(u8::from(up))) * unit;
            next.min(unpack((16 << bits) - 1, bits))
        };
        for bits in [FAST_BITS, SLOW_BITS] {
            for step in 0..4000_u32 {
                let (count, random) = (1.003_f32.powi(step as i32) - 1.0, step * 37 % 256);
                let packed = unpack(pack(count, bits, random), bits);
                assert!((packed - formula(count, bits, random)).abs() < 1e-6, "{count}");
            }
        }
    }

    #[test]
    fn large_drives_have_a_history_for_some_neighbours_and_small_ones_for_each_block() {
        let tebibyte = 1_u64 << 28;
        let drives = [1000, tebibyte, tebibyte + 1, 16 * tebibyte, 122 * tebibyte];
        assert_eq!(drives.map(|capacity| History::new(capacity).shift), [0, 0, 1, 4, 7]);
    }

    #[test]
    fn neighbours_have_the_history_of_the_first_and_a_stream_does_not_seem_hot() {
        let mut history = History::of_neighbours(1 << 20, 4);
        let mut clock = 0;
        let mut write = |history: &mut History, lba: u64| {
            clock += 1;
            history.write(Lba(lba), clock)
        };
        for round in 0..3 {
            for lba in 0..1 << 20 {
                let past = write(&mut history, lba);
                assert!(past.slow <= round as f32, "{} rewrites of {round}", past.slow);
                assert!(past.gap > 13, "no interval, or that from one round to the next");
            }
        }
        (0..50_000).for_each(|_| _ = write(&mut history, 32));
        let (hot, beside, other) =
            (history.past(Lba(32)), history.past(Lba(47)), history.past(Lba(48)));
        assert_eq!((hot.gap, hot.age), (beside.gap, beside.age));
        assert!(hot.fast > 1000.0 && other.fast < 2.0, "{hot:?} {other:?}");
        assert_eq!(write(&mut history, 47).gap, hot.gap);
        assert!(history.memory_bytes() < (1 << 20) * 3 / 16 + (1 << 14), "three bytes for sixteen");
    }

    #[test]
    fn intervals_are_half_octaves_up_to_where_all_are_long() {
        assert_eq!([1, 2, 3, 4, 6, 128, 183].map(half_octave), [0, 2, 3, 4, 5, 14, 14]);
        assert_eq!([184, 200].map(half_octave), [NO_GAP; 2]);
        assert!((gap_ticks(4) - 5.0).abs() < 1e-6);
    }

    #[test]
    fn a_block_remembers_age_interval_and_counts_in_three_bytes() {
        // Ticks of 10 writes.
        let mut history = History::new(1280);
        assert_eq!(history.write(Lba(7), 0).gap, NO_GAP);
        let past = history.write(Lba(7), 320);
        assert_eq!((past.gap, past.fast, past.slow), (10, 1.0, 1.0));
        // 32 ticks on, half of the fast count is gone.
        history.write(Lba(8), 640);
        let past = history.past(Lba(7));
        assert_eq!((past.age, past.fast), (32, 0.5));
        assert!((past.slow - 0.99).abs() < 0.01);
        assert_eq!(size_of::<Word>(), 3);
    }

    #[test]
    fn ages_are_pinned_before_time_wraps() {
        let mut history = History::new(8192);
        history.write(Lba(0), 0);
        for clock in 1..1_000_000 {
            history.write(Lba(1 + clock % 8191), clock);
            assert!(clock < 64 * 184 || history.past(Lba(0)).age > 180, "{clock}");
        }
    }
}
