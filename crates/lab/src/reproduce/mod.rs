//! Published experiments, repeated: our figures beside theirs.

mod applications;
mod autostream;
mod cachelib;
mod csal;
mod indirection;
mod job;
mod lsm_zgc;
mod micron;
mod micron_hse;
mod micron_size;
mod micron_zones;
pub mod point;
mod refresh;
mod slc;
mod snia;
mod uniform;
mod zones;

use std::path::PathBuf;

use serde::Serialize;
use thermocline_record::plot::{Plot, PlotAxis, PlotLine};

use crate::Error;

use point::{Point, Reference};

/// An experiment that can be repeated by name.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// What is repeated.
    pub title: &'static str,
    /// Where their figures come from.
    pub source: &'static str,
    run: Repeat,
    /// Traces that it replays.
    traces: &'static [&'static str],
    /// What a reader must know to judge the differences, one sentence each.
    pub notes: &'static [&'static str],
}

/// Repeats an experiment, telling the share done.
type Repeat = fn(&Options, &mut dyn FnMut(f64)) -> Result<Vec<Figure>, Error>;

/// Settings of a repetition.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of all randomness.
    pub seed: u64,
    /// Folder with traces to replay in place of those that come with the program.
    pub traces: Option<PathBuf>,
    /// Scales down experiments of the document's full size: roughly the same figures, in seconds.
    pub quick: bool,
    /// Runs only the points of the table of truth; other figures may be left out.
    pub points: bool,
}

impl Options {
    /// Where the trace called `name` is to be opened.
    #[must_use]
    fn trace(&self, name: &str) -> PathBuf {
        match &self.traces {
            Some(folder) => folder.join(format!("{name}.csv.gz")),
            None => name.into(),
        }
    }
}

/// One figure: theirs and ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What it is.
    pub what: String,
    /// Published value, if any.
    pub theirs: Option<f64>,
    /// Value measured here.
    pub ours: f64,
    /// Source of the published value, if the figure is a row of the table of truth. Figures without a source show how a
    /// published value varies.
    #[serde(skip)]
    pub reference: Option<Reference>,
}

impl Figure {
    /// A point: ours, held against `theirs`.
    #[must_use]
    pub fn new(what: impl Into<String>, theirs: f64, ours: f64, reference: Reference) -> Figure {
        Figure { reference: Some(reference), ..Figure::beside(what, Some(theirs), ours) }
    }

    /// A figure without a published counterpart.
    #[must_use]
    pub fn ours(what: impl Into<String>, ours: f64) -> Figure {
        Figure::beside(what, None, ours)
    }

    /// A figure shown beside a published value, but not a test of the value.
    #[must_use]
    pub fn beside(what: impl Into<String>, theirs: Option<f64>, ours: f64) -> Figure {
        Figure { what: what.into(), theirs, ours, reference: None }
    }

    /// Relative difference of ours from theirs.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        self.theirs.map(|theirs| self.ours / theirs - 1.0)
    }
}

/// Where figures of LSM_ZGC come from.
const LSM_ZGC: &str =
    "Choi et al., A New LSM-style Garbage Collection Scheme for ZNS SSDs, HotStorage 2020";

/// Where figures that the tutorial of 2009 asks for, and does not have, come from.
const SNIA_LIFE: &str = "closed form (`lab theory integrity`), of what Thatcher's SNIA tutorial of 2009 asks for and has no values of";

/// Where figures of 2009 come from.
const SNIA: &str = "Thatcher (Fusion-io), NAND Flash Solid State Storage Performance and Capability, SNIA tutorial, 2009";

