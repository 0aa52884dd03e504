//! What the dies, buses and link of a drive can do at most, by the share of bytes that are read.
//!
//! Formula, after Thatcher (SNIA tutorial "NAND Flash Solid State Storage Performance and Capability", 2009; the slides
//! state the assumptions and the results, the formula is our reconstruction): for one bus with `B` banks that can be
//! selected one by one, pages of `P` bytes, a bus of `b` bytes per second and `N` pages in an erase block,
//!
//! ```text
//! tX     = P / b
//! t_bank = r (tR + tX) + w (tX + tPROG + e tERASE / N)       r + w = 1, shares of bytes
//! bus    = P min(1 / tX, B / t_bank)
//! drive  = buses · bus, capped by the link
//! ```
//!
//! Assumptions: transfers large, buffers without end, steady state, as many erase blocks erased as written (`e` = 1,
//! garbage collection costs nothing), no overhead of a protocol. A die with a second page register works while it
//! transfers, so that `tX` is not in `t_bank`.

use thermocline_nand::Profile;
use thermocline_types::Bytes;

use super::DomainError;

/// What a cell technology takes for a page and a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashTiming {
    /// `slc`, `mlc`, `tlc` or `qlc`.
    pub name: &'static str,
    /// Where the values come from.
    pub source: &'static str,
    /// Bytes that one operation of a bank reads or programs, all planes together.
    pub page_bytes: f64,
    /// Pages of an erase block.
    pub pages_per_block: f64,
    /// Array read, microseconds.
    pub read_us: f64,
    /// Program, microseconds.
    pub program_us: f64,
    /// Erase, microseconds.
    pub erase_us: f64,
    /// Bus, MB/s.
    pub bus_mb_per_s: f64,
    /// Capacity of a die, bytes.
    pub die_bytes: f64,
}

/// SLC and MLC as the tutorial of 2009 has them, and two of 2021.
pub const FLASH_TIMINGS: [FlashTiming; 4] = [
    FlashTiming {
        name: "slc",
        source: "Micron MT29F4G08AAA (2007; tRC 25 ns, tR 25 us, tBERS 1.5 ms, 64 pages), tPROG 200 us and 4,000 B \
                 pages on the slides of 2009",
        page_bytes: 4000.0,
        pages_per_block: 64.0,
        read_us: 25.0,
        program_us: 200.0,
        erase_us: 1500.0,
        bus_mb_per_s: 40.0,
        die_bytes: 512e6,
    },
    FlashTiming {
        name: "mlc",
        source: "Micron MT29F8G08MAA (2007; tRC 25 ns, tR 50 us, tBERS 2 ms, 128 pages), tPROG 800 us (unverified), \
                 4,000 B pages on the slides of 2009",
        page_bytes: 4000.0,
        pages_per_block: 128.0,
        read_us: 50.0,
        program_us: 800.0,
        erase_us: 2000.0,
        bus_mb_per_s: 40.0,
        die_bytes: 1024e6,
    },
    FlashTiming {
        name: "tlc",
        source: "96-layer TLC, 512 Gb: AnandTech on ISSCC 2021 (57 MB/s and 58 us in two planes of 16 KiB pages, 18 MB \
                 erase block, 0.533 Gb/s); tERASE unverified",
        page_bytes: 32_768.0,
        pages_per_block: 576.0,
        read_us: 58.0,
        program_us: 575.0,
        erase_us: 5000.0,
        bus_mb_per_s: 533.0,
        die_bytes: 64e9,
    },
    FlashTiming {
        name: "qlc",
        source: "144-layer QLC, 1 Tb: ISSCC 2021 (tR 85 us, tPROG 1,630 us, four planes of 16 KiB pages, 48 MB erase \
                 block, 1.2 Gb/s; unverified); tERASE unverified",
        page_bytes: 65_536.0,
        pages_per_block: 768.0,
        read_us: 85.0,
        program_us: 1630.0,
        erase_us: 10_000.0,
        bus_mb_per_s: 1200.0,
        die_bytes: 128e9,
    },
];

impl FlashTiming {
    /// The timing called `name`, in any case.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static FlashTiming> {
        FLASH_TIMINGS.iter().find(|timing| timing.name.eq_ignore_ascii_case(name))
    }
}

/// The link between a drive and the host. Rates in MB/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostLink {
    /// Short name.
    pub name: &'static str,
    /// From drive to host.
    pub read_mb_per_s: f64,
    /// From host to drive.
    pub write_mb_per_s: f64,
    /// Whether both directions share the link.
    pub half_duplex: bool,
}

/// Links by name: rates after the line code, before any protocol overhead (SATA 2.6, PCI Express 1.1 to 4.0).
pub const HOST_LINKS: [HostLink; 5] = [
    link("none", f64::INFINITY, false),
    link("sata-ii", 300.0, true),
    link("pcie1-x4", 1000.0, false),
    link("pcie3-x4", 3938.0, false),
    link("pcie4-x4", 7877.0, false),
];

const fn link(name: &'static str, rate: f64, half_duplex: bool) -> HostLink {
    HostLink { name, read_mb_per_s: rate, write_mb_per_s: rate, half_duplex }
}

