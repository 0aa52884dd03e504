//! The page as a reader and a browser get it.

mod sample;

use std::path::Path;

use sample::{Shape, record, three};
use thermocline_record::{
    DeviceSeries, HandleFigures, OwnedBytes, RunRecord, TenantFigures, Tenants,
};
use thermocline_report::render;

/// The page without its style and footer: what is read.
fn prose(page: &str) -> &str {
    let start = page.find("<body>").expect("the page has a body");
    &page[start..page.find("<footer>").expect("the page has a footer")]
}

/// The drawings whose title begins so.
fn drawings(page: &str, title: &str) -> usize {
    page.matches(&format!("role=\"img\" aria-label=\"{title}")).count()
}

fn one(units: usize) -> RunRecord {
    record(&Shape {
        stack: "raw:ideal",
        title: "An ideal drive",
        waf: 2.0,
        modify_share: 0.0,
        units,
        steady: true,
        timed: false,
        life: None,
    })
}

/// Written beside the test binaries, to be looked at in a browser.
fn keep(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, page).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

#[test]
fn same_records_give_the_same_bytes() {
    let page = render("Three drives", &three(true));
    assert_eq!(page, render("Three drives", &three(true)));
    keep("report-timed.html", &page);
}

#[test]
fn every_stack_has_its_finding_row_and_section() {
    let page = render("Three drives", &three(false));
    keep("report-untimed.html", &page);
    for (i, run) in three(false).iter().enumerate() {
        assert!(
            prose(&page).matches(&run.stack).count() >= 5,
            "{} is missing somewhere",
            run.stack
        );
        assert!(page.contains(&format!("id=\"stack-{i}\"")));
    }
    assert!(page.contains("Writes 4.12 bytes to its media per host byte once steady"));
}

#[test]
fn the_page_loads_nothing_and_runs_no_script() {
    let page = render("Three drives", &three(true));
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline';"));
    // Links and fills lead to places of the page itself.
    let page = page.replace("href=\"#", "").replace("url(#", "");
    for load in
        ["<script", "src=", "href=", "@import", "url(", "<link", "<iframe", "<img", "onload"]
    {
        assert!(!page.contains(load), "the page holds `{load}`");
    }
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
}

#[test]
fn every_section_is_listed_at_the_top_and_has_the_place_that_its_link_names() {
    let page = render("Three drives", &three(true));
    let (_, contents) = page.split_once("<nav").expect("contents");
    let contents = contents.split_once("</nav>").expect("it ends").0;
    let links: Vec<&str> =
        contents.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(links.len(), page.matches("<section ").count());
    for link in &links {
        assert_eq!(page.matches(&format!(" id=\"{link}\"")).count(), 1, "{link}");
    }
}

#[test]
fn what_completes_in_memory_is_a_bar_of_its_own() {
    let mut run = three(true).remove(0);
    let writes = run.latency_ns.as_mut().and_then(|kinds| kinds.get_mut("write"));
    let writes = writes.expect("a timed run");
    (writes.count, writes.in_memory) = (100, 40);
    writes.bins = vec![[16_000, 50], [32_000, 0], [64_000, 10]];
    let page = render("One drive", &[run]);
    for part in
        ["<title>memory: 40.0</title>", "<title>16 us: 50.0</title>", "<title>64 us: 10.0</title>"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains("40.0 % completed in memory"));
}

#[test]
fn tenants_have_a_table_and_runs_without_them_none() {
    let tenant = |name: &str, waf| TenantFigures {
        name: name.to_owned(),
        host_bytes_written: 3 << 30,
        waf,
        ..TenantFigures::default()
    };
    let nobody =
        OwnedBytes { media: [("padding".to_owned(), 5 << 20)].into(), ..Default::default() };
    let each = vec![tenant("<quiet>", None), tenant("noisy", Some(2.345))];
    let run = RunRecord { tenants: Some(Tenants { each, nobody }), ..one(4) };
    let page = render("Tenants", &[run, one(4)]);
    let section = prose(&page).split("id=\"tenants\"").nth(1).expect("a section");
    let section = &section[..section.find("</section>").expect("it ends")];
    assert_eq!(section.matches("<table").count(), 1);
    for part in
        ["&lt;quiet&gt;", "noisy", "<td>2.35</td>", "<td>3.00 GiB</td>", "<td>5.00 MiB</td>"]
    {
        assert!(section.contains(part), "`{part}` is missing:\n{section}");
    }
    assert!(!prose(&render("None", &[one(4)])).contains("id=\"tenants\""));
}

