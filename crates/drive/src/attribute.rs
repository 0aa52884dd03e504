//! Attributes of SATA drives, as smartctl names them. A name that ends in a unit tells the unit.

use serde_json::Value;

use crate::counter::{Counter, DriveFigure, LogPage};
use crate::text::number;

/// An attribute: number, name, normalized value, raw value.
struct Attribute {
    number: u8,
    name: String,
    normalized: u64,
    raw: u64,
}

/// Bytes of a unit at the end of a name.
const UNITS: [(&str, u64); 7] = [
    ("_32MiB", 32 << 20),
    ("_1GiB", 1 << 30),
    ("_GiB", 1 << 30),
    ("_GB", 1_000_000_000),
    ("_MiB", 1 << 20),
    ("_LBAs_Written", 512),
    ("_Sector_Write", 512),
];

/// Names of host writes, without the unit.
const HOST: [&str; 5] = ["Host_Writes", "Lifetime_Writes", "Total_Writes", "Total", "Total_Host"];
/// Names of media writes, without the unit.
const MEDIA: [&str; 4] = ["NAND_Writes", "Flash_Writes", "Total_NAND_Writes", "TLC_Writes"];

/// Counters of the rows of `smartctl -A`: number, name, flag, value, worst, threshold, type, updated, failed, raw.
/// `sector` is the logical block of the drive.
pub(crate) fn of_lines(text: &str, sector: u64) -> Vec<Counter> {
    let attribute = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [id, name, flag, value, _, _, _, _, _, raw, ..] = columns[..] else { return None };
        flag.starts_with("0x").then_some(())?;
        let name = name.to_owned();
        let (id, normalized) = (id.parse().ok()?, number(value)?);
        Some(Attribute { number: id, name, normalized, raw: number(raw)? })
    };
    counters(&text.lines().filter_map(attribute).collect::<Vec<_>>(), sector)
}

/// Counters of `ata_smart_attributes` of `smartctl --json`.
pub(crate) fn of_json(document: &Value, sector: u64) -> Vec<Counter> {
    let attribute = |row: &Value| {
        Some(Attribute {
            number: row["id"].as_u64()?.try_into().ok()?,
            name: row["name"].as_str()?.to_owned(),
            normalized: row["value"].as_u64()?,
            raw: row["raw"]["string"].as_str().and_then(number).or(row["raw"]["value"].as_u64())?,
        })
    };
    let rows = document["ata_smart_attributes"]["table"].as_array();
    counters(&rows.into_iter().flatten().filter_map(attribute).collect::<Vec<_>>(), sector)
}

fn counters(all: &[Attribute], sector: u64) -> Vec<Counter> {
    let mut found: Vec<Counter> = all.iter().filter_map(|one| counter(one, sector)).collect();
    found.extend(program_pages(all, sector).into_iter().flatten());
    found
}

fn counter(one: &Attribute, sector: u64) -> Option<Counter> {
    let page = LogPage::Attribute { number: one.number, name: one.name.clone() };
    let of = |figure, value: u64, step: u64| Counter {
        figure,
        value: value.saturating_mul(step),
        step,
        page: page.clone(),
    };
    let as_bytes = UNITS.iter().find_map(|(unit, bytes)| {
        let name = one.name.strip_suffix(unit)?;
        let step = if *bytes == 512 { sector } else { *bytes };
        let figure = if HOST.contains(&name) {
            DriveFigure::HostWritten
        } else if MEDIA.contains(&name) {
            DriveFigure::MediaWritten
        } else {
            return None;
        };
        Some(of(figure, one.raw, step))
    });
    as_bytes.or_else(|| match one.name.as_str() {
        "Temperature_Celsius" => Some(of(DriveFigure::Temperature, one.raw, 1)),
        "Power_On_Hours" => Some(of(DriveFigure::PowerOnHours, one.raw, 1)),
        "Unexpect_Power_Loss_Ct" | "Unsafe_Shutdown_Count" | "POR_Recovery_Count" => {
            Some(of(DriveFigure::UnsafeShutdowns, one.raw, 1))
        }
        "Ave_Block-Erase_Count" | "Average_Erase_Count" | "Wear_Leveling_Count" => {
            Some(of(DriveFigure::MeanErases, one.raw, 1))
        }
        // Counts down from 100.
        "Media_Wearout_Indicator" | "Percent_Lifetime_Remain" | "SSD_Life_Left" => {
            Some(of(DriveFigure::Used, 100_u64.saturating_sub(one.normalized), 1))
        }
        _ => None,
    })
}

/// Micron and Crucial count programmed pages for hosts and for the drive's own work; the sectors that hosts wrote tell
/// how large a page is. The second counter is of media bytes.
fn program_pages(all: &[Attribute], sector: u64) -> Option<[Counter; 1]> {
    let raw = |name: &str| all.iter().find(|one| one.name == name).map(|one| one.raw);
    let sectors = raw("Total_LBAs_Written").or(raw("Total_Host_Sector_Write"))?;
    let (host, own) = (raw("Host_Program_Page_Count")?, raw("FTL_Program_Page_Count")?);
    if host == 0 {
        return None;
    }
    let page = sectors as f64 * sector as f64 / host as f64;
    let value = ((host + own) as f64 * page) as u64;
    let page_of = LogPage::Attribute { number: 248, name: "FTL_Program_Page_Count".to_owned() };
    Some([Counter { figure: DriveFigure::MediaWritten, value, step: page as u64, page: page_of }])
}