impl HostLink {
    /// The link called `name`.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static HostLink> {
        HOST_LINKS.iter().find(|link| link.name.eq_ignore_ascii_case(name))
    }

    /// Reads and writes together that it carries when a share `read` of the bytes is read, MB/s.
    #[must_use]
    pub fn mb_per_s(&self, read: f64) -> f64 {
        let [time_read, time_write] =
            [read / self.read_mb_per_s, (1.0 - read) / self.write_mb_per_s];
        let time =
            if self.half_duplex { time_read + time_write } else { time_read.max(time_write) };
        1.0 / time
    }
}

/// What limits a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// Reads, programs and erases in the dies.
    Dies,
    /// Transfers between dies and controller.
    Buses,
    /// What all dies together may program, by power or controller.
    ProgramPower,
    /// The link to the host.
    Link,
    /// Commands that the controller can start.
    Controller,
}

impl Bottleneck {
    /// The name used in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Bottleneck::Dies => "dies",
            Bottleneck::Buses => "buses",
            Bottleneck::ProgramPower => "program_power",
            Bottleneck::Link => "link",
            Bottleneck::Controller => "controller",
        }
    }
}

/// The most that a drive can do, and why it is not more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TheoreticalBandwidth {
    /// Reads and writes together, MB/s.
    pub mb_per_s: f64,
    /// The first resource to saturate.
    pub bottleneck: Bottleneck,
}

/// Banks on buses behind a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashArray {
    /// Times of page and block commands.
    pub timing: FlashTiming,
    /// Buses.
    pub buses: f64,
    /// Banks of a bus that work at the same time.
    pub banks_per_bus: f64,
    /// Erase blocks erased for each one written; 1 is perfect collection.
    pub erases_per_block: f64,
    /// Overhead of every transfer on a bus, microseconds.
    pub command_us: f64,
    /// Whether a die transfers one page while it works on another.
    pub cache_register: bool,
    /// What all dies together may program, MB/s.
    pub program_mb_per_s: Option<f64>,
    /// Commands per second that the controller can start, in thousands.
    pub controller_kiops: Option<f64>,
    /// The link to the host.
    pub link: HostLink,
}

impl FlashArray {
    /// `dies` of `timing`, `dies_per_bus` on each bus, of which as many work at once as there are `chip_selects`, as
    /// the tutorial of 2009 counts them.
    ///
    /// # Errors
    /// [`DomainError`] for counts below 1.
    pub fn new(
        timing: FlashTiming,
        dies: f64,
        dies_per_bus: f64,
        chip_selects: f64,
        link: HostLink,
    ) -> Result<FlashArray, DomainError> {
        let counted = |quantity, value: f64| {
            let holds = (1.0..=1e6).contains(&value);
            DomainError::unless(holds, quantity, value, "between 1 and a million")
        };
        counted("the number of dies", dies)?;
        counted("the number of dies on a bus", dies_per_bus)?;
        counted("the number of chip selects", chip_selects)?;
        Ok(FlashArray {
            timing,
            buses: dies / dies_per_bus,
            banks_per_bus: chip_selects.min(dies_per_bus),
            erases_per_block: 1.0,
            command_us: 0.0,
            cache_register: false,
            program_mb_per_s: None,
            controller_kiops: None,
            link,
        })
    }

    /// The dies, buses, controller and link of a device profile, if it has times.
    #[must_use]
    pub fn of_profile(profile: &Profile) -> Option<FlashArray> {
        let (geometry, timing) = profile.geometry.as_ref().zip(profile.timing.as_ref())?;
        Some(FlashArray {
            timing: FlashTiming {
                name: "profile",
                source: "the device's profile",
                page_bytes: geometry.program_unit().as_f64(),
                pages_per_block: geometry.block.as_f64() / geometry.page.as_f64(),
                read_us: timing.read_us,
                program_us: timing.program_us,
                erase_us: timing.erase_us,
                bus_mb_per_s: timing.bus_mb_per_s,
                die_bytes: profile.capacity.as_f64() * (1.0 + profile.overprovisioning())
                    / f64::from(geometry.dies),
            },
            buses: f64::from(geometry.channels.min(geometry.dies)),
            banks_per_bus: f64::from(geometry.dies)
                / f64::from(geometry.channels.min(geometry.dies)),
            erases_per_block: 1.0,
            command_us: timing.command_us,
            cache_register: geometry.cache_register,
            program_mb_per_s: timing.program_mb_per_s,
            controller_kiops: Some(timing.controller_kiops),
            link: HostLink {
                name: "profile",
                read_mb_per_s: timing.link_read_mb_per_s,
                write_mb_per_s: timing.link_write_mb_per_s,
                half_duplex: timing.link_half_duplex,
            },
        })
    }

