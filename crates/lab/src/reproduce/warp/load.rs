//! What a run writes: streams of blocks, and the share of each in the course of the run.

use thermocline_types::{Lba, Rng};
use thermocline_workload::synthetic::RandomMap;

/// Ranks whose weights fio sums for a Zipf distribution; the others are left out of the sum.
const FIO_RANKS: f64 = 1e7;

/// A range of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub first: u64,
    pub blocks: u64,
}

/// In which order a stream writes its blocks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Order {
    /// One after the other, and again from the first.
    Sequential,
    /// Any, each time.
    Uniform,
    /// Any, but each block once in a pass: fio with its random map.
    EachOnce,
    /// fio's Zipf distribution over ranks that are scattered over the span. `ranks` is how many the published job has.
    Zipf { theta: f64, ranks: f64 },
    /// Shares of the writes to parts of the span: (share of the writes, share of the span) each.
    Zoned(&'static [(f64, f64)]),
}

/// A writer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stream {
    pub span: Span,
    pub order: Order,
    pub handle: u16,
    /// Blocks of one write; no other stream writes between them.
    pub burst: u64,
}

/// The streams of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Load {
    pub streams: Vec<Stream>,
    /// Until how many fills which share of the blocks each stream writes, at random: the writers do not wait for each
    /// other. The last lasts to the end.
    pub shares: Vec<(f64, Vec<f64>)>,
    /// In words.
    pub about: String,
}

/// The writes of a load, one after the other.
pub(super) struct Writes<'a> {
    load: &'a Load,
    cursors: Vec<Cursor>,
    /// The stream that writes, and what is left of its burst.
    writer: usize,
    left: u64,
    phase: usize,
    written: u64,
    exported: u64,
    rng: Rng,
}

/// Where a stream is.
enum Cursor {
    Next(u64),
    Memoryless,
    Pass(RandomMap),
    Ranks(Zipf),
}

impl<'a> Writes<'a> {
    pub fn new(load: &'a Load, exported: u64, seed: u64) -> Writes<'a> {
        let mut rng = Rng::new(seed);
        let cursors = load.streams.iter().map(|stream| Cursor::new(stream, &mut rng)).collect();
        Writes { load, cursors, writer: 0, left: 0, phase: 0, written: 0, exported, rng }
    }

    /// The next block and its handle.
    pub fn next(&mut self) -> (Lba, u16) {
        if self.left == 0 {
            self.writer = self.choose();
            self.left = self.load.streams[self.writer].burst;
        }
        self.left -= 1;
        self.written += 1;
        let stream = &self.load.streams[self.writer];
        let within = self.cursors[self.writer].next(stream, &mut self.rng);
        (Lba(stream.span.first + within), stream.handle)
    }

    /// The stream whose burst is next: the longer the bursts of a stream, the fewer it has.
    fn choose(&mut self) -> usize {
        let fills = self.written as f64 / self.exported as f64;
        while self.phase + 1 < self.load.shares.len() && fills >= self.load.shares[self.phase].0 {
            self.phase += 1;
        }
        let shares = self.load.shares[self.phase].1.iter().zip(&self.load.streams);
        let bursts = shares.map(|(share, stream)| share / stream.burst as f64);
        let mut draw = self.rng.unit_f64() * bursts.clone().sum::<f64>();
        let chosen = bursts.clone().position(|share| {
            draw -= share;
            draw < 0.0
        });
        chosen.unwrap_or(self.load.streams.len() - 1)
    }
}

impl Cursor {
    fn new(stream: &Stream, rng: &mut Rng) -> Cursor {
        match stream.order {
            Order::Sequential => Cursor::Next(0),
            Order::Uniform | Order::Zoned(_) => Cursor::Memoryless,
            Order::EachOnce => Cursor::Pass(RandomMap::new(stream.span.blocks)),
            Order::Zipf { theta, ranks } => {
                Cursor::Ranks(Zipf::new(theta, ranks, stream.span.blocks, rng))
            }
        }
    }

    #[inline]
    fn next(&mut self, stream: &Stream, rng: &mut Rng) -> u64 {
        let blocks = stream.span.blocks;
        match self {
            Cursor::Next(next) => {
                let now = *next;
                *next = (now + 1) % blocks;
                now
            }
            Cursor::Memoryless => match stream.order {
                Order::Zoned(zones) => zoned(zones, blocks, rng),
                _ => rng.below(blocks),
            },
            Cursor::Pass(pass) => pass.next(rng),
            Cursor::Ranks(zipf) => zipf.next(rng),
        }
    }
}

fn zoned(zones: &[(f64, f64)], blocks: u64, rng: &mut Rng) -> u64 {
    let (mut draw, mut first) = (rng.unit_f64(), 0.0);
    for &(share, span) in zones {
        if draw < share {
            return (((first + draw / share * span) * blocks as f64) as u64).min(blocks - 1);
        }
        draw -= share;
        first += span;
    }
    rng.below(blocks)
}

/// fio's Zipf generator, of ranks beyond number. Ranks that follow each other share a simulated block: as many as the
/// simulated block stands for. Blocks are drawn for them with replacement, as fio's hash does.
struct Zipf {
    ranks: f64,
    weights: f64,
    half: f64,
    eta: f64,
    alpha: f64,
    place: Vec<u32>,
}

impl Zipf {
    fn new(theta: f64, ranks: f64, blocks: u64, rng: &mut Rng) -> Zipf {
        let summed = ranks.min(FIO_RANKS) as u64;
        let weights: f64 = (1..=summed).map(|rank| (rank as f64).powf(-theta)).sum();
        let half = 0.5_f64.powf(theta);
        let eta = (1.0 - (2.0 / ranks).powf(1.0 - theta)) / (1.0 - (1.0 + half) / weights);
        let place = (0..blocks).map(|_| rng.below(blocks) as u32).collect();
        Zipf { ranks, weights, half, eta, alpha: 1.0 / (1.0 - theta), place }
    }

    fn next(&mut self, rng: &mut Rng) -> u64 {
        let draw = rng.unit_f64();
        let rank = match draw * self.weights {
            first if first < 1.0 => 0.0,
            second if second < 1.0 + self.half => 1.0,
            _ => self.ranks * (self.eta * draw - self.eta + 1.0).powf(self.alpha),
        };
        let blocks = self.place.len();
        let group = (rank / self.ranks * blocks as f64) as usize;
        self.place[group.min(blocks - 1)].into()
    }
}
