use thermocline_shell::hunt::hunt;
use thermocline_target::bugs::ShellBug;

#[test]
fn each_deliberate_bug_is_caught() {
    for &(bug, what) in ShellBug::ALL {
        let found = hunt(bug, 0, 400);
        assert!(found.is_some(), "{bug:?}: {what}");
    }
}
