//! `--bugs` in a program without them.

use std::process::ExitCode;

use crate::Arguments;

pub fn run(_: &Arguments) -> ExitCode {
    eprintln!("this program has no bugs on purpose: cargo xtask sim --bugs builds one that has");
    ExitCode::from(2)
}
