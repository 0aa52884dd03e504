//! Theoretical bandwidth against simulated drives.

use thermocline_record::plot::{Plot, PlotAxis, PlotLine};
use thermocline_types::Bytes;
use thermocline_workload::synthetic::Limit;

use super::super::point::{Reference, THATCHER};
use super::super::{Figure, FiguresDrawn, Options, part};
use super::{PatternJob, mb_per_s, mix};
use crate::Error;
use crate::theory::bandwidth::{FlashArray, FlashTiming, HostLink, READ_SHARES};

/// A drive of the tutorial: its profile, buses of four banks, and link. MLC is the same drive with MLC on its buses.
const DRIVES: [(&str, &str, &str, f64, &str); 3] = [
    ("PCI-C, SLC", "raw:pci-c", "slc", 24.0, "pcie1-x4"),
    ("PCI-C, MLC", "raw:pci-c", "mlc", 24.0, "pcie1-x4"),
    ("SATA-B, SLC", "raw:sata-b", "slc", 10.0, "sata-ii"),
];

/// What is held against the closed form.
const BANDWIDTH: Reference = Reference::new(THATCHER, "dies, buses and link: bandwidth", "MB/s");

/// Banks of a bus that work at the same time: chip selects.
const BANKS: f64 = 4.0;

/// What the closed form assumes of a controller: none of it.
const FREE: [&str; 4] = [
    "device.timing.bus_in_order=false",
    "device.timing.firmware_read_us=0",
    "device.timing.firmware_write_us=0",
    "device.timing.controller_kiops=1000000",
];

/// Simulated drives at the five mixes, beside the closed form.
pub fn bandwidth(options: &Options, progress: &mut dyn FnMut(f64)) -> Result<FiguresDrawn, Error> {
    let (mut figures, mut plots) = (Vec::new(), Vec::new());
    let steps = DRIVES.len() * READ_SHARES.len();
    for (index, drive) in DRIVES.into_iter().enumerate() {
        let (mut theory, mut simulated) = (Vec::new(), Vec::new());
        for (step, read) in READ_SHARES.into_iter().enumerate() {
            let step = index * READ_SHARES.len() + step;
            let expected = closed_form(drive, read)?;
            let ours = simulate(drive, read, options.seed, &mut part(progress, step, steps))?;
            theory.push([read * 100.0, expected]);
            simulated.push([read * 100.0, ours]);
            let what = format!("{}, reads/writes {}: MB/s", drive.0, mix(read));
            figures.push(Figure::new(what, expected, ours, BANDWIDTH));
        }
        plots.push(Plot {
            title: format!("{}: bandwidth by mix", drive.0),
            caption: "The closed form assumes that garbage collection and controller cost nothing; transfers of 1 MiB in \
                      order, 64 in flight."
                .into(),
            x: PlotAxis::linear("bytes read, %"),
            y: PlotAxis::linear("MB/s"),
            lines: vec![
                PlotLine::reference("closed form", theory),
                PlotLine::ours("simulated", simulated),
            ],
        });
    }
    Ok((figures, plots))
}

/// What the closed form says, with the pages of 4 KiB that the simulated drives have, where the slides say 4,000 B.
fn closed_form(drive: (&str, &str, &str, f64, &str), read: f64) -> Result<f64, Error> {
    let (_, _, media, buses, link) = drive;
    let known = "the drives name media and links that exist";
    let timing = FlashTiming { page_bytes: 4096.0, ..*FlashTiming::find(media).expect(known) };
    let link = *HostLink::find(link).expect(known);
    let array = FlashArray::new(timing, buses * BANKS, BANKS, BANKS, link);
    let array = array.map_err(|error| Error::Settings(error.to_string()))?;
    Ok(array.bandwidth(read, None).mb_per_s)
}

fn simulate(
    drive: (&str, &str, &str, f64, &str),
    read: f64,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<f64, Error> {
    let (_, stack, media, _, _) = drive;
    let timing = FlashTiming::find(media).expect("the drives name media that exist");
    let cells = [
        format!("device.timing.read_us={}", timing.read_us),
        format!("device.timing.program_us={}", timing.program_us),
        format!("device.timing.erase_us={}", timing.erase_us),
        format!("device.geometry.block={}", timing.pages_per_block as u64 * 4096),
    ];
    let overrides: Vec<String> = FREE.iter().map(|text| (*text).to_owned()).chain(cells).collect();
    let capacity = Bytes::gib(1);
    let job = PatternJob {
        overrides: &overrides,
        pattern: "seq",
        read_share: read,
        seed,
        ..PatternJob::new(stack, capacity, Bytes::mib(1), Limit::Requests(2048))
    };
    Ok(mb_per_s(&job.run(progress)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Large sequential transfers and deep queues: no relocation, as the closed form assumes.
    #[test]
    fn simulated_drives_reach_the_closed_form_where_its_assumptions_hold() {
        for drive in DRIVES {
            for read in READ_SHARES {
                let expected = closed_form(drive, read).unwrap();
                let ours = simulate(drive, read, 1, &mut |_| {}).unwrap();
                let off = ours / expected - 1.0;
                assert!(off.abs() < 0.03, "{} {}: {ours} of {expected}", drive.0, mix(read));
            }
        }
    }
}
