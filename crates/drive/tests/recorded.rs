//! Output of nvme-cli and smartctl for drives that do not exist: numbers are made up, forms are those of the programs.

use thermocline_drive::{DriveFigure, HealthReading, LogPage, RecordError, Wear};

/// `nvme smart-log`.
const SMART_LOG: &str = "\
Smart Log for NVME device:nvme0 namespace-id:ffffffff
critical_warning			: 0
temperature				: 38 C (311 K)
available_spare				: 100%
available_spare_threshold		: 10%
percentage_used				: 7%
endurance group critical warning summary: 0
Data Units Read				: 31,250,000 (16.00 TB)
Data Units Written			: 19,531,250 (10.00 TB)
host_read_commands			: 1,000
power_on_hours				: 8,766
unsafe_shutdowns			: 12
media_errors				: 0
";

/// `nvme smart-log -o json`.
const SMART_JSON: &str = r#"{"critical_warning":0,"temperature":311,"avail_spare":100,"spare_thresh":10,
"percent_used":7,"data_units_read":31250000,"data_units_written":"19531250","power_on_hours":8766,
"unsafe_shutdowns":12,"media_errors":0}"#;

/// `smartctl -x` of an NVMe drive.
const SMARTCTL_NVME: &str = "\
=== START OF INFORMATION SECTION ===
Model Number:                       ACME NVMe 1TB
Serial Number:                      S123
Firmware Version:                   1.0
Total NVM Capacity:                 1,000,204,886,016 [1.00 TB]

=== START OF SMART DATA SECTION ===
Critical Warning:                   0x00
Available Spare:                    100%
Available Spare Threshold:          10%
Percentage Used:                    7%
Data Units Written:                 19,531,250 [10.0 TB]
Power On Hours:                     8,766
Unsafe Shutdowns:                   12
Media and Data Integrity Errors:    0
";

/// `nvme ocp smart-add-log`.
const OCP: &str = "\
SMART Cloud Attributes :-
  Physical media units written -               	0 25000000000000
  Physical media units read    -               	0 1
  Max User data erase counts			90
";

/// `smartctl -A` of SATA drives.
const INTEL: &str = "\
Device Model:     ACME SATA 480
User Capacity:    480,103,981,056 bytes [480 GB]
Sector Size:      512 bytes logical/physical
ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
  9 Power_On_Hours          0x0032   100   100   000    Old_age   Always       -       17532
233 Media_Wearout_Indicator 0x0032   080   080   000    Old_age   Always       -       0
241 Host_Writes_32MiB       0x0032   100   100   000    Old_age   Always       -       1000000
243 NAND_Writes_32MiB       0x0032   100   100   000    Old_age   Always       -       3000000
";
const CRUCIAL: &str = "\
ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
  9 Power_On_Hours          0x0032   100   100   000    Old_age   Always       -       17532
173 Ave_Block-Erase_Count   0x0032   098   098   000    Old_age   Always       -       33
202 Percent_Lifetime_Remain 0x0030   098   098   001    Old_age   Offline      -       2
246 Total_LBAs_Written      0x0032   100   100   000    Old_age   Always       -       2000000000
247 Host_Program_Page_Count 0x0032   100   100   000    Old_age   Always       -       62500000
248 FTL_Program_Page_Count  0x0032   100   100   000    Old_age   Always       -       187500000
";

fn reading(text: &str) -> HealthReading {
    HealthReading::recorded(text.as_bytes()).expect("counters")
}

fn value(reading: &HealthReading, figure: DriveFigure) -> u64 {
    reading.counter(figure).unwrap_or_else(|| panic!("{figure} of {reading:?}")).value
}

