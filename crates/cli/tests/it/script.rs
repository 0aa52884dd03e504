//! Commands that documents tell users to type, typed into one shell, in order, in an empty folder, with the program
//! first on the path.
//!
//! What a person does between commands is done here: after a server was started in the background, it is waited for
//! until it says where its volumes are.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::programs::program;
use super::serve::done;
use crate::{Done, scratch};

/// Time limit of a script on a busy machine, in seconds.
const PATIENCE: u32 = 900;

/// A word of a command, and whether the machine has what it takes; if not, that says why.
pub type Need = (&'static str, fn() -> bool);

/// Before the first command: a command that fails ends the script, which ends what it left running. The loop device is
/// detached only while it is of a file here: once it was detached, another test may have got it.
const BEGIN: &str = "\
set -e -m -o pipefail
end() {
    code=$?
    set +e
    jobs -p | xargs --no-run-if-empty kill 2> /dev/null
    ours=$(grep \"^$PWD/\" /sys/block/${dev#/dev/}/loop/backing_file 2> /dev/null)
    umount -l files volumes mnt 2> /dev/null
    test -z \"$dev\" || test -z \"$ours\" || losetup -d $dev 2> /dev/null
    exit $code
}
trap end EXIT
trap 'exit 1' TERM
";

/// Runs `text`; lines of `>>>` on standard output say which command comes next, and after how many seconds.
pub fn run(text: &str, folder: &Path) -> Done {
    let programs = scratch();
    symlink(env!("CARGO_BIN_EXE_thermocline"), programs.path().join("thermocline"))
        .expect("a link");
    let script = programs.path().join("script");
    fs::write(&script, format!("{BEGIN}{text}")).expect("writable");
    let mut command = program(folder, "bash", PATIENCE);
    let path = command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, path)| path);
    let mut path_with_ours = programs.path().as_os_str().to_owned();
    path_with_ours.push(":");
    path_with_ours.push(path.expect("set by whoever made the command"));
    command.arg(&script).env("PATH", path_with_ours);
    done(command)
}

/// Appends a wait to a line that starts a server in the background. Other lines are unchanged.
pub fn await_server(line: &str) -> String {
    let Some((server, _)) = line.split_once(" &").filter(|_| line.starts_with("thermocline serve"))
    else {
        return line.to_owned();
    };
    format!(
        "rm -f ready; {server} > ready &\nuntil test -s ready || ! kill -0 $!; do sleep 0.1; done"
    )
}

/// Prints the next command.
pub fn announce(what: &str) -> String {
    format!("echo '>>> {}' at $SECONDS s\n", what.replace('\'', "'\\''"))
}
