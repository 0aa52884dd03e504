//! `list`, `theory` and `reproduce`.

use crate::{command, lab, repository, scratch};

#[test]
fn every_listing_names_what_the_other_commands_take() {
    let cases = [
        (
            "devices",
            "p5316 pm9d3 pm1725a micron2300 zn540 zn540-4tb sn640 sn640-8tb p5800x micron9100 intel660p hdd ideal sata-a sata-b pci-c p5336 ps1010 ps1030 pm9a3 pm1743 pm1753 \
             cm7-r cd8p micron6500 micron7450 micron9550 sn861 xg8 990pro sn850x t700",
        ),
        ("layers", "raw tag log"),
        (
            "workloads",
            "uniform zipf:THETA hotcold:DATA%:WRITES% seq jesd219 lsm[:KEY=VALUE,...] btree[:KEY=VALUE,...] kvcache[:KEY=VALUE,...] \
             objects[:KEY=VALUE,...] hse[:KEY=VALUE,...] llm[:KEY=VALUE,...] FILE.toml",
        ),
        (
            "lsm",
            "strategy keys skew memtable compactors pace ttl fs.allocator fs.extent fs.discard",
        ),
        ("btree", "engine data page skew pool changes reads clients sync log undo load"),
        ("kvcache", "small small.writes region region.evict gets"),
        ("objects", "size spread fill delete short writers fs.extent fs.discard"),
        ("hse", "staging staging.level keys memtable mblock fs.turn"),
        ("llm", "trace model dram flash admit reads"),
        (
            "formats",
            "thermocline-csv fio-iolog blkparse ftrace biosnoop msr spc alibaba tencent systor17 vscsi disksim mqsim",
        ),
        ("placements", "none sepgc lsm-zgc:0.8 sepbit dac:6 midas tenant file directory"),
        ("log", "log.unit pool.placement pool.read_plan pool.checkpoint"),
        ("victims", "greedy cost-benefit fifo random windowed:0.9 choices:10 declining-cost own"),
        ("cases", "wine cloudmark llog csal"),
        (
            "experiments",
            "uniform-greedy autostream cachelib-fdp indirection-unit lsm-zgc micron-zones snia-bandwidth snia-controllers snia-pathological snia-collisions snia-scaling snia-partial snia-wear snia-life snia-uber refresh slc-cache",
        ),
    ];
    for (what, names) in cases {
        let listed = lab(&format!("list {what}")).ok();
        let first: Vec<&str> =
            listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
        for name in names.split_whitespace() {
            assert!(first.contains(&name), "{what} lacks {name}: {listed}");
        }
    }
}

#[test]
fn every_listed_victim_and_workload_runs() {
    let victims = lab("list victims").ok();
    for victim in victims.lines().filter_map(|line| line.split_whitespace().next()) {
        if victim.starts_with('─') {
            continue;
        }
        let run = format!(
            "run --json --stack raw:ideal --workload uniform --span 16MiB --victim {victim}"
        );
        let record = lab(&run).json();
        assert_eq!(record["config"]["device.gc.victim"], victim);
    }
    for workload in [
        "uniform",
        "zipf:1.2",
        "hotcold:10:90",
        "seq",
        "drift:0.9:1000",
        "circular:50",
        "jesd219",
        "modern",
        "lsm:memtable=256KiB,log.segment=128KiB,fs.turn=64KiB,fs.extent=64KiB,tier.small=0",
        "btree",
        "btree:engine=wiredtiger,page=32KiB,pool=4MiB",
        "kvcache:region=1MiB",
        "objects:size=256KiB,fs.turn=64KiB,fs.extent=64KiB",
        "hse:memtable=256KiB,mblock=128KiB,fs.turn=64KiB",
        "llm:flash=2%",
    ] {
        let run = format!(
            "run --json --stack raw:ideal --span 64MiB --drive-writes 1 --workload {workload}"
        );
        assert!(lab(&run).json()["waf"].as_f64() >= Some(1.0), "{workload}");
    }
}

#[test]
fn a_listed_profile_is_a_profile() {
    let profile = lab("list devices zn540").ok();
    assert!(profile.contains("kind = \"zns\"") && profile.contains("[source]"), "{profile}");
}

#[test]
fn theory_holds_the_published_values() {
    // Greedy at 15 % garbage and b = 512; FIFO at the same (Desnoyers 2012); random: 1 / GP.
    let text = lab("theory uniform").ok();
    let row = text.lines().find(|line| line.contains("GP 15 %")).expect("the row of 15 % garbage");
    for value in ["3.4971", "3.5187", "6.6667"] {
        assert!(row.contains(value), "{row}");
    }
    let csv = lab("theory uniform --csv").ok();
    let row = csv.lines().find(|line| line.contains("GP 15 %")).expect("the same row");
    assert!(row.split(',').any(|cell| cell == "3.4971"), "{row}");
}

#[test]
fn bandwidth_is_that_of_the_tutorial_and_says_what_limits_it() {
    let out = lab("theory bandwidth --media slc --dies 192 --link pcie1-x4 --json").json();
    let points = out["points"].as_array().expect("points");
    let whole = points.iter().filter(|point| point["dies"] == 192);
    for point in whole {
        assert_eq!(point["mb_per_s"].as_f64(), Some(960.0), "{point}");
        assert_eq!(point["limit"], "buses");
    }
    assert!(lab("theory bandwidth --media xlc").refused(2).contains("slc, mlc, tlc, qlc"));
}

