//! `thermocline scrub`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use thermocline_engine::{Extent, HostError, HostRequest, Notice, Reply, RequestId, VolumeInfo};
use thermocline_format::Location;
use thermocline_runtime::opening::Opened;
use thermocline_runtime::storage::Storage;
use thermocline_runtime::{Driver, Group, GroupStatus, MemberState, Settings};
use thermocline_serve::{DamagedBytes, DamagedPlace};
use thermocline_types::Bytes;

use super::online::{self, Scrubbed};
use super::open::{Advised as _, on_trial, to_write};
use super::{Broken, CODES, verdict};
use crate::progress::Progress;

/// How often progress is shown.
const TICK: Duration = Duration::from_millis(100);

/// Time without progress after which filling a member has failed. Chosen, not measured.
const STALLED: Duration = Duration::from_secs(60);

const SCHEMA: &str = "thermocline.scrub/1";

const SCRUB: RequestId = RequestId(1);

/// Arguments of `scrub`.
#[derive(Args)]
#[command(after_help = format!("\
Reads all that counts on the media: each block that a volume or the map points at is compared with the 32-bit checksum
in the header that tells of it, and each header with its own place. `check` reads volumes as a host does, by the 28 bits
in the map; scrub also finds headers that are damaged while all blocks can still be read.

Of a `mirror` or `raid5`, every copy and the parity are compared. What one member holds wrong and the others have is
counted apart from damage; `--repair` writes it again from the others. A member that lacks data is filled first.

Without `--repair` the pool is opened on trial, as `check` does; nothing is written. `thermocline inspect` shows what
stands at a place.

A pool that is served is scrubbed by its server, which yields to clients and always repairs. Ctrl-C stops that scrub.

Examples:
  thermocline scrub pool.toml
  thermocline scrub pool.toml --repair

{CODES}"))]
pub struct ScrubArgs {
    /// Settings of the pool
    #[arg(value_name = "POOL.toml")]
    settings: PathBuf,
    /// Write again what a member of a `mirror` or `raid5` holds wrong, from the others
    #[arg(long)]
    repair: bool,
    /// Print JSON, schema thermocline.scrub/1
    #[arg(long)]
    json: bool,
}

/// A damaged place.
#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Place {
    unit: u32,
    block: u32,
    /// The volume with data or a part of its map at this place, and the volume's unreadable bytes.
    #[serde(flatten)]
    holds: Option<Held>,
}

/// Bytes of a volume.
#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Held {
    volume: String,
    offset: u64,
    bytes: u64,
}

impl Held {
    fn new(extent: Extent, volumes: &[VolumeInfo]) -> Option<Held> {
        let volume = volumes.iter().find(|info| info.id == extent.volume)?.name.to_string();
        Some(Held { volume, offset: extent.lba * 4096, bytes: extent.blocks * 4096 })
    }
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    clean: bool,
    /// Compared blocks, including blocks of maps.
    blocks: u64,
    /// Places with wrong data on one member and right data on the other members.
    wrong_on_a_member: u64,
    /// Whether these places were rewritten.
    repaired: bool,
    /// Of a served pool, at most 100.
    damaged: Vec<Place>,
    /// Damaged places that are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    unlisted: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Report {
    /// Of a scrub by the server, which repairs.
    fn of_server(scrubbed: Scrubbed) -> Report {
        let Scrubbed { end, damage } = scrubbed;
        let place = |DamagedPlace { unit, block, holds, .. }| {
            let holds =
                holds.map(|DamagedBytes { volume, offset, bytes }| Held { volume, offset, bytes });
            Place { unit, block, holds }
        };
        let damaged: Vec<Place> = damage.into_iter().map(place).collect();
        Report {
            schema: SCHEMA,
            clean: end.found.damaged == 0 && damaged.is_empty(),
            blocks: end.found.blocks,
            wrong_on_a_member: end.found.mended,
            repaired: true,
            unlisted: end.found.damaged.saturating_sub(damaged.len() as u64),
            damaged,
        }
    }
}

/// `thermocline scrub`.
pub fn scrub(args: &ScrubArgs) -> anyhow::Result<ExitCode> {
    let settings = Settings::load(&args.settings)?;
    if online::server(&args.settings).is_some() {
        return shown(&Report::of_server(online::scrub(&args.settings)?), args.json);
    }
    let report = match args.repair {
        true => {
            let mut pool = to_write(&settings, false)?;
            fill(&mut pool)?;
            let report = look(&mut pool.driver, true)?;
            pool.close()?;
            report
        }
        false => look(&mut on_trial(&settings)?.driver, false)?,
    };
    shown(&report, args.json)
}

