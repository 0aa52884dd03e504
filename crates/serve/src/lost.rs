//! What is in the way of a smaller volume: data beyond its new end, which would be gone.

use thermocline_engine::{Extent, HostError, Run};
use thermocline_types::Bytes;

use crate::Error;

/// Allows the volume `name` to lose the blocks of `beyond` if the blocks are unmapped or `destroyed` is the volume's
/// name. `runs` returns the mapped runs of an extent, from its first block on.
///
/// # Errors
/// If data would be lost, with the amount.
pub fn agree(
    name: &str,
    beyond: Extent,
    destroyed: Option<&str>,
    runs: impl FnMut(Extent) -> Result<Vec<Run>, HostError>,
) -> Result<(), Error> {
    if destroyed == Some(name) {
        return Ok(());
    }
    let blocks = mapped(beyond, runs)?;
    if blocks == 0 {
        return Ok(());
    }
    let (volume, end) = (name.to_owned(), Bytes(beyond.lba * Bytes::BLOCK.0));
    let named = destroyed.map(str::to_owned);
    Err(Error::DataBeyond { volume, blocks, end, named })
}

/// Mapped blocks of `extent`. Blocks whose map page is not in memory yet count as mapped.
fn mapped(
    extent: Extent,
    mut runs: impl FnMut(Extent) -> Result<Vec<Run>, HostError>,
) -> Result<u64, HostError> {
    let (mut lba, end) = (extent.lba, extent.lba + extent.blocks);
    let mut mapped = 0;
    while lba < end {
        for run in runs(Extent { lba, blocks: end - lba, ..extent })? {
            lba += run.blocks;
            mapped += if run.mapped { run.blocks } else { 0 };
        }
    }
    Ok(mapped)
}

#[cfg(test)]
mod tests {
    use thermocline_format::VolumeId;

    use super::*;

    /// Every third block from block 100 on has data, and three are told of at once.
    #[expect(clippy::unnecessary_wraps, reason = "an engine may refuse")]
    fn runs(extent: Extent) -> Result<Vec<Run>, HostError> {
        let lbas = extent.lba..extent.lba + extent.blocks.min(3);
        Ok(lbas.map(|lba| Run { blocks: 1, mapped: lba >= 100 && lba % 3 == 0 }).collect())
    }

    #[test]
    fn what_would_be_lost_is_counted_and_named() {
        let beyond = |lba| Extent { volume: VolumeId(1), lba, blocks: 200 - lba };
        let asked = agree("v", beyond(64), None, runs).expect_err("it has data there");
        assert_eq!(asked.to_string(), "volume `v` has 132 KiB of data (33 blocks) beyond 256 KiB");
        let other = agree("v", beyond(64), Some("w"), runs).expect_err("another one");
        assert!(matches!(other, Error::DataBeyond { named: Some(name), .. } if name == "w"));
        agree("v", beyond(64), Some("v"), runs).expect("it was named");
        agree("v", beyond(199), None, runs).expect("nothing is there");
    }
}
