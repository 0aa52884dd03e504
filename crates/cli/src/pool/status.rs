//! `thermocline status`.

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use thermocline_engine::{Engine, Notice, Payload};
use thermocline_format::DeviceState;
use thermocline_ftl::UnitState;
use thermocline_record::waterfall::FAST;
use thermocline_runtime::{Settings, unit_bytes};
use thermocline_serve::{
    DrainStatus, FullnessReport, MediaStatus, RealDriveStatus, ScrubReport, Serving, TotalsReport,
    WearReport, fetch, status_socket,
};
use thermocline_types::{Bytes, UnitId};

use super::advice::{ROOM, risk};
use super::open::on_trial;
use super::volume::Listed;
use super::{CODES, LabRun, print};
use crate::waterfall;

/// Arguments of `status`.
#[derive(Args)]
#[command(after_help = format!("\
The pool is opened on trial, as `check` does, without reading its blocks. If it is served, its server is asked, and tells
what was written and is not durable.

Example:
  thermocline status pool.toml

{CODES}"))]
pub struct StatusArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Print JSON, schema thermocline.status/1; of a pool that is served, thermocline.serve/1
    #[arg(long, conflicts_with = "lab_command")]
    json: bool,
    /// Print the run of the lab that measures this pool, by a trace yet to be named, and nothing else
    #[arg(long)]
    lab_command: bool,
}

#[derive(Serialize)]
struct Status {
    schema: &'static str,
    pool: String,
    /// Version of the on-media format.
    format: u16,
    /// Sentences about lost data and data at risk; empty without such data.
    at_risk: Vec<String>,
    clean: bool,
    replayed_chunks: u64,
    replayed_entries: u64,
    open_seconds: f64,
    checkpoint_bytes: u64,
    capacity_bytes: u64,
    mapped_bytes: u64,
    volume_bytes: u64,
    volumes: Vec<Listed>,
    unit_bytes: u64,
    units: Units,
    media: Vec<MediaStatus>,
    fullness: FullnessReport,
    /// With `scrub_every`: the record of scrubs beside the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    scrub: Option<ScrubReport>,
    /// Bytes over all services; absent of a pool that was never served.
    #[serde(skip_serializing_if = "Option::is_none")]
    totals: Option<TotalsReport>,
}

/// Units of attached devices.
#[derive(Default, Serialize)]
struct Units {
    total: u32,
    free: u32,
    open: u32,
    closed: u32,
    retired: u32,
    /// Emptied units of devices that are drained.
    emptied: u32,
    superblocks: u32,
}

impl Units {
    fn of<P: Payload>(engine: &Engine<P>) -> Units {
        let geometry = engine.geometry();
        let mut units = Units::default();
        for unit in geometry.present().flat_map(|(_, units)| units).map(UnitId) {
            units.total += 1;
            let count = match engine.units().state(unit) {
                _ if geometry.is_superblock_unit(unit) => &mut units.superblocks,
                UnitState::Free => &mut units.free,
                UnitState::Open => &mut units.open,
                UnitState::Retired if geometry.state_of(unit) == DeviceState::Draining => {
                    &mut units.emptied
                }
                UnitState::Retired => &mut units.retired,
                _ => &mut units.closed,
            };
            *count += 1;
        }
        units
    }
}

