//! Scenarios as their files declare them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::repo::Repo;

/// A drive of the guest. The guest finds the drive by `name`, the serial number.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Drive {
    pub name: String,
    pub mib: u64,
    /// All writes and flushes go to a log, of which power cuts are made.
    pub logged: bool,
    /// Properties of `nvme-ns`.
    pub namespace: String,
    /// Properties of `nvme-subsys`.
    pub subsystem: String,
}

/// A volume of a pool that this machine serves.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Volume {
    pub name: String,
    pub mib: u64,
    /// The guest has it as a disk over vhost-user, whose serial number is the name.
    pub vhost_user: bool,
    /// It begins as the root of the guest, which boots from it.
    pub root: bool,
    /// The guest has it as a disk of QEMU over NBD, whose serial number is the name with `-nbd`.
    pub nbd: bool,
}

/// The declarations of a file.
#[derive(Debug)]
pub struct Scenario {
    pub name: String,
    pub about: String,
    /// From the start of QEMU to the exit code, also without KVM.
    pub limit: Duration,
    pub drives: Vec<Drive>,
    pub volumes: Vec<Volume>,
    pub script: PathBuf,
}

/// All scenarios, in order of name.
///
/// # Errors
/// When a file cannot be read, or declares nonsense.
pub fn all(repo: &Repo) -> Result<Vec<Scenario>> {
    let mut scenarios = Vec::new();
    for entry in fs::read_dir(repo.root().join("tests/guest"))? {
        let script = entry?.path();
        let name = script.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if script.extension().is_some_and(|end| end == "sh") && name != "init" {
            let text = fs::read_to_string(&script)?;
            scenarios.push(parse(&name, &text, script).with_context(|| name.clone())?);
        }
    }
    scenarios.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scenarios)
}

fn parse(name: &str, text: &str, script: PathBuf) -> Result<Scenario> {
    let comment: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("# ")).collect();
    let value = |key: &str| comment.iter().find_map(|line| line.strip_prefix(key));
    let about = (*comment.first().context("the first line is a comment")?).to_owned();
    let limit = value("limit: ").context("no line `# limit: SECONDS`")?.trim().parse()?;
    let volumes = comment.iter().filter_map(|line| line.strip_prefix("volume: "));
    let drives = comment.iter().filter_map(|line| line.strip_prefix("drive: "));
    Ok(Scenario {
        name: name.to_owned(),
        about,
        limit: Duration::from_secs(limit),
        drives: drives.map(drive).collect::<Result<_>>()?,
        volumes: volumes.map(volume).collect::<Result<_>>()?,
        script,
    })
}

/// A drive from `name=NAME mib=SIZE [logged] [ns=PROPERTIES] [subsys=PROPERTIES]`.
fn drive(line: &str) -> Result<Drive> {
    let mut drive = Drive::default();
    for word in line.split_whitespace() {
        match word.split_once('=') {
            Some(("name", name)) => drive.name = name.to_owned(),
            Some(("mib", mib)) => drive.mib = mib.parse().with_context(|| word.to_owned())?,
            Some(("ns", properties)) => drive.namespace = format!(",{properties}"),
            Some(("subsys", properties)) => drive.subsystem = format!(",{properties}"),
            None if word == "logged" => drive.logged = true,
            _ => anyhow::bail!("a drive has no `{word}`"),
        }
    }
    ensure!(!drive.name.is_empty() && drive.mib > 0, "a drive needs a name and a size: {line}");
    Ok(drive)
}

/// A volume from `name=NAME mib=SIZE [vhost-user] [nbd] [root]`.
fn volume(line: &str) -> Result<Volume> {
    let mut volume = Volume::default();
    for word in line.split_whitespace() {
        match word.split_once('=') {
            Some(("name", name)) => volume.name = name.to_owned(),
            Some(("mib", mib)) => volume.mib = mib.parse().with_context(|| word.to_owned())?,
            None if word == "vhost-user" => volume.vhost_user = true,
            None if word == "root" => volume.root = true,
            None if word == "nbd" => volume.nbd = true,
            _ => anyhow::bail!("a volume has no `{word}`"),
        }
    }
    ensure!(!volume.name.is_empty() && volume.mib > 0, "a volume needs a name and a size: {line}");
    Ok(volume)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_comment_declares_the_machine() {
        let text =
            "# Proves it.\n# limit: 9\n# drive: name=a mib=64 ns=zoned=on,b=1\n\n# drive: no\n";
        let scenario = parse("x", text, PathBuf::new()).unwrap();
        assert_eq!((scenario.about.as_str(), scenario.limit.as_secs()), ("Proves it.", 9));
        let [drive] = &scenario.drives[..] else { panic!("{:?}", scenario.drives) };
        assert_eq!((drive.mib, drive.namespace.as_str()), (64, ",zoned=on,b=1"));
        assert!(parse("x", "# Proves it.\n", PathBuf::new()).is_err());
    }

    #[test]
    fn volumes_have_ways_in() {
        let name = "a".to_owned();
        let expected = Volume { name, mib: 8, vhost_user: true, nbd: false, root: false };
        assert_eq!(volume("name=a mib=8 vhost-user").unwrap(), expected);
        assert!(volume("name=a").is_err() && volume("name=a mib=8 iscsi").is_err());
    }

    #[test]
    fn a_drive_without_size_or_with_an_unknown_word_is_refused() {
        assert!(drive("name=a").is_err());
        assert!(drive("name=a mib=1 fast").is_err());
        assert!(!drive("name=a mib=1").unwrap().logged);
        assert!(drive("name=a mib=1 logged").unwrap().logged);
    }
}
