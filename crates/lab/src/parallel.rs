//! Independent pieces of work on several threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Does `work` on every item, `jobs` at a time, or as many as there are processors. Results are in the order of the
/// items; an item that was not begun when `stop` was set has none.
pub fn each<T: Sync, R: Send>(
    items: &[T],
    jobs: Option<usize>,
    stop: &AtomicBool,
    work: impl Fn(usize, &T) -> R + Sync,
) -> Vec<Option<R>> {
    let jobs = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::default()).collect();
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let item = items.get(index).filter(|_| !stop.load(Ordering::Relaxed));
            let Some(item) = item else { return };
            let result = work(index, item);
            *results[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    };
    thread::scope(|scope| (0..jobs.min(items.len())).for_each(|_| drop(scope.spawn(worker))));
    let result = |one: Mutex<Option<R>>| one.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().map(result).collect()
}
