//! How many drives, servers and racks a demand takes on a stack, from what a run of it measured.

use serde::Serialize;
use thermocline_nand::{Kind, Profile};
use thermocline_record::RunRecord;

use super::{Demand, Prices};
use crate::life::{media_endurance, rated_bytes};
use crate::{Error, Stack};

/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// Figures from a run of a stack, per capacity drive.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredStack {
    /// The stack.
    pub stack: String,
    /// Bytes of data that one product holds when it is as full as the simulated drive.
    pub data_bytes: f64,
    /// Bytes a second that the host wrote, where time is modelled and the run was paced by a queue depth.
    pub write_bytes_per_second: Option<f64>,
    /// Requests a second, likewise.
    pub requests_per_second: Option<f64>,
    /// The capacity drive, then the fast drive of a tiered stack.
    pub devices: Vec<Device>,
}

/// One kind of drive in a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Name of its profile.
    pub name: String,
    /// Capacity of the product, bytes.
    pub capacity_bytes: f64,
    /// Media of the product, bytes.
    pub media_bytes: f64,
    /// Drives per capacity drive.
    pub per_drive: f64,
    /// Bytes of endurance used up by each host byte.
    pub wear_per_host_byte: f64,
    /// Endurance in the unit of `wear_per_host_byte`: media bytes if P/E cycles are known, else host bytes by the
    /// maker's rating. `None` if neither is known or the drive does not wear out.
    pub endurance_bytes: Option<f64>,
}

impl Device {
    /// `device` bytes of a drive behind `profile` are asked and `media` bytes programmed for each byte of the host.
    fn new(profile: &Profile, per_drive: f64, device: f64, media: f64) -> Device {
        let flash = media_endurance(profile).map(|endurance| endurance.media_bytes());
        let (wear_per_host_byte, endurance_bytes) = match flash {
            Some(bytes) => (media, Some(bytes)),
            None => (device, rated_bytes(profile)),
        };
        let capacity_bytes = profile.capacity.as_f64();
        Device {
            name: profile.name.clone(),
            capacity_bytes,
            media_bytes: capacity_bytes * (1.0 + profile.overprovisioning()),
            per_drive,
            wear_per_host_byte,
            endurance_bytes: endurance_bytes.filter(|_| profile.kind != Kind::Disk),
        }
    }
}

impl MeasuredStack {
    /// The figures from `record`, a run of `stack`.
    ///
    /// # Errors
    /// [`Error::Settings`] for a run without writes.
    pub fn of(record: &RunRecord, stack: &Stack) -> Result<MeasuredStack, Error> {
        let host = record.host_bytes_written as f64;
        let waf = record.lasting.waf.filter(|_| host > 0.0);
        let waf = waf.ok_or_else(|| {
            Error::Settings(format!("the run of {} wrote nothing: its wear is unknown", stack.text))
        })?;
        let device = record.lasting.alwa.unwrap_or(1.0);
        let capacity = stack.profile.capacity.as_f64();
        let mut devices = vec![Device::new(&stack.profile, 1.0, device, waf)];
        if let Some((fast, profile)) = record.fast.as_ref().zip(stack.fast.as_ref()) {
            let simulated = record.device.capacity_bytes as f64;
            let share = fast.device.capacity_bytes as f64 / simulated;
            let per_drive = share * capacity / profile.capacity.as_f64();
            let asked = fast.device_bytes_written as f64 / host;
            let programmed = fast.media_bytes_written.total as f64 / host;
            devices.push(Device::new(profile, per_drive, asked, programmed));
        }
        let drives = f64::from(stack.drives());
        let rates = record.bandwidth.as_ref().filter(|rates| rates.queue_depth.is_some());
        Ok(MeasuredStack {
            stack: stack.text.clone(),
            data_bytes: record.device.utilisation.unwrap_or(1.0) * capacity,
            write_bytes_per_second: rates
                .map(|rates| rates.host_write_bytes_per_second / drives)
                .filter(|rate| *rate > 0.0),
            requests_per_second: rates.map(|rates| rates.requests_per_second / drives),
            devices,
        })
    }
}

