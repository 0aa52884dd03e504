//! Bytes over all services of a pool, for `status` and metrics.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use thermocline_format::PoolId;
use thermocline_runtime::{Named, Settings, Totals};
use thermocline_types::Bytes;

use crate::state::ratio;
use crate::stored::TOTALS;
use crate::{Error, date};

/// Bytes over all services, with ratios.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TotalsReport {
    /// The bytes.
    #[serde(flatten)]
    pub bytes: Totals,
    /// Device bytes over host bytes.
    pub alwa: Option<f64>,
    /// Media bytes of simulated drives over host bytes.
    pub waf: Option<f64>,
    /// Program/erase cycles of a unit of the simulated drives, on average.
    pub mean_cycles: Option<f64>,
}

impl TotalsReport {
    /// Of these totals.
    #[must_use]
    pub fn new(totals: &Totals) -> TotalsReport {
        let host = totals.host.get("written").copied().unwrap_or(0);
        let over = |bytes: &Named| ratio(bytes.values().sum(), host);
        let waf = over(&totals.media).filter(|_| !totals.media.is_empty());
        let erased = totals.drives.get("erased").copied().unwrap_or(0);
        let mean_cycles = ratio(erased, totals.media_bytes);
        TotalsReport { bytes: totals.clone(), alwa: over(&totals.device), waf, mean_cycles }
    }

    /// Of an unserved pool, from the record beside the settings. `None` of a pool that was never served.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn at_rest(settings: &Settings, pool: PoolId) -> Result<Option<TotalsReport>, Error> {
        let totals: Totals = TOTALS.load(settings.file(), pool)?;
        Ok((totals.began_unix_seconds > 0).then(|| TotalsReport::new(&totals)))
    }
}

/// A line about bytes, ratios and time.
impl fmt::Display for TotalsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { began_unix_seconds, served_seconds, host, device, media, .. } = &self.bytes;
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(*began_unix_seconds);
        let sum = |bytes: &Named| Bytes(bytes.values().sum());
        let written = Bytes(host.get("written").copied().unwrap_or(0));
        write!(f, "since {}: {written} written by hosts, {} to devices", date(began), sum(device))?;
        if let Some(alwa) = self.alwa {
            write!(f, " (ALWA {alwa:.2})")?;
        }
        if let Some(waf) = self.waf {
            write!(f, ", {} to NAND (WAF {waf:.2})", sum(media))?;
        }
        if let Some(cycles) = self.mean_cycles {
            write!(f, ", {cycles:.2} erases of each unit of the simulated drives")?;
        }
        write!(f, ", served for {:.1} hours", *served_seconds as f64 / 3600.0)
    }
}
