//! Pools with a mirrored fast device: flushed data survives the loss of either side.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thermocline_types::Rng;

use super::serve::{Served, VOLUMES, format_mirrored, format_pair, format_tiered, run};
use super::serve_kill::{Known, SPAN, compare, durable, kill_and_compare, write_and_kill};
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

/// A single fast device, of which the second copy is on a slower one: losing it loses nothing that was flushed.
#[test]
fn a_fast_device_is_lost_and_the_side_that_is_written_mostly_has_it_all() {
    let folder = scratch();
    let folder = folder.path();
    format_pair(folder, "auto", "write_mostly = true");
    let mut ledger = vec![Known::default(); SPAN as usize];
    let mut rng = Rng::new(11);
    for _ in 0..2 {
        let served = Served::start(folder, "");
        served.wait_until_whole("mirrors");
        write_and_kill(served, &mut ledger, &mut rng);
        let listed = run(folder, "device list pool.toml").ok();
        assert!(listed.contains("mirror m, written mostly"), "{listed}");
        fs::remove_file(folder.join("a.img")).expect("it is there");
        run(folder, "device keep pool.toml b.img").ok();
        let served = Served::start(folder, "");
        compare(&mut served.client("main"), &mut ledger);
        run(folder, "device replace pool.toml a.img").ok();
        served.wait_until_whole("mirrors");
        assert_eq!(served.stop(), 0);
    }
    assert!(durable(&ledger) > 300);
    run(folder, "check pool.toml").ok();
}

fn mirror(served: &Served) -> Value {
    served.status()["mirrors"][0].clone()
}

/// A side that lacks everything is filled by a scrub that repairs, so the other side may be lost afterwards.
#[test]
fn a_scrub_that_repairs_fills_a_side_first() {
    let folder = scratch();
    let folder = folder.path();
    format_mirrored(folder, "auto");
    let mut ledger = vec![Known::default(); SPAN as usize];
    write_and_kill(Served::start(folder, ""), &mut ledger, &mut Rng::new(13));
    fs::remove_file(folder.join("a.img")).expect("it is there");
    run(folder, "device keep pool.toml b.img").ok();
    run(folder, "device replace pool.toml a.img").ok();
    let status = run(folder, "status pool.toml").ok();
    assert!(status.starts_with("at risk: mirror `m`: "), "{status}");
    run(folder, "scrub pool.toml --repair").ok();
    let status = run(folder, "status pool.toml").ok();
    assert!(!status.starts_with("at risk: mirror"), "{status}");
    fs::remove_file(folder.join("b.img")).expect("it is there");
    run(folder, "device keep pool.toml a.img").ok();
    compare(&mut Served::start(folder, "").client("main"), &mut ledger);
}

/// A server that only reads recovers in memory: every byte of every device stays as the kill left it.
#[test]
fn a_server_that_only_reads_leaves_every_byte_as_it_is() {
    for format in [format_mirrored, format_tiered] {
        let folder = scratch();
        let folder = folder.path();
        format(folder, "auto");
        let mut ledger = vec![Known::default(); SPAN as usize];
        write_and_kill(Served::start(folder, ""), &mut ledger, &mut Rng::new(17));
        let before = images(folder);
        let served = Served::start(folder, "--read-only");
        compare(&mut served.client("main"), &mut ledger);
        assert_eq!(served.stop(), 0);
        assert!(images(folder) == before, "a device changed");
    }
}

/// The bytes of all devices, by path.
fn images(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let images = paths.filter(|path| path.extension().is_some_and(|end| end == "img"));
    images.map(|path| (path.clone(), fs::read(path).expect("readable"))).collect()
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
        served.wait_until_whole("mirrors");
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
    served.wait_until_whole("mirrors");
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

/// A pool with a single fast device, which a crash of that device would end, gets a pair in its place, served and
/// written all along.
#[test]
fn a_pool_that_exists_gets_a_pair_in_place_of_its_fast_device() {
    let folder = scratch();
    let folder = folder.path();
    format_tiered(folder, "auto");
    let mut ledger = vec![Known::default(); SPAN as usize];
    let mut rng = Rng::new(8);
    write_and_kill(Served::start(folder, ""), &mut ledger, &mut rng);
    let unit = "size = '24MiB'\nunit = '1MiB'";
    let side =
        |name| format!("[[device]]\npath = '{name}.img'\nclass = 'fast'\nmirror = 'm'\n{unit}\n");
    let pair = side("a") + &side("b");
    let capacity = "[[device]]\npath = 'pool.img'\nsize = '128MiB'\nunit = '1MiB'\n";
    let fast = format!("[[device]]\npath = 'fast.img'\nclass = 'fast'\n{unit}\n");
    let name = |devices: &str| {
        let text = format!("{devices}{capacity}{VOLUMES}");
        fs::write(folder.join("pool.toml"), text).expect("writable");
    };
    let served = Served::start(folder, "");
    // What was on its way when the server was killed may not be there: no flush from now on is for that.
    compare(&mut served.client("main"), &mut ledger);
    name(&(fast + &pair));
    fs::write(folder.join("b.img"), vec![7; 24 << 20]).expect("writable");
    let refused = run(folder, "device attach pool.toml a.img").refused(2);
    assert!(refused.contains("--yes-destroy b.img"), "{refused}");
    run(folder, "device attach pool.toml a.img --yes-destroy b.img").ok();
    assert_eq!(mirror(&served)["whole"], true, "{}", served.status());
    write_and_kill(served, &mut ledger, &mut rng);
    let served = Served::start(folder, "");
    run(folder, "device drain pool.toml fast.img").ok();
    run(folder, "device detach pool.toml fast.img").ok();
    name(&pair);
    compare(&mut served.client("main"), &mut ledger);
    write_and_kill(served, &mut ledger, &mut rng);
    fs::remove_file(folder.join("a.img")).expect("it is there");
    run(folder, "device keep pool.toml b.img").ok();
    let served = Served::start(folder, "");
    compare(&mut served.client("main"), &mut ledger);
    assert!(durable(&ledger) > 300);
    assert_eq!(served.stop(), 0);
}

/// A pair leaves as one: what is on either side is no device of any pool then.
#[test]
fn a_pair_that_leaves_takes_both_its_sides() {
    let folder = scratch();
    let folder = folder.path();
    format_mirrored(folder, "auto");
    let text = fs::read_to_string(folder.join("pool.toml")).expect("it is there");
    let one = "[[device]]\npath = 'one.img'\nclass = 'fast'\nsize = '24MiB'\nunit = '1MiB'\n";
    fs::write(folder.join("pool.toml"), format!("{one}{text}")).expect("writable");
    run(folder, "device attach pool.toml one.img").ok();
    run(folder, "device drain pool.toml b.img").ok();
    run(folder, "device detach pool.toml b.img").ok();
    let again = run(folder, "device attach pool.toml a.img").refused(2);
    assert!(again.contains("--yes-destroy a.img") && !again.contains("the pool"), "{again}");
    run(folder, "device attach pool.toml a.img --yes-destroy a.img --yes-destroy b.img").ok();
    assert!(run(folder, "doctor pool.toml").out.contains("both sides of `m` are current"));
    run(folder, "check pool.toml").ok();
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
    // Only the older side is present, and it lacks flushed data.
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
    // The sides' paths may be swapped.
    fs::rename(&a, folder.join("c.img")).expect("it is there");
    fs::rename(&b, &a).expect("it is there");
    fs::rename(folder.join("c.img"), &b).expect("it is there");
    let served = Served::start(folder, "");
    served.wait_until_whole("mirrors");
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
