//! `lab jobs`.

use serde_json::Value;

use super::lab;

/// Two writers of 4 KiB beside two readers of 64 KiB.
fn of_four(reader: &str, more: &str) -> Value {
    let volume = "--stack raw:p5316 --span 256MiB --before 5ms --for 20ms --json";
    let jobs =
        format!("--job 2xuniform,depth=64 --job 2xuniform,size=64KiB,reads=1,depth=64{reader}");
    lab(&format!("jobs {volume} {jobs} {more}")).json()
}

fn rate(output: &Value, job: usize, what: &str) -> f64 {
    output["jobs"][job][what].as_f64().expect("a rate of each job")
}

#[test]
fn jobs_in_one_queue_get_as_many_requests_and_a_cap_is_kept() {
    let apart = of_four("", "");
    assert_eq!(apart["schema"], "thermocline.jobs/1");
    assert_eq!(apart["jobs"].as_array().unwrap().len(), 4);
    let one = of_four("", "--queue 8");
    let [reads, writes] = [rate(&one, 2, "read_mb_per_s"), rate(&one, 0, "written_mb_per_s")];
    assert!((14.0..18.0).contains(&(reads / writes)), "{reads} and {writes} MB/s");
    let free = rate(&apart, 2, "read_mb_per_s");
    assert!(free > 2.0 * reads, "{free} MB/s apart, {reads} in one queue");
    let capped = rate(&of_four(",cap=100", ""), 2, "read_mb_per_s");
    assert!((90.0..110.0).contains(&capped), "{capped} MB/s");
}

#[test]
fn a_job_that_cannot_be_read_is_refused_with_the_reason() {
    for (job, part) in [
        ("uniform,deep=3", "there are size, reads, depth, cap"),
        ("0xuniform", "0 jobs, must be 1 to 256"),
        ("uniform,depth=0", "must be 1 to 65536"),
        ("uniform,size=4XB", "size: "),
        ("unifrom", "did you mean `uniform`?"),
    ] {
        let complaint = lab(&format!("jobs --stack raw:p5316 --job {job}")).refused(2);
        assert!(complaint.contains(part), "{job}: {complaint}");
    }
}