#[test]
fn placement_handles_have_a_table_where_there_are_several() {
    let handle = |handle, others| HandleFigures {
        handle,
        host_bytes_programmed: 3 << 30,
        bytes_relocated: 1 << 30,
        bytes_relocated_by_own: 0,
        bytes_relocated_by_others: 1 << 30,
        bytes_relocated_of_others: others,
        waf: Some(4.0 / 3.0),
    };
    let run = RunRecord { handles: vec![handle(0, 0), handle(2, 5 << 20)], ..one(4) };
    let page = render("Handles", &[run]);
    let section = prose(&page).split("id=\"handles\"").nth(1).expect("a section");
    for part in
        ["<th scope=\"row\">2</th>", "<td>1.33</td>", "<td>1.00 GiB</td>", "<td>5.00 MiB</td>"]
    {
        assert!(section.contains(part), "`{part}` is missing:\n{section}");
    }
    let single = RunRecord { handles: vec![handle(0, 0)], ..one(4) };
    assert!(!prose(&render("One", &[single])).contains("id=\"handles\""));
}

#[test]
fn hostile_names_stay_text() {
    let evil = "</script><b onload='x'>\"&<!--";
    let mut run = one(4);
    evil.clone_into(&mut run.stack);
    evil.clone_into(&mut run.version);
    evil.clone_into(&mut run.device.title);
    evil.clone_into(&mut run.workload.name);
    evil.clone_into(&mut run.steady_state.rule);
    run.config.insert(evil.to_owned(), evil.into());
    run.notes.push(evil.to_owned());
    run.media_bytes_written.by_cause.insert(evil.to_owned(), 1);
    run.engine_bytes_written.entry(evil.to_owned()).or_default().insert(evil.to_owned(), 1);
    let page = render(evil, std::slice::from_ref(&run));
    assert!(!page.contains("</script"));
    assert!(!page.contains("<b onload"));
    assert!(!page.contains("<!--"));
    keep("report-hostile.html", &page);
}

#[test]
fn what_is_not_known_is_said() {
    let page = render("One drive", &[one(4)]);
    assert!(page.contains("<td>not modelled</td>"));
    assert!(page.contains("Lifetime unknown."));
    let mut mixed = three(true);
    mixed[2] = three(false).remove(2);
    let page = render("One of them untimed", &mixed);
    assert_eq!(page.matches("<span class=\"unmodelled\">not modelled</span></td>").count(), 6);
    let mut blank = one(4);
    blank.waf = None;
    blank.lasting.waf = None;
    let page = render("One drive", &[blank]);
    assert!(page.contains("<dt>WAF</dt><dd>unknown</dd>"));
    assert!(page.contains("Its write amplification is unknown"));
}

#[test]
fn ratios_before_steady_state_are_transient_and_win_nothing() {
    let mut runs = three(false);
    runs[1].steady_state.reached = false;
    runs[1].lasting.waf = Some(1.26);
    let page = render("Three drives", &runs);
    assert!(page.contains("<td>1.26 <span class=\"tag warn\">transient</span></td>"));
    assert!(page.contains("not yet steady</strong> after 4.06"));
    assert!(!page.contains("\u{2605}</span> 1.26"), "a transient WAF is marked best");
    let steady = render("One drive", &[one(4)]);
    assert!(!prose(&steady).contains("tag warn"));
}

#[test]
fn only_a_better_cell_is_marked() {
    let best = |runs: &[RunRecord]| render("Drives", runs).matches("<td class=\"best\">").count();
    assert_eq!(best(&[one(4)]), 0);
    assert_eq!(best(&[one(4), one(4)]), 0);
    // WAF, DLWA and life of the two steady ones.
    assert_eq!(best(&three(false)), 3);
}

#[test]
fn what_completes_in_memory_wins_no_column() {
    let mut runs = three(true);
    let writes = runs[1].latency_ns.as_mut().and_then(|kinds| kinds.get_mut("write"));
    let writes = writes.expect("a timed run");
    (writes.in_memory, writes.p50) = (writes.count, None);
    let page = render("Three drives", &runs);
    assert!(
        page.contains("<td><span class=\"unmodelled\">in memory</span></td>"),
        "{}",
        prose(&page)
    );
}

