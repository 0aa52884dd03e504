//! `thermocline-sim`: looks at crash states until it is told to stop, and says how to see again what was wrong.

#[cfg_attr(not(feature = "bugs"), path = "main/no_bugs.rs")]
#[cfg_attr(feature = "bugs", path = "main/bugs.rs")]
mod bugs;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use thermocline_engine::{Mark, Marks};
use thermocline_sim::coverage;
use thermocline_sim::enumerate::{Budget, Failure, Report, enumerate};
use thermocline_sim::replay::{self, Place};
use thermocline_sim::settings::{Scale, Settings};
use thermocline_sim::situations::Situation;

const USAGE: &str = "usage: thermocline-sim [--seed N] [--states M] [--jobs J] [--marks] [--only SEED:POINT:STATE]
                       [--situation NAME]
       thermocline-sim --bugs [--budget STATES] [--seconds S] [--bug NAME] [--seed N] [--jobs J]
                       [--method NAME]

Runs small simulated pools, one for each seed from N on (default 1), until M crash states (default 100000)
were recovered, read and judged, on J threads (default 1), and tells how often each mark of the engine was reached.
Exit code 1 when anything was wrong, with --marks also when a mark was not reached that crash states alone must reach.

With --situation: rare situations made common, instead of small pools at random: 2000 states of each seed. NAME is
one of `crates/sim/src/situations.rs`, as `crowded pool`, or its beginning; a wrong one has them all told.

With --bugs: switches on each deliberate bug of the engine in turn (or those of which the name contains NAME), and
looks for it until it is caught, or STATES crash states (default 1000000) or S seconds (default 120) are spent. Prints
a table in Markdown. Exit code 1 when a bug was not caught. With --method: by that one alone, and with every seed; NAME
is one of `crates/sim/src/hunt.rs`, situations among them, or its beginning; a wrong one has them all told.";

/// Time between progress reports.
const PROGRESS: Duration = Duration::from_secs(10);

/// States of one seed, at most: the limit leaves time for many seeds.
const STATES_PER_SEED: u64 = 20_000;

/// As [`STATES_PER_SEED`], for rare situations.
const STATES_PER_SITUATION: u64 = 2_000;

struct Arguments {
    seed: u64,
    states: u64,
    jobs: u64,
    only: Option<Place>,
    situation: Option<Situation>,
    bugs: bool,
    marks: bool,
    budget: u64,
    seconds: u64,
    bug: String,
    method: String,
}