/// `thermocline status`.
pub fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.settings)?;
    if args.lab_command {
        return print(&format!("{}\n", LabRun::of(&settings)?.command()));
    }
    if Serving::of(&args.settings).is_some() {
        let status = fetch(&status_socket(&args.settings))?;
        let json = || Ok(format!("{}\n", serde_json::to_string_pretty(&status)?));
        return print(&if args.json { json() } else { served(&status) }?);
    }
    let pool = on_trial(&settings)?;
    let damaged = pool.driver.notices().iter();
    let damaged = damaged.filter(|notice| matches!(notice, Notice::Damaged { .. })).count();
    let engine = pool.driver.engine();
    let volumes = engine.volumes();
    let total: u64 = volumes.iter().map(|volume| volume.blocks).sum();
    let units = Units::of(engine);
    let mut at_risk = Vec::new();
    if damaged > 0 {
        at_risk
            .push(format!("{damaged} pages of the map cannot be read; `check` says what is lost"));
    }
    if units.retired > 0 {
        at_risk.push(format!("{} units are out of service", units.retired));
    }
    at_risk.extend(pool.groups.iter().filter_map(|(_, group)| risk(&group.status())));
    let scrub = ScrubReport::at_rest(&settings, engine.pool_id(), engine.geometry().units())?;
    at_risk.extend(scrub.as_ref().and_then(found_by));
    let status = Status {
        schema: "thermocline.status/1",
        pool: engine.pool_id().to_string(),
        format: engine.format_version(),
        at_risk,
        clean: pool.replayed.0 == 0,
        replayed_chunks: pool.replayed.0,
        replayed_entries: pool.replayed.1,
        open_seconds: pool.took.as_secs_f64(),
        checkpoint_bytes: pool.config.checkpoint_bytes,
        capacity_bytes: pool.holds().0,
        mapped_bytes: engine.mapped_blocks() * 4096,
        volume_bytes: total * 4096,
        volumes: volumes.iter().map(Listed::new).collect(),
        unit_bytes: unit_bytes(&pool.config.geometry).0,
        units,
        media: MediaStatus::all(engine, |media| engine.written_on(media)),
        fullness: FullnessReport::of(&engine.occupancy(), settings.fullness_marks()),
        scrub,
        totals: TotalsReport::at_rest(&settings, engine.pool_id())?,
    };
    if args.json {
        return print(&format!("{}\n", serde_json::to_string_pretty(&status)?));
    }
    print(&text(&status, &volumes))
}

/// The status that the pool's server reports.
fn served(status: &Value) -> anyhow::Result<String> {
    let number = |value: &Value| value.as_u64().context("the server speaks of other things");
    let engine = &status["engine"];
    let mut risks: Vec<String> =
        status["failure"].as_str().map(str::to_owned).into_iter().collect();
    let groups = ["mirrors", "raids"].into_iter().filter_map(|kind| status[kind].as_array());
    risks.extend(groups.flatten().filter_map(|one| one["risk"].as_str()).map(str::to_owned));
    match number(&engine["damaged_blocks"])? {
        0 => {}
        reads => risks.push(format!(
            "{reads} reads have met damaged blocks since the service began: `thermocline check` names volumes and offsets"
        )),
    }
    let scrub = match &status["scrub"] {
        Value::Null => None,
        scrub => Some(ScrubReport::deserialize(scrub)?),
    };
    risks.extend(scrub.as_ref().and_then(found_by));
    match number(&engine["at_risk_bytes"])? {
        0 if risks.is_empty() => risks.push("nothing: all that was written is durable".to_owned()),
        0 => {}
        bytes => risks.push(format!("{} that were written and are not durable", Bytes(bytes))),
    }
    let mut text: String = risks.iter().map(|risk| format!("at risk: {risk}\n")).collect();
    let fast = |media: &&Value| media["class"] == FAST;
    if let Some(fast) = engine["media"].as_array().into_iter().flatten().find(fast) {
        let bytes = number(&fast["valid_bytes"])?;
        let pairs = status["mirrors"].as_array().is_some_and(|mirrors| !mirrors.is_empty());
        let both = if pairs { ", a mirrored pair if both its sides do" } else { "" };
        text += &format!("only on fast devices: {}, lost if they fail{both}\n", Bytes(bytes));
    }
    let fullness = FullnessReport::deserialize(&status["fullness"])?;
    text += &full(&fullness);
    text += &scrub.map_or(String::new(), |scrub| scrub.to_string());
    text += &lines::<WearReport>(&status["wear"])?;
    text += &lines::<RealDriveStatus>(&status["real_drives"]["drives"])?;
    text += &lines::<DrainStatus>(&status["draining"])?;
    if let Some(late) = status["late"].as_str() {
        text += &format!("late: {late}\n");
    }
    text += &format!(
        "served: {} clients of NBD; {} of {} hold data, {} of {} units are free\n",
        number(&status["clients"]["open"])?,
        Bytes(number(&engine["mapped_bytes"])?),
        Bytes(number(&engine["capacity_bytes"])?),
        number(&engine["free_units"])?,
        number(&engine["units"])?,
    );
    let (version, commit) = (&status["build"]["version"], &status["build"]["commit"]);
    if let Some((version, commit)) = version.as_str().zip(commit.as_str()) {
        text +=
            &format!("by version {version}, commit {commit}; pool format {}\n", status["format"]);
    }
    if let Some(path) = status["recording"].as_str() {
        text += &format!("requests are recorded in {path}\n");
    }
    text += &classes(&engine["media"])?;
    if !status["totals"].is_null() {
        text += &format!("{}\n", TotalsReport::deserialize(&status["totals"])?);
    }
    text += &waterfall::show(&serde_json::from_value(status["waterfall"].clone())?);
    for uri in status["uris"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        text += &format!("{uri}\n");
    }
    Ok(text)
}

