//! Values that follow from a few numbers of a data sheet: media, dies, times, endurance.
//!
//! A profile with `[rated]` and without `[geometry]` gets every value that it does not give. The rules are those of
//! `docs/use/PROFILES.md`; all of them are assumptions.

use thermocline_types::Bytes;
use toml::{Table, Value};

use super::rated::{number, spare, uniform_waf};

/// What each kind of cells is taken to be.
struct Cells {
    name: &'static str,
    die: Bytes,
    read_us: f64,
    program_us: f64,
    erase_us: f64,
}

/// Dies of 1 Tb for QLC, of 512 Gb for others; times of the profiles `p5316` (QLC), `pm9d3` (TLC).
const CELLS: [Cells; 4] = [
    Cells { name: "slc", die: Bytes::gib(16), read_us: 25.0, program_us: 120.0, erase_us: 3000.0 },
    Cells { name: "mlc", die: Bytes::gib(32), read_us: 45.0, program_us: 300.0, erase_us: 4000.0 },
    Cells { name: "tlc", die: Bytes::gib(64), read_us: 45.0, program_us: 400.0, erase_us: 5000.0 },
    Cells {
        name: "qlc",
        die: Bytes::gib(128),
        read_us: 85.0,
        program_us: 1630.0,
        erase_us: 10_000.0,
    },
];
/// Four planes with pages of 16 KiB.
const PLANES: u32 = 4;
const PAGE: Bytes = Bytes::kib(16);
/// Rated random reads take so much of what the dies can do, at most: requests do not spread evenly.
const READ_LOAD: f64 = 0.6;
/// Latencies of the controller where the sheet has none, and what a command takes on a bus.
const FIRMWARE_READ_US: f64 = 10.0;
const FIRMWARE_WRITE_US: f64 = 8.0;
const COMMAND_US: f64 = 0.5;
const CODEWORD: f64 = 4096.0;

/// Source of every derived value.
const SOURCE: &str = "derived from [rated] by the rules of docs/use/PROFILES.md";

/// Adds the values that `profile` leaves out.
pub(super) fn complete(profile: &mut Table) {
    if profile.contains_key("geometry") || !profile.contains_key("rated") {
        return;
    }
    let Some(derived) = Derived::of(profile) else { return };
    for (key, value) in derived.values(profile) {
        put(profile, &key, value);
    }
}

/// The numbers that all others follow from.
struct Derived {
    cells: &'static Cells,
    /// Dies of the product, and those that are simulated: planes that read independently count as dies.
    dies: f64,
    simulated: f64,
    op: f64,
}

impl Derived {
    fn of(profile: &Table) -> Option<Derived> {
        let name = profile.get("integrity")?.get("cells")?.as_str()?;
        let cells = CELLS.iter().find(|cells| cells.name == name)?;
        let capacity: Bytes = profile.get("capacity")?.as_str()?.parse().ok()?;
        let media = spare(profile)
            .map_or(capacity.0.next_power_of_two() as f64, |op| capacity.as_f64() * (1.0 + op));
        let dies = (media / cells.die.as_f64()).round().max(1.0);
        let kiops = number(profile, "rated", "read_kiops").unwrap_or(0.0);
        let busy = kiops * 1e-3 * read_us(profile, cells);
        let reading = ((busy / READ_LOAD).ceil() as u64).next_power_of_two() as f64;
        Some(Derived {
            cells,
            dies,
            simulated: dies.max(reading),
            op: media / capacity.as_f64() - 1.0,
        })
    }

    /// Every derived value with its key.
    fn values(&self, profile: &Table) -> Vec<(String, Value)> {
        let cached = profile.contains_key("slc");
        let mut values = vec![
            ("op".to_owned(), Value::Float(self.op)),
            ("gc.victim".to_owned(), Value::from("greedy")),
            ("gc.separate".to_owned(), Value::from(true)),
            ("buffer.size".to_owned(), Value::from(if cached { "4MiB" } else { "16MiB" })),
            ("buffer.merge".to_owned(), Value::from(true)),
            ("buffer.power_loss_protection".to_owned(), Value::from(!cached)),
            ("wear.pe_spread".to_owned(), Value::from(0.1)),
            ("wear.spare".to_owned(), Value::from(0.01)),
            ("wear.levelling_spread".to_owned(), Value::from(100)),
        ];
        if let Some(cycles) = self.cycles(profile) {
            values.push(("wear.pe_cycles".to_owned(), Value::Float(cycles.round())));
        }
        values.extend(self.geometry());
        values.extend(self.timing(profile, cached));
        values
    }

    /// Cycles that the rated writes ask for if they are random.
    fn cycles(&self, profile: &Table) -> Option<f64> {
        let dwpd = number(profile, "wear", "rated_dwpd")?;
        let days = number(profile, "wear", "warranty_years")? * 365.0;
        Some(dwpd * days * uniform_waf(self.op) / (1.0 + self.op))
    }

    fn channels(&self) -> f64 {
        if self.dies < 64.0 { 8.0 } else { 16.0 }
    }

    fn geometry(&self) -> [(String, Value); 5] {
        let key = |name: &str| format!("geometry.{name}");
        [
            (key("channels"), Value::from(self.channels() as i64)),
            (key("dies"), Value::from(self.simulated as i64)),
            (key("planes"), Value::from(i64::from(PLANES))),
            (key("page"), Value::from(PAGE.0 as i64)),
            (key("block"), Value::from("16MiB")),
        ]
    }

