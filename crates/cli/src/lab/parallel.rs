//! Several pieces of work at a time, with one progress bar.

use std::sync::Mutex;

use crate::interrupt::Interrupt;
use crate::progress::Progress;

/// Does `work` on every item, `jobs` at a time (default: one per processor). Returns the results in the order of
/// `items`. `work` reports its progress, 0 to 1, to its second argument. Items not begun before an interrupt have the
/// result `None`.
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
