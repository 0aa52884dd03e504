//! Power cuts and failing flushes under the unchanged program, on a real kernel, over a medium that loses unflushed
//! data.

use crate::forgetful::Forgetful;
use crate::serve::run;
use crate::serve_fuse::ready;
use crate::{numbers, scratch, write};

const POOL_BYTES: u64 = 160 << 20;

/// After a failed flush, a restart, and a power cut, earlier flushed versions are present.
#[test]
fn a_failed_flush_and_a_power_cut_lose_nothing_that_was_flushed() {
    if !ready(false, &[]) {
        return;
    }
    let mut medium = Forgetful::new(&[("pool.img", POOL_BYTES)], 11);
    let folder = scratch();
    let folder = folder.path();
    let text = format!(
        "[device]\npath = '{}'\nsize = '160MiB'\nunit = '1MiB'\n
[[volumes]]\nname = 'main'\nsize = '64MiB'\n",
        medium.file().display()
    );
    write(folder, "pool.toml", text);
    run(folder, "format pool.toml").ok();
    let load = |prefill: &str, writes: u32, flush_every: u32| {
        run(
            folder,
            &format!(
                "load pool.toml --workload uniform --span 64MiB --prefill {prefill} --writes {writes} \
                 --flush-every {flush_every} --ledger pool.ledger"
            ),
        )
    };
    let clean = |when: &str| {
        let checked = run(folder, "check pool.toml --ledger pool.ledger");
        assert_eq!(checked.code, 0, "{when}: {}{}", checked.out, checked.err);
    };
    load("sequential", 100, 256).ok();
    medium.cut_power();
    clean("filled");
    // The first two are those of whoever opens the file, who tries again.
    for (round, flushes) in numbers(12).take(6).map(|number| number + 2).enumerate() {
        medium.fail_flush_after(0, flushes as u32);
        let failed = load("none", 40_000, 2000);
        assert_ne!(failed.code, 0, "round {round}: a flush fails after {flushes}");
        assert!(!medium.is_to_fail(0));
        clean("the program ended, and the kernel's cache lives");
        load("none", 10, 5).ok();
        clean("closed in order");
        medium.cut_power();
        clean("after a power cut");
    }
}
