//! The package of Python, put together from the library that Cargo built beside this program: doctests, and the tests
//! of `python/tests`.
//!
//! Without Python or an index of packages the test prints a line and is skipped. If `CI` is set, it fails instead.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it was built there")
}

/// The folder of this program, in which Cargo puts the library as well.
fn built() -> PathBuf {
    let program = std::env::current_exe().expect("a test knows its path");
    program.parent().expect("a program is in a folder").to_owned()
}

/// Runs a command to its end. Returns its output where it fails.
fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Err(format!("{command:?}:\n{}", text.concat()))
}

/// The interpreter of an environment with the requirements of the tests. It is kept until these change.
fn interpreter() -> Result<PathBuf, String> {
    let required = root().join("python/requirements-test.txt");
    let folder = built().join("python-tests");
    let python = folder.join("bin/python");
    let text = fs::read_to_string(&required).map_err(|error| error.to_string())?;
    let kept = folder.join("requirements");
    if fs::read_to_string(&kept).is_ok_and(|kept| kept == text) {
        return Ok(python);
    }
    succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary=:all:"];
    succeed(Command::new(&python).args(pip).arg("-r").arg(required))?;
    fs::write(kept, text).map_err(|error| error.to_string())?;
    Ok(python)
}

/// The package, in the folder `site`.
fn put_together(site: &Path) {
    let package = site.join("thermocline_lab");
    fs::create_dir_all(&package).expect("the folder of Cargo can be written");
    let files = fs::read_dir(root().join("python/thermocline_lab")).expect("it is there");
    for file in files {
        let file = file.expect("it is there");
        if file.path().extension().is_some_and(|end| end != "so") {
            fs::copy(file.path(), package.join(file.file_name())).expect("it can be read");
        }
    }
    let library = built().join("libthermocline_py.so");
    fs::copy(&library, package.join("_native.abi3.so")).expect("Cargo built the library");
}

#[test]
fn the_package_passes_its_tests() {
    let python = match interpreter() {
        Ok(python) => python,
        Err(reason) => {
            assert!(std::env::var_os("CI").is_none(), "CI must have Python and packages: {reason}");
            println!("SKIPPED: the tests of the package of Python: {reason}");
            return;
        }
    };
    // pytest looks at all that is beside its arguments: not in a folder that other programs use.
    let site = tempfile::tempdir_in(built().join("python-tests")).unwrap();
    put_together(site.path());
    let mut pytest = Command::new(python);
    pytest.args(["-m", "pytest", "-p", "no:cacheprovider"]);
    pytest.arg(site.path().join("thermocline_lab")).arg("python/tests");
    pytest.current_dir(root()).env("PYTHONPATH", site.path()).env("PYTHONDONTWRITEBYTECODE", "1");
    if let Err(shown) = succeed(&mut pytest) {
        panic!("{shown}");
    }
}
