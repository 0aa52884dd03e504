//! Pages that QEMU's NVMe drives gave to the kernel's passthrough. `nvme smart-log`, `nvme fdp stats` and
//! `nvme fdp usage` told the same numbers of the same drives.

use std::cell::Cell;
use std::path::Path;

use rustix::io::Errno;
use serde_json::Value;
use thermocline_drive::{
    AdminCommand, DriveFigure, DrivePages, HealthReading, LogPage, PagesError, UntoldReason, Wear,
    metrics,
};

/// A drive with FDP, to which 150 MiB were written and one handle was given a new unit.
const FDP: &str = include_str!("qemu-fdp.json");
/// A drive without.
const PLAIN: &str = include_str!("qemu-plain.json");

fn reading(text: &str) -> HealthReading {
    HealthReading::recorded(text.as_bytes()).expect("pages")
}

fn value(reading: &HealthReading, figure: DriveFigure, page: &LogPage) -> u64 {
    let is_it = |one: &&thermocline_drive::Counter| one.figure == figure && one.page == *page;
    reading.counters.iter().find(is_it).expect("it is told").value
}

/// The bytes of a text of the record.
fn bytes(text: &Value) -> Vec<u8> {
    let text = text.as_str().expect("a text");
    let (digits, zeros) = text.split_once('+').unwrap_or((text, "0"));
    let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
    let mut bytes: Vec<u8> = (0..digits.len()).step_by(2).map(pair).collect();
    bytes.resize(bytes.len() + zeros.parse::<usize>().expect("a number"), 0);
    bytes
}

/// Reads the recorded drive again by its commands; `change` replaces the answer to a log page.
fn read(
    text: &str,
    change: impl Fn(u8) -> Option<Result<u32, Errno>>,
) -> Result<DrivePages, PagesError> {
    let record: Value = serde_json::from_str(text).expect("JSON");
    let pages = record["pages"].as_array().expect("pages");
    let (identities, asked) = (Cell::new(0), Cell::new(0));
    let submit = |command: &AdminCommand, data: &mut [u8]| {
        let found = match command.page() {
            None => {
                let names = ["controller", "namespace"];
                bytes(&record[names[identities.replace(identities.get() + 1)]])
            }
            Some(page) => {
                let one = &pages[asked.replace(asked.get() + 1)];
                assert_eq!(one["page"].as_u64(), Some(page.into()), "the order of the record");
                match change(page).unwrap_or(Ok(one["status"].as_u64().expect("one") as u32)) {
                    Ok(0) => bytes(&one["bytes"]),
                    other => return other,
                }
            }
        };
        data.copy_from_slice(&found);
        Ok(0)
    };
    DrivePages::read(Some(1), record["unix_seconds"].as_u64().expect("a time"), &submit)
}

#[test]
fn a_drive_with_fdp_tells_what_nvme_cli_told_of_it() {
    let drive = reading(FDP);
    assert_eq!(
        (drive.model.as_deref(), drive.serial.as_deref()),
        (Some("QEMU NVMe Ctrl"), Some("FDP0001"))
    );
    assert_eq!(value(&drive, DriveFigure::HostWritten, &LogPage::Health), 308 * 512_000);
    assert_eq!(value(&drive, DriveFigure::Temperature, &LogPage::Health), 50);
    assert_eq!(value(&drive, DriveFigure::MediaWritten, &LogPage::EnduranceGroup), 0);
    assert_eq!(value(&drive, DriveFigure::Capacity, &LogPage::Identity), 256 << 20);
    let waf = Wear::of(None, &drive).waf.expect("page 22h");
    assert_eq!((waf.host_bytes, waf.media_bytes), (157_286_400, 175_112_192));
    assert_eq!((waf.host, waf.media), (LogPage::FdpStatistics, LogPage::FdpStatistics));
    let fdp = drive.fdp.expect("pages 20h and 21h");
    assert_eq!((fdp.unit_bytes, fdp.groups), (8 << 20, 1));
    let users: Vec<&str> = fdp.handles.iter().map(|one| one.used_by).collect();
    assert_eq!(users, ["unused", "host", "host", "host", "host", "unused", "unused", "unused"]);
    assert!(fdp.handles.iter().all(|one| one.stays_apart == Some(false)));
    let [ocp] = drive.untold[..] else { panic!("{:?}", drive.untold) };
    assert_eq!((ocp.page, ocp.reason), (0xC0, UntoldReason::Refused(0x4002)));
    assert!(ocp.to_string().contains("does not have it"));
}

