//! Write amplification against overprovisioning.

use thermocline::lab::{self, RunSpec, WorkloadSpec};

fn main() -> Result<(), lab::Error> {
    let mut spec = RunSpec::new("raw:ideal", WorkloadSpec::generator("uniform"));
    lab::set(&mut spec, "span", "64MiB")?;
    for one in lab::sweep(&spec, &["device.op=0.07..0.5:4"])? {
        println!("{} {:.2}", one.combination.spec.set[0], one.record?.waf.unwrap_or(f64::NAN));
    }
    Ok(())
}
