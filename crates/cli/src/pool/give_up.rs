//! `thermocline volume give-up`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, ensure};
use clap::Args;
use serde::Serialize;
use thermocline_engine::{Extent, VolumeInfo};
use thermocline_runtime::storage::Storage;
use thermocline_runtime::{Driver, Settings};
use thermocline_types::Bytes;

use super::check::{Damage, read_volume};
use super::device::lose::{LostRange, LostVolume};
use super::open::{Advised as _, on_trial, to_write};
use super::{print, verdict, volume};
use crate::progress::Progress;

/// Text below the help.
pub fn help() -> String {
    format!(
        "\
Reads the volume and lists the ranges that cannot be read, or are not what was written. With --yes-destroy they are given
up: reading them is an error until they are written again or trimmed, and their units can be collected. Nothing of such a
unit can be collected before, so that a pool full of damage has no room. First see whether the device, or a member of its
group, gives the data after all: what was given up does not come back.

{}",
        volume::example("give-up pool.toml backup")
    )
}

/// Arguments of `volume give-up`.
#[derive(Args)]
pub struct GiveUpArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Name of the volume
    name: String,
    /// First byte of the volume to be looked at
    #[arg(long, value_name = "BYTE", default_value = "0")]
    offset: Bytes,
    /// Bytes to be looked at [default: to the end]
    #[arg(long, value_name = "BYTES")]
    length: Option<Bytes>,
    /// Do it: the name of the volume once more
    #[arg(long, value_name = "NAME")]
    yes_destroy: Option<String>,
    /// Print JSON with all ranges, schema thermocline.given-up/1
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    /// Whether the ranges were given up. Otherwise the pool is unchanged.
    done: bool,
    #[serde(flatten)]
    volume: LostVolume,
    /// Bytes behind unreadable map pages. Such bytes can only be trimmed.
    behind_damaged_pages_bytes: u64,
}

/// `thermocline volume give-up`.
pub fn give_up(args: &GiveUpArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.settings)?;
    match args.yes_destroy.as_deref() {
        None => {}
        Some(named) if named == args.name => {}
        Some(other) => bail!("--yes-destroy names `{other}`, not `{}`", args.name),
    }
    let done = args.yes_destroy.is_some();
    let (ranges, left) = if done {
        let mut pool = to_write(&settings, false)?;
        let volume = pool.volume(Some(&args.name))?;
        let ranges = damaged(&mut pool.driver, &volume, args)?;
        let mut left = 0;
        for LostRange { offset, bytes } in &ranges {
            let (lba, blocks) = (offset / Bytes::BLOCK.0, bytes / Bytes::BLOCK.0);
            let given_up = pool.driver.give_up(Extent { volume: volume.id, lba, blocks })?;
            left += (blocks - given_up) * Bytes::BLOCK.0;
        }
        pool.close()?;
        (ranges, left)
    } else {
        let mut pool = on_trial(&settings)?;
        let volume = pool.volume(Some(&args.name))?;
        (damaged(&mut pool.driver, &volume, args)?, 0)
    };
    let bytes = ranges.iter().map(|range| range.bytes).sum();
    let report = Report {
        schema: "thermocline.given-up/1",
        done,
        volume: LostVolume { name: args.name.clone(), bytes, ranges },
        behind_damaged_pages_bytes: left,
    };
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
        return Ok(ExitCode::from(u8::from(!done && bytes > 0)));
    }
    verdict(&text(&report, args), done || bytes == 0)
}

/// The unreadable ranges of the volume. Lost ranges are given up already.
fn damaged<S: Storage>(
    driver: &mut Driver<S>,
    volume: &VolumeInfo,
    args: &GiveUpArgs,
) -> anyhow::Result<Vec<LostRange>> {
    let size = volume.blocks * Bytes::BLOCK.0;
    ensure!(args.offset.0 < size, "the volume has {}, --offset is {}", Bytes(size), args.offset);
    let end = args.length.map_or(size, |length| args.offset.0.saturating_add(length.0));
    let mut found = Vec::new();
    let bar = Progress::default().bar(&format!("read {}", volume.name));
    read_volume(driver, volume, None, &mut found, |share| bar.set(share));
    Ok(ranges_of(&found, args.offset.0..end))
}

/// Damaged blocks `within` a range of bytes. Adjacent blocks are one range.
fn ranges_of(found: &[Damage], within: std::ops::Range<u64>) -> Vec<LostRange> {
    let block = Bytes::BLOCK.0;
    let mut ranges: Vec<LostRange> = Vec::new();
    let offsets = found.iter().filter(|one| one.unit.is_some()).map(|one| one.lba * block);
    for offset in offsets.filter(|offset| *offset + block > within.start && *offset < within.end) {
        match ranges.last_mut() {
            Some(last) if last.offset + last.bytes == offset => last.bytes += block,
            _ => ranges.push(LostRange { offset, bytes: block }),
        }
    }
    ranges
}

fn text(report: &Report, args: &GiveUpArgs) -> String {
    let (file, name) = (args.settings.display(), &args.name);
    if report.volume.ranges.is_empty() {
        return format!("volume `{name}` has no block that cannot be read\n");
    }
    let mut text = report.volume.listed(if report.done { "given up" } else { "damaged" });
    if !report.done {
        text += &format!(
            "nothing was changed; to give them up, say `thermocline volume give-up {file} {name} --yes-destroy {name}`\n"
        );
    } else if report.behind_damaged_pages_bytes > 0 {
        text += &format!(
            "{} of them lie behind damaged pages of the map, and stay as they are: copy what you need, and delete the \
             volume\n",
            Bytes(report.behind_damaged_pages_bytes)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_in_a_row_are_one_range_and_lost_ones_are_none() {
        let damage = |lba, unit| Damage {
            volume: "v".to_owned(),
            lba,
            unit,
            block: unit,
            reason: String::new(),
        };
        let found: Vec<Damage> = [1, 2, 3, 7, 8]
            .map(|lba| damage(lba, Some(5)))
            .into_iter()
            .chain([damage(9, None)])
            .collect();
        let range = |lba: u64, blocks: u64| LostRange { offset: lba * 4096, bytes: blocks * 4096 };
        assert_eq!(ranges_of(&found, 0..u64::MAX), [range(1, 3), range(7, 2)]);
        assert_eq!(ranges_of(&found, 2 * 4096..7 * 4096 + 1), [range(2, 2), range(7, 1)]);
    }
}
