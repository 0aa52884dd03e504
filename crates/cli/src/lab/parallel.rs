//! Several pieces of work at a time, with one progress bar.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::interrupt::Interrupt;
use crate::progress::Progress;

/// Does `work` on every item, `jobs` at a time or as many as there are processors, and gives what came of each in
/// order. Each is told where to say which share of it is done. An item that was not begun before an interrupt has
/// nothing.
pub fn each<T: Sync, R: Send>(
    items: &[T],
    jobs: Option<usize>,
    (name, interrupt): (&str, &Interrupt),
    work: impl Fn(&T, &mut dyn FnMut(f64)) -> R + Sync,
) -> Vec<Option<R>> {
    let jobs = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let progress = Progress::default();
    let bar = Mutex::new(progress.bar(name));
    let next = AtomicUsize::new(0);
    let shares = Mutex::new(vec![0.0; items.len()]);
    let results: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
    let told = |index: usize, share: f64| {
        let mut shares = shares.lock().expect("no panic is survived");
        shares[index] = share;
        let all: f64 = shares.iter().sum();
        bar.lock().expect("no panic is survived").set(all / items.len() as f64);
    };
    thread::scope(|scope| {
        for _ in 0..jobs.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index).filter(|_| !interrupt.is_asked()) else {
                        return;
                    };
                    let result = work(item, &mut |share| told(index, share));
                    results.lock().expect("no panic is survived")[index] = Some(result);
                    told(index, 1.0);
                }
            });
        }
    });
    results.into_inner().expect("no panic is survived")
}
