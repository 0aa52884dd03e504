//! Power cuts under a served pool on a real kernel: one device, tiers, pairs and groups, all cut at one moment. Each
//! file keeps an arbitrary part of its unflushed writes, torn at any byte.
//!
//! `CUTS=20 SEED=100 cargo test -p thermocline-cli --test it power_cuts` runs 20 seeds for each pool, from seed 100 on.
//! `KEEP=folder` keeps the media of a failed state below `folder`, as they were at the return of power.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use thermocline_nbd::ClientError;
use thermocline_types::Rng;

use crate::forgetful::{Forgetful, Loss, Medium};
use crate::serve::{Served, command, run};
use crate::serve_fuse::ready;
use crate::serve_kill::{Known, SPAN, compare, write_until_the_end};
use crate::{scratch, write};

/// Cuts of one seed, and states of the media examined after each cut.
const ROUNDS: u64 = 4;
const STATES: u64 = 3;

/// Longest wait of a cut for writes: an opening may send no write.
const PATIENCE: Duration = Duration::from_millis(200);

struct Pool {
    name: &'static str,
    /// Name, MiB and further keys of each device.
    devices: &'static [(&'static str, u64, &'static str)],
    /// Groups, by their name in the status, with their members.
    groups: &'static [(&'static str, &'static [usize])],
}

const PAIR: &str = "class = 'fast'\nmirror = 'm'";
const FAST: &str = "class = 'fast'";
const GROUP: &str = "raid5 = 'g'";

const POOLS: [Pool; 6] = [
    Pool { name: "one device", devices: &[("a.img", 48, "")], groups: &[] },
    Pool { name: "tier", devices: &[("a.img", 16, FAST), ("b.img", 48, "")], groups: &[] },
    Pool {
        name: "pair",
        devices: &[("a.img", 48, "mirror = 'm'"), ("b.img", 48, "mirror = 'm'")],
        groups: &[("mirrors", &[0, 1])],
    },
    Pool {
        name: "group of 3",
        devices: &[("a.img", 32, GROUP), ("b.img", 32, GROUP), ("c.img", 32, GROUP)],
        groups: &[("raids", &[0, 1, 2])],
    },
    Pool {
        name: "group of 4",
        devices: &[
            ("a.img", 24, GROUP),
            ("b.img", 24, GROUP),
            ("c.img", 24, GROUP),
            ("d.img", 24, GROUP),
        ],
        groups: &[("raids", &[0, 1, 2, 3])],
    },
    Pool {
        name: "pair before a group",
        devices: &[
            ("a.img", 24, PAIR),
            ("b.img", 24, PAIR),
            ("c.img", 32, GROUP),
            ("d.img", 32, GROUP),
            ("e.img", 32, GROUP),
        ],
        groups: &[("mirrors", &[0, 1]), ("raids", &[2, 3, 4])],
    },
];

/// How the states were drawn.
#[derive(Default)]
struct Tally {
    states: u64,
    /// States in which any write was not flushed.
    unflushed: u64,
    drawn: BTreeMap<String, u64>,
}

impl Tally {
    fn count(&mut self, what: impl Into<String>) {
        *self.drawn.entry(what.into()).or_default() += 1;
    }
}

/// A pool on media that lose unflushed data, with its client's record of writes.
struct Stand<'a> {
    pool: &'a Pool,
    folder: tempfile::TempDir,
    medium: Forgetful,
    ledger: Vec<Known>,
    rng: Rng,
    /// Whether no member of a group lacks data.
    whole: bool,
    /// The media at the last return of power.
    found: Vec<Medium>,
}

