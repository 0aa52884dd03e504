//! The programs in `examples/`, which `cargo test` builds beside the tests, unless it is told which targets.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Cargo puts programs of `examples/`: beside the folder of this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its path");
    test.ancestors().nth(2).expect("a test is two folders deep").join("examples")
}

#[test]
fn every_example_runs_in_an_empty_folder() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut names: Vec<String> = std::fs::read_dir(sources)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let program = built().join(&name);
        let advice = "`cargo test -p thermocline` builds it";
        assert!(program.exists(), "{} is missing: {advice}", program.display());
        let folder = tempfile::tempdir().unwrap();
        let output = Command::new(&program).current_dir(&folder).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{name}: {shown}");
        assert!(!output.stdout.is_empty(), "{name} prints something");
    }
}
