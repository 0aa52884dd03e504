//! Traces of classes, and their simulation.

use std::sync::Mutex;

use anyhow::anyhow;
use clap::Args;
use thermocline_lab::fleet::{ClassTrial, trial};
use thermocline_lab::whatif::WhatIf;
use thermocline_record::WorkloadSpec;

use crate::interrupt::Interrupt;
use crate::lab::args::of_arguments;
use crate::progress::Progress;

/// Arguments on traces.
#[derive(Args)]
#[command(next_help_heading = "Traces")]
pub struct FleetTraceArgs {
    /// A trace of a host of CLASS, a file or a name of `lab list traces`; may be repeated
    #[arg(long, value_name = "CLASS=FILE", value_parser = class_and_file)]
    trace: Vec<(String, String)>,
    /// The drive that is simulated, of `lab list devices`
    #[arg(long, value_name = "DEVICE", default_value = "p5316")]
    device: String,
    /// Share of the simulated drive that the data of a trace takes
    #[arg(long, value_name = "SHARE", value_parser = crate::lab::args::share, default_value_t = 0.8)]
    utilisation: f64,
    /// Replay each trace so many times [default: 5, the passes that steady state takes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    loops: Option<u32>,
}

fn class_and_file(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(class, file)| !class.is_empty() && !file.is_empty());
    let (class, file) = parts.ok_or_else(|| format!("`{text}` is not CLASS=FILE"))?;
    Ok((class.to_owned(), file.to_owned()))
}

impl FleetTraceArgs {
    /// Simulates the traces, class by class.
    pub fn trials(&self) -> anyhow::Result<Vec<ClassTrial>> {
        let mut classes: Vec<&str> = self.trace.iter().map(|(class, _)| class.as_str()).collect();
        classes.sort_unstable();
        classes.dedup();
        if classes.is_empty() {
            return Ok(Vec::new());
        }
        let interrupt = Interrupt::watch()?;
        classes.into_iter().map(|class| self.trial(class, &interrupt)).collect()
    }

    fn trial(&self, class: &str, interrupt: &Interrupt) -> anyhow::Result<ClassTrial> {
        let own = self.trace.iter().filter(|one| one.0 == class);
        let traces: Vec<WhatIf> = own
            .map(|(_, file)| WhatIf {
                utilisation: self.utilisation,
                loops: self.loops,
                ..WhatIf::new(&self.device, WorkloadSpec::trace(file))
            })
            .collect();
        let bar = Mutex::new(Progress::default().aloud(class));
        let told = |number: usize, _: &'static str, share: f64| {
            let done = (number as f64 + share) / traces.len() as f64;
            bar.lock().expect("no thread panics while it tells").set(done);
        };
        trial(class, &traces, &interrupt.flag(), &told)
            .map_err(|error| anyhow!("class {class}: {:#}", of_arguments(error)))
    }
}
