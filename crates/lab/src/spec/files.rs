//! Files of a specification, and their hashes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};
use thermocline_record::{RunSpec, WorkloadSpec};
use thermocline_workload::at_home;
use thermocline_workload::trace::BuiltIn;

use crate::Error;

/// Reads a specification, or a run record that holds one, and checks the hashes of its files.
///
/// # Errors
/// [`Error::Read`] and [`Error::Specification`] for the file itself, [`Error::OtherFile`] for a file that changed.
pub fn load(path: &Path) -> Result<RunSpec, Error> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(&shown, &error))?;
    let spec = RunSpec::from_json(&text)
        .map_err(|source| Error::Specification { path: path.to_owned(), source })?;
    for (file, expected) in &spec.files {
        let found = hash_of(file)?;
        if found != *expected {
            let (file, expected) = (file.clone(), expected.clone());
            return Err(Error::OtherFile { file, spec: path.to_owned(), expected, found });
        }
    }
    Ok(spec)
}

/// Files that a run of `stack` and `workload` reads, with their hashes: trace, tenants, profiles.
///
/// # Errors
/// [`Error::Read`].
pub fn files(stack: &str, workload: &WorkloadSpec) -> Result<BTreeMap<String, String>, Error> {
    let devices = stack.split_once(':').map_or("", |(_, rest)| rest);
    let devices = devices.split(',').next().unwrap_or_default().split('+');
    let is_path = |name: &&str| name.ends_with(".toml") || name.contains('/');
    let mut read: Vec<&str> = devices.filter(is_path).collect();
    match workload {
        WorkloadSpec::Trace { path, .. } if path != "-" => read.push(path),
        WorkloadSpec::Generator { generator, .. } if generator.ends_with(".toml") => {
            read.push(generator);
        }
        _ => {}
    }
    read.into_iter().map(|name| Ok((name.to_owned(), hash_of(name)?))).collect()
}

/// SHA-256 of a file, or of a trace that comes with the program.
///
/// # Errors
/// [`Error::Read`].
pub fn hash_of(name: &str) -> Result<String, Error> {
    if let Some(trace) = BuiltIn::named(Path::new(name)) {
        return Ok(hash(trace.bytes()));
    }
    let file = File::open(at_home(Path::new(name))).map_err(|error| unreadable(name, &error))?;
    let (mut file, mut hasher) = (BufReader::new(file), Sha256::new());
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(|error| unreadable(name, &error))? {
            0 => return Ok(hexadecimal(&hasher.finalize())),
            length => hasher.update(&buffer[..length]),
        }
    }
}

fn unreadable(name: &str, error: &std::io::Error) -> Error {
    Error::Read { file: name.to_owned(), reason: error.to_string() }
}

/// SHA-256 of `bytes` in hexadecimal digits.
#[must_use]
pub fn hash(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_comes_with_the_program_has_a_hash() {
        let trace = WorkloadSpec::trace("cassandra-ycsb-a");
        let hash = &files("raw:p5316", &trace).unwrap()["cassandra-ycsb-a"];
        assert!(hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()));
        // The published value for no bytes at all.
        assert!(super::hash(b"").starts_with("e3b0c44298fc1c14"));
        let missing = files("raw:none.toml", &trace).unwrap_err();
        assert!(missing.to_string().contains("none.toml"), "{missing}");
    }

    #[test]
    fn a_file_that_changed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [trace, path] = ["trace.csv", "spec.json"].map(|name| folder.path().join(name));
        std::fs::write(&trace, "a").unwrap();
        let workload = WorkloadSpec::trace(trace.to_str().unwrap());
        let files = files("raw:p5316", &workload).unwrap();
        let spec = RunSpec { files, ..RunSpec::new("raw:p5316", workload) };
        std::fs::write(&path, spec.to_json()).unwrap();
        assert_eq!(load(&path).unwrap(), spec);
        std::fs::write(&trace, "b").unwrap();
        assert!(matches!(load(&path), Err(Error::OtherFile { .. })));
    }
}