/// Every experiment.
pub const EXPERIMENTS: [Experiment; 24] = [
    Experiment {
        name: "uniform-greedy",
        title: "WAF of uniform random 4 KiB writes, greedy cleaning, against the fluid limit for finite units",
        source: "Desnoyers, SYSTOR 2012; Bux and Iliadis 2010; Van Houdt, SIGMETRICS 2013 (closed form)",
        run: uniform::greedy,
        traces: &[],
        notes: &[
            "theirs are closed forms for infinitely many units; ours has 16,384 units, open and reserve units inside the spare",
        ],
    },
    Experiment {
        name: "uniform-fifo",
        title: "WAF of uniform random 4 KiB writes, cleaning in order of writing, against the Lambert W form",
        source: "Menon 1995; Xiang and Kurkoski 2012; Desnoyers, SYSTOR 2012 (closed form)",
        run: uniform::fifo,
        traces: &[],
        notes: &[
            "theirs does not depend on the unit; ours has 16,384 units of 64 blocks, as far as not said otherwise",
        ],
    },
    Experiment {
        name: "ftlsim",
        title: "WAF of uniform random 4 KiB writes, greedy, one open unit, as in Desnoyers' simulator",
        source: "ftlsim (Desnoyers, SYSTOR 2012), as run by us",
        run: uniform::ftlsim,
        traces: &[],
        notes: &["spare is (T - U) / T; the reserve of about two units is inside it"],
    },
    Experiment {
        name: "indirection-unit",
        title: "WAF by read-modify-write alone: the JESD219 enterprise mix on mapping units of 4 to 64 KiB",
        source: "Raghav's note on indirection units, with the size mix of JEDEC JESD219",
        run: indirection::jesd219,
        traces: &[],
        notes: &[
            "measured as host plus read-modify-write bytes over host bytes; relocation is left out, as theirs does",
        ],
    },
    Experiment {
        name: "autostream",
        title: "Databases on a multi-stream drive: one stream, eight by AutoStream's policies and by ours, and as told",
        source: "Samsung, AutoStream, 2017 (MySQL under TPC-C with 8 streams: over 40 % more throughput, over 15 % less \
                 latency; Cassandra 50/50: up to 40 % less 99.9 % latency; Cassandra tagged by hand: up to 3x)",
        run: autostream::autostream,
        traces: &autostream::TRACES,
        notes: &[
            "theirs: real drives under the databases themselves, latency of a transaction or an operation; ours: that of a \
             write command. Times the 99.9 % latency above 1 is a rise",
            "of what tagging by hand makes 3 times as much is not in what we hold; it stands beside throughput",
            "ours replays block traces several times over without trims at queue depth 32, on a PM1725a cut to what the \
             trace writes, with 8 streams, 17 % overprovisioning instead of 37, and a write buffer that merges nothing, \
             since the product's 16 MiB would absorb more of workloads this small",
            "mq and sfr have 9 classes: 8 for host writes and one for survivors, which the drive keeps to itself here",
            "all policies see host writes only; the drive cleans greedily. Survivors go back to their stream, or all of \
             them to a unit of their own: the second drive gains from that alone, and leaves less for streams to gain",
            "told by volume, by write hint: what the database itself could say, without learning. Exact where it is \
             generated: redo log, double write buffer, tables, temporary files and archived log, a stream each, or by four \
             classes of lifetime",
            "traces have no file names: there, each MiB of addresses is of one of five kinds by what is written to it in \
             the trace (known in advance, as a database knows its files): rewritten 16 times (double write buffer); \
             less than 1.25 times (written once); else, 90 % of writes going on where the last one ended (log), or \
             pages, of 64 KiB and more in the mean or less. A hint is a lifetime by rewrites of the kind against the mean: \
             4 times and more (short), 1 (medium), 1/2 (long), less (extreme)",
            "auto finds its rule on miniature drives that are cleaned as the log would, which is not how this drive is",
            "the effect grows with the unit of erasure: see docs/use/VALIDATION.md. Cassandra runs with units of 8 MiB: its files \
             are written and replaced whole, smaller units die whole as well, and every choice has a WAF of 1.00",
            "the traces have writes only, as they left the page cache; latency is that of a write command in simulated \
             time. Throughput counts commands, which differ in size between traces",
            "WAF is that of the later half of the passes, the rest of all passes",
        ],
    },
    Experiment {
        name: "applications",
        title: "Generated applications beside traces of the same: shape of the requests, and WAF on five stacks",
        source: "block traces of ours (`lab list traces`)",
        run: applications::applications,
        traces: &applications::TRACES,
        notes: &[
            "theirs is the trace, ours the generator; no point of the table of truth, as nobody published the traces",
            "the generator has a volume as large as the trace's working set, and writes as much in each pass. Its keys are what \
             the trace shows (sizes, what is loaded, which part of the pages takes how many writes, log for each page and \
             for each flush, pages written side by side, bytes of a write) and defaults of the manuals; none was \
             chosen by a WAF. Memory and settings of the traced databases are not recorded",
            "traces begin with making the file system and loading; they hold the file system's journal, and pages as the \
             page cache wrote them. Generators load, too, and have neither",
            "WAF: three passes over the trace, and over one pass of the generator as a trace, on the same terms: filled before \
             in order of first touch, 90 % full, 32 in flight, flushes are barriers, trims ignored",
        ],
    },
    Experiment {
        name: "cachelib-fdp",
        title: "DLWA of CacheLib's KV cache on a Samsung PM9D3, with and without FDP",
        source: "CacheLib-FDP, EuroSys 2025 (1.3 at 50 % and 3.5 at 100 % utilisation without FDP, 1.03 with)",
        run: cachelib::fdp,
        traces: &[],
        notes: &[
            "theirs replays Meta's KV cache trace; ours is its model: small objects (SOC) in 4 % of the cache, written in \
             random 4 KiB buckets, and large objects (LOC) in the rest, written in order, no trims",
            "the share of bytes that goes to small objects is not published; 62 % was fitted to their 3.5 at 100 % without \
             FDP, so that figure is no prediction. That at 50 % without FDP has the same share in it: it follows from the \
             fitted one by the room that is left over. Those with FDP are 1.00 by construction, since what is written in \
             order dies in order and the small objects have all of the spare to themselves: they test the drive's model, not \
             CacheLib's",
            "the drive is cut to 8 GiB with the number of reclaim units kept, and its write buffer merges nothing: kept at the \
             product's 16 MiB it would absorb more of a workload this small than the product does of the whole one (with it, \
             figures are 1 to 5 % lower)",
        ],
    },
    Experiment {
        name: "micron-zero-op",
        title: "WAF of LSM stores on conventional firmware with zero overprovisioning",
        source: "Micron, Accelerating Flash for a Competitive Edge in the Cloud and Beyond, 2021",
        run: micron::zero_op,
        traces: &micron::TRACES,
        notes: &[
            "theirs: Cassandra on Btrfs on a 2 TB TLC client drive, 300 GB written; 3.09 under cassandra-stress, 2.68 under \
             YCSB. How full the drive was, whether deletions were discarded, and its superblocks are not published; the 95.2 % \
             of their zone map is how far zones in use are written",
            "ours replays block traces of Cassandra and RocksDB on ext4, 12 times over, on a Micron 2300 whose \
             overprovisioning is cut to five units, open and in reserve. What is not addressed is overprovisioning: a drive \
             that is 90 % full has 11 % of it",
            "without trims ours depend on how full the drive is, from far below theirs to above; where trims are obeyed there \
             is next to nothing to relocate. These figures give a range, and no reproduction",
            "the zoned half of their table is `micron-zones`",
        ],
    },
    Experiment {
        name: "micron-zones",
        title: "LSM stores on one drive: conventional with zero overprovisioning, and as zones under the log",
        source: "Micron, Accelerating Flash for a Competitive Edge in the Cloud and Beyond, 2021",
        run: micron_zones::zones,
        traces: &micron::TRACES,
        notes: &[
            "theirs: 940 against 334 GB to NAND for 300 GB written; cassandra-stress 3.09 against 1.13, 2.7 times \
             the life; YCSB 2.68 against 1.13, 2.4 times",
            "ours replays block traces of Cassandra and RocksDB on ext4, 12 times over, on media of as many units of \
             4 MiB as the workload fills to 88 %: a Micron 2300 that exports five units less, and zones under the log with \
             its reserve inside. Media that the workload does not address are overprovisioning, on either drive",
            "only drives that both obey trims, or both ignore them, are on equal terms; which it was with theirs is not \
             published, so theirs stand beside each. The lines on unequal terms show what trims are worth, which is no gain \
             of zones. Life is compared by WAF, as the media are the same",
            "the zoned figures do not contradict theirs, which hold Btrfs and its metadata as well, ours only what the log \
             adds below the file system; the conventional ones do not reproduce: see micron-zero-op",
            "written share of zones in use is the mean over all zones that are not empty at the end; theirs is the 95.2 % \
             of their zone map",
            "300 GB: an LSM store with size tiers (`lab list lsm`) on a volume of 144 GiB that is all of the drive: 70 GiB of \
             records, 60 of them loaded, then 300 GB by log, memtable flushes and merges, memtables of 256 MiB, files in \
             turns of 4 MiB. The drive has units of 288 MiB (16 dies, two planes of 9 MiB), six of them spare; greedy. It was \
             filled in order before; where discards are obeyed it begins empty, as making the file system discards it. WAF is of the whole job, the load included",
            "the document does not say: how full the drive was and with what, whether deletions were discarded, its spare units, \
             where survivors go, the file system's metadata, extents and allocation. Each is varied, none is fitted",
            "an SLC cache: 2 % of the volume in cells of its own, which are beside the six spare units and hold so much of the \
             data; where the drive is full that is spare besides, and outweighs what folding adds",
            "with `quick` all sizes are a sixteenth; figures differ where few units make a difference",
            "the zone map and the series over time are in the report of any run on zones: `lab run --stack log:zn540 \
             --utilisation 0.88 --trace rocksdb-overwrite --set device.unit=3MiB --report zones.html`",
        ],
    },
    Experiment {
        name: "lsm-zgc",
        title: "Garbage collection of zones by segments and levels against copying block by block, by commands in flight",
        source: LSM_ZGC,
        run: lsm_zgc::collections,
        traces: &[],
        notes: &[
            "which zones are collected, and how full they are then: 1,024 zones, of which all but 16 begin written to their \
             end with holes at random, at the stated utilisation; greedy victims, 900 collections. Zones have 64 MiB here, \
             utilisations do not depend on it. No time, no maps, no headers",
            "how long a collection takes: a zone of 1 GiB with holes at random, as full as those victims in the mean, on the \
             timed ZN540 with so many commands in flight, reads and writes together; a write goes before further reads. Until \
             the last write is in the drive; without resets",
            "basic reads each valid block of 4 KiB by a command of its own; LSM_ZGC reads all of the zone in 128 KiB, valid or \
             not, and writes 128 KiB. Whether basic writes block by block is not said: both are tried",
            "5 and 18 times as long: between which utilisations they measured is not in what we hold. Ours: 0.25 and 0.9 used \
             against 0.05, which is 5 and 18 times as much valid data; not in the worst factor",
            "one quarter of the zone is timed. Blocks are read in the order of their addresses, so that neighbours lie on one \
             die of the 32 and wait for each other unless hundreds are in flight; the model has no read-ahead. What that is \
             worth: 4 KiB scattered over dies",
            "the job: 10,000 requests of 128 KiB, 70 % reads, four at once, chosen, beside collections of zones used 0.6; \
             theirs is 53 - 40 against 45 - 40. Time is added for each zone that is collected",
            "off by a factor of, at worst: of the six published ratios above it, up or down",
            "thresholds and histograms: zones begin 0.6 used, 70 % of the updates go to 30 % of the blocks. 900 collections of \
             1,024 zones collect most of them once at most; how many zones their job covers is not published",
        ],
    },
    Experiment {
        name: "lsm-zgc-log",
        title: "The same two schemes in the log engine, beside its default",
        source: LSM_ZGC,
        run: lsm_zgc::engine,
        traces: &[],
        notes: &[
            "the time of a collection is simulated time from the choice of a victim until the last of its valid \
             blocks is written elsewhere, while the host waits; mean of 300 after 600. Resets come later, in the \
             background, and are not in it",
            "zones of 18 MiB, nine segments of 2 MiB, on a ZN540 cut to 6.75 GiB, filled in order and then updated; ratios can \
             be compared, times cannot",
            "basic: valid 4 KiB blocks by a command each, all of a segment at once, no separation; LSM_ZGC: whole \
             segments in 128 KiB, levels, threshold 0.8; one by one: the next read when the one before is done. Valid blocks \
             are found by chunk headers; theirs has a bitmap",
            "auto is our default, with its own classes and victims",
            "foreground: 40,000 requests of 128 KiB, 70 % reads, four at once, at utilisation 0.7; their job is not \
             published. Ours keeps the drive busy, so collection costs it bandwidth and not only latency",
        ],
    },
    Experiment {
        name: "snia-bandwidth",
        title: "Bandwidth of the drives of 2009 by mix of reads and writes, against the closed form",
        source: SNIA,
        run: |options, progress| Ok(snia::bandwidth(options, progress)?.0),
        traces: &[],
        notes: &[
            "theirs is the closed form (`lab theory bandwidth`): the slides state its assumptions and results, the formula is \
             our reconstruction, with pages of 4 KiB here where they have 4,000 B",
            "ours: transfers of 1 MiB in order, 64 in flight, on pci-c and sata-b cut to 1 GiB, without firmware and with buses \
             that carry what is ready; in order of arrival, as the profiles have it, mixes collide and fall below both",
        ],
    },
    Experiment {
        name: "snia-controllers",
        title: "Three controllers of 2009: operations, WAF and bandwidth by transfer size and mix",
        source: SNIA,
        run: |options, progress| Ok(snia::controllers(options, progress)?.0),
        traces: &[],
        notes: &[
            "their values are not in what we hold; the worked examples (25 %, 25 %, 50 % of what is written is the host's) are \
             `lab theory controllers`",
            "block-mapped: sata-a, every write rewrites erase blocks of 256 KiB, in place or elsewhere; garbage collecting: \
             sata-b. Random, 64 in flight, drives cut to 64 MiB and filled in order before",
            "transfers smaller than 4 KiB cost sata-b a read-modify-write of 4 KiB, its mapping unit; pages are programmed whole",
        ],
    },
    Experiment {
        name: "snia-pathological",
        title: "Pathological writes: bandwidth by how much of 80 GiB is in use, and by reserve",
        source: SNIA,
        run: |options, progress| Ok(snia::pathological(options, progress)?.0),
        traces: &[],
        notes: &[
            "their values are not in what we hold: the shape is, which falls with what is in use, and most where little is left",
            "pci-c with 3 % of media beyond 80 GiB, cut to a 32nd (`quick`: 128th), erased before; writes of 4 KiB, 64 in \
             flight, four times what is in use; a controller of a million commands per second, so that it is not the limit",
            "in order: what is written together is overwritten together, data with a relation in time; random has none",
            "first is the mean of the first tenth, the end the last quarter of the run",
            "idle: the host rests after each burst of 5 GiB, and the drive copies 150 MB/s ahead of need until a tenth of its \
             units is free (chosen: the tutorial says that there is no idle time, and not how long it would have to be); \
             rests are left out of all rates",
            "as one run, of 40 GiB in use: lab run --stack raw:pci-c --capacity 2560MiB --span 1280MiB --workload uniform \
             --drive-writes 4 --prefill none --queue-depth 64 --burst 160MiB --idle 625ms --set device.op=0.03 --set \
             device.timing.controller_kiops=1000 --set device.gc.idle_ms=0 --set device.gc.idle_mb_per_s=150 --set \
             device.gc.idle_free=0.1; its MB/s have the rests in them",
        ],
    },
    Experiment {
        name: "snia-collisions",
        title: "Why mixes of reads and writes fall below both: page registers and the order of the bus",
        source: SNIA,
        run: |options, progress| Ok(snia::collisions(options, progress)?.0),
        traces: &[],
        notes: &[
            "their values are not in what we hold: the finding is, that mixes fall below pure reads and pure writes",
            "pci-c cut to 1 GiB, 2 GiB of transfers of 1 MiB (the last case: of 128 KiB, as Linux split them) in order, 64 in \
             flight; nothing has to be copied",
        ],
    },
    Experiment {
        name: "snia-scaling",
        title: "One, two, four and eight drives under one host: IOPS at 512 B, bandwidth at 128 KiB, mixes, sizes, watts",
        source: SNIA,
        run: |options, progress| Ok(snia::scaling(options, progress)?.0),
        traces: &[],
        notes: &[
            "their values are not in what we hold: the chart is, drives against five mixes and sizes, with the root mean square \
             of the five mixes as one number",
            "pci-c, each cut to 64 MiB and filled in order, stripes of 64 KiB, 64 in flight for each drive, random places; \
             transfers below 4 KiB cost a read-modify-write",
            "the host: 5 us of a thread for each request to a drive, and 6,400 MB/s in each direction for all drives (a hub of \
             PCI Express 1.1 with 32 lanes less overhead). Both are assumed; the first bounds one thread to 200 thousand a second",
            "watts: those of `lab tco` for drives at their limit (9, assumed) and a server (250, assumed)",
        ],
    },
    Experiment {
        name: "snia-partial",
        title: "Pages programmed in parts: small writes that are durable at once, by programs of a page",
        source: SNIA,
        run: |options, progress| Ok(snia::partial(options, progress)?.0),
        traces: &[],
        notes: &[
            "the tutorial names partial-page programming and has no values in what we hold",
            "sata-b cut to 64 MiB (`quick`: 16) and filled; random writes, one in flight, each flushed: without capacitors what \
             is flushed must be programmed. The later half of four times the media written",
            "a program of a part takes the array as long as one of a page, and the bus for its bytes; what a power cut in the \
             middle of it does to the parts before is left out",
        ],
    },
    Experiment {
        name: "snia-wear",
        title: "Wear levelling: how erases are spread, what that costs, the first worn-out unit, and early failures",
        source: SNIA_LIFE,
        run: |options, progress| Ok(snia::wear(options, progress)?.0),
        traces: &[],
        notes: &[
            "the tutorial names wear levelling, spare blocks and infant mortality and has no values; theirs is the closed form of \
             `lab theory integrity` at our WAF: when the first of so many units is worn out, as likely as not",
            "pci-c with 1,000 cycles in place of 100,000, cut to 64 MiB (`quick`: 300 and 16 MiB), written in 4 KiB, filled \
             before; units differ in what they endure by 10 % (standard deviation); means of four drives (`quick`: two)",
            "dynamic: free units are taken least worn first; static: what rests on a unit that lags 2 % of the cycles behind is \
             moved to the most worn free unit, once in 16 erases at most",
            "erases over the mean, and blocks for each of the host's, are of a quarter of a life, before anything is worn out; \
             the end of life is when spares and overprovisioning are used up; early in life: the second tenth of it; at the end: \
             the last twentieth",
            "failed programs: one in 100,000, spares for a fifth of the units; theirs is the number of programs times that",
            "early failures: one unit in fifty within a twentieth of its cycles, which is chosen so that there are some; theirs \
             is that share, and that of the spares that replace them",
        ],
    },
    Experiment {
        name: "snia-life",
        title: "Begin and end of life: random reads as wrong bits make them take several attempts, by kind of cells",
        source: SNIA_LIFE,
        run: |options, progress| Ok(snia::life(options, progress)?.0),
        traces: &[],
        notes: &[
            "the tutorial asks whether a figure is of the begin or the end of life, and has none; theirs is the closed form of \
             `lab theory integrity` for the mean time of a read with one in flight",
            "bit error rates, correction and times of attempts are those of `[integrity]` of each profile, assumed for the most \
             part; the last lines of each drive have rates as high as they may be",
            "reads of 4 KiB all over drives cut to 256 MiB and filled before; all data is 90 days old at 40 degrees. A drive \
             that refreshes, or remembers at which voltages a block was read, retries less",
            "writes do not change over the life here but for garbage collection with fewer units: see `snia-wear`",
        ],
    },
    Experiment {
        name: "snia-uber",
        title: "Lost bits where every unit has an age and wear of its own: data at rest, by what moves it",
        source: SNIA_LIFE,
        run: |options, progress| Ok(snia::uber(options, progress)?.0),
        traces: &[],
        notes: &[
            "ours has each unit's own age, erases and reads, by the clock of the requests, and sums the chances of loss, since \
             what is lost is too rare to be drawn; the closed form has all data read at ages spread evenly up to the oldest, \
             and knows neither what is young nor that wear levelling moves what rests",
            "p5316 cut to 128 MiB (`quick`: half) and filled on the first day; half of the data is never touched again, 0.41 \
             capacities are written a day and as much is read of the other half; a year at 40 degrees; static levelling with \
             the spread of the profile, 100 erases",
            "bit error rates are assumed for the most part, and may be off by the factor of `[integrity]`, which is many powers \
             of ten of UBER",
        ],
    },
    Experiment {
        name: "refresh",
        title: "What refresh writes: data at rest by its age, and data that is read much, against the closed form",
        source: "closed form (`lab theory integrity`): what rests, once in each interval",
        run: refresh::refresh,
        traces: &[],
        notes: &[
            "theirs is the closed form, with half a patrol that finds it late; no point of the table of truth",
            "pm9d3 cut to 64 MiB (`quick`: 16) with as much media again, so that garbage collection hardly moves what rests; two \
             drive writes a day, so that nothing else gets old; a patrol takes a twentieth of the interval; 20 intervals, half \
             of the last of which is not over in the mean: 2.5 % of what the closed form has",
            "intervals and limits here are chosen; those of a product at its temperature and wear are the last rows, from \
             values that are mostly assumed",
        ],
    },
    Experiment {
        name: "slc-cache",
        title: "A client drive of QLC behind an SLC cache: in the cache, when it is full, past it, and what folding writes",
        source: "reviews of the Intel SSD 660p: up to 1,800 MB/s in the cache, about 100 once that is full; 12 GB are static, \
                 140 when it is empty (evantechbook.com; Tom's Hardware; AnandTech)",
        run: slc::cache,
        traces: &[],
        notes: &[
            "theirs: real drives of 1 TB. Ours: profile intel660p cut to a 128th (`quick`: 512th), all ratios kept. Sizes of the \
             cache and the rate in it are the profile's own, and no test; the rate of QLC is assumed, of another maker's, and what \
             is left of it by folding is computed",
            "folded: each byte is programmed in SLC mode and then as QLC, so that WAF is 2 where nothing is overwritten in the \
             cache; past it: what does not fit goes to QLC at once; the first half of the drive",
            "the dynamic part is a share of what is not filled, and so shrinks as data comes in: 140 GB is what it has room for \
             at first",
            "random writes: 4 KiB on a drive that was filled before, which leaves the static part; WAF of the second half",
            "at a pace: 4 KiB by Zipf 0.99 over a tenth of the drive, 20 a second; the drive folds when the cache is full, or after \
             10 ms without a request. A drive that folds early writes what would have been overwritten in the cache",
        ],
    },
    Experiment {
        name: "micron-hse",
        title: "A database on a capacity drive alone, behind a hot tier, and behind a hot tier on zones",
        source: "Micron, Accelerating Flash for a Competitive Edge in the Cloud and Beyond, 2021",
        run: micron_hse::hse,
        traces: &[],
        notes: &[
            "theirs: MongoDB under TPC-C with the storage engine HSE, which is a log-structured merge tree that puts files \
             on the hot or the capacity drive; after five hours. Ours: a page-based database (redo log, double write buffer, \
             pages by Zipf 0.9) of 4 GiB (1 with `quick`) that writes five times its size, with a tier below it that knows \
             nothing of it",
            "bytes of the application: those of the redo log, 35 % of what the database writes; so its own write \
             amplification is 2.86, and theirs was about 5 (11.1 / 2.2 to 6.7 / 1.1), which no tier below it can change",
            "capacity drive 85 % full, which is not published of theirs; hot tier of 20 % of the volume (150 to 200 of 800 GB)",
            "placement sepbit on both tiers, with pool.write_cache=off: the default has one class more than a ZN540 lets zones \
             be open beside a fast device",
            "no drive merges writes in its buffer, which is the product's and would absorb more of a volume this small",
            "two pages are read for each written in place, with the same skew, which is chosen; no think time: host MB/s is \
             what the drives can take at depth 32",
            "in use are bytes of valid blocks at the end, written are those of the whole run, in volumes. Sizes of the hot tier \
             are those of theirs in a drive of 800 GB, as shares of the volume; of less than 150 GB we hold no figure of \
             theirs, so 50 and 100 stand without one",
            "by the clock: all set-ups have half the requests per second that the capacity drive alone serves, and pages are \
             written at checkpoints, twenty for each volume written, within a fifth of the time between two; all of that is \
             chosen. Rates are those of commands to a drive, with what the log moves and reads to collect garbage, in windows \
             of one length. That all the peaks have been cut is said here if no peak of the capacity drive, of reads or of \
             writes, is as high as that of it alone",
            "ten times as long (not with `quick` or `points`): 50 times the size of the database for the document's 50 hours, \
             a volume an hour, which is chosen",
        ],
    },
    Experiment {
        name: "csal",
        title: "A fast write tier before a QLC drive with mapping units of 64 KiB: disks, drive alone, tier",
        source: "Intel and Alibaba, Cloud Storage Acceleration Layer (CSAL), SNIA SDC 2022",
        run: csal::csal,
        traces: &[],
        notes: &[
            "theirs: eight disks, one D5-P5316 with 10 % left unused, and CSAL with 800 GB of Optane before it; MB/s of each \
             of so many jobs, as rounded in their table. How many requests a job has in flight is not said there; 128 here",
            "ours: a volume of 4 GiB (2 GiB with `quick`) on a P5316 with a tenth more, and a P5800X of 800 GB for each 15.36 TB \
             beside it: all ratios kept, speeds those of the products. Each job has a part of the volume of its own; the \
             volume is filled in order, then written twice over, then half of it while it is measured (jobs of 4 KiB on the \
             drive alone, which rewrites 64 KiB for each: a sixteenth). Both sides have the same volume, media, depth, and \
             no trims",
            "tier: the log engine (ADR 0024) with its defaults, but for pool.write_cache=off, as the peer has no cache in \
             memory; WAF is bytes on the media of the drive for capacity for each byte of the host",
            "unused: what of the drive the volume leaves, as a share of the volume. 10 % is the document's for the drive alone, \
             22 % (18 % of the drive) is how CSAL's authors set it up in their artifact (EuroSys 2024); the table is on 10 %",
            "units of the drive's size: the log's units are as large as what the drive erases at once; by default they are \
             smaller",
            "disk: one for each job, by a stated model: average seek 8.2 ms, half a turn of 7,200 rpm, 270 MB/s, requests in \
             flight taken in the order of their addresses",
            "the mixed case: one job of each kind here, on all of the volume; which jobs theirs has is not in what we hold",
            "drive alone by what is not known of it: no number here is fitted, each shows what a single change would do. A read \
             of what a write leaves out of its mapping unit goes before the program of that unit, and the write is \
             acknowledged after it. Whether the drive does as any of them is not known",
            "four tenants, of theirs on a ZN540 of 4 TB and on an SN640 of 7.68 TB: 128 requests of each in flight, each on a \
             quarter of the volume (4 GiB; 3 with `quick`). How large theirs was and their figures are not in what we \
             hold. It leaves 22 % of the zones; a volume of the same size leaves more than half of the SN640; as full: \
             22 % of that; full: nothing but its own 14.5 %. Its buffer does not merge, which is the product's and would \
             absorb more of a volume this small. A byte counts for the tenant that wrote its block last, also when it is \
             relocated or destaged",
            "TPCx-HS: theirs is 3 TB on servers of eight drives, twice as fast; against what, by which tasks and processors, is \
             not in what we hold. Ours is its block load, without processors and network: a volume for each of eight \
             drives, in eighths: three generated, one shuffled, three sorted. Phases one after the other: all generated \
             data is written; one copy read and the shuffle written; the shuffle read in 64 KiB at places drawn, and all \
             sorted data written; one copy of it read. Requests in order have 1 MiB, four streams of a drive, two requests of \
             each in flight; it is the second of two sorts, the first of which is overwritten in place or, as said, \
             discarded. Disks are one for each volume; all volumes share the drive",
            "of four tenants the log has its defaults; without a write cache, and behind the tier, as CSAL has it, a write \
             is done when its chunk is on media",
        ],
    },
];

