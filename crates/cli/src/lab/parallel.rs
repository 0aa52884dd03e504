//! Several pieces of work at a time, with one progress bar.

use std::sync::Mutex;

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
    let progress = Progress::default();
    let bar = Mutex::new(progress.bar(name));
    let shares = Mutex::new(vec![0.0; items.len()]);
    let told = |index: usize, share: f64| {
        let mut shares = shares.lock().expect("no panic is survived");
        shares[index] = share;
        let all: f64 = shares.iter().sum();
        bar.lock().expect("no panic is survived").set(all / items.len() as f64);
    };
    thermocline_lab::each(items, jobs, &interrupt.flag(), |index, item| {
        let result = work(item, &mut |share| told(index, share));
        told(index, 1.0);
        result
    })
}
