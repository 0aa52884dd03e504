//! A small trace of every format, and its requests, from `testdata/samples`.

use std::fs;
use std::path::Path;

use thermocline_types::{Bytes, Op, Request, StreamId, TenantId, Time};
use thermocline_workload::trace::Format;

pub struct Sample {
    pub format: Format,
    pub bytes: Vec<u8>,
    pub requests: Vec<Request>,
    pub volumes: Vec<String>,
}

/// The samples in order of their names.
pub fn all() -> Vec<Sample> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/samples"));
    let entries = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut traces: Vec<_> = entries.filter(|path| path.extension().unwrap() == "trace").collect();
    traces.sort();
    traces.iter().map(|trace| sample(trace)).collect()
}

/// The file of requests begins with two lines: the format, and the volumes between tabs.
fn sample(trace: &Path) -> Sample {
    let wanted = fs::read_to_string(trace.with_extension("requests")).unwrap();
    let mut lines = wanted.lines();
    let format = lines.next().unwrap().parse().unwrap();
    let volumes = lines.next().unwrap().split('\t').map(str::to_owned).collect();
    let requests = lines.map(request).collect();
    Sample { format, bytes: fs::read(trace).unwrap(), requests, volumes }
}

/// A request from `NANOSECONDS VOLUME OP OFFSET LENGTH`.
fn request(line: &str) -> Request {
    let mut words = line.split(' ');
    let mut next = || words.next().unwrap();
    Request {
        at: Time::nanos(next().parse().unwrap()),
        tenant: TenantId(next().parse().unwrap()),
        op: match next() {
            "Read" => Op::Read,
            "Write" => Op::Write,
            "WriteZeroes" => Op::WriteZeroes,
            "Trim" => Op::Trim,
            "Flush" => Op::Flush,
            other => panic!("{other}"),
        },
        offset: Bytes(next().parse().unwrap()),
        length: Bytes(next().parse().unwrap()),
        stream: StreamId::UNKNOWN,
        outstanding: None,
    }
}