fn main() -> ExitCode {
    if std::env::args().skip(1).any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("{message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if arguments.bugs {
        return bugs::run(&arguments);
    }
    announce_panics(arguments.situation);
    let begin = Instant::now();
    let situation = arguments.situation;
    let named = named(situation);
    match arguments.only {
        Some(only) => println!("cargo xtask sim {named}--only {only}"),
        None => {
            let Arguments { seed, states, .. } = arguments;
            println!("cargo xtask sim {named}--seed {seed} --states {states}");
        }
    }
    let total = match arguments.only {
        Some(only) => {
            let (states, failures) = (u64::MAX, usize::MAX);
            let budget = Budget { states, failures, per_point: None, only: Some(only) };
            look(situation, only.seed, &budget)
        }
        None => run(&arguments),
    };
    let seconds = begin.elapsed().as_secs_f64();
    for failure in &total.failures {
        println!(
            "failed: {}\n    drawn: {}",
            failure.what,
            settings(situation, failure.place.seed)
        );
        println!("    again: cargo xtask sim {named}--only {}", failure.place);
    }
    println!("drawn: {}", total.drawn);
    tell_marks(&total.marks);
    println!(
        "{} crash states at {} points in {seconds:.1} s, {:.0} per second and thread; {} failures",
        total.states,
        total.points,
        total.states as f64 / seconds / arguments.jobs as f64,
        total.failures.len()
    );
    let missed = if arguments.marks { coverage::missed(&total.marks) } else { Vec::new() };
    if !missed.is_empty() {
        println!("not reached, though crash states must: {missed:?}");
    }
    let good = total.failures.is_empty() && missed.is_empty();
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Tells how often each mark of the engine was reached.
fn tell_marks(marks: &Marks) {
    for (mark, what) in Mark::ALL {
        println!("{:>9} {mark:?}: {what}", marks.count(*mark));
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments {
        seed: 1,
        states: 100_000,
        jobs: 1,
        only: None,
        situation: None,
        bugs: false,
        marks: false,
        budget: 1_000_000,
        seconds: 120,
        bug: String::new(),
        method: String::new(),
    };
    while let Some(word) = words.next() {
        if word == "--bugs" {
            arguments.bugs = true;
            continue;
        }
        if word == "--marks" {
            arguments.marks = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("`{word}` needs a value"))?;
        let number = || {
            let digits = value.replace('_', "");
            digits.parse::<u64>().map_err(|_| format!("`{word} {value}`: not a whole number"))
        };
        match word.as_str() {
            "--seed" => arguments.seed = number()?,
            "--states" => arguments.states = number()?,
            "--jobs" => arguments.jobs = number()?.max(1),
            "--situation" => arguments.situation = Some(value.parse()?),
            "--only" => arguments.only = Some(value.parse()?),
            "--budget" => arguments.budget = number()?,
            "--seconds" => arguments.seconds = number()?,
            "--bug" => arguments.bug = value,
            "--method" => arguments.method = value,
            _ => return Err(format!("`{word}` is no option")),
        }
    }
    Ok(arguments)
}

/// The command-line option for `situation`.
fn named(situation: Option<Situation>) -> String {
    situation.map_or(String::new(), |one| format!("--situation '{}' ", one.name()))
}

/// The settings that the seed draws.
fn settings(situation: Option<Situation>, seed: u64) -> Settings {
    situation.map_or_else(|| Settings::draw(seed, Scale::Small), |one| one.settings(seed))
}

/// Looks at the crash states of one seed.
fn look(situation: Option<Situation>, seed: u64, budget: &Budget) -> Report {
    match situation {
        Some(one) => one.enumerate(seed, one.settings(seed), budget),
        None => enumerate(seed, budget),
    }
}

/// A panic of the engine is a finding too: say how to see it again.
fn announce_panics(situation: Option<Situation>) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        if let Some(place) = replay::current() {
            eprintln!("    drawn: {}", settings(situation, place.seed));
            eprintln!("    again: cargo xtask sim {}--only {place}", named(situation));
        }
    }));
}

/// As [`look`]; a panic is a failure like any other, where panics do not end the program.
fn guarded(situation: Option<Situation>, seed: u64, budget: &Budget) -> Report {
    std::panic::catch_unwind(|| look(situation, seed, budget)).unwrap_or_else(|_| {
        let place = replay::current().unwrap_or(Place { seed, point: 0, state: 0 });
        let failure = Failure { place, what: "a panic, see above".into() };
        Report { failures: vec![failure], ..Report::default() }
    })
}

/// Tells every ten seconds how far it is; `told` is how often that was done.
fn progress(elapsed: Duration, told: &AtomicU64, states: u64, seed: u64) {
    let due = elapsed.as_secs() / PROGRESS.as_secs();
    if told.fetch_max(due, Ordering::Relaxed) < due {
        let rate = states as f64 / elapsed.as_secs_f64();
        eprintln!(
            "{} s: {states} crash states, seed {seed}, {rate:.0} per second",
            elapsed.as_secs()
        );
    }
}

/// Seeds in turn, on so many threads, until enough states were seen.
fn run(arguments: &Arguments) -> Report {
    let (next, states) = (AtomicU64::new(arguments.seed), AtomicU64::new(0));
    let (begin, told) = (Instant::now(), AtomicU64::new(0));
    let most = arguments.situation.map_or(STATES_PER_SEED, |_| STATES_PER_SITUATION);
    let work = || {
        let mut total = Report::default();
        while states.load(Ordering::Relaxed) < arguments.states && total.failures.len() < 10 {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let left = arguments.states.saturating_sub(states.load(Ordering::Relaxed));
            let states_of_seed = left.min(most);
            let budget =
                Budget { states: states_of_seed, failures: 3, per_point: None, only: None };
            let report = guarded(arguments.situation, seed, &budget);
            let seen = states.fetch_add(report.states, Ordering::Relaxed) + report.states;
            progress(begin.elapsed(), &told, seen, seed);
            total.merge(report);
        }
        total
    };
    std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..arguments.jobs).map(|_| scope.spawn(work)).collect();
        let mut total = Report::default();
        for job in jobs {
            let report = job.join().expect("a panic was announced");
            total.merge(report);
        }
        total
    })
}