#[test]
fn how_full_the_product_is_in_its_life_is_said() {
    let mut run = three(true).remove(0);
    let life = run.life.as_mut().expect("a life");
    life.product_utilisation = Some(4e-6);
    let page = render("One drive", &[run]);
    let page = prose(&page);
    for words in [
        "Life at less than 0.01 % full, median",
        "with the product less than 0.01 % full",
        "years empty",
        "100 % full of such data",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn the_verdict_is_on_the_page_once_with_word_sign_and_rating() {
    let mut runs = three(true);
    runs[1].life.as_mut().expect("a life").rated_tbw_bytes = Some(60e15);
    let page = render("Three drives", &runs);
    keep("report-verdicts.html", &page);
    let page = prose(&page);
    for (class, words) in
        [("bad", "\u{2716}</span> Does not fit."), ("good", "\u{2714}</span> Fits.")]
    {
        assert!(page.contains(&format!("<p class=\"verdict {class}\">")), "{class}");
        assert!(page.contains(words), "{words}");
    }
    assert_eq!(page.matches("<p class=\"verdict").count(), runs.len());
    assert!(page.contains("it is rated for 22.9 PB (TBW)"), "{page}");
    assert!(page.contains("Of these drives, <b>tag:pm9d3</b> will last the warranty"));
    assert!(!page.contains("outlives its warranty"), "the lab's own verdict is in tables only");
}

#[test]
fn one_stack_twice_keeps_its_runs_apart() {
    let page = render("Twice", &[one(4), one(4)]);
    assert!(page.contains("raw:ideal #1") && page.contains("raw:ideal #2"));
}

#[test]
fn different_workloads_are_called_out() {
    let mut other = one(4);
    other.workload.name = "zipf:1.0".to_owned();
    assert!(render("Two", &[one(4), other]).contains("do not compare"));
}

#[test]
fn extremes_render() {
    let mut empty = one(1);
    empty.host_bytes_written = 0;
    empty.series.clear();
    empty.waf = None;
    empty.waf_steady = Some(f64::NAN);
    empty.lasting.waf = Some(f64::NAN);
    empty.wear.mean = f64::INFINITY;
    empty.media_bytes_written.by_cause.clear();
    let mut bare = one(0);
    bare.series.clear();
    bare.device.capacity_bytes = 0;
    bare.steady_state.drive_fills = f64::NAN;
    for (name, runs) in [
        ("report-empty.html", vec![empty]),
        ("report-bare.html", vec![bare]),
        ("report-large.html", vec![one(4096)]),
        ("report-none.html", vec![]),
    ] {
        let page = render(name, &runs);
        let shown = prose(&page);
        assert!(
            !shown.contains("NaN") && !shown.contains("inf"),
            "{name} shows a number that is none"
        );
        keep(name, &page);
    }
}

#[test]
fn tiers_above_the_device_have_their_own_bytes() {
    let mut runs: Vec<RunRecord> = (0..7).map(|_| one(40)).collect();
    let host = runs[0].host_bytes_written;
    let causes = [("host", host), ("metadata", host / 50), ("relocation", host / 4)];
    let causes = causes.map(|(cause, bytes)| (cause.to_owned(), bytes)).into();
    runs[0].stack = "tier:p5800x+p5316".to_owned();
    runs[0].engine_bytes_written.insert("capacity".to_owned(), causes);
    let page = render("Seven runs", &runs);
    assert!(page.contains("Layer above the device, capacity"));
    assert!(page.contains("raw:ideal #6"));
    keep("report-seven.html", &page);
}

#[test]
fn a_run_on_two_devices_has_the_rates_of_each() {
    let step = |tier: &str| DeviceSeries {
        tier: tier.to_owned(),
        step_seconds: 0.5,
        bytes_read: vec![1_000_000, 0],
        bytes_written: vec![0, 2_000_000],
        ..DeviceSeries::default()
    };
    let mut run = three(true).remove(0);
    let page = render("One device", std::slice::from_ref(&run));
    assert_eq!(drawings(&page, "Rates of each device"), 0);
    run.device_series = vec![step("capacity"), step("fast")];
    let page = render("Two devices", &[run]);
    assert_eq!(drawings(&page, "Rates of each device"), 1);
    keep("report-devices.html", &page);
}

#[test]
fn one_timed_run_has_every_chart() {
    let page = render("One run", &three(true)[..1]);
    for title in [
        "Write amplification over the run",
        "Host write rate",
        "Media (NAND) write rate",
        "Write latency over time, p99.9",
        "Read latency over time, p50",
        "Writes that took at most so long",
        "Reads that took at most so long",
        "From the host to the media",
        "Lifetime under this load",
        "Unit map",
        "Wear map",
        "Valid data in closed units",
        "Units by erase count",
    ] {
        assert_eq!(drawings(&page, title), 1, "{title}");
    }
    keep("report-one.html", &page);
}