fn shown(report: &Report, json: bool) -> anyhow::Result<ExitCode> {
    let text = match json {
        true => format!("{}\n", serde_json::to_string_pretty(report)?),
        false => text(report),
    };
    verdict(&text, report.clean)
}

/// Waits until all members of groups are filled: an incomplete member cannot be compared.
fn fill<S: Storage>(pool: &mut Opened<S>) -> anyhow::Result<()> {
    let lacking = |groups: &[(usize, Group)]| {
        let filling = groups.iter().map(|(_, group)| group.status()).filter(is_filling);
        filling.map(|status| status.lacking.0).reduce(|sum, one| sum + one)
    };
    let bar = Progress::default().bar("fill");
    let (mut first, mut least, mut since) = (0, u64::MAX, Instant::now());
    let mut ended = Vec::new();
    while let Some(left) = lacking(&pool.groups) {
        first = first.max(left);
        bar.set(1.0 - left as f64 / first.max(1) as f64);
        if left < least {
            (least, since) = (left, Instant::now());
        }
        if since.elapsed() > STALLED {
            let text = "a member lacks data that cannot be read from the others: `thermocline status` names it";
            return Err(Broken(text.into()).into());
        }
        pool.driver.poll(Some(TICK), &mut ended);
    }
    Ok(())
}

/// Whether a member of the group is being filled.
fn is_filling(status: &GroupStatus) -> bool {
    status.members.iter().any(|member| member.standing == MemberState::Filling)
}

fn look<S: Storage>(driver: &mut Driver<S>, repaired: bool) -> anyhow::Result<Report> {
    let bar = Progress::default().bar("scrub");
    driver.submit(SCRUB, HostRequest::Scrub)?;
    let mut ended = Vec::new();
    let result = loop {
        driver.poll(Some(TICK), &mut ended);
        if let Some(ended) = ended.pop() {
            break ended.result;
        }
        bar.set(driver.engine().scrubbed());
    };
    let volumes = driver.engine().volumes();
    let damaged: BTreeSet<Place> = driver
        .notices()
        .iter()
        .filter_map(|notice| match *notice {
            Notice::Damaged { at: Location { unit, block }, holds } => {
                let holds = holds.and_then(|extent| Held::new(extent, &volumes));
                Some(Place { unit: unit.0, block, holds })
            }
            _ => None,
        })
        .collect();
    let (blocks, wrong_on_a_member) = match result {
        Ok(Reply::Scrubbed { blocks, mended, .. }) => (blocks, mended),
        Ok(_) => return Err(Broken("a scrub was answered with something else".into()).into()),
        Err(error @ (HostError::Failed | HostError::Unreadable(_))) => {
            return Err(Broken(error.to_string()).into());
        }
        Err(error) => return Err(error.into()),
    };
    let damaged: Vec<Place> = damaged.into_iter().collect();
    let clean = damaged.is_empty() && (repaired || wrong_on_a_member == 0);
    let (schema, unlisted) = (SCHEMA, 0);
    Ok(Report { schema, clean, blocks, wrong_on_a_member, repaired, damaged, unlisted })
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    for Place { unit, block, holds } in &report.damaged {
        let holds = holds.as_ref().map_or_else(String::new, |Held { volume, offset, bytes }| {
            format!(", {} of volume `{volume}` at byte {offset},", Bytes(*bytes))
        });
        text += &format!("unit {unit} block {block}{holds} is not what was written\n");
    }
    match (report.wrong_on_a_member, report.repaired) {
        (0, _) => {}
        (places, true) => {
            text += &format!(
                "{places} places that a member held wrong were written again from the others\n"
            );
        }
        (places, false) => {
            text += &format!(
                "{places} places are wrong on one member of a device, and the others have them: `thermocline scrub \
                 --repair` writes them again\n"
            );
        }
    }
    let outcome = match report.damaged.len() as u64 + report.unlisted {
        0 if report.wrong_on_a_member > 0 => "no data is lost".to_owned(),
        0 => "clean".to_owned(),
        1 => "one place is damaged".to_owned(),
        count => format!("{count} places are damaged"),
    };
    text + &format!("{outcome}: {} blocks compared\n", report.blocks)
}