impl Stand<'_> {
    fn new(pool: &Pool, seed: u64) -> Stand<'_> {
        let mut rng = Rng::new(seed);
        let files: Vec<_> = pool.devices.iter().map(|(name, mib, _)| (*name, mib << 20)).collect();
        let medium = Forgetful::new(&files, rng.next_u64());
        let folder = scratch();
        let io = ["auto", "threads", "inline"][rng.below(3) as usize];
        let [direct, discard, cached] = [2, 2, 4].map(|one_in| rng.below(one_in) == 0);
        let mut text = format!("[pool]\ncheckpoint = '4MiB'\nwrite_cache = {}\n", !cached);
        for (name, mib, keys) in pool.devices {
            let path = medium.path().join(name);
            text += &format!(
                "[[device]]\npath = '{}'\nsize = '{mib}MiB'\nunit = '1MiB'\nio = '{io}'\n\
                 direct = {direct}\ndiscard = {discard}\n{keys}\n",
                path.display()
            );
        }
        text += "[[volumes]]\nname = 'main'\nsize = '16MiB'\n";
        text += "[[volumes]]\nname = 'second'\nsize = '1MiB'\n";
        write(folder.path(), "pool.toml", text);
        run(folder.path(), "format pool.toml").ok();
        let (ledger, found) = (vec![Known::default(); SPAN as usize], medium.media());
        Stand { pool, folder, medium, ledger, rng, whole: true, found }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Serves until a cut, and returns the media at that moment.
    fn round(&mut self, tally: &mut Tally) -> Vec<Medium> {
        if self.rng.below(4) == 0 {
            tally.count("cut during an opening");
            return self.cut_an_opening();
        }
        let served = Served::start(self.path(), "");
        let mut client = served.client("main");
        compare(&mut client, &mut self.ledger);
        let filled = self.rng.below(3) > 0;
        if filled {
            self.pool.groups.iter().for_each(|(name, _)| served.wait_until_whole(name));
        }
        let status = served.status();
        self.whole = self.pool.groups.iter().all(|(name, _)| status[name][0]["whole"] == true);
        let files = self.pool.devices.len() as u64;
        let fails = (self.rng.below(3) == 0).then(|| self.rng.below(files) as usize);
        let redundant = fails.is_some_and(|file| {
            self.whole && self.pool.groups.iter().any(|(_, members)| members.contains(&file))
        });
        let flushes = self.rng.below(6) as u32;
        let pause = |rng: &mut Rng| Duration::from_millis(5 + rng.below(200));
        let pauses = [pause(&mut self.rng), pause(&mut self.rng)];
        let changes = self.rng.below(40);
        let Stand { medium, ledger, rng, .. } = self;
        let (ended, failed) = std::thread::scope(|scope| {
            let cutter = scope.spawn(|| {
                std::thread::sleep(pauses[0]);
                let failed = fails.is_some_and(|file| {
                    medium.fail_flush_after(file, flushes);
                    let failed = medium.wait_for_failure(file, Duration::from_secs(2));
                    std::thread::sleep(pauses[1]);
                    failed
                });
                medium.cut_after(changes, PATIENCE);
                served.signal("KILL");
                medium.let_go();
                failed
            });
            let ended = write_until_the_end(&mut client, ledger, rng);
            (ended, cutter.join().expect("it cuts"))
        });
        drop(served);
        tally.count(if failed { "a flush failed before" } else { "cut while writing" });
        if failed {
            self.whole = false;
        }
        match ended {
            Err(ClientError::Io(_)) => {}
            Err(ClientError::Request(_)) if failed && !redundant => {}
            other => panic!("the client ends with {other:?}; a flush failed: {failed}"),
        }
        self.medium.media()
    }

    fn cut_an_opening(&mut self) -> Vec<Medium> {
        let mut serve = command(self.path(), "serve pool.toml");
        let mut child = serve.stdout(Stdio::null()).spawn().expect("the program starts");
        self.medium.cut_after(self.rng.below(40), PATIENCE);
        child.kill().expect("it is ours");
        self.medium.let_go();
        child.wait().expect("it is ours");
        self.medium.media()
    }

    /// Restores the power with an arbitrary state that a cut at `media` may leave.
    fn power_up(&mut self, media: &[Medium], hidden: Option<usize>, tally: &mut Tally) {
        let mut media = media.to_vec();
        let mut torn = false;
        let alike = (self.rng.below(2) == 0).then(|| Loss::draw(&mut self.rng));
        for medium in &mut media {
            if medium.unflushed() > 0 {
                let loss = alike.unwrap_or_else(|| Loss::draw(&mut self.rng));
                tally.count(format!("{loss:?}"));
                medium.lose(loss, &mut self.rng);
                torn = true;
            }
        }
        tally.states += 1;
        tally.unflushed += u64::from(torn);
        self.medium.power_up(&media, hidden);
        self.found = media;
    }

    fn writes(&self) -> u64 {
        self.medium.media().iter().map(|medium| medium.writes).sum()
    }

    /// Examines the current state, without a member if redundancy allows.
    fn look(&mut self, media: &[Medium], tally: &mut Tally) {
        let groups = self.pool.groups;
        let hidden = (self.whole && !groups.is_empty() && self.rng.below(2) == 0).then(|| {
            let (_, members) = groups[self.rng.below(groups.len() as u64) as usize];
            members[self.rng.below(members.len() as u64) as usize]
        });
        self.power_up(media, hidden, tally);
        let before = self.writes();
        if hidden.is_none() {
            run(self.path(), "check pool.toml").ok();
            // Rows in flight at the cut may have inconsistent parity, which a start rewrites.
            let scrubbed = run(self.path(), "scrub pool.toml");
            let told = format!("{}{}", scrubbed.out, scrubbed.err);
            let parity = !groups.is_empty() && told.contains("no data is lost: ");
            let sound = scrubbed.code == 0 || parity;
            assert!(sound, "{told}");
            assert_eq!(self.writes(), before, "check and scrub write nothing");
        } else {
            tally.count("without a member");
        }
        if let Some((_, sides)) = hidden.and_then(|hidden| {
            let mut pairs = groups.iter().filter(|(name, _)| *name == "mirrors");
            pairs.find(|(_, sides)| sides.contains(&hidden)).map(|pair| (hidden, pair.1))
        }) {
            tally.count("one side of a pair is kept");
            let kept = sides.iter().find(|side| hidden != Some(**side)).expect("there are two");
            let kept = self.medium.path().join(self.pool.devices[*kept].0);
            run(self.path(), &format!("device keep pool.toml {}", kept.display())).ok();
        }
        let reads = self.rng.below(3) == 0;
        let served = Served::start(self.path(), if reads { "--read-only" } else { "" });
        compare(&mut served.client("main"), &mut self.ledger.clone());
        drop(served);
    }

    fn rounds(&mut self, tally: &mut Tally) {
        for _ in 0..ROUNDS {
            let media = self.round(tally);
            for _ in 1..STATES {
                self.look(&media, tally);
            }
            self.power_up(&media, None, tally);
        }
        let served = Served::start(self.path(), "");
        compare(&mut served.client("main"), &mut self.ledger);
        self.pool.groups.iter().for_each(|(name, _)| served.wait_until_whole(name));
        assert_eq!(served.stop(), 0);
        run(self.path(), "scrub pool.toml").ok();
    }

    /// Keeps the media of a failed state in the folder named by the environment.
    fn keep(&self, seed: u64) {
        let Some(folder) = std::env::var_os("KEEP") else { return };
        let folder = PathBuf::from(folder).join(format!("{}-{seed}", self.pool.name));
        std::fs::create_dir_all(&folder).expect("it can be made");
        for ((name, ..), medium) in self.pool.devices.iter().zip(&self.found) {
            medium.save(&folder.join(name)).expect("it can be written");
        }
        let text = std::fs::read_to_string(self.path().join("pool.toml")).expect("it is there");
        let text = text.replace(&format!("{}/", self.medium.path().display()), "");
        write(&folder, "pool.toml", text);
        println!("the media are kept in {}", folder.display());
    }
}

