//! `--bugs`: looks for every deliberate bug and prints who found it.

use std::process::ExitCode;
use std::time::Duration;

use thermocline_sim::hunt::{HuntBudget, Method, Row, hunt_all, markdown};

use crate::Arguments;

pub fn run(arguments: &Arguments) -> ExitCode {
    let only = match arguments.method.as_str() {
        "" => None,
        name => match name.parse::<Method>() {
            Ok(method) => Some(method),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(2);
            }
        },
    };
    // Bugs make the engine panic on purpose; the table says so.
    std::panic::set_hook(Box::new(|_| {}));
    let budget = HuntBudget {
        seed: arguments.seed,
        states: arguments.budget,
        time: Duration::from_secs(arguments.seconds),
        only,
    };
    let rows = hunt_all(&budget, arguments.jobs, &arguments.bug, announce);
    print!("{}", markdown(&rows));
    let all = rows.iter().all(|row| row.hunt.caught.is_some());
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn announce(row: &Row) {
    match &row.hunt.caught {
        Some(caught) => {
            let lines: Vec<&str> = caught.what.lines().take(2).collect();
            eprintln!(
                "{:?}: {}, seed {}: {}",
                row.bug,
                caught.by.name(),
                caught.seed,
                lines.join("")
            );
        }
        None => eprintln!("{:?}: not caught in {} crash states", row.bug, row.hunt.states),
    }
    for (seed, by, what) in &row.hunt.without {
        let line = what.lines().next().unwrap_or("");
        eprintln!("    without the bug too: {}, seed {seed}: {line}", by.name());
    }
}
