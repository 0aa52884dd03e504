//! The run specification `thermocline.spec/1`: all inputs that decide the figures of one lab run, as versioned JSON.
//!
//! Invariants:
//! * Two runs of the same version with equal specifications and equal input files give equal figures.
//! * A reader refuses an unknown schema or field: an ignored field would change the figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ReadError;

/// The schema name that this version writes and reads.
pub const SPEC_SCHEMA: &str = "thermocline.spec/1";

/// Inputs of a lab run: stack, workload, settings, seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Always [`SPEC_SCHEMA`].
    pub schema: String,
    /// Version of Thermocline that wrote the specification. A different version may give different figures.
    pub version: String,
    /// The stack, such as `raw:p5316,op=0.2`.
    pub stack: String,
    /// Overrides of device, fast device, log and tag, each `KEY=VALUE`, in order.
    #[serde(default)]
    pub set: Vec<String>,
    /// Placement policy, where the stack's own text does not choose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// The origin that gets a separate placement handle: `file`, `directory` or `volume`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag_by: Option<String>,
    /// Victim policy; without it, the profile's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<String>,
    /// The workload to replay.
    pub workload: WorkloadSpec,
    /// How the drive is filled first: `first-touch`, `sequential` or `none`; if absent, chosen by the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill: Option<String>,
    /// Share of all data on the volume that is written once before and never touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_rest: Option<f64>,
    /// Capacity of the drive. If absent, the workload's address space divided by [`RunSpec::utilisation`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Capacity of the fast drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast_capacity_bytes: Option<u64>,
    /// Share of the capacity that the workload addresses, above 0 to 1.
    pub utilisation: f64,
    /// Requests kept in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
    /// Mean think time of each requester before the next request, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think_us: Option<f64>,
    /// How many times as fast as the workload's own clock requests are issued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// Host bytes to the product per day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daily_writes_bytes: Option<u64>,
    /// Seed of all randomness.
    pub seed: u64,
    /// SHA-256 in hexadecimal digits of every file that is read, by the path or name under which it is read.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// Workload of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum WorkloadSpec {
    /// A block trace.
    Trace {
        /// File, or name of one that comes with the program.
        path: String,
        /// Format, where detection does not settle it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        format: Option<String>,
        /// Replays the requests of this volume only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        volume: Option<String>,
        /// Leaves out the requests before this time, in microseconds since the first request of the trace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_us: Option<f64>,
        /// Leaves out the requests from this time on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_us: Option<f64>,
        /// Whether lines that cannot be read are left out.
        skip_bad: bool,
        /// How addresses are fitted into the device: `dense`, `fold` or `none`.
        remap: String,
        /// Passes; without it, as many as steady state takes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        loops: Option<u32>,
        /// Whether trims are left out.
        ignore_trims: bool,
    },
    /// A generator.
    Generator {
        /// Its specification, such as `zipf:0.99`, or a file of tenants: its path or its content.
        generator: String,
        /// Bytes addressed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        span_bytes: Option<u64>,
        /// How often the span is written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        drive_writes: Option<f64>,
        /// Write requests.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        writes: Option<u64>,
        /// Requests of any kind.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requests: Option<u64>,
        /// Size of each request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        io_size_bytes: Option<u64>,
        /// Share of requests that read.
        read_share: f64,
        /// Share of requests that trim.
        trim_share: f64,
        /// Requests per second.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<f64>,
        /// Bytes of a burst.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        burst_bytes: Option<u64>,
        /// Microseconds without requests after each.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idle_us: Option<f64>,
    },
}

impl WorkloadSpec {
    /// A trace: a file, or the name of one that comes with the program.
    #[must_use]
    pub fn trace(path: &str) -> WorkloadSpec {
        WorkloadSpec::Trace {
            path: path.to_owned(),
            format: None,
            volume: None,
            from_us: None,
            until_us: None,
            skip_bad: false,
            remap: "dense".to_owned(),
            loops: None,
            ignore_trims: false,
        }
    }

