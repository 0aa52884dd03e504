//! Pools with a mirrored fast device: either side may be lost, and what was flushed is read.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use thermocline_types::Rng;

use super::serve::{PATIENCE, Served, format_mirrored, run};
use super::serve_kill::{Known, SPAN, compare, kill_and_compare, write_and_kill};
use crate::scratch;

#[test]
fn killed_at_any_moment_a_mirrored_pool_loses_nothing() {
    kill_and_compare(|folder| format_mirrored(folder, "auto"), 8, 500);
}

/// Where the system cannot tell which side has something to say.
#[test]
fn killed_at_any_moment_a_mirrored_pool_loses_nothing_with_threads() {
    kill_and_compare(|folder| format_mirrored(folder, "threads"), 5, 100);
}

fn mirror(served: &Served) -> Value {
    served.status()["mirrors"][0].clone()
}

fn wait_until_whole(served: &Served) {
    let began = Instant::now();
    while mirror(served)["whole"] != true {
        assert!(began.elapsed() < PATIENCE, "{}", mirror(served));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn durable(ledger: &[Known]) -> usize {
    ledger.iter().filter(|known| known.durable > 0).count()
}

/// Serves, kills, and takes one side away, again and again: either one, removed or overwritten with zeros. The other
/// one is kept, and a new side filled while clients write.
#[test]
fn either_side_may_be_lost_after_a_kill_and_is_filled_while_serving() {
    let folder = scratch();
    let folder = folder.path();
    format_mirrored(folder, "auto");
    let mut ledger = vec![Known::default(); SPAN as usize];
    let mut rng = Rng::new(5);
    for (lost, kept, zeroed) in [("a", "b", false), ("b", "a", true), ("a", "b", true)] {
        let served = Served::start(folder, "");
        wait_until_whole(&served);
        compare(&mut served.client("main"), &mut ledger);
        write_and_kill(served, &mut ledger, &mut rng);
        let path = folder.join(format!("{lost}.img"));
        match zeroed {
            true => fs::write(&path, vec![0; 24 << 20]).expect("writable"),
            false => fs::remove_file(&path).expect("it is there"),
        }
        let refused = run(folder, "serve pool.toml").refused(2);
        let advice = format!("device keep POOL.toml {kept}.img");
        assert!(refused.contains(&advice), "{refused}");
        run(folder, &format!("device keep pool.toml {kept}.img")).ok();
        let status = run(folder, "status pool.toml").ok();
        assert!(status.starts_with("at risk: mirror `m`: "), "{status}");
        let served = Served::start(folder, "");
        compare(&mut served.client("main"), &mut ledger);
        assert!(mirror(&served)["risk"].as_str().expect("text").contains("the only copy"));
        let listed = run(folder, "device list pool.toml --json").json();
        assert_eq!(listed["mirrors"][0]["whole"], false, "{listed}");
        let again = run(folder, &format!("device replace pool.toml {kept}.img")).refused(2);
        assert!(again.contains("holds the pool") || again.contains("both its sides"), "{again}");
        run(folder, &format!("device replace pool.toml {lost}.img")).ok();
        write_and_kill(served, &mut ledger, &mut rng);
    }
    assert!(durable(&ledger) > 500);
    let served = Served::start(folder, "");
    wait_until_whole(&served);
    compare(&mut served.client("main"), &mut ledger);
    assert_eq!(served.stop(), 0);
    for (side, other) in [("a.img", "b.img"), ("b.img", "a.img")] {
        fs::rename(folder.join(side), folder.join("away.img")).expect("it is there");
        let checked = run(folder, "check pool.toml");
        assert_eq!(checked.code, 0, "{other} alone: {}{}", checked.out, checked.err);
        assert_eq!(run(folder, "scrub pool.toml").code, 0, "{other} alone");
        fs::rename(folder.join("away.img"), folder.join(side)).expect("it is there");
    }
    assert_eq!(run(folder, "check pool.toml").code, 0);
}

#[test]
fn a_side_that_was_away_is_never_taken_for_current() {
    let folder = scratch();
    let folder = folder.path();
    format_mirrored(folder, "auto");
    let (a, b) = (folder.join("a.img"), folder.join("b.img"));
    let mut ledger = vec![Known::default(); SPAN as usize];
    let mut rng = Rng::new(6);
    fs::rename(&b, folder.join("away.img")).expect("it is there");
    run(folder, "serve pool.toml").refused(2);
    run(folder, "device keep pool.toml a.img").ok();
    write_and_kill(Served::start(folder, ""), &mut ledger, &mut rng);
    // The older one is there alone: it lacks what was flushed.
    fs::rename(folder.join("away.img"), &b).expect("it is there");
    fs::rename(&a, folder.join("away.img")).expect("it is there");
    let alone = run(folder, "serve pool.toml").refused(2);
    assert!(alone.contains("b.img is older"), "{alone}");
    run(folder, "device keep pool.toml b.img").ok();
    // Now each was said to go on without the other.
    fs::rename(folder.join("away.img"), &a).expect("it is there");
    let split = run(folder, "serve pool.toml").refused(2);
    assert!(split.contains("each written while the other was away"), "{split}");
    let named = run(folder, "device replace pool.toml b.img").refused(2);
    assert!(named.contains("--yes-destroy"), "{named}");
    run(folder, "device replace pool.toml b.img --yes-destroy b.img").ok();
    // Whichever path is which side makes no difference.
    fs::rename(&a, folder.join("c.img")).expect("it is there");
    fs::rename(&b, &a).expect("it is there");
    fs::rename(folder.join("c.img"), &b).expect("it is there");
    let served = Served::start(folder, "");
    wait_until_whole(&served);
    compare(&mut served.client("main"), &mut ledger);
    assert!(durable(&ledger) > 100);
    assert_eq!(served.stop(), 0);
    let doctor = run(folder, "doctor pool.toml").out;
    assert!(doctor.contains("both sides of `m` are current"), "{doctor}");
    let text = fs::read_to_string(folder.join("pool.toml")).expect("it is there");
    let one = text.replacen("mirror = 'm'", "", 2).replacen("path = 'b.img'", "path = 'x.img'", 1);
    let rest = "class = 'fast'\n\nsize = '24MiB'\nunit = '1MiB'\nio = 'auto'\n";
    let one = one.replacen(&format!("[[device]]\npath = 'x.img'\n{rest}"), "", 1);
    fs::write(folder.join("one.toml"), one).expect("writable");
    let refused = run(folder, "status one.toml").refused(2);
    assert!(refused.contains("one side of a mirrored pair"), "{refused}");
}
