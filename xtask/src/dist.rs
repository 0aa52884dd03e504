//! Packages of a release in `target/packages`: a tarball, a `.deb`, a list of all dependencies and checksums.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::repo::Repo;
use crate::step::{cargo_command, cargo_with, run_program};

/// Targets and the C compiler of each. The first one is static and needs `rustup target add` and `musl-tools`.
const TARGETS: [(&str, Option<&str>); 2] =
    [("x86_64-unknown-linux-musl", Some("musl-gcc")), ("x86_64-unknown-linux-gnu", None)];

/// Files of the repository and their places below `/usr`.
const FILES: [(&str, &str); 8] = [
    ("packaging/thermocline@.service", "lib/systemd/system/thermocline@.service"),
    ("docs/grafana/thermocline.json", "share/thermocline/grafana.json"),
    ("docs/prometheus/alerts.yml", "share/thermocline/prometheus-alerts.yml"),
    ("README.md", "share/doc/thermocline/README.md"),
    ("CHANGELOG.md", "share/doc/thermocline/CHANGELOG.md"),
    ("LICENSE-APACHE", "share/doc/thermocline/LICENSE-APACHE"),
    ("LICENSE-MIT", "share/doc/thermocline/LICENSE-MIT"),
    ("packaging/copyright", "share/doc/thermocline/copyright"),
];

/// Builds the program and all packages.
///
/// # Errors
/// When a build or a tool fails.
pub fn run(repo: &Repo, is_dynamic: bool) -> Result<()> {
    let (target, compiler) = TARGETS[usize::from(is_dynamic)];
    let cc = format!("CC_{}", target.replace('-', "_"));
    let environment: Vec<(&str, &str)> = compiler.iter().map(|gcc| (cc.as_str(), *gcc)).collect();
    let build = ["build", "--profile", "dist", "-p", "thermocline-cli", "--target", target];
    cargo_with(repo, "dist", &build, &environment)?;
    let metadata = metadata(repo)?;
    let version = version(&metadata)?;
    let packages = repo.root().join("target/packages");
    _ = fs::remove_dir_all(&packages);
    let name = format!("thermocline-{version}-{target}");
    let usr = packages.join(&name);
    let program = PathBuf::from(format!("target/{target}/dist/thermocline"));
    stage(repo, &program, &usr)?;
    write(&packages.join(format!("{name}.cdx.json")), &sbom(&metadata, &version)?)?;
    fs::copy(repo.root().join("packaging/Containerfile"), packages.join("Containerfile"))?;
    let tar = format!(
        "cd target/packages && tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -czf {name}.tar.gz {name}"
    );
    shell(repo, "tarball", &tar)?;
    deb(repo, &usr, &version, is_dynamic)?;
    shell(repo, "checksums", "cd target/packages && sha256sum *.tar.gz *.deb *.json > SHA256SUMS")
}

/// Puts all files of a package below `usr`.
fn stage(repo: &Repo, program: &Path, usr: &Path) -> Result<()> {
    let root = repo.root();
    for (from, to) in FILES {
        let to = usr.join(to);
        fs::create_dir_all(to.parent().context("a path has a folder")?)?;
        fs::copy(root.join(from), &to).with_context(|| format!("{from} cannot be copied"))?;
    }
    let bin = usr.join("bin/thermocline");
    fs::create_dir_all(usr.join("bin"))?;
    fs::copy(root.join(program), &bin)?;
    let [bin, usr] = [bin.display().to_string(), usr.display().to_string()];
    run_program(repo, "strip", "strip", &["--strip-all", &bin])?;
    run_program(repo, "manuals", &bin, &["manuals", &format!("{usr}/share")])?;
    let doc =
        format!("cp -r docs/use {usr}/share/doc/thermocline/ && gzip -9n {usr}/share/man/man1/*");
    shell(repo, "documents", &doc)
}

/// A Debian package of the same files.
fn deb(repo: &Repo, usr: &Path, version: &str, is_dynamic: bool) -> Result<()> {
    let root = repo.root().join("target/packages/deb");
    fs::create_dir_all(root.join("DEBIAN"))?;
    let depends = if is_dynamic { "Depends: libc6\n" } else { "" };
    let control = format!(
        "Package: thermocline\nVersion: {version}\nArchitecture: amd64\nSection: admin\nPriority: optional\n\
         Maintainer: Thermocline developers <thermocline@localhost>\n{depends}Recommends: fuse3\n\
         Description: flash acceleration layer, and its lab\n \
         Predicts write amplification and life of flash drives from traces, and serves\n \
         volumes of a crash-safe, log-structured pool by NBD and FUSE.\n"
    );
    write(&root.join("DEBIAN/control"), &control)?;
    let [from, to] = [usr.display(), root.display()];
    let build = format!(
        "cp -r {from} {to}/usr && mkdir -p {to}/etc/thermocline && chmod -R u=rwX,go=rX {to} && \
         dpkg-deb --root-owner-group --build {to} target/packages/thermocline_{version}_amd64.deb && rm -r {to}"
    );
    shell(repo, "deb", &build)
}

/// All packages in the program, from Cargo.
fn metadata(repo: &Repo) -> Result<Value> {
    let arguments =
        ["metadata", "--format-version", "1", "--locked", "--filter-platform", TARGETS[0].0];
    let done = cargo_command(repo).args(arguments).output()?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Ok(serde_json::from_slice(&done.stdout)?)
}

fn version(metadata: &Value) -> Result<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let cli = packages.into_iter().find(|one| one["name"] == "thermocline-cli");
    let version = cli.and_then(|cli| cli["version"].as_str());
    Ok(version.context("thermocline-cli has a version")?.to_owned())
}

/// A list of the dependencies, by the CycloneDX specification 1.5.
fn sbom(metadata: &Value, version: &str) -> Result<String> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("a resolve graph")?;
    let normal = |dep: &Value| {
        dep["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null())
    };
    let is_cli = |one: &&Value| one["name"] == "thermocline-cli";
    let packages = metadata["packages"].as_array().context("packages")?;
    let mut needed = vec![&packages.iter().find(is_cli).context("the program")?["id"]];
    let mut at = 0;
    while let Some(id) = needed.get(at) {
        let node = nodes.iter().find(|node| node["id"] == **id).context("a node")?;
        for dep in node["deps"].as_array().into_iter().flatten().filter(|dep| normal(dep)) {
            if !needed.contains(&&dep["pkg"]) {
                needed.push(&dep["pkg"]);
            }
        }
        at += 1;
    }
    let components = packages.iter().filter(|one| needed.contains(&&one["id"])).map(|one| {
        let [name, version] = ["name", "version"].map(|key| one[key].as_str().unwrap_or_default());
        json!({
            "type": "library", "name": name, "version": version,
            "purl": format!("pkg:cargo/{name}@{version}"),
            "licenses": [{ "expression": one["license"] }],
        })
    });
    let components: Vec<Value> = components.collect();
    println!("sbom: {} packages", components.len());
    let program = json!({ "type": "application", "name": "thermocline", "version": version });
    Ok(serde_json::to_string_pretty(&json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": program }, "components": components,
    }))?)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}

fn shell(repo: &Repo, name: &str, line: &str) -> Result<()> {
    run_program(repo, name, "sh", &["-ec", line])
}