#[test]
fn one_drive_is_the_same_in_each_form() {
    for text in [SMART_LOG, SMART_JSON, SMARTCTL_NVME] {
        let reading = reading(text);
        assert_eq!(value(&reading, DriveFigure::HostWritten), 10_000_000_000_000, "{text}");
        assert_eq!(value(&reading, DriveFigure::Used), 7);
        assert_eq!(value(&reading, DriveFigure::Spare), 100);
        assert_eq!(value(&reading, DriveFigure::SpareThreshold), 10);
        assert_eq!(value(&reading, DriveFigure::PowerOnHours), 8_766);
        assert_eq!(value(&reading, DriveFigure::UnsafeShutdowns), 12);
        assert_eq!(
            (
                value(&reading, DriveFigure::MediaErrors),
                value(&reading, DriveFigure::CriticalWarning)
            ),
            (0, 0)
        );
        assert!(
            reading
                .counters
                .iter()
                .all(|one| matches!(one.page, LogPage::Health | LogPage::Identity))
        );
    }
    let named = reading(SMARTCTL_NVME);
    assert_eq!(
        (named.model.as_deref(), named.serial.as_deref()),
        (Some("ACME NVMe 1TB"), Some("S123"))
    );
    assert_eq!(value(&named, DriveFigure::Capacity), 1_000_204_886_016);
}

#[test]
fn a_health_page_alone_tells_a_life_and_no_write_amplification() {
    let wear = Wear::of(None, &reading(SMARTCTL_NVME));
    assert_eq!(wear.waf, None, "no page of it counts media bytes");
    let years = wear.years.expect("7 % in a year");
    assert!((years.likely - 93.0 / 7.0).abs() < 0.01, "{years:?}");
    assert!(years.range[0] < years.likely && years.likely < years.range[1]);
    let daily = wear.drive_writes_per_day.expect("capacity and hours are told");
    assert!((daily - 10.0 / 1.000_204_886 / 365.25).abs() < 1e-3, "{daily}");
}

#[test]
fn media_bytes_of_another_page_are_held_against_the_host_bytes_of_the_health_page() {
    let mut drive = reading(SMART_LOG);
    drive.join(reading(OCP));
    let waf = Wear::of(None, &drive).waf.expect("both are told");
    assert!((waf.value - 2.5).abs() < 1e-9, "{waf:?}");
    assert_eq!((waf.host, waf.media), (LogPage::Health, LogPage::Ocp));
}

#[test]
fn sata_drives_tell_by_attributes_with_a_unit_in_their_names() {
    let drive = reading(INTEL);
    let wear = Wear::of(None, &drive);
    assert!((wear.waf.expect("both").value - 3.0).abs() < 1e-9);
    assert_eq!(value(&drive, DriveFigure::HostWritten), 1_000_000 * (32 << 20));
    assert_eq!(
        (value(&drive, DriveFigure::Used), value(&drive, DriveFigure::Capacity)),
        (20, 480_103_981_056)
    );
    let drive = reading(CRUCIAL);
    let waf = Wear::of(None, &drive).waf.expect("pages and sectors");
    assert!((waf.value - 4.0).abs() < 1e-6, "{waf:?}");
    assert_eq!((value(&drive, DriveFigure::Used), value(&drive, DriveFigure::MeanErases)), (2, 33));
}

#[test]
fn between_two_readings_only_what_came_between_counts() {
    let at =
        |host: u64, media: u64| reading(&format!("{{\"hbmw\":{host},\"mbmw\":{media},\"mbe\":0}}"));
    let (first, last) = (at(1_000_000, 4_000_000), at(3_000_000, 7_000_000));
    let waf = Wear::of(Some(&first), &last).waf.expect("both");
    assert!(
        (waf.value - 1.5).abs() < 1e-9 && (Wear::of(None, &last).waf.expect("both").value > 2.0)
    );
    assert_eq!(Wear::of(Some(&last), &first).waf, None, "counters fell");
}

#[test]
fn what_has_no_counter_is_refused() {
    for (bytes, expected) in [
        (&b"hello"[..], RecordError::NoCounter),
        (b"", RecordError::NoCounter),
        (b"{\"model_name\": \"x\"}", RecordError::NoCounter),
        (&[0xFF; 100], RecordError::UnknownPage),
    ] {
        assert_eq!(HealthReading::recorded(bytes), Err(expected));
    }
}