#[test]
fn a_run_says_what_limited_it_and_its_share_of_the_theoretical_rate() {
    let run =
        "run --json --stack raw:pci-c --span 256MiB --workload seq --io-size 1MiB --queue-depth 64";
    let rates = &lab(run).json()["bandwidth"];
    assert_eq!(rates["limit"], "buses", "{rates}");
    let theoretical = rates["theoretical_bytes_per_second"].as_f64().expect("a rate");
    let reached = rates["host_write_bytes_per_second"].as_f64().expect("a rate");
    assert!((0.97..1.03).contains(&(reached / theoretical)), "{rates}");
    let alone = &lab(&run.replace("64", "1").replace("1MiB", "4KiB")).json()["bandwidth"];
    assert_eq!(alone["limit"], "host", "one request of 4 KiB at a time: {alone}");
}

#[test]
fn the_table_of_truth_has_theirs_ours_and_what_explains_the_difference() {
    let truth = lab("reproduce indirection-unit --points --json").json();
    assert_eq!(truth["schema"], "thermocline.points/1");
    let points = truth["points"].as_array().expect("points");
    assert_eq!(points.len(), 5, "one for each mapping unit");
    for point in points {
        let number = |key: &str| point[key].as_f64().expect(key);
        let difference = number("ours") / number("theirs") - 1.0;
        assert!((number("difference") - difference).abs() < 1e-9, "{point}");
        let cause = &point["reference"]["standing"]["cause"];
        let left = number("ours") / cause["theirs"].as_f64().expect("measured") - 1.0;
        assert!(left.abs() < 0.003, "{point}");
        assert_eq!(point["experiment"], "indirection-unit");
    }
    let worst = truth["errors"]["worst"].as_f64().expect("worst");
    assert!((0.01..0.02).contains(&worst), "{worst}");
    let text = lab("reproduce indirection-unit --points").ok();
    assert!(text.contains("(closed form) | 5 | 5 |"), "{text}");
    let row = text.lines().find(|line| line.contains("mapping unit 64 KiB")).expect("a row");
    assert!(row.contains("| 8.870 |") && row.ends_with("| `indirection-unit` |"), "{row}");
}

#[test]
fn an_experiment_gives_our_figures_beside_theirs() {
    let outcome = lab("reproduce indirection-unit --json").json();
    assert_eq!(outcome["schema"], "thermocline.reproduce/1");
    assert!(outcome["source"].as_str().is_some_and(|source| !source.is_empty()));
    let figures = outcome["figures"].as_array().expect("figures");
    assert!(!figures.is_empty());
    for figure in figures {
        let (ours, theirs) =
            (figure["ours"].as_f64().expect("ours"), figure["theirs"].as_f64().expect("theirs"));
        assert!((ours / theirs - 1.0).abs() < 0.02, "{figure}");
    }
}

#[test]
fn a_result_is_kept_for_the_same_program_and_options_and_a_damaged_one_is_measured_again() {
    let cache = scratch();
    let run = |arguments: &str| {
        let mut command =
            command(&repository(), &format!("reproduce indirection-unit {arguments}"));
        let done =
            command.env("XDG_CACHE_HOME", cache.path()).output().expect("the program starts");
        assert!(done.status.success(), "{done:?}");
        (done.stdout, String::from_utf8(done.stderr).expect("UTF-8"))
    };
    let ([kept, takes], json) = (["kept from an earlier run", "takes seconds"], "--json");
    let (first, said) = run(json);
    assert!(said.contains(takes) && !said.contains(kept), "{said}");
    let (again, said) = run(json);
    assert!(said.contains(kept) && !said.contains(takes) && again == first, "{said}");
    assert!(run("--points").1.contains(takes) && run("--json --seed 2").1.contains(takes));
    assert!(run("--json --fresh").1.contains(takes));
    for file in std::fs::read_dir(cache.path().join("thermocline")).expect("results") {
        std::fs::write(file.expect("a file").path(), "none of ours").expect("written");
    }
    let (mended, said) = run(json);
    assert!(said.contains("is not used") && said.contains(takes) && mended == first, "{said}");
}

#[test]
fn an_experiment_says_how_long_it_takes_and_which_small_form_it_is() {
    let list = lab("list experiments").ok();
    assert!(list.contains("(over ten minutes, quick about a minute)"), "{list}");
    let quick = lab("reproduce snia-partial --quick --fresh");
    assert!(quick.err.contains("takes seconds"), "{}", quick.err);
    assert!(quick.out.contains("quick form: "), "{}", quick.out);
}

/// A folder with one run of a made-up drive, written in order.
#[test]
fn runs_of_a_folder_are_predicted() {
    let folder = scratch();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text);
    std::fs::create_dir(folder.path().join("curves")).expect("a folder");
    put(
        "logs.csv",
        "id,kind,capacity_bytes,ru_bytes,workload,parameters,onset_fills_low,onset_fills_high,start_state\n\
         run,drive,1024000,1000,fio 1 stream,pattern=sequential,1.1,1.1,trimmed\n",
    )
    .expect("written");
    put("curves/run.csv", "host_bytes,media_bytes\n0,0\n2048000,2560000\n").expect("written");
    let command = format!("reproduce warp --logs {}", folder.path().display());
    let outcome = lab(&format!("{command} --json")).json();
    let row = &outcome["logs"][0];
    assert_eq!((&row["id"], &row["kind"]), (&"run".into(), &"drive".into()), "{row}");
    let number = |key: &str| row[key].as_f64().expect(key);
    assert_eq!((number("waf_measured"), number("waf_predicted")), (1.25, 1.0), "{row}");
    assert!((number("median_error") - 0.2).abs() < 1e-9, "{row}");
    let table = lab(&command).ok();
    assert!(table.contains("20.0 %") && table.contains("drive: median 20.00 %"), "{table}");
}