    /// A generator, such as `uniform` or `zipf:0.99`, or a file of tenants.
    #[must_use]
    pub fn generator(generator: &str) -> WorkloadSpec {
        WorkloadSpec::Generator {
            generator: generator.to_owned(),
            span_bytes: None,
            drive_writes: None,
            writes: None,
            requests: None,
            io_size_bytes: None,
            read_share: 0.0,
            trim_share: 0.0,
            rate: None,
            burst_bytes: None,
            idle_us: None,
        }
    }
}

impl RunSpec {
    /// Version written by this crate.
    pub const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// A run of `workload` on `stack`, such as `raw:p5316`; all further settings have defaults.
    #[must_use]
    pub fn new(stack: &str, workload: WorkloadSpec) -> RunSpec {
        RunSpec {
            schema: SPEC_SCHEMA.to_owned(),
            version: RunSpec::VERSION.to_owned(),
            stack: stack.to_owned(),
            set: Vec::new(),
            placement: None,
            tag_by: None,
            victim: None,
            workload,
            prefill: None,
            at_rest: None,
            capacity_bytes: None,
            fast_capacity_bytes: None,
            utilisation: 1.0,
            queue_depth: None,
            think_us: None,
            speed: None,
            daily_writes_bytes: None,
            seed: 1,
            files: BTreeMap::new(),
        }
    }

    /// The specification as indented JSON, ending in a line feed.
    #[must_use]
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("a specification holds only JSON values") + "\n"
    }

    /// Reads a specification, or that of the record that `text` is.
    ///
    /// # Errors
    /// [`ReadError`] when the text is neither, has another schema, or is a record without one.
    pub fn from_json(text: &str) -> Result<RunSpec, ReadError> {
        let mut value: serde_json::Value = serde_json::from_str(text)?;
        if value["schema"] == crate::SCHEMA {
            value = value["spec"].take();
        }
        match value["schema"].as_str() {
            Some(SPEC_SCHEMA) => Ok(serde_json::from_value(value)?),
            found => {
                let found = found.unwrap_or("none").to_owned();
                Err(ReadError::SpecSchema { found })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> RunSpec {
        RunSpec {
            schema: SPEC_SCHEMA.into(),
            version: "1.2.3".into(),
            stack: "raw:p5316".into(),
            set: vec!["device.op=0.07".into()],
            placement: None,
            tag_by: None,
            victim: Some("greedy".into()),
            workload: WorkloadSpec::Generator {
                generator: "zipf:0.99".into(),
                span_bytes: Some(1 << 30),
                drive_writes: Some(2.5),
                writes: None,
                requests: None,
                io_size_bytes: None,
                read_share: 0.25,
                trim_share: 0.0,
                rate: None,
                burst_bytes: Some(1 << 20),
                idle_us: Some(1.5),
            },
            prefill: None,
            at_rest: Some(0.25),
            capacity_bytes: None,
            fast_capacity_bytes: None,
            utilisation: 0.8,
            queue_depth: Some(32),
            think_us: None,
            speed: None,
            daily_writes_bytes: None,
            seed: u64::MAX,
            files: BTreeMap::new(),
        }
    }

    #[test]
    fn a_specification_comes_back_as_it_was() {
        assert_eq!(RunSpec::from_json(&spec().to_json()).unwrap(), spec());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let text = spec().to_json();
        let other = text.replace("spec/1", "spec/2");
        let error = RunSpec::from_json(&other).unwrap_err().to_string();
        assert!(error.contains("thermocline.spec/2"), "{error}");
        for (from, to) in [("\"seed\"", "\"sead\""), ("\"read_share\"", "\"reed_share\"")] {
            assert!(matches!(
                RunSpec::from_json(&text.replace(from, to)),
                Err(ReadError::Shape(_))
            ));
        }
        let record = format!("{{\"schema\": \"{}\"}}", crate::SCHEMA);
        let error = RunSpec::from_json(&record).unwrap_err().to_string();
        assert!(error.contains("`none`"), "{error}");
    }
}
