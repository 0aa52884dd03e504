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

const USAGE: &str = "usage: thermocline-sim [--seed N] [--states M] [--jobs J] [--marks] [--only SEED:POINT:STATE]
       thermocline-sim --bugs [--budget STATES] [--seconds S] [--bug NAME] [--seed N] [--jobs J]

Runs small simulated pools, one for each seed from N on (default 1), until M crash states (default 100000)
were recovered, read and judged, on J threads (default 1), and tells how often each mark of the engine was reached.
Exit code 1 when anything was wrong, with --marks also when a mark was not reached that crash states alone must reach.

With --bugs: switches on each deliberate bug of the engine in turn (or those of which the name contains NAME), and
looks for it until it is caught, or STATES crash states (default 1000000) or S seconds (default 120) are spent. Prints
a table in Markdown. Exit code 1 when a bug was not caught.";

/// How often progress is told.
const PROGRESS: Duration = Duration::from_secs(10);

/// States of one seed, at most, so that many seeds are seen.
const STATES_PER_SEED: u64 = 20_000;

struct Arguments {
    seed: u64,
    states: u64,
    jobs: u64,
    only: Option<Place>,
    bugs: bool,
    marks: bool,
    budget: u64,
    seconds: u64,
    bug: String,
}

fn main() -> ExitCode {
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
    announce_panics();
    let begin = Instant::now();
    match arguments.only {
        Some(only) => println!("cargo xtask sim --only {only}"),
        None => {
            println!("cargo xtask sim --seed {} --states {}", arguments.seed, arguments.states);
        }
    }
    let total = match arguments.only {
        Some(only) => enumerate(
            only.seed,
            &Budget { states: u64::MAX, failures: usize::MAX, per_point: None, only: Some(only) },
        ),
        None => run(&arguments),
    };
    let seconds = begin.elapsed().as_secs_f64();
    for failure in &total.failures {
        let drawn = Settings::draw(failure.place.seed, Scale::Small);
        println!("failed: {}\n    drawn: {drawn}", failure.what);
        println!("    again: cargo xtask sim --only {}", failure.place);
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
        bugs: false,
        marks: false,
        budget: 1_000_000,
        seconds: 120,
        bug: String::new(),
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
            "--only" => arguments.only = Some(value.parse()?),
            "--budget" => arguments.budget = number()?,
            "--seconds" => arguments.seconds = number()?,
            "--bug" => arguments.bug = value,
            _ => return Err(format!("`{word}` is no option")),
        }
    }
    Ok(arguments)
}

/// A panic of the engine is a finding too: say how to see it again.
fn announce_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        if let Some(place) = replay::current() {
            eprintln!("    drawn: {}", Settings::draw(place.seed, Scale::Small));
            eprintln!("    again: cargo xtask sim --only {place}");
        }
    }));
}

/// As [`enumerate`]; a panic is a failure like any other, where panics do not end the program.
fn guarded(seed: u64, budget: &Budget) -> Report {
    std::panic::catch_unwind(|| enumerate(seed, budget)).unwrap_or_else(|_| {
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
    let work = || {
        let mut total = Report::default();
        while states.load(Ordering::Relaxed) < arguments.states && total.failures.len() < 10 {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let left = arguments.states.saturating_sub(states.load(Ordering::Relaxed));
            let budget = Budget {
                states: left.min(STATES_PER_SEED),
                failures: 3,
                per_point: None,
                only: None,
            };
            let report = guarded(seed, &budget);
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