#[test]
fn commands_get_the_pages_that_a_record_keeps() {
    for text in [FDP, PLAIN] {
        assert_eq!(read(text, |_| None).expect("a drive").record(), text);
    }
    let traits = read(FDP, |_| None).expect("a drive").traits().expect("a namespace");
    assert_eq!((traits.block_bytes, traits.has_fdp, traits.has_write_cache), (4096, true, true));
    let plain = reading(PLAIN);
    assert!(plain.fdp.is_none() && Wear::of(None, &plain).waf.is_none());
}

#[test]
fn what_a_drive_refuses_is_told_and_the_rest_is_read() {
    let pages = read(FDP, |page| (page == 0x22).then_some(Ok(0x4109))).expect("the rest");
    let drive = pages.reading();
    assert!(
        drive
            .untold
            .iter()
            .any(|one| one.page == 0x22 && one.reason == UntoldReason::Refused(0x4109))
    );
    assert_eq!(value(&drive, DriveFigure::HostWritten, &LogPage::Health), 308 * 512_000);
    let denied = read(FDP, |_| Some(Err(Errno::ACCESS)));
    assert_eq!(denied.expect_err("no right"), PagesError::Kernel(Errno::ACCESS));
    let none = DrivePages::read(None, 0, &|_, _| Ok(0x4002));
    assert_eq!(none.expect_err("no identity"), PagesError::Identify(0x4002));
}

#[test]
fn a_page_that_is_cut_short_is_unknown() {
    let mut record: Value = serde_json::from_str(FDP).expect("JSON");
    for page in record["pages"].as_array_mut().expect("pages") {
        page["bytes"] = "01".into();
    }
    let drive = reading(&record.to_string());
    let unknown = |one: &&thermocline_drive::Untold| one.reason == UntoldReason::UnknownLayout;
    assert_eq!(
        drive.untold.iter().filter(unknown).map(|one| one.page).collect::<Vec<_>>(),
        [0x02, 0x09, 0x22]
    );
    assert!(drive.fdp.is_none());
}

#[test]
fn events_are_counted_by_kind() {
    let mut record: Value = serde_json::from_str(FDP).expect("JSON");
    // Three events of page 23h: two writes with an unknown placement, and a unit that was not filled.
    let event = |kind: &str| format!("{kind}{}", "0".repeat(126));
    let events = format!("03{}", "0".repeat(126)) + &event("03") + &event("00") + &event("03");
    let pages = record["pages"].as_array_mut().expect("pages");
    let hosts = pages.iter_mut().find(|one| one["page"] == 0x23 && one["part"] == 1);
    hosts.expect("events of hosts")["bytes"] = events.into();
    let events = reading(&record.to_string()).fdp.expect("FDP").events;
    assert_eq!(
        events.into_iter().collect::<Vec<_>>(),
        [("invalid_placement", 2), ("unit_not_full", 1)]
    );
}

#[test]
fn metrics_have_the_page_of_each_number() {
    let drive = reading(FDP);
    let text = metrics(&[(Path::new("/dev/nvme0"), Some(&drive)), (Path::new("/dev/sda"), None)]);
    let of = |page: &str| {
        format!(
            "{{device=\"/dev/nvme0\",model=\"QEMU NVMe Ctrl\",serial=\"FDP0001\",page=\"{page}\"}}"
        )
    };
    for line in [
        format!(
            "thermocline_drive_media_written_bytes_total{} 175112192",
            of("FDP statistics, page 22h")
        ),
        format!("thermocline_drive_temperature_celsius{} 50", of("health, page 02h")),
        "thermocline_drive_readable{device=\"/dev/sda\"} 0".to_owned(),
    ] {
        assert!(text.lines().any(|one| one == line), "{line}\n{text}");
    }
    let worn = "{\"percent_used\": 50, \"power_on_hours\": 8766, \"hbmw\": 1000, \"mbmw\": 2000}";
    let worn = HealthReading::recorded(worn.as_bytes()).expect("counters");
    let text_of_worn = metrics(&[(Path::new("/dev/x"), Some(&worn))]);
    let years = text_of_worn.lines().find(|line| line.starts_with("thermocline_drive_years_left{"));
    assert!(years.is_some_and(|line| line.ends_with(" 1")), "half used in a year\n{text_of_worn}");
    let heads =
        text.lines().filter(|line| line.starts_with("# TYPE thermocline_drive_host_written"));
    assert_eq!(heads.count(), 1);
}
