//! `thermocline-shell`: runs worlds of the shell, and prints the command that repeats a failed world.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use thermocline_shell::settings::Settings;
use thermocline_shell::world::{Report, ShellWorld};

const USAGE: &str = "usage: thermocline-shell [--seed N] [--worlds M]
       thermocline-shell --only SEED
       thermocline-shell --bugs [--worlds M] [--bug NAME]

Runs the worlds of the seeds from N on (default 1), M of them (default 1000), each a pool with clients on one thread and
in virtual time. Exit code 1 when anything was wrong in one of them.

With --only: the world of SEED alone, with what it draws and what it did.
With --bugs: switches on each deliberate bug of the shell in turn (or those of which the name contains NAME), and looks
for it in M worlds (default 1000). Prints a table in Markdown. Exit code 1 when a bug was not caught.";

struct Arguments {
    seed: u64,
    worlds: u64,
    only: Option<u64>,
    bugs: bool,
    bug: String,
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
    match arguments {
        Arguments { bugs: true, .. } => bugs(&arguments),
        Arguments { only: Some(seed), .. } => only(seed),
        Arguments { seed, worlds, .. } => many(seed, worlds),
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let (bug, only) = (String::new(), None);
    let mut parsed = Arguments { seed: 1, worlds: 1000, only, bugs: false, bug };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| {
            let digits = text.replace('_', "");
            digits.parse::<u64>().map_err(|_| format!("{text} is no number"))
        };
        match &*word {
            "--seed" => parsed.seed = number(value()?)?,
            "--worlds" => parsed.worlds = number(value()?)?,
            "--only" => parsed.only = Some(number(value()?)?),
            "--bugs" => parsed.bugs = true,
            "--bug" => parsed.bug = value()?,
            _ => return Err(format!("{word} is no argument")),
        }
    }
    Ok(parsed)
}

/// Runs a world. A panic counts as an error of the world.
fn run(seed: u64) -> Result<Report, String> {
    let result = catch_unwind(AssertUnwindSafe(|| ShellWorld::run(seed)));
    result.unwrap_or_else(|_| Err("a panic".to_owned()))
}

fn only(seed: u64) -> ExitCode {
    println!("{:#?}", Settings::draw(seed));
    match run(seed) {
        Ok(report) => {
            println!("{report:#?}");
            ExitCode::SUCCESS
        }
        Err(what) => {
            println!("{what}");
            ExitCode::FAILURE
        }
    }
}

fn many(seed: u64, worlds: u64) -> ExitCode {
    let begin = Instant::now();
    let (mut wrong, mut all) = (0, Report::default());
    for seed in seed..seed + worlds {
        match run(seed) {
            Ok(report) => all.add(&report),
            Err(what) => {
                wrong += 1;
                println!("cargo xtask shell --only {seed}: {what}");
            }
        }
    }
    println!("{worlds} worlds in {:.1} s, {wrong} wrong", begin.elapsed().as_secs_f64());
    println!("{all:?}");
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(feature = "bugs")]
fn bugs(arguments: &Arguments) -> ExitCode {
    use thermocline_shell::hunt::hunt;
    use thermocline_target::bugs::ShellBug;

    let mut missed = 0;
    println!("| bug | what it does | worlds | seconds | found by |\n|---|---|--:|--:|---|");
    for &(bug, what) in ShellBug::ALL {
        let name = format!("{bug:?}");
        if !name.to_lowercase().contains(&arguments.bug.to_lowercase()) {
            continue;
        }
        let begin = Instant::now();
        let found = hunt(bug, arguments.seed, arguments.worlds);
        let seconds = begin.elapsed().as_secs_f64();
        match found {
            Some((worlds, how)) => {
                println!("| `{name}` | {what} | {worlds} | {seconds:.1} | {how} |");
            }
            None => {
                missed += 1;
                println!("| `{name}` | {what} | {} | {seconds:.1} | nothing |", arguments.worlds);
            }
        }
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(not(feature = "bugs"))]
fn bugs(_: &Arguments) -> ExitCode {
    eprintln!("this program was built without the feature `bugs`");
    ExitCode::from(2)
}
