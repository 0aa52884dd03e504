//! Flash behind a block device: indirection unit, write streams, write cache, counters of the media.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use thermocline_drive::{self as drive, DriveFigure, DriveTraits, HealthReading, LiveError};
use thermocline_runtime::{queue_attribute, write_streams};
use thermocline_types::Bytes;

use super::Finding;

/// Findings for the drive at `path`; none for a file.
pub fn examine(path: &Path) -> Vec<Finding> {
    if !fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device()) {
        return Vec::new();
    }
    let fact = |name: &str| queue_attribute(path, name);
    let pages = drive::pages(path);
    let traits = pages.as_ref().map(|pages| pages.traits());
    vec![
        unit(traits.as_ref().map_err(|error| error.to_string())),
        streams(write_streams(path)),
        zones(fact("zoned").as_deref(), fact("nr_zones").as_deref()),
        cache(traits.as_ref().ok().and_then(|one| one.as_ref()), fact("write_cache").as_deref()),
        match pages {
            Ok(pages) => media(&pages.reading()),
            Err(error) => other(path, &error),
        },
    ]
}

fn unit(traits: Result<&Option<DriveTraits>, String>) -> Finding {
    let text = match traits {
        Err(reason) => format!("indirection unit unknown: {reason}"),
        Ok(None) => "indirection unit unknown: the controller has no namespace".to_owned(),
        Ok(Some(traits)) => match (traits.write_unit_bytes, traits.deallocate_unit_bytes) {
            (Some(write), Some(trim)) => format!(
                "preferred writes are multiples of {}, trims of {} (Identify: NPWG, NPDG)",
                Bytes(write),
                Bytes(trim)
            ),
            _ => "indirection unit unknown: the drive tells no NPWG (Identify: NSFEAT, OPTPERF); \
                  `thermocline drive probe` measures it"
                .to_owned(),
        },
    };
    Finding::ok("unit", text)
}

fn streams(count: u32) -> Finding {
    let text = match count {
        0 => "no write streams: the drive has none, or Linux is older than 6.16".to_owned(),
        count => format!("{count} write streams (queue/max_write_streams)"),
    };
    Finding::ok("streams", text)
}

fn zones(zoned: Option<&str>, count: Option<&str>) -> Finding {
    Finding::ok(
        "zones",
        match (zoned, count) {
            (None | Some("none"), _) => "no zones (queue/zoned)".to_owned(),
            (Some(kind), count) => {
                format!(
                    "{} zones, {kind} (queue/zoned, queue/nr_zones)",
                    count.unwrap_or("unknown")
                )
            }
        },
    )
}

fn cache(traits: Option<&DriveTraits>, kernel: Option<&str>) -> Finding {
    let (is_volatile, how) = match (traits, kernel) {
        (Some(traits), _) => (Some(traits.has_write_cache), "Identify: VWC"),
        (None, Some("write back")) => (Some(true), "queue/write_cache"),
        (None, Some("write through")) => (Some(false), "queue/write_cache"),
        (None, _) => (None, "queue/write_cache"),
    };
    Finding::ok(
        "cache",
        match is_volatile {
            Some(true) => format!("the write cache is volatile: flushes reach the media ({how})"),
            Some(false) => {
                format!("no volatile write cache: power-loss protection, or none is needed ({how})")
            }
            None => format!("write cache unknown ({how})"),
        },
    )
}

/// Whether the media bytes, and so DLWA, are known.
fn media(reading: &HealthReading) -> Finding {
    if let Some(media) = reading.counter(DriveFigure::MediaWritten) {
        return Finding::ok("media", format!("DLWA is known: {} has media bytes", media.page));
    }
    let pages: Vec<String> = reading.untold.iter().map(ToString::to_string).collect();
    Finding::ok("media", format!("DLWA is unknown: no page has media bytes; {}", pages.join("; ")))
}

fn other(path: &Path, error: &LiveError) -> Finding {
    match error {
        LiveError::Denied => {
            let reason = format!("DLWA is unknown: {error}");
            Finding::warn("media", reason, "run as root, or give the program CAP_SYS_ADMIN")
        }
        _ => {
            let shown = path.display();
            let reason = format!("DLWA is unknown: {shown} is no NVMe drive");
            Finding::ok("media", format!("{reason}; `thermocline drive stat {shown}` reads others"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fact_names_its_source() {
        let traits = DriveTraits {
            block_bytes: 4096,
            write_unit_bytes: Some(16 << 10),
            deallocate_unit_bytes: Some(32 << 10),
            has_write_cache: false,
            has_fdp: true,
        };
        let told = unit(Ok(&Some(traits))).reason;
        assert_eq!(
            told,
            "preferred writes are multiples of 16 KiB, trims of 32 KiB (Identify: NPWG, NPDG)"
        );
        let untold = DriveTraits { write_unit_bytes: None, ..traits };
        assert!(unit(Ok(&Some(untold))).reason.contains("OPTPERF"));
        assert!(cache(Some(&traits), Some("write back")).reason.ends_with("(Identify: VWC)"));
        assert!(cache(None, Some("write back")).reason.contains("is volatile"));
        assert_eq!(streams(7).reason, "7 write streams (queue/max_write_streams)");
        assert!(
            zones(Some("host-managed"), Some("64")).reason.starts_with("64 zones, host-managed")
        );
    }

    #[test]
    fn a_file_has_no_such_findings() {
        assert!(examine(Path::new("Cargo.toml")).is_empty());
    }
}
