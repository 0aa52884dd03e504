//! Shards of the tests: each shard compiles the tested packages and their dependencies only.

use anyhow::Result;

use crate::repo::Repo;
use crate::{check, fuzz, run_tests, sim};

/// A part of the tests for a machine of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shard {
    /// Rules, clippy, rustdoc, fuzz targets.
    Fast,
    /// The core, the engine, the format, groups; the simulation, its deliberate bugs, crash states.
    Engine,
    /// Pools, front ends, the library and the program.
    Service,
    /// Simulated drives, traces, the lab, its reports and its module of Python; the rules of the repository.
    Lab,
}

const ENGINE: [&str; 7] = ["types", "ftl", "format", "engine", "array", "sim", "shell"];
const SERVICE: [&str; 12] = [
    "drive",
    "target",
    "nbd",
    "fuse",
    "ublk",
    "vhost",
    "nvme",
    "runtime",
    "serve",
    "thermocline",
    "capi",
    "cli",
];
const LAB: [&str; 6] = ["nand", "record", "report", "workload", "lab", "py"];

impl Shard {
    /// Runs it; the last lines are the test runner's.
    ///
    /// # Errors
    /// At the first step that fails.
    pub fn run(self, repo: &Repo) -> Result<()> {
        if self == Self::Fast {
            check(repo)?;
            return fuzz::turn(repo);
        }
        let packages = self.packages(repo)?;
        let mut arguments: Vec<&str> = packages.iter().flat_map(|name| ["-p", name]).collect();
        if self == Self::Engine {
            arguments.extend(sim::BUGS);
        }
        run_tests(repo, &arguments)
    }

    /// Names of packages as Cargo knows them.
    fn packages(self, repo: &Repo) -> Result<Vec<String>> {
        let short: &[&str] = match self {
            Self::Fast => &[],
            Self::Engine => &ENGINE,
            Self::Service => &SERVICE,
            Self::Lab => &LAB,
        };
        let manifests = repo.manifests()?;
        let here = manifests.iter().filter(|one| short.contains(&one.short_name()));
        let mut packages: Vec<String> = here.map(|one| one.package_name().to_owned()).collect();
        if self == Self::Lab {
            packages.push("xtask".to_owned());
        }
        Ok(packages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_is_in_one_shard() {
        let repo = Repo::open().unwrap();
        let mut sharded: Vec<&str> = [&ENGINE[..], &SERVICE, &LAB, &["xtask"]].concat();
        sharded.sort_unstable();
        let manifests = repo.manifests().unwrap();
        let mut crates: Vec<&str> = manifests.iter().map(|one| one.short_name()).collect();
        crates.sort_unstable();
        assert_eq!(sharded, crates);
    }
}
