//! The programs in `examples/`.

use std::path::Path;
use std::process::Command;

#[test]
fn every_example_runs_in_an_empty_folder() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<String> = std::fs::read_dir(package.join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let folder = tempfile::tempdir().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "--example", &name, "--manifest-path"]);
        cargo.arg(package.join("Cargo.toml")).current_dir(&folder);
        let output = cargo.output().unwrap();
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{name}: {shown}");
        assert!(!output.stdout.is_empty(), "{name} prints something");
    }
}