/// Runs one seed of a pool, or the number set by the environment.
fn cut(pool: &Pool) {
    if !ready(false, &[]) {
        return;
    }
    let number = |name: &str, otherwise: u64| {
        let value = std::env::var(name).ok();
        value.map_or(otherwise, |value| value.parse().expect("a number"))
    };
    let (first, seeds) = (number("SEED", 1), number("CUTS", 1));
    let (mut tally, mut failed) = (Tally::default(), Vec::new());
    for seed in first..first + seeds {
        let mut stand = Stand::new(pool, seed);
        if catch_unwind(AssertUnwindSafe(|| stand.rounds(&mut tally))).is_err() {
            println!("{}: seed {seed} failed", pool.name);
            stand.keep(seed);
            failed.push(seed);
        }
    }
    let Tally { states, unflushed, drawn } = &tally;
    println!("{}: {states} states, {unflushed} with unflushed writes, {drawn:?}", pool.name);
    assert!(failed.is_empty(), "{}: seeds {failed:?}", pool.name);
    assert!(*states >= seeds * ROUNDS * STATES && (seeds < 8 || 3 * unflushed > *states));
}

#[test]
fn power_cuts_of_one_device_lose_nothing() {
    cut(&POOLS[0]);
}

#[test]
fn power_cuts_of_a_tier_lose_nothing() {
    cut(&POOLS[1]);
}

#[test]
fn power_cuts_of_a_pair_lose_nothing() {
    cut(&POOLS[2]);
}

#[test]
fn power_cuts_of_a_group_of_three_lose_nothing() {
    cut(&POOLS[3]);
}

#[test]
fn power_cuts_of_a_group_of_four_lose_nothing() {
    cut(&POOLS[4]);
}

#[test]
fn power_cuts_of_a_pair_before_a_group_lose_nothing() {
    cut(&POOLS[5]);
}