/// A line for each member of a list that may be absent.
fn lines<T: DeserializeOwned + Display>(list: &Value) -> anyhow::Result<String> {
    let all = list.as_array().into_iter().flatten();
    all.map(|one| Ok(format!("{}\n", T::deserialize(one)?))).collect()
}

/// The risk from damaged places found by a scrub.
fn found_by(scrub: &ScrubReport) -> Option<String> {
    let places = scrub.damaged();
    (places > 0).then(|| format!("{places} places that a scrub found damaged"))
}

/// A line for each device class, if the pool has several.
fn classes(media: &Value) -> anyhow::Result<String> {
    let media = media.as_array().map_or(&[][..], Vec::as_slice);
    let line = |one: &Value| {
        let number = |key: &str| one[key].as_u64().context("the server speaks of other things");
        Ok(format!(
            "{} devices: {} of {} units are free, {} hold data, {} are to be collected\n",
            one["class"].as_str().unwrap_or_default(),
            number("free_units")?,
            number("units")?,
            Bytes(number("valid_bytes")?),
            Bytes(number("debt_bytes")?),
        ))
    };
    media.iter().filter(|_| media.len() > 1).map(line).collect()
}

/// A line about a pool that is nearly full.
fn full(fullness: &FullnessReport) -> String {
    if fullness.is_normal() { String::new() } else { format!("{fullness}: {ROOM}\n") }
}

fn text(status: &Status, volumes: &[thermocline_engine::VolumeInfo]) -> String {
    let mut text = match status.at_risk.as_slice() {
        [] => "at risk: nothing that was flushed\n".to_owned(),
        risks => risks.iter().map(|risk| format!("at risk: {risk}\n")).collect(),
    };
    text += &full(&status.fullness);
    text += &status.scrub.as_ref().map_or(String::new(), ScrubReport::to_string);
    let took = status.open_seconds * 1e3;
    text += &match status.clean {
        true => format!("closed in order: opening takes {took:.0} ms and replays nothing\n"),
        false => format!(
            "not closed in order: opening takes {took:.0} ms and replays {} chunks with {} entries\n",
            status.replayed_chunks, status.replayed_entries
        ),
    };
    let share = status.mapped_bytes as f64 / (status.capacity_bytes as f64).max(1.0) * 100.0;
    text += &format!(
        "pool {}, format {}: {} of {} hold data ({share:.1} %), volumes have {}\n",
        status.pool,
        status.format,
        Bytes(status.mapped_bytes),
        Bytes(status.capacity_bytes),
        Bytes(status.volume_bytes),
    );
    for volume in volumes {
        text += &format!("volume `{}` of {}\n", volume.name, Bytes(volume.blocks * 4096));
    }
    let is_tiered = status.media.len() > 1;
    let Units { total, free, open, closed, retired, emptied, superblocks } = &status.units;
    text += &format!(
        "{total} units of {}: {free} free, {open} open, {closed} closed, {retired} out of service, {superblocks} \
         superblocks",
        Bytes(status.unit_bytes)
    );
    if *emptied > 0 {
        text += &format!(", {emptied} emptied on devices that are drained");
    }
    text += "\n";
    for one in status.media.iter().filter(|_| is_tiered) {
        let MediaStatus { class, units, free_units, valid_bytes, debt_bytes, .. } = one;
        let (valid, debt) = (Bytes(*valid_bytes), Bytes(*debt_bytes));
        text += &format!(
            "{class} devices: {free_units} of {units} units are free, {valid} hold data, {debt} are to be collected\n"
        );
    }
    text += &status.totals.iter().map(|totals| format!("{totals}\n")).collect::<String>();
    text + &format!(
        "after a crash, chunks since the last checkpoint are replayed: about {} at most\n",
        Bytes(2 * status.checkpoint_bytes)
    )
}
