//! Log pages as bytes. All numbers are little-endian.

use crate::counter::{Counter, DriveFigure, LogPage};

/// Bytes of a data unit of the health page: 1000 sectors of 512 bytes, rounded up (Base Specification, figure 208).
pub(crate) const DATA_UNIT: u64 = 512_000;

/// Bytes of a unit of the endurance group page (Base Specification, figure 217).
pub(crate) const GROUP_UNIT: u64 = 1_000_000_000;

/// 0 degrees Celsius in kelvins, rounded.
pub(crate) const KELVIN: u64 = 273;

/// The GUID of OCP's page C0h, at its end.
const OCP_GUID: [u8; 16] = [
    0xC5, 0xAF, 0x10, 0x28, 0xEA, 0xBF, 0xF2, 0xA4, 0x9C, 0x4F, 0x6F, 0x7C, 0xC9, 0x14, 0xD5, 0xAF,
];

/// Versions of page C0h whose fields lie as in [`ocp`]: those of OCP 1.0 to 2.6.
const OCP_VERSIONS: std::ops::RangeInclusive<u64> = 2..=5;

/// The counters of a page, by its length and contents; `None` for an unknown page.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Counter>> {
    [0xC0, 0x02, 0x22].into_iter().find_map(|page| of_page(page, bytes))
}

/// The counters of page `page`; `None` if length or contents are unknown.
pub(crate) fn of_page(page: u8, bytes: &[u8]) -> Option<Vec<Counter>> {
    match (page, bytes.len()) {
        (0x02, 512) if is_health(bytes) => Some(health(bytes)),
        (0x09, 512) => Some(endurance_group(bytes)),
        (0x22, 64) => Some(fdp_statistics(bytes)),
        (0xC0, 512) if is_ocp(bytes) => Some(ocp(bytes)),
        _ => None,
    }
}

fn is_ocp(page: &[u8]) -> bool {
    page[496..] == OCP_GUID && OCP_VERSIONS.contains(&number::<2>(page, 494))
}

/// `N` bytes from `at` on as a number; more than 64 bits saturate.
pub(crate) fn number<const N: usize>(page: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 16];
    bytes[..N].copy_from_slice(&page[at..at + N]);
    u128::from_le_bytes(bytes).try_into().unwrap_or(u64::MAX)
}

/// Whether it can be a health page: shares in percent, and a temperature above freezing and below boiling.
fn is_health(page: &[u8]) -> bool {
    page[3] <= 100 && page[4] <= 100 && (273..373).contains(&number::<2>(page, 1))
}

fn health(page: &[u8]) -> Vec<Counter> {
    let of = |figure, value: u64, step| Counter {
        figure,
        value: value.saturating_mul(step),
        step,
        page: LogPage::Health,
    };
    vec![
        of(DriveFigure::CriticalWarning, page[0].into(), 1),
        of(DriveFigure::Temperature, number::<2>(page, 1).saturating_sub(KELVIN), 1),
        of(DriveFigure::Spare, page[3].into(), 1),
        of(DriveFigure::SpareThreshold, page[4].into(), 1),
        of(DriveFigure::Used, page[5].into(), 1),
        of(DriveFigure::HostRead, number::<16>(page, 32), DATA_UNIT),
        of(DriveFigure::HostWritten, number::<16>(page, 48), DATA_UNIT),
        of(DriveFigure::PowerOnHours, number::<16>(page, 128), 1),
        of(DriveFigure::UnsafeShutdowns, number::<16>(page, 144), 1),
        of(DriveFigure::MediaErrors, number::<16>(page, 160), 1),
    ]
}

fn endurance_group(page: &[u8]) -> Vec<Counter> {
    let of = |figure, value: u64, step| Counter {
        figure,
        value: value.saturating_mul(step),
        step,
        page: LogPage::EnduranceGroup,
    };
    let mut counters = vec![
        of(DriveFigure::Spare, page[3].into(), 1),
        of(DriveFigure::Used, page[5].into(), 1),
        of(DriveFigure::HostRead, number::<16>(page, 48), GROUP_UNIT),
        of(DriveFigure::HostWritten, number::<16>(page, 64), GROUP_UNIT),
        of(DriveFigure::MediaWritten, number::<16>(page, 80), GROUP_UNIT),
    ];
    // 0: not told.
    match number::<16>(page, 32) {
        0 => {}
        endurance => counters.push(of(DriveFigure::Endurance, endurance, GROUP_UNIT)),
    }
    counters
}

fn ocp(page: &[u8]) -> Vec<Counter> {
    let of = |figure, value| Counter { figure, value, step: 1, page: LogPage::Ocp };
    vec![
        of(DriveFigure::MediaWritten, number::<16>(page, 0)),
        of(DriveFigure::MaxErases, number::<4>(page, 88)),
        of(DriveFigure::MinErases, number::<4>(page, 92)),
        of(DriveFigure::Spare, page[120].into()),
    ]
}

fn fdp_statistics(page: &[u8]) -> Vec<Counter> {
    let of = |figure, at| Counter {
        figure,
        value: number::<16>(page, at),
        step: 1,
        page: LogPage::FdpStatistics,
    };
    vec![
        of(DriveFigure::HostWritten, 0),
        of(DriveFigure::MediaWritten, 16),
        of(DriveFigure::MediaErased, 32),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(counters: &[Counter], figure: DriveFigure) -> u64 {
        counters.iter().find(|one| one.figure == figure).expect("it is there").value
    }

    #[test]
    fn pages_are_told_apart_and_their_counters_found() {
        let mut health = [0; 512];
        health[1..3].copy_from_slice(&308_u16.to_le_bytes());
        health[3..6].copy_from_slice(&[100, 10, 7]);
        health[48] = 3;
        health[128..130].copy_from_slice(&1000_u16.to_le_bytes());
        let found = decode(&health).expect("a health page");
        assert_eq!(value(&found, DriveFigure::HostWritten), 1_536_000);
        assert_eq!(
            (value(&found, DriveFigure::Used), value(&found, DriveFigure::PowerOnHours)),
            (7, 1000)
        );
        let mut ocp = [0; 512];
        ocp[..8].copy_from_slice(&(5_u64 << 40).to_le_bytes());
        ocp[496..].copy_from_slice(&OCP_GUID);
        assert_eq!(decode(&ocp), None, "version 0 is unknown");
        ocp[494] = 3;
        assert_eq!(value(&decode(&ocp).expect("OCP"), DriveFigure::MediaWritten), 5 << 40);
        let mut fdp = [0; 64];
        fdp[16] = 9;
        assert_eq!(value(&decode(&fdp).expect("FDP"), DriveFigure::MediaWritten), 9);
        assert_eq!(decode(&[0; 512]), None, "no temperature is 0 K");
        assert_eq!(decode(&[0; 4096]), None);
    }
}
