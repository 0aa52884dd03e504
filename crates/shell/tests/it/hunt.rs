//! Each deliberate bug is found, and by what it should be found.

use thermocline_shell::hunt::hunt;
use thermocline_target::bugs::ShellBug;

#[test]
fn each_deliberate_bug_is_caught() {
    for &(bug, what) in ShellBug::ALL {
        let found = hunt(bug, 0, 400);
        assert!(found.is_some(), "{bug:?}: {what}");
    }
}

/// Without a limit it is the probe that tells.
#[test]
fn block_status_out_of_turn_is_seen_by_those_who_wait_for_it() {
    let mut seed = 0;
    while seed < 200 {
        let Some((worlds, how)) = hunt(ShellBug::StatusOutOfTurn, seed, 200 - seed) else { break };
        if how.contains("for other volumes") {
            return;
        }
        seed += worlds;
    }
    panic!("no probe has waited");
}
