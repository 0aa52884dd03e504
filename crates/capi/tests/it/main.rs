//! The header, and a C program that uses it.

use std::path::{Path, PathBuf};
use std::process::Command;

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `UPDATE=1` writes the header instead.
#[test]
fn the_header_is_what_cbindgen_makes_of_the_source() {
    let config = cbindgen::Config::from_file(package().join("cbindgen.toml")).unwrap();
    let source =
        cbindgen::Builder::new().with_config(config).with_src(package().join("src/lib.rs"));
    let mut made = Vec::new();
    source.generate().unwrap().write(&mut made);
    let header = package().join("include/thermocline.h");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&header, &made).unwrap();
    }
    let made = String::from_utf8(made).unwrap();
    assert_eq!(std::fs::read_to_string(header).unwrap(), made, "UPDATE=1 writes it anew");
}

/// The folder of this program, in which Cargo puts the library as well.
fn built() -> PathBuf {
    let program = std::env::current_exe().expect("a test knows its path");
    program.parent().expect("a program is in a folder").to_owned()
}

#[test]
fn a_c_program_writes_and_reads_a_pool() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("pool.toml");
    let text = "device = { path = 'pool.img', size = '256MiB' }\nvolumes = [{ name = 'main' }]";
    std::fs::write(&settings, text).unwrap();
    thermocline::Pool::create(&settings).unwrap().close().unwrap();

    let program = folder.path().join("program");
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    cc.arg("-I").arg(package().join("include")).arg(package().join("tests/program.c"));
    cc.arg("-L").arg(built()).arg("-lthermocline_c");
    let output = cc.output().expect("there is a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let mut run = Command::new(&program);
    run.arg(&settings).env("LD_LIBRARY_PATH", built());
    let output = run.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{shown}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(shown, "hello from C\n");

    let mut word = [0; 12];
    let pool = thermocline::Pool::open(&settings).unwrap();
    pool.volume("main").unwrap().read_at(4090, &mut word).unwrap();
    assert_eq!(&word, b"hello from C");
}
