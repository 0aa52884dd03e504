//! All bugs, and the methods that found each bug, as a table.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use thermocline_engine::Bug;

use super::{Hunt, HuntBudget, hunt};

/// A bug and the result of its hunt.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub bug: Bug,
    /// What it does.
    pub does: &'static str,
    /// The result.
    pub hunt: Hunt,
}

/// Looks for every bug of which the name contains `only`, on `jobs` threads, and tells `done` of each. The rows are in
/// the order of the bugs.
///
/// # Panics
/// When `done` does.
pub fn hunt_all(
    budget: &HuntBudget,
    jobs: u64,
    only: &str,
    done: impl Fn(&Row) + Sync,
) -> Vec<Row> {
    let bugs: Vec<_> =
        Bug::ALL.iter().filter(|(bug, _)| format!("{bug:?}").contains(only)).collect();
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&&(bug, does)) = bugs.get(index) else { return };
            let row = Row { bug, does, hunt: hunt(bug, budget) };
            done(&row);
            rows.lock().expect("no thread panics while it adds a row").push((index, row));
        }
    };
    std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
    let mut rows = rows.into_inner().expect("no thread panics while it adds a row");
    rows.sort_by_key(|(index, _)| *index);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The rows as a table in Markdown, and how many bugs were found.
#[must_use]
pub fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "| Bug | What it does | Caught by | Seed | Crash states | Seconds |\n\
         | --- | --- | --- | ---: | ---: | ---: |\n",
    );
    for Row { bug, does, hunt } in rows {
        let (by, seed) = match &hunt.caught {
            Some(caught) if caught.panicked => {
                (format!("{}, as a panic", caught.by.name()), caught.seed.to_string())
            }
            Some(caught) => (caught.by.name().to_owned(), caught.seed.to_string()),
            None => ("**not caught**".to_owned(), "-".to_owned()),
        };
        let (states, seconds) = (hunt.states, hunt.elapsed.as_secs_f64());
        writeln!(text, "| `{bug:?}` | {does} | {by} | {seed} | {states} | {seconds:.1} |")
            .expect("a string takes everything");
    }
    let caught = rows.iter().filter(|row| row.hunt.caught.is_some()).count();
    writeln!(text, "\n{caught} of {} bugs were caught.", rows.len())
        .expect("a string takes everything");
    text
}
