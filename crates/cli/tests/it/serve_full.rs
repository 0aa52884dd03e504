//! A thin pool that runs full: volumes that can still be written, and reports.

use std::fs::{self, File};
use std::path::Path;

use thermocline_nbd::protocol::request::{Command, flag};

use super::serve::{Served, command, format, run};
use super::serve_metrics::{metric, metrics};
use crate::{scratch, write};

/// NBD's `ENOSPC`.
const NO_SPACE: u32 = 28;

/// Serves the pool, with standard error in `said.txt`.
fn serve(folder: &Path) -> Served {
    let mut command = command(folder, "serve pool.toml");
    command.stderr(File::create(folder.join("said.txt")).expect("a file"));
    Served::spawn(folder, command)
}

/// Writes new blocks of 1 MiB to a volume until a write is refused. Returns the number of accepted writes.
pub fn fill(served: &Served, volume: &str) -> u64 {
    let mut client = served.client(volume);
    for block in 0..1024 {
        let data: Vec<u8> = (0..1 << 20).map(|byte| (byte * 31 + block) as u8).collect();
        match client.call(Command::Write, flag::FUA, block << 20, 0, &data) {
            Ok(_) => {}
            Err(error) => {
                assert!(error.to_string().contains(&NO_SPACE.to_string()), "{error}");
                return block;
            }
        }
    }
    panic!("the pool is smaller");
}

#[test]
fn a_pool_that_runs_full_says_so_everywhere_and_keeps_what_is_reserved() {
    let folder = scratch();
    let folder = folder.path();
    format(folder);
    let settings = fs::read_to_string(folder.join("pool.toml")).expect("settings");
    write(folder, "pool.toml", settings + "reserve = '16MiB'\n");
    let served = serve(folder);
    let done = run(folder, "volume create pool.toml big 1GiB").ok();
    let promised = "and its volumes have 1.06 GiB: when it is full";
    assert!(done.contains(promised), "{done}");
    run(folder, "volume create pool.toml kept 32MiB --reserve 8MiB").ok();
    let refused = run(folder, "volume limit pool.toml big --reserve 900MiB").refused(2);
    assert!(refused.contains("the pool can reserve") && refused.contains("MiB"), "{refused}");
    assert!(!metrics(&served).contains("thermocline_full_since_seconds 1"), "it has room");
    let taken = fill(&served, "big");
    assert!((40..110).contains(&taken), "{taken} MiB");
    // Volumes with a reserve still take writes; other volumes do not.
    for (volume, mebibytes) in [("second", 16), ("kept", 8)] {
        let mut client = served.client(volume);
        for block in 0..mebibytes {
            client
                .call(Command::Write, flag::FUA, block << 20, 0, &[9; 1 << 20])
                .unwrap_or_else(|error| panic!("{volume} at {block} MiB: {error}"));
        }
    }
    assert!(fill(&served, "main") < 16);
    let said = fs::read_to_string(folder.join("said.txt")).expect("it was said");
    for expected in ["nearly full (warning)", "nearly full (critical)", "the pool is full since"] {
        assert_eq!(said.matches(expected).count(), 1, "{expected}: {said}");
    }
    assert!(said.contains("thermocline device attach"), "{said}");
    let text = metrics(&served);
    assert!(metric(&text, "full_since_seconds").expect("it is told") > 1e9, "{text}");
    assert!(metric(&text, "refused_writes_total").expect("it is told") >= 2.0, "{text}");
    assert!(metric(&text, "fullness_ratio").expect("it is told") > 0.95, "{text}");
    let kept = metric(&text, "volume_mapped_bytes{volume=\"kept\"}");
    assert_eq!(kept, Some(f64::from(8 << 20)), "{text}");
    let status = run(folder, "status pool.toml").ok();
    assert!(status.contains("the pool is full since"), "{status}");
    let listed = run(folder, "volume list pool.toml").ok();
    let line = listed.lines().find(|line| line.contains("second")).expect("it is listed");
    assert!(line.matches("16 MiB").count() == 3, "size, in use, reserve: {listed}");
    let doctor = run(folder, "doctor pool.toml");
    assert!(doctor.out.contains("the pool is full since"), "{}", doctor.out);
    served.stop();
    let listed = run(folder, "volume list pool.toml").ok();
    let line = listed.lines().find(|line| line.contains("kept")).expect("it is listed");
    assert!(line.contains("32 MiB") && line.contains("8 MiB"), "{listed}");
    let status = run(folder, "status pool.toml").ok();
    assert!(status.contains("the pool is nearly full (critical)"), "{status}");
    let doctor = run(folder, "doctor pool.toml");
    assert!(doctor.out.contains("the pool is nearly full (critical)"), "{}", doctor.out);
}