/// What is to be bought at first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fleet {
    /// Drives by the name of their profile, that for capacity first.
    pub drives: Vec<DriveCount>,
    /// What decides how many: `capacity`, `writes` or `requests`.
    pub limit: &'static str,
    /// Share of the rate that the drives could reach, in the mean of a day; nothing where time is not modelled.
    pub duty: Option<f64>,
    /// Servers.
    pub servers: f64,
    /// Racks, in fractions.
    pub racks: f64,
    /// Mean power of drives and servers, watts, without the building.
    pub watts: f64,
    /// TB of data in each rack unit of servers.
    pub tb_per_rack_unit: f64,
}

/// Drives of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveCount {
    /// Name of the profile.
    pub profile: String,
    /// How many.
    pub count: f64,
    /// Median years until wear-out; `None` for drives without wear.
    pub life_years: Option<f64>,
}

impl Fleet {
    /// Plans the drives for `demand` on `measured`.
    ///
    /// # Errors
    /// [`Error::Settings`] for drives without a price, and for a peak of an unmeasured quantity.
    pub fn plan(
        measured: &MeasuredStack,
        demand: &Demand,
        prices: &Prices,
    ) -> Result<Fleet, Error> {
        let unknown = |what: &str| {
            Error::Settings(format!(
                "{} has no {what}: its drive models no time, or the run followed the workload's clock (give \
                 `queue_depth`)",
                measured.stack
            ))
        };
        let mut needs = vec![("capacity", demand.data_bytes / measured.data_bytes)];
        let mean = demand.daily_write_bytes / DAY;
        let peak = mean * prices.service.peak_over_mean;
        match (measured.write_bytes_per_second, demand.peak_write_bytes_per_second) {
            (Some(rate), given) => needs.push(("writes", given.unwrap_or(peak) / rate)),
            (None, Some(_)) => return Err(unknown("rate of writes")),
            (None, None) => {}
        }
        if let Some(requests) = demand.peak_requests_per_second {
            let rate = measured.requests_per_second.ok_or_else(|| unknown("rate of requests"))?;
            needs.push(("requests", requests / rate));
        }
        let most = needs.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let (limit, drives) = most.expect("there is capacity");
        let redundancy = prices.service.redundancy;
        let drives = (drives * redundancy).ceil().max(1.0);
        let duty = measured.write_bytes_per_second.map(|rate| mean * redundancy / (drives * rate));
        let daily = demand.daily_write_bytes * redundancy;
        let mut counted = Vec::new();
        let mut watts = 0.0;
        for device in &measured.devices {
            let price = prices.drive(&device.name)?;
            let count = (drives * device.per_drive).ceil();
            let busy = duty.unwrap_or(0.0).min(1.0);
            watts += count * (price.idle_w * (1.0 - busy) + price.active_w * busy);
            counted.push(DriveCount {
                profile: device.name.clone(),
                count,
                life_years: device
                    .endurance_bytes
                    .map(|bytes| bytes * count / (daily * device.wear_per_host_byte * 365.0)),
            });
        }
        let (server, rack) = (&prices.server, &prices.rack);
        let slots = f64::from(server.slots);
        let fast: f64 = counted[1..].iter().map(|drives| drives.count).sum();
        let capacity = counted[0].count;
        let servers = match f64::from(server.fast_slots) {
            0.0 => ((capacity + fast) / slots).ceil(),
            own => (capacity / slots).max(fast / own).ceil(),
        };
        watts += servers * server.watts;
        let units = servers * server.rack_units;
        Ok(Fleet {
            drives: counted,
            limit,
            duty,
            servers,
            racks: (units / rack.units).max(watts / 1e3 / rack.kw),
            watts,
            tb_per_rack_unit: demand.data_bytes / 1e12 / units.max(f64::MIN_POSITIVE),
        })
    }
}
