//! Names the commit of the build in `THERMOCLINE_COMMIT`, for `--version` and metrics.
//!
//! A value that is set in the environment, such as by a packager without Git, takes precedence. A tree outside the
//! repository has `unknown`. Only this crate is built again for another commit.

use std::path::Path;
use std::process::Command;

const NAME: &str = "THERMOCLINE_COMMIT";

fn main() {
    println!("cargo::rerun-if-env-changed={NAME}");
    println!("cargo::rerun-if-changed=build.rs");
    let stated = std::env::var(NAME).ok().filter(|commit| !commit.is_empty());
    let commit = stated.or_else(from_git).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env={NAME}={commit}");
}

/// The commit of this repository, and of no other repository that these files were unpacked in.
fn from_git() -> Option<String> {
    let is_ours = git(&["rev-parse", "--show-prefix"])? == "crates/cli/"
        && git(&["ls-files", "build.rs"])? == "build.rs";
    // These files change with the commit.
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        if is_ours && Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| is_ours)
}

/// The output of Git in the folder of this crate; `None` if Git fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
