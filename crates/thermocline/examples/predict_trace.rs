//! Write amplification and life of a QLC drive under a trace, and what would help.

use thermocline::lab::{self, RunSpec, WhatIf, WorkloadSpec};

fn main() -> Result<(), lab::Error> {
    let trace = WorkloadSpec::trace("cassandra-ycsb-a");
    let record = lab::run(&RunSpec::new("raw:p5316", trace.clone()))?;
    println!("write amplification {:.2}", record.waf.unwrap_or(f64::NAN));
    if let Some(life) = record.life {
        println!("worn out in {:.1} years", life.years_p50);
    }
    for tried in lab::whatif(&WhatIf { loops: Some(1), ..WhatIf::new("p5316", trace) })? {
        match tried.run {
            Ok(record) => println!("{}: {:.2}", tried.option, record.waf.unwrap_or(f64::NAN)),
            Err(reason) => println!("{}: {reason}", tried.option),
        }
    }
    Ok(())
}
