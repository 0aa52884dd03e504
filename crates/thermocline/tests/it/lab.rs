//! Runs as data.

use thermocline::lab::{self, RunSpec, WhatIf, WorkloadSpec};

fn small(stack: &str) -> RunSpec {
    let mut spec = RunSpec::new(stack, WorkloadSpec::generator("uniform"));
    lab::set(&mut spec, "span", "16MiB").expect("a generator has a span");
    spec
}

#[test]
fn a_record_can_be_run_again_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    let record = lab::run(&small("raw:ideal")).unwrap();
    std::fs::write(&path, record.to_json()).unwrap();
    let again = lab::run(&lab::load(&path).unwrap()).unwrap();
    assert_eq!(again.waf, record.waf);
}

#[test]
fn a_sweep_has_a_record_or_an_error_for_each_value() {
    let swept = lab::sweep(&small("raw:ideal"), &["device.op=0.1,0.4"]).unwrap();
    let waf: Vec<f64> = swept.into_iter().map(|one| one.record.unwrap().waf.unwrap()).collect();
    assert!(waf[0] > waf[1], "{waf:?}");
    assert!(lab::sweep(&small("raw:ideal"), &["device.op"]).is_err());
}

#[test]
fn options_have_a_record_or_a_reason() {
    let question = WhatIf::new("ideal,unit=256KiB", small("raw:ideal").workload);
    let tried = lab::whatif(&question).unwrap();
    assert!(tried[0].run.is_ok() && tried.len() == 8, "{tried:?}");
    let reason = tried[1].run.as_ref().unwrap_err();
    assert!(reason.contains("generator"), "{reason}");
}

#[cfg(feature = "papers")]
#[test]
fn an_experiment_gives_figures() {
    assert!(lab::experiments().any(|name| name == "indirection-unit"));
    let found = lab::reproduce("indirection-unit", true).unwrap();
    assert!(!found.figures.is_empty() && !found.points.is_empty());
    assert!(lab::reproduce("perpetual-motion", true).is_err());
}
