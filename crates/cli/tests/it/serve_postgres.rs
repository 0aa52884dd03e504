//! A database on a file system on a loop device on a volume, with the server killed under the database: no acknowledged
//! commit is lost.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::programs::program;
use super::serve::PATIENCE;
use super::serve_fuse::{Stand, ready};
use crate::forgetful::Forgetful;
use crate::{numbers, write};

/// Number of kills of the server: 4, or the number in the environment.
fn kills() -> usize {
    let kills = std::env::var("KILLS").ok();
    kills.map_or(4, |kills| kills.parse().expect("KILLS is a number"))
}

/// Ends the database of a test, whatever becomes of the test.
struct Postmaster(String);

impl Postmaster {
    fn kill(&self) {
        let _gone = Command::new("kill").args(["-9", &self.0]).stderr(Stdio::null()).status();
    }
}

impl Drop for Postmaster {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A shell function that runs a program as the user that the database runs as, with bounded time.
const AS: &str = "as() { setpriv --reuid postgres --regid postgres --clear-groups timeout -k 5 100 \"$@\"; }; \
                  sql() { as psql -q -h $PWD/fs -v ON_ERROR_STOP=1 -At postgres \"$@\"; }; ";

fn start(stand: &Stand) -> Postmaster {
    // Whoever was killed is dead, but where nobody asks for its end its number is still taken.
    stand.sh("rm -f fs/data/postmaster.pid fs/.s.PGSQL*");
    let start = "as pg_ctl start -s -w -t 60 -D fs/data -l fs/log \
                 -o \"-c unix_socket_directories=$PWD/fs -c listen_addresses= -c shared_buffers=16MB\" </dev/null";
    stand.sh(&format!("{AS}{start} || {{ tail -n 20 fs/log >&2; exit 1; }}"));
    Postmaster(stand.sh("head -n 1 fs/data/postmaster.pid").trim().to_owned())
}

/// Commits one number after the other, and gives those whose commit was acknowledged, until the server is killed.
fn commit_until_the_end(stand: &Stand, first: u64) -> Vec<u64> {
    let last = first + 100_000;
    let script =
        (first..last).map(|id| format!("insert into ledger values ({id});\n\\echo {id}\n"));
    write(stand.folder.path(), "commits.sql", script.collect::<String>());
    let script = format!("{AS}sql -f commits.sql > acknowledged 2> /dev/null || true");
    stand.sh(&script);
    let acknowledged = stand.sh("cat acknowledged");
    // The last line may have been cut off, if the client was killed as well.
    acknowledged.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Everything that was acknowledged is there, and accounts, tellers, branches and history agree, as `pgbench` leaves
/// them after any number of transactions.
fn compare(stand: &Stand, acknowledged: &BTreeSet<u64>) {
    let found = stand.sh(&format!("{AS}sql -c 'select id from ledger'"));
    let found: BTreeSet<u64> = found.lines().filter_map(|line| line.parse().ok()).collect();
    let lost: Vec<_> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "commits were lost: {lost:?}");
    let sums = "select (select sum(abalance) from pgbench_accounts) = (select sum(tbalance) from pgbench_tellers) \
                and (select sum(tbalance) from pgbench_tellers) = (select sum(bbalance) from pgbench_branches) \
                and (select sum(bbalance) from pgbench_branches) \
                  = (select coalesce(sum(delta), 0) from pgbench_history)";
    assert_eq!(stand.sh(&format!("{AS}sql -c '{sums}'")).trim(), "t", "sums agree");
}

/// A database with a ledger and the tables of `pgbench`, on ext4 on a volume.
fn set_up(stand: &mut Stand) -> Postmaster {
    stand.attach();
    stand.sh("mkfs.ext4 -q $dev; mount -t ext4 $dev fs; chown postgres fs; chmod 711 .");
    stand.sh(&format!("{AS}as initdb -k -A trust -D fs/data > /dev/null"));
    let postmaster = start(stand);
    stand.sh(&format!("{AS}sql -c 'create table ledger (id bigint primary key)'"));
    stand.sh(&format!("{AS}as pgbench -q -i -s 2 -h $PWD/fs postgres 2> /dev/null"));
    postmaster
}

/// Commits and `pgbench` go on until the server of the pool is killed, as soon as `last` has returned. Returns which
/// were acknowledged.
fn commit_until_killed(
    stand: &Stand,
    postmaster: &Postmaster,
    first: u64,
    last: impl FnOnce() + Send,
) -> Vec<u64> {
    let id = stand.served().child.id();
    let load = format!("{AS}as pgbench -n -c 4 -T 60 -h $PWD/fs postgres > /dev/null 2>&1 || true");
    let mut load = program(stand.folder.path(), "sh", 100).args(["-c", &load]).spawn().expect("sh");
    let acknowledged = std::thread::scope(|scope| {
        scope.spawn(move || {
            last();
            let killed = Command::new("kill").args(["-9", &id.to_string()]).status();
            assert!(killed.expect("there is a `kill`").success());
        });
        commit_until_the_end(stand, first)
    });
    postmaster.kill();
    load.wait().expect("it ends when the database does");
    acknowledged
}

/// The pool, the file system and the database come back, on whatever is left.
fn come_back(stand: &mut Stand) -> Postmaster {
    stand.serve();
    stand.attach();
    stand.sh("mount -t ext4 $dev fs");
    start(stand)
}

const PROGRAMS: [&str; 8] =
    ["pg_ctl", "pg_amcheck", "psql", "pgbench", "setpriv", "mkfs.ext4", "e2fsck", "losetup"];

/// Power goes, and with it what the pool's medium was not told to flush. Before every second power cut a flush of the
/// medium fails, loses what it was for, and the server is started again on what the kernel's cache shows.
#[test]
fn power_cuts_under_postgresql_lose_no_acknowledged_commit() {
    if !ready(true, &PROGRAMS) {
        return;
    }
    let mut medium = Forgetful::new(&[("pool.img", 1 << 30)], 11);
    let mut stand = Stand::over(&medium.file());
    let mut postmaster = set_up(&mut stand);
    let mut acknowledged = BTreeSet::new();
    let rounds = kills();
    for (round, pause) in numbers(1000).take(rounds).enumerate() {
        let first = acknowledged.last().map_or(0, |last| last + 10);
        let fails = round % 2 == 1;
        let at_hand = &medium;
        acknowledged.extend(commit_until_killed(&stand, &postmaster, first, move || {
            std::thread::sleep(Duration::from_millis(1500 + pause));
            if fails {
                // Waited for: a flush that fails later would meet the database while it starts.
                at_hand.fail_flush_after(0, 0);
                assert!(at_hand.wait_for_failure(0, PATIENCE), "no flush in a minute");
            }
        }));
        stand.kill();
        if fails {
            postmaster = come_back(&mut stand);
            compare(&stand, &acknowledged);
            postmaster.kill();
            stand.kill();
        }
        medium.cut_power();
        postmaster = come_back(&mut stand);
        compare(&stand, &acknowledged);
    }
    println!("{rounds} power cuts, {} commits were acknowledged", acknowledged.len());
    assert!(acknowledged.len() > 50, "{} commits were acknowledged", acknowledged.len());
    stand.sh(&format!("{AS}as pg_ctl stop -s -m fast -D fs/data"));
    stand.sh(&format!("{AS}as pg_checksums --check -D fs/data > /dev/null"));
    stand.sh("umount fs; e2fsck -fn $dev");
    stand.detach();
    stand.stop();
    drop(postmaster);
}

#[test]
fn killed_under_postgresql_no_acknowledged_commit_is_lost() {
    kill_under_postgresql(Stand::new, kills());
}

#[test]
fn killed_under_postgresql_a_pool_of_two_devices_loses_no_acknowledged_commit() {
    kill_under_postgresql(Stand::tiered, kills().div_ceil(2));
}

fn kill_under_postgresql(stand: impl Fn() -> Stand, kills: usize) {
    if !ready(true, &PROGRAMS) {
        return;
    }
    let mut stand = stand();
    let mut postmaster = set_up(&mut stand);
    let mut acknowledged = BTreeSet::new();
    for pause in numbers(1000).take(kills) {
        let first = acknowledged.last().map_or(0, |last| last + 10);
        acknowledged.extend(commit_until_killed(&stand, &postmaster, first, move || {
            std::thread::sleep(Duration::from_millis(1500 + pause));
        }));
        stand.kill();
        postmaster = come_back(&mut stand);
        compare(&stand, &acknowledged);
    }
    let amcheck =
        "sql -c 'create extension amcheck'; as pg_amcheck -h $PWD/fs --heapallindexed postgres";
    stand.sh(&format!("{AS}{amcheck}"));
    println!("{kills} kills, {} commits were acknowledged", acknowledged.len());
    assert!(acknowledged.len() > 100, "{} commits were acknowledged", acknowledged.len());
    stand.sh(&format!("{AS}as pg_ctl stop -s -m fast -D fs/data"));
    stand.sh(&format!("{AS}as pg_checksums --check -D fs/data > /dev/null"));
    stand.sh("umount fs; e2fsck -fn $dev");
    stand.detach();
    stand.stop();
}
