//! Processor time and memory used by a run.

use rustix::time::{ClockId, clock_gettime};
use thermocline_types::Bytes;

/// Processor seconds used by the current thread.
#[must_use]
pub fn thread_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Largest resident memory of the process so far, bytes; 0 if the system does not report the value.
#[must_use]
pub fn peak_rss_bytes() -> u64 {
    field("/proc/self/status", "VmHWM:").unwrap_or(0)
}

/// Memory available without swapping, if the system reports the value.
#[must_use]
pub fn available_memory() -> Option<Bytes> {
    field("/proc/meminfo", "MemAvailable:").map(Bytes)
}

/// The value in bytes of a line such as `VmHWM:    1024 kB`.
fn field(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
