//! Lines in which recorders say that events were lost.

use super::super::text::{Cursor, whole_uint};

/// How many events `line` says to be lost, at least, if it does.
///
/// ftrace prints `CPU:0 [LOST 12 EVENTS]`, trace-cmd `CPU:0 [12 EVENTS DROPPED]`, both without the number where it is
/// not known; bcc `Possibly lost 12 samples`, its libbpf tools `lost 12 events on CPU #3`, bpftrace `Lost 12 events`,
/// perf `LOST 12 events!`, `PERF_RECORD_LOST lost 12` and `Processed 99 events and lost 12 chunks!`, blktrace `You have
/// 12 (0.1%) dropped events`.
pub(super) fn lost(line: &[u8]) -> Option<u64> {
    let is = |token: &[u8], word: &[u8]| {
        token.trim_ascii_start().strip_prefix(b"[").unwrap_or(token).eq_ignore_ascii_case(word)
    };
    let mut words = Cursor::new(line);
    let mut before: [&[u8]; 2] = [b"", b""];
    loop {
        let word = words.token();
        if word.is_empty() {
            return None;
        }
        if is(word, b"lost") {
            let count = words.token();
            let is_ftrace = count.starts_with(b"EVENTS");
            return whole_uint(count).or(is_ftrace.then_some(1));
        }
        if is(word, b"dropped") || is(word, b"dropped]") {
            let count = before.iter().find_map(|word| whole_uint(unbracketed(word)));
            return count.or(unbracketed(before[1]).eq(b"EVENTS").then_some(1));
        }
        before = [before[1], word];
    }
}

fn unbracketed(word: &[u8]) -> &[u8] {
    word.strip_prefix(b"[").unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::lost;

    #[test]
    fn each_recorder_says_it_in_its_way() {
        for (line, count) in [
            ("CPU:3 [LOST 12 EVENTS]", Some(12)),
            ("CPU:1 [LOST EVENTS]", Some(1)),
            ("CPU:0 [30 EVENTS DROPPED]", Some(30)),
            ("CPU:0 [EVENTS DROPPED]", Some(1)),
            ("Possibly lost 64 samples", Some(64)),
            ("lost 7 events on CPU #3", Some(7)),
            ("Lost 5 events", Some(5)),
            ("LOST 9 events!", Some(9)),
            ("fio  1001 [001] 77.0: PERF_RECORD_LOST lost 8", Some(8)),
            ("Processed 99 events and lost 3 chunks!", Some(3)),
            ("You have 12 (0.1%) dropped events", Some(12)),
            ("swapper 0 [001] 5.0: sched:sched_switch: lost+found", None),
            ("", None),
        ] {
            assert_eq!(lost(line.as_bytes()), count, "{line}");
        }
    }
}
