//! `lab list`.

use std::io::Write as _;

use clap::{Args, ValueEnum};
use thermocline_ftl::placement::Policy;
use thermocline_ftl::victim::Victim;
use thermocline_lab::Layer;
use thermocline_lab::log::LogOptions;
#[cfg(feature = "papers")]
use thermocline_lab::reproduce::{EXPERIMENTS, Experiment};
use thermocline_lab::tco::case::{CASES, Case};
use thermocline_nand::profile::{Profile, builtin, names};
use thermocline_workload::synthetic::{AppInfo, forms};
use thermocline_workload::trace::{BUILT_IN, Format};

use crate::table::plain;

/// What can be listed.
#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Device profiles, the part of a stack after the colon
    Devices,
    /// Layers, the part of a stack before the colon
    Layers,
    /// Synthetic workloads
    Workloads,
    /// Keys of the LSM workload, with their defaults
    Lsm,
    /// Keys of the workload of a database of pages, likewise
    Btree,
    /// Keys of the workload of a cache of keys and values, likewise
    Kvcache,
    /// Keys of the workload of an object store, likewise
    Objects,
    /// Keys of the workload of a tiered key-value store, likewise
    Hse,
    /// Keys of the workload of a language model's cache, likewise
    Llm,
    /// Traces that come with the program, for --trace
    Traces,
    /// Trace formats
    Formats,
    /// Settings of the log layer, for --set
    Log,
    /// Placement policies
    Placements,
    /// Victim policies of garbage collection
    Victims,
    /// Cases that `lab tco` reckons
    Cases,
    /// Experiments that `lab reproduce` repeats
    #[cfg(feature = "papers")]
    Experiments,
}

/// Arguments of `lab list`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  thermocline lab list traces
  thermocline lab list workloads
  thermocline lab list lsm
  thermocline lab list btree
  thermocline lab list devices
  thermocline lab list devices p5316 > mine.toml   to start your own from")]
pub struct ListArgs {
    /// What to list
    what: What,
    /// With `devices`: print the whole profile of this one, to start your own from
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print JSON instead of a table
    #[arg(long, conflicts_with = "name")]
    json: bool,
}

/// `lab list`.
pub fn list(args: &ListArgs) -> anyhow::Result<()> {
    if let Some(name) = &args.name {
        anyhow::ensure!(matches!(args.what, What::Devices), "a NAME goes with devices only");
        let Some(text) = builtin(name) else {
            anyhow::bail!(
                "no built-in device is called `{name}`; {}",
                thermocline_types::choices(name, names())
            );
        };
        return Ok(write!(std::io::stdout(), "{text}")?);
    }
    let rows: Vec<[String; 2]> = match args.what {
        What::Devices => devices()?,
        What::Layers => Layer::ALL.iter().map(|(layer, about)| row(layer, about)).collect(),
        What::Workloads => {
            let tenants = row(
                "FILE.toml",
                "several tenants side by side, each [[tenant]] with name, workload, span, share, \
                               io_size, read_share, trim_share, every_s, within_s; or one application with its keys, as [lsm]",
            );
            forms().map(|form| row(form.syntax, form.description)).chain([tenants]).collect()
        }
        What::Lsm => keys("lsm"),
        What::Btree => keys("btree"),
        What::Kvcache => keys("kvcache"),
        What::Objects => keys("objects"),
        What::Hse => keys("hse"),
        What::Llm => keys("llm"),
        What::Traces => BUILT_IN.iter().map(|trace| row(trace.name, trace.about)).collect(),
        What::Formats => {
            Format::ALL.iter().map(|format| row(format, format.description())).collect()
        }
        What::Log => LogOptions::keys().iter().map(|(key, about)| row(key, about)).collect(),
        What::Placements => placements(),
        What::Victims => Victim::list().iter().map(|(victim, about)| row(victim, about)).collect(),
        What::Cases => cases()?,
        #[cfg(feature = "papers")]
        What::Experiments => EXPERIMENTS.iter().map(experiment).collect(),
    };
    if args.json {
        let entry = |[name, about]: &[String; 2]| serde_json::json!({"name": name, "about": about});
        let entries: Vec<_> = rows.iter().map(entry).collect();
        let all = serde_json::json!({"schema": "thermocline.list/1", "entries": entries});
        return Ok(writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&all)?)?);
    }
    let mut table = plain();
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    Ok(writeln!(std::io::stdout(), "{table}")?)
}

fn row(name: &(impl ToString + ?Sized), about: &str) -> [String; 2] {
    [name.to_string(), about.to_owned()]
}

/// An experiment, with how long it takes.
#[cfg(feature = "papers")]
fn experiment(of: &Experiment) -> [String; 2] {
    let quick =
        of.facts.quick.map_or(String::new(), |quick| format!(", quick {}", quick.takes.name()));
    row(of.name, &format!("{} ({}{quick})", of.facts.title, of.facts.takes.name()))
}

/// The keys of an application.
fn keys(app: &str) -> Vec<[String; 2]> {
    let keys = AppInfo::named(app).map_or(&[][..], |app| app.keys);
    let about = |about: &str, default: &str| format!("{about} [default: {default}]");
    keys.iter().map(|key| row(key.name, &about(key.about, key.default))).collect()
}

/// The placement policies of the log and of the other layers.
fn placements() -> Vec<[String; 2]> {
    let policies = Policy::list();
    let others = [
        row(
            "tenant",
            "tag: the handle of a write is the number of its tenant; or auto, dac, fadac, warcip, mq, sfr, eti",
        ),
        row(
            "volume",
            "tag, log: as the application could tell: the tenant, or the kind of data where there is one tenant",
        ),
        row(
            "file",
            "tag, log: files have handles in turn, where the workload knows files (applications, traces with a stream column)",
        ),
        row(
            "directory",
            "tag, log: each directory, or kind of file, has a handle of its own; likewise",
        ),
        row("hint", "tag: as the application could tell: one of four classes of lifetime"),
    ];
    policies
        .iter()
        .map(|(policy, about)| match policy {
            Policy::Nothing(_) => {
                row(policy, &format!("log: {about}; raw: no handle on any write"))
            }
            _ => row(policy, &format!("log: {about}")),
        })
        .chain(others)
        .collect()
}

fn cases() -> anyhow::Result<Vec<[String; 2]>> {
    CASES.iter().map(|(name, _)| Ok(row(*name, &Case::read(name, None)?.title))).collect()
}

fn devices() -> anyhow::Result<Vec<[String; 2]>> {
    let describe = |name: &str| -> anyhow::Result<[String; 2]> {
        let profile = Profile::from_toml(name, builtin(name).unwrap_or_default())?;
        let timed = if profile.timing.is_some() { "timed" } else { "untimed" };
        let about = format!(
            "{} ({}, OP {:.1} %, mapping unit {}, {timed})",
            profile.title,
            profile.kind.name(),
            profile.overprovisioning() * 100.0,
            profile.mapping_unit
        );
        Ok(row(name, &about))
    };
    names().map(describe).collect()
}