    /// What each resource allows, MB/s of reads and writes together, when a share `read` of the bytes is read by
    /// requests of `request` bytes in the mean.
    #[must_use]
    pub fn ceilings(&self, read: f64, request: Option<Bytes>) -> Vec<(Bottleneck, f64)> {
        let t = &self.timing;
        let write = 1.0 - read;
        let transfer = t.page_bytes / t.bus_mb_per_s + self.command_us;
        let held = if self.cache_register { 0.0 } else { transfer };
        let erase = self.erases_per_block * t.erase_us / t.pages_per_block;
        let bank = read * (t.read_us + held) + write * (held + t.program_us + erase);
        let mut ceilings = vec![
            (Bottleneck::Dies, self.buses * self.banks_per_bus * t.page_bytes / bank),
            (Bottleneck::Buses, self.buses * t.page_bytes / transfer),
            (Bottleneck::Link, self.link.mb_per_s(read)),
        ];
        if let Some(rate) = self.program_mb_per_s.filter(|_| write > 0.0) {
            ceilings.push((Bottleneck::ProgramPower, rate / write));
        }
        if let Some((kiops, request)) = self.controller_kiops.zip(request) {
            ceilings.push((Bottleneck::Controller, kiops * 1e3 * request.as_f64() / 1e6));
        }
        ceilings
    }

    /// The lowest of [`FlashArray::ceilings`].
    #[must_use]
    pub fn bandwidth(&self, read: f64, request: Option<Bytes>) -> TheoreticalBandwidth {
        let ceilings = self.ceilings(read, request);
        let lowest = ceilings.into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let (bottleneck, mb_per_s) = lowest.expect("there are dies");
        TheoreticalBandwidth { mb_per_s, bottleneck }
    }
}

/// The read shares of the tutorial's mixes, from reads only to writes only.
pub const READ_SHARES: [f64; 5] = [1.0, 0.75, 0.5, 0.25, 0.0];

#[cfg(test)]
mod tests {
    use super::*;

    fn tenths(mb_per_s: f64) -> u32 {
        (mb_per_s * 10.0).round() as u32
    }

    /// Tenths of MB/s.
    fn per_bus(media: &str, chip_selects: f64) -> [u32; 5] {
        let timing = *FlashTiming::find(media).unwrap();
        let none = *HostLink::find("none").unwrap();
        let array = FlashArray::new(timing, 8.0, 8.0, chip_selects, none).unwrap();
        READ_SHARES.map(|read| tenths(array.bandwidth(read, None).mb_per_s))
    }

    /// The values worked out by hand from the reconstruction, MB/s per bus.
    #[test]
    fn one_bus_is_as_worked_by_hand() {
        assert_eq!(per_bus("slc", 1.0), [320, 229, 178, 146, 124]);
        assert_eq!(per_bus("mlc", 1.0), [267, 117, 75, 55, 44]);
        assert_eq!(per_bus("slc", 2.0), [400, 400, 357, 292, 247]);
        assert_eq!(per_bus("mlc", 2.0), [400, 234, 150, 110, 87]);
        assert_eq!(per_bus("slc", 4.0), [400; 5]);
        assert_eq!(per_bus("mlc", 4.0), [400, 400, 300, 221, 175]);
        assert_eq!(per_bus("mlc", 8.0), [400, 400, 400, 400, 349]);
    }

    /// The document: 24 channels with 4 dies and 4 chip selects equal those with 8 dies; 240 dies reach its axis' end
    /// of 1,200 MB/s; SATA-II cuts ten channels of 40 MB/s at 300.
    #[test]
    fn drives_are_as_the_document_says() {
        let none = *HostLink::find("none").unwrap();
        for media in ["slc", "mlc"] {
            let timing = *FlashTiming::find(media).unwrap();
            let four = FlashArray::new(timing, 96.0, 4.0, 4.0, none).unwrap();
            let eight = FlashArray::new(timing, 192.0, 8.0, 4.0, none).unwrap();
            for read in READ_SHARES {
                assert_eq!(four.bandwidth(read, None), eight.bandwidth(read, None));
            }
        }
        let slc = *FlashTiming::find("slc").unwrap();
        let at = |dies, link: &str| {
            let link = *HostLink::find(link).unwrap();
            FlashArray::new(slc, dies, 8.0, 4.0, link).unwrap().bandwidth(0.5, None)
        };
        assert!((at(240.0, "none").mb_per_s - 1200.0).abs() < 1e-9);
        assert!((at(192.0, "pcie1-x4").mb_per_s - 960.0).abs() < 1e-9, "below its link");
        let sata = at(80.0, "sata-ii");
        assert_eq!((tenths(sata.mb_per_s), sata.bottleneck), (3000, Bottleneck::Link));
        assert!(FlashArray::new(slc, 0.0, 8.0, 4.0, none).is_err());
    }

    #[test]
    fn a_link_in_both_directions_carries_twice_as_much_as_one_shared_by_them() {
        let sata = HostLink::find("sata-ii").unwrap();
        let pcie = HostLink::find("pcie1-x4").unwrap();
        assert_eq!([1.0, 0.5].map(|read| tenths(sata.mb_per_s(read))), [3000, 3000]);
        assert_eq!([0.0, 0.5].map(|read| tenths(pcie.mb_per_s(read))), [10_000, 20_000]);
    }
}
