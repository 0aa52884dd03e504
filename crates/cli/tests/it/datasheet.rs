//! `lab datasheet`.

use crate::lab;

#[test]
fn sixteen_questions_are_answered_and_each_figure_can_be_repeated() {
    let folder = crate::scratch();
    let page = folder.path().join("sheet.html");
    let command = "datasheet --stack raw:p5316 --quick --capacity 64MiB --json --report";
    let sheet = lab(&format!("{command} {}", page.display())).json();
    let page = std::fs::read_to_string(&page).expect("a page");
    every_link_leads_somewhere(&page);
    let [short, charts] = ["In short", "By size, random"].map(|part| page.find(part));
    assert!(short.is_some() && short < charts, "{short:?} {charts:?}");
    assert_eq!(sheet["schema"], "thermocline.datasheet/1");
    let answers = sheet["answers"].as_array().expect("answers");
    assert_eq!(answers.len(), 16);
    for answer in answers {
        let columns = answer["heads"].as_array().expect("heads").len();
        let rows = answer["rows"].as_array().expect("rows");
        assert!(!rows.is_empty(), "{answer}");
        assert!(rows.iter().all(|row| row["cells"].as_array().map(Vec::len) == Some(columns)));
    }
    let cell = |answer: usize, row: usize, cell: usize| {
        answers[answer]["rows"][row]["cells"][cell].as_str().expect("a cell").to_owned()
    };
    let number = |text: String| text.parse::<f64>().expect("a number");
    let [first, until, later] = [1, 2, 3].map(|column| number(cell(3, 0, column)));
    assert!(first > 1.1 * later && until > 0.0 && until < 2.0, "{first} until {until}, {later}");
    assert_eq!(cell(10, 0, 3), "< 1e-30", "both ends are below all that is told apart");
    let advice = sheet["advice"]["rows"].as_array().expect("advice");
    assert_eq!(advice.len(), 5);
    let small = advice[0]["cells"][3].as_str().expect("a figure");
    let waf = answers[1]["rows"][0]["cells"][3].as_str().expect("a WAF").trim_start_matches('~');
    assert!(
        small.starts_with(&format!("WAF {waf} (4KiB)"))
            || small.starts_with(&format!("WAF {waf} (4 KiB)")),
        "{small}: {waf}"
    );
    let writes = &answers[1]["rows"][0];
    let command = writes["command"].as_str().expect("a command");
    let command = command.strip_prefix("thermocline lab ").expect("of the lab");
    let record = lab(&format!("{command} --json")).json();
    let waf = record["lasting"]["waf"].as_f64().expect("a WAF");
    let told = writes["cells"][3].as_str().expect("a cell").trim_start_matches('~').to_owned();
    assert_eq!(told, format!("{waf:.2}"), "{command}");
}

#[test]
fn writes_that_gain_nothing_by_more_in_flight_wait_for_the_log() {
    let sheet = lab("datasheet --stack log:zn540 --quick --capacity 64MiB --json").json();
    let limit = |answer: usize, row: usize| {
        let cells = sheet["answers"][answer]["rows"][row]["cells"].as_array().expect("cells");
        cells.last().and_then(|cell| cell.as_str()).expect("a limit").to_owned()
    };
    // Reads of 4 KiB, and writes.
    assert_eq!([limit(0, 0), limit(1, 0)], ["requests in flight", "the log, not the drive"]);
}

/// Figures lead to their commands, and stated values to their sources.
fn every_link_leads_somewhere(page: &str) {
    let mut names = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next());
    assert!(names.all(|name| page.contains(&format!("id=\"{name}\""))));
    for name in ["1.1", "17.1", "p5316.wear.rated_dwpd", "drive.p5316.active_w"] {
        assert!(page.contains(&format!("href=\"#origin-{name}\"")), "{name}");
    }
    assert!(page.contains("id=\"origin-qlc.errors\""), "the values of its cells");
}

#[test]
fn a_drive_without_time_has_no_datasheet_and_reads_alone_need_an_end() {
    assert!(lab("datasheet --stack raw:ideal").refused(2).contains("models no time"));
    let reads = "run --stack raw:p5316 --workload uniform --span 64MiB --read-share 1";
    assert!(lab(reads).refused(2).contains("--requests"));
    let record = lab(&format!("{reads} --requests 5000 --json")).json();
    assert_eq!(
        (record["requests"].as_u64(), record["host_bytes_written"].as_u64()),
        (Some(5000), Some(0))
    );
}

#[test]
fn the_performance_test_specification_gives_its_matrix_its_window_and_its_charts() {
    let folder = crate::scratch();
    let page = folder.path().join("pts.html");
    let command = "pts --stack raw:sata-b --quick --capacity 32MiB --depth 8";
    let shown = lab(&format!("{command} --json --report {}", page.display())).json();
    assert_eq!(shown["schema"], "thermocline.pts/1");
    let tests = shown["tests"].as_array().expect("tests");
    assert_eq!(tests.len(), 5);
    assert_eq!(tests[0]["cells"].as_array().map(Vec::len), Some(56));
    for test in tests {
        let window = &test["window"];
        let share = |key: &str| window[key].as_f64().expect("a number");
        let steady = share("range") <= 0.2 && share("drift").abs() <= 0.1;
        assert_eq!(window["steady"].as_bool(), Some(steady), "{window}");
    }
    let charts = shown["charts"].as_array().expect("charts");
    assert!(charts.iter().any(|chart| chart["title"] == "IOPS: steady state window"));
    let text = std::fs::read_to_string(&page).expect("a page");
    assert!(text.contains("write saturation") && text.contains("thermocline lab pts --stack"));
    assert!(lab(&format!("{command} --test speed")).refused(2).contains("iops, throughput"));
    assert!(lab("pts --stack raw:ideal").refused(2).contains("models no time"));
}
