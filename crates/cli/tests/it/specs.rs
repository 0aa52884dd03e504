//! Specifications of runs, and sweeps over them.

use serde_json::Value;

use super::{lab_in, scratch, write};

/// A run of a second, with settings of every kind.
const RUN: &str = "run --stack raw:ideal --workload zipf:0.9 --span 16MiB --drive-writes 3 --set device.op=0.2 \
                   --set device.unit=256KiB --victim fifo --queue-depth 4 --seed 7";

/// A record without the machine's costs and the command of the run.
fn figures(mut record: Value) -> Value {
    let fields = record.as_object_mut().expect("an object");
    for field in ["host_blocks_per_cpu_second", "peak_rss_bytes", "command"] {
        fields.remove(field);
    }
    record
}

#[test]
fn a_specification_repeats_a_run_and_so_does_its_record() {
    let folder = scratch();
    let lab = |arguments: &str| lab_in(folder.path(), arguments);
    let record = lab(&format!("{RUN} --json")).json();
    let spec = lab(&format!("{RUN} --print-spec")).json();
    assert_eq!(spec["schema"], "thermocline.spec/1");
    assert_eq!(record["spec"], spec, "a record holds the specification of its run");
    write(folder.path(), "spec.json", spec.to_string());
    assert_eq!(figures(lab("run --spec spec.json --json").json()), figures(record.clone()));
    assert_eq!(lab("run --spec spec.json --print-spec").json(), spec);
    write(folder.path(), "record.json", record.to_string());
    assert_eq!(figures(lab("run --spec record.json --json").json()), figures(record));
    let complaint = lab("run --spec spec.json --seed 8").refused(2);
    assert!(complaint.contains("cannot be used with"), "{complaint}");
}

#[test]
fn a_specification_is_of_the_files_it_was_written_for() {
    let folder = scratch();
    let lab = |arguments: &str| lab_in(folder.path(), arguments);
    let tenants = "[[tenant]]\nworkload = \"uniform\"\n";
    write(folder.path(), "tenants.toml", tenants);
    let spec = lab("run --stack raw:ideal --workload tenants.toml --span 16MiB --print-spec").ok();
    write(folder.path(), "spec.json", &spec);
    assert!(lab("run --spec spec.json").ok().contains("WAF"));
    write(folder.path(), "tenants.toml", tenants.replace("uniform", "seq"));
    let complaint = lab("run --spec spec.json").refused(2);
    assert!(complaint.contains("tenants.toml is not the file"), "{complaint}");
    let newer = spec.replace("spec/1", "spec/9");
    write(folder.path(), "newer.json", newer);
    let complaint = lab("run --spec newer.json").refused(2);
    assert!(complaint.contains("thermocline.spec/9"), "{complaint}");
}

#[test]
fn a_sweep_runs_each_combination_once_and_finds_it_again() {
    let folder = scratch();
    let lab = |arguments: &str| lab_in(folder.path(), arguments);
    let run = RUN.replacen("run", "sweep", 1).replace(" --set device.op=0.2", "");
    let few = format!("{run} --sweep device.op=0.1..0.3:2 --cache kept --json");
    let sweep = lab(&few).json();
    assert_eq!(sweep["schema"], "thermocline.sweep/1");
    assert_eq!(sweep["keys"][0]["spacing"], "linear");
    let cells = sweep["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2);
    let waf = |cell: &Value| cell["waf"].as_f64().expect("measured");
    assert!(waf(&cells[0]) > waf(&cells[1]), "more room, less relocation: {cells:?}");
    // By itself, the same run gives the same figure.
    let alone = lab(&format!("{RUN} --json").replace("op=0.2", "op=0.3")).json();
    assert_eq!(alone["lasting"]["waf"].as_f64(), Some(waf(&cells[1])));
    let more = lab(&few.replace(":2", ":3")).json();
    let cached: Vec<bool> =
        more["cells"].as_array().expect("cells").iter().map(|c| c["cached"] == true).collect();
    assert_eq!(cached, [true, false, true], "only what is missing is run");
    // Incomplete records are run again.
    let kept =
        folder.path().join("kept").join(format!("{}.json", cells[0]["key"].as_str().unwrap_or("")));
    std::fs::write(&kept, "{").expect("writable");
    let again = lab(&few).json();
    assert_eq!(again["cells"][0]["cached"], false);
    assert_eq!(waf(&again["cells"][0]).to_bits(), waf(&cells[0]).to_bits());
}

#[test]
fn two_keys_make_a_table_and_a_heat_map_and_one_a_curve() {
    let folder = scratch();
    let lab = |arguments: &str| lab_in(folder.path(), arguments);
    let run = RUN.replacen("run", "sweep", 1).replace(" --set device.op=0.2", "");
    let two = format!("{run} --sweep device.op=0.2,0.3 --sweep queue_depth=1,x --report two.html");
    let complaint = lab(&two).refused(2);
    assert!(complaint.contains("queue_depth=x"), "{complaint}");
    let text = lab(&two.replace("1,x", "1,8")).ok();
    assert!(text.contains("device.op \\ queue_depth") && text.contains("WAF, by"), "{text}");
    let page = std::fs::read_to_string(folder.path().join("two.html")).expect("written");
    assert_eq!(page.matches("<td style=\"background:").count() % 4, 0, "four cells a map");
    assert!(page.contains("<td style=\"background:") && !page.contains("<script"), "{page}");
    let one = lab(&format!("{run} --sweep device.op=0.2,0.3 --report one.html")).ok();
    assert!(one.contains("found") || one.contains("0.2"), "{one}");
    let page = std::fs::read_to_string(folder.path().join("one.html")).expect("written");
    assert!(page.contains("<svg") && page.contains("thermocline.spec/1"), "a curve and its run");
    for (arguments, expected) in [
        ("--sweep device.op=0.2,0.3 --set device.unit=7KiB", "no run can be made"),
        ("--sweep colour=1,2", "no key of a run"),
        ("--sweep loops=1,2", "no key of a generator"),
        ("--sweep seed=1,2 --sweep seed=3,4", "both --sweep are of seed"),
        ("--sweep device.op=1", "two values"),
    ] {
        let complaint = lab(&format!("{run} {arguments}")).refused(2);
        assert!(complaint.contains(expected), "{arguments}: {complaint}");
    }
    let taken = run.replace("raw:ideal", "raw:ideal,op=0.3");
    let complaint = lab(&format!("{taken} --sweep device.op=0.1,0.2")).refused(2);
    assert!(complaint.contains("leave it out there"), "{complaint}");
}