impl Experiment {
    /// The experiment called `name`.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }

    /// Checks that all traces of the experiment exist.
    ///
    /// # Errors
    /// [`Error::Settings`] naming the first missing trace.
    pub fn check(&self, options: &Options) -> Result<(), Error> {
        let Some(folder) = &options.traces else { return Ok(()) };
        let missing = self.traces.iter().map(|name| options.trace(name)).find(|p| !p.is_file());
        missing.map_or(Ok(()), |path| {
            Err(Error::Settings(format!(
                "{} replays {}, which is not in the folder {}: without `traces` it takes the trace that comes with the \
                 program",
                self.name,
                path.display(),
                folder.display()
            )))
        })
    }

    /// Repeats it; `progress` is told the share done, 0..=1.
    ///
    /// # Errors
    /// [`Error`] when a run fails or a trace is not where [`Options::traces`] says.
    pub fn run(
        &self,
        options: &Options,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Figure>, Error> {
        (self.run)(options, progress)
    }

    /// The points of the table of truth among `figures` of this experiment.
    #[must_use]
    pub fn points(&self, figures: &[Figure]) -> Vec<Point> {
        figures.iter().filter_map(|figure| Point::of(self.name, figure)).collect()
    }
}

/// Figures, and the same as charts.
pub type FiguresDrawn = (Vec<Figure>, Vec<Plot>);

impl Experiment {
    /// Repeats the experiment and draws charts: the experiment's own charts, or else all figures with a published
    /// value.
    ///
    /// # Errors
    /// As [`Experiment::run`].
    pub fn draw(
        &self,
        options: &Options,
        progress: &mut dyn FnMut(f64),
    ) -> Result<FiguresDrawn, Error> {
        let drawn = match self.name {
            "micron-hse" => Some(micron_hse::drawn as snia::Draw),
            name => snia::drawn(name),
        };
        if let Some(drawn) = drawn {
            return drawn(options, progress);
        }
        let figures = self.run(options, progress)?;
        let both = || figures.iter().enumerate().filter(|(_, figure)| figure.theirs.is_some());
        let points = |value: fn(&Figure) -> f64| {
            both().map(|(index, figure)| [index as f64 + 1.0, value(figure)]).collect()
        };
        let plot = Plot {
            title: self.title.to_owned(),
            caption: "Figures in the order of the table.".to_owned(),
            x: PlotAxis::linear("figure"),
            y: PlotAxis::linear("value"),
            lines: vec![
                PlotLine::reference("theirs", points(|figure| figure.theirs.unwrap_or(f64::NAN))),
                PlotLine::ours("ours", points(|figure| figure.ours)),
            ],
        };
        Ok((figures, vec![plot]))
    }
}

/// Tells `progress` the share done of step `index` out of `count` equal ones.
fn part(progress: &mut dyn FnMut(f64), index: usize, count: usize) -> impl FnMut(f64) {
    move |share| progress((index as f64 + share) / count as f64)
}