    fn timing(&self, profile: &Table, cached: bool) -> Vec<(String, Value)> {
        let rated = |key| number(profile, "rated", key);
        let read = rated("read_mb_per_s").unwrap_or(7000.0);
        let write = rated("write_mb_per_s").unwrap_or(read);
        let kiops = rated("read_kiops").unwrap_or(1000.0);
        // Planes that count as dies share the die's programs.
        let share = self.simulated / self.dies;
        let (tr, bus) =
            (read_us(profile, self.cells), f64::max(1600.0, 1.6 * read / self.channels()));
        let moved = CODEWORD / bus + CODEWORD / read + COMMAND_US;
        let firmware_read =
            rated("read_us").map_or(FIRMWARE_READ_US, |us| (us - tr - moved).max(0.0));
        let firmware_write =
            rated("write_us").map_or(FIRMWARE_WRITE_US, |us| (us - CODEWORD / write).max(0.0));
        let mut values = vec![
            ("read_us", self.cells.read_us),
            ("program_us", self.cells.program_us * share),
            ("erase_us", self.cells.erase_us),
            ("bus_mb_per_s", bus.round()),
            ("command_us", COMMAND_US),
            ("suspend_us", 20.0),
            ("link_read_mb_per_s", read),
            ("link_write_mb_per_s", if cached { write } else { read.max(write) }),
            ("firmware_read_us", firmware_read),
            ("firmware_write_us", firmware_write),
            ("controller_kiops", kiops),
        ];
        if !cached {
            values.push(("program_mb_per_s", write));
        } else if let Some(writes) = rated("write_kiops") {
            values.push(("controller_write_kiops", writes));
        }
        let timing =
            values.into_iter().map(|(key, value)| (format!("timing.{key}"), Value::from(value)));
        let mut values: Vec<(String, Value)> = timing.collect();
        if cached {
            values.push(("slc.read_us".to_owned(), Value::from(CELLS[0].read_us)));
            values.push(("slc.program_us".to_owned(), Value::from(CELLS[0].program_us * share)));
        }
        values
    }
}

/// Array read of the cells that rated reads come from.
fn read_us(profile: &Table, cells: &Cells) -> f64 {
    if profile.contains_key("slc") { CELLS[0].read_us } else { cells.read_us }
}

/// Puts `value` at the dotted `key`, and its source, unless the profile has its own.
fn put(profile: &mut Table, key: &str, value: Value) {
    let (table, own) = match key.split_once('.') {
        Some((table, own)) => {
            let inner = profile.entry(table).or_insert_with(|| Value::Table(Table::new()));
            (inner.as_table_mut(), own)
        }
        None => (Some(&mut *profile), key),
    };
    let Some(table) = table.filter(|table| !table.contains_key(own)) else { return };
    table.insert(own.to_owned(), value);
    let source = profile.entry("source").or_insert_with(|| Value::Table(Table::new()));
    if let Some(source) = source.as_table_mut() {
        source.insert(key.to_owned(), Value::from(SOURCE));
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::{Profile, builtin};

    fn profile(name: &str, overrides: &[(&str, &str)]) -> Profile {
        let overrides: Vec<(String, String)> =
            overrides.iter().map(|&(key, value)| (key.into(), value.into())).collect();
        Profile::with_overrides(name, builtin(name).unwrap(), &overrides).unwrap()
    }

    #[test]
    fn a_short_profile_is_completed_by_rules_and_each_value_has_a_source() {
        let drive = profile("micron7450", &[]);
        let media = drive.capacity.as_f64() * (1.0 + drive.overprovisioning());
        assert!((media / 8f64.powi(13) / 16.0 - 1.0).abs() < 1e-9, "8 TiB behind 7.68 TB: {media}");
        let (geometry, timing) = (drive.geometry.unwrap(), drive.timing.unwrap());
        assert_eq!((geometry.channels, geometry.dies), (16, 128));
        assert_eq!(timing.program_mb_per_s, Some(5600.0));
        let latency = timing.read_us + timing.firmware_read_us;
        assert!((70.0..80.0).contains(&latency), "80 us with bus and link: {latency}");
        for key in ["op", "geometry.dies", "timing.read_us", "wear.pe_cycles", "buffer.size"] {
            assert!(drive.source[key].contains("PROFILES.md"), "{key}");
        }
        assert!(!drive.source["rated"].contains("PROFILES.md"));
    }

    #[test]
    fn planes_count_as_dies_where_the_rated_reads_need_them_and_share_the_programs() {
        let rate = |name: &str| {
            let drive = profile(name, &[]);
            let (dies, us) = (drive.geometry.unwrap().dies, drive.timing.unwrap().program_us);
            (dies, f64::from(dies) / us)
        };
        let ((few, slow), (many, fast)) = (rate("micron7450"), rate("ps1010"));
        assert_eq!((few, many), (128, 256));
        assert!((slow / fast - 1.0).abs() < 1e-9, "both have 128 dies");
    }

    #[test]
    fn a_profile_keeps_its_own_values_and_overrides_change_no_others() {
        let drive = profile("ps1010", &[("op", "0.5"), ("geometry.dies", "64")]);
        assert!((drive.overprovisioning() - 0.5).abs() < 1e-12);
        assert_eq!(drive.geometry.unwrap().dies, 64);
        let (whole, own) = (profile("ps1010", &[]).timing, drive.timing);
        assert_eq!(whole, own);
        assert_eq!(
            profile("p5316", &[]).geometry.unwrap().dies,
            128,
            "it has a geometry of its own"
        );
    }
}
