//! A small trace of every format, written by hand, and the requests it holds.

use thermocline_types::{Bytes, Op, Request, StreamId, TenantId, Time};
use thermocline_workload::trace::Format;

pub struct Sample {
    pub format: Format,
    pub bytes: Vec<u8>,
    pub requests: Vec<Request>,
    pub volumes: &'static [&'static str],
}

fn request(at_us: u64, tenant: u32, op: Op, offset: u64, length: u64) -> Request {
    Request {
        at: Time::micros(at_us),
        offset: Bytes(offset),
        length: Bytes(length),
        tenant: TenantId(tenant),
        stream: StreamId::UNKNOWN,
        op,
    }
}

fn text(
    format: Format,
    text: &str,
    volumes: &'static [&'static str],
    requests: Vec<Request>,
) -> Sample {
    Sample { format, bytes: text.as_bytes().to_vec(), requests, volumes }
}

const S: u64 = 512;

pub fn all() -> Vec<Sample> {
    let mut all = linux();
    all.extend(archives());
    all.extend(others());
    all.extend(simulators());
    all.push(vscsi_v1());
    all.push(vscsi_v2());
    all
}

fn linux() -> Vec<Sample> {
    vec![
        text(
            Format::ThermoclineCsv,
            "timestamp_us,op,offset_bytes,length_bytes,tenant\n\
             100,W,4096,8192,db\n150.5,R,0,512,log\n200,D,8192,4096,db\n\
             200,F,0,0,db\r\n250,Z,65536,1048576,log\n260,W,0,0,db\n",
            &["db", "log"],
            vec![
                request(0, 0, Op::Write, 4096, 8192),
                Request { at: Time::nanos(50_500), ..request(0, 1, Op::Read, 0, 512) },
                request(100, 0, Op::Trim, 8192, 4096),
                request(100, 0, Op::Flush, 0, 0),
                request(150, 1, Op::WriteZeroes, 65536, 1 << 20),
            ],
        ),
        text(
            Format::FioIolog,
            "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda write 0 4096\n\
             /dev/sda wait 99 0\n/dev/sda wait 250 0\n/dev/sda read 4096 8192\n\
             /dev/sda sync 0 0\n/dev/sdb trim 0 1048576\n/dev/sda close\n",
            &["/dev/sda", "/dev/sdb"],
            vec![
                request(0, 0, Op::Write, 0, 4096),
                request(250, 0, Op::Read, 4096, 8192),
                request(250, 0, Op::Flush, 0, 0),
                request(250, 1, Op::Trim, 0, 1 << 20),
            ],
        ),
        text(
            Format::FioIolog,
            "fio version 3 iolog\n0 job.0.0 add\n3 job.0.0 open\n12 job.0.0 write 12288 4096\n\
             40 job.0.0 datasync 0 0\n52 job.0.0 trim 0 4096\n99 job.0.0 close\n",
            &["job.0.0"],
            vec![
                request(0, 0, Op::Write, 12288, 4096),
                request(28, 0, Op::Flush, 0, 0),
                request(40, 0, Op::Trim, 0, 4096),
            ],
        ),
        text(
            Format::Blkparse,
            "  8,0    3        1     0.000000000   697  Q  WS 223490 + 8 [kjournald]\n\
             \x20 8,0    3        2     0.000001000   697  G  WS 223490 + 8 [kjournald]\n\
             \x20 8,0    3        3     0.000001500   697  P   N [kjournald]\n\
             \x20 8,0    3        4     0.000002000   697  D  WS 223490 + 8 [kjournald]\n\
             \x20 8,0    3        5     0.000002500   697  U   N [kjournald] 1\n\
             \x20 8,16   0        6     0.000012000    12  D FWFSM 64 + 16 [kworker/0:1H]\n\
             \x20 8,0    3        7     0.000022000   697  C  WS 223490 + 8 [0]\n\
             \x20 8,0    3        8     0.000032000   697  D  FN [kworker/3:1]\n\
             \x20 8,0    3        9     0.000042000     0  m   N cfq workload slice:100\n\
             \x20 8,0    3       10     0.000052000   697  D   D 0 + 2048 [fstrim]\n\
             \x20 8,16   3       11     0.000062000   697  D  RA 1024 + 256 [cat]\n\
             CPU3 (8,0):\n Reads Queued:           0,        0KiB\t Writes Queued:           1\n\
             Total (8,0):\n Throughput (R/W): 0KiB/s / 0KiB/s\n",
            &["8,0", "8,16"],
            vec![
                request(0, 0, Op::Write, 223_490 * S, 4096),
                request(10, 1, Op::Flush, 0, 0),
                request(10, 1, Op::Write, 64 * S, 8192),
                request(30, 0, Op::Flush, 0, 0),
                request(50, 0, Op::Trim, 0, 2048 * S),
                request(60, 1, Op::Read, 1024 * S, 256 * S),
            ],
        ),
        text(
            Format::Ftrace,
            "# tracer: nop\n#\n\
             \x20    kworker/0:1H-93    [000] d..1.  1204.500000: block_rq_insert: 259,0 WS 4096 () 800 + 8 [kworker/0:1H]\n\
             \x20    kworker/0:1H-93    [000] d..1.  1204.500001: block_rq_issue: 259,0 WS 4096 () 800 + 8 [kworker/0:1H]\n\
             \x20    kworker/0:1H-93    [000] d..1.  1204.500011: block_rq_issue: 259,0 FF 0 () 18446744073709551615 + 0 [kworker/0:1H]\n\
             \x20          fio-1001  [001] .....  1204.500101: block_rq_complete: 259,0 WS () 800 + 8 [0]\n\
             \x20          fio-1001  [001] .....  1204.500201: block_rq_issue: 8,1 R 0 () 16 + 32 be,0,4 [fio]\n",
            &["259,0", "8,1"],
            vec![
                request(0, 0, Op::Write, 800 * S, 4096),
                request(10, 0, Op::Flush, 0, 0),
                request(200, 1, Op::Read, 16 * S, 32 * S),
            ],
        ),
        text(
            Format::Ftrace,
            "fio  1001 [001]   77.000010:   block:block_rq_issue: 8,0 W 4096 (2a 00 00) 8 + 8 [fio]\n\
             my app  1002 [000]   77.000030:   block:block_rq_issue: 8,0 DS 0 () 64 + 128 none,0,0 [my app]\n",
            &["8,0"],
            vec![request(0, 0, Op::Write, 8 * S, 4096), request(20, 0, Op::Trim, 64 * S, 128 * S)],
        ),
        text(
            Format::Biosnoop,
            "TIME(s)        COMM           PID    DISK    T  SECTOR    BYTES   LAT(ms)\n\
             0.000004000    supervise      1950   xvda1   W  13092560  4096       0.74\n\
             0.000104000    my other app   1951   xvdb    R  2048      16384      1.20\n\
             0.000204000    jbd2/xvda1-8   260    xvda1   W  18446744073709551615 0  0.31\n",
            &["xvda1", "xvdb"],
            vec![
                request(0, 0, Op::Write, 13_092_560 * S, 4096),
                request(100, 1, Op::Read, 2048 * S, 16384),
                request(200, 0, Op::Flush, 0, 0),
            ],
        ),
        text(
            Format::Biosnoop,
            "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  QUE(ms) LAT(ms)\n\
             1.000000    fio            10      nvme0n1   WS 16        8192     0.010   0.085\n\
             1.000500    fstrim         11      nvme0n1   D 1024       1048576  0.001   1.000\n",
            &["nvme0n1"],
            vec![
                request(0, 0, Op::Write, 16 * S, 8192),
                request(500, 0, Op::Trim, 1024 * S, 1 << 20),
            ],
        ),
    ]
}

fn archives() -> Vec<Sample> {
    vec![
        text(
            Format::Msr,
            "128166372003061629,hm,0,Read,383496192,32768,41286\n\
             128166372003061729,hm,1,Write,822083584,4096,1000\n\
             128166372003061529,hm,0,Write,383496192,512,99\n",
            &["hm_0", "hm_1"],
            vec![
                request(0, 0, Op::Read, 383_496_192, 32768),
                request(10, 1, Op::Write, 822_083_584, 4096),
                request(10, 0, Op::Write, 383_496_192, 512),
            ],
        ),
        text(
            Format::Spc,
            "0,20941264,8192,W,0.551706\n1,20939840,8192,r,0.554041\n0,3436288,15872,w,1.011732\n",
            &["0", "1"],
            vec![
                request(0, 0, Op::Write, 20_941_264 * S, 8192),
                request(2_335, 1, Op::Read, 20_939_840 * S, 8192),
                request(460_026, 0, Op::Write, 3_436_288 * S, 15872),
            ],
        ),
        text(
            Format::Alibaba,
            "419,W,55671332864,12288,1577808002000129\n725,R,59110326272,32768,1577808002000629\n",
            &["419", "725"],
            vec![
                request(0, 0, Op::Write, 55_671_332_864, 12288),
                request(500, 1, Op::Read, 59_110_326_272, 32768),
            ],
        ),
        text(
            Format::Tencent,
            "1538323200,12910952,128,0,1063\n1538323200,6338688,8,1,1627\n1538323202,8,8,1,1063\n",
            &["1063", "1627"],
            vec![
                request(0, 0, Op::Read, 12_910_952 * S, 65536),
                request(500_000, 1, Op::Write, 6_338_688 * S, 4096),
                request(2_000_000, 0, Op::Write, 4096, 4096),
            ],
        ),
        text(
            Format::Systor17,
            "Timestamp,Response,IOType,LUN,Offset,Size\n\
             1455592300.008240000,0.000229000,W,3,123456512,4096\n\
             1455592300.008340000,0.000100000,,3,0,512\n\
             1455592300.009240000,,R,4,0,65536\n",
            &["3", "4"],
            vec![
                request(0, 0, Op::Write, 123_456_512, 4096),
                request(1_000, 1, Op::Read, 0, 65536),
            ],
        ),
        text(
            Format::CloudPhysicsCsv,
            "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633900,28,65536,64\n\
             1,5633901,12,96,0\n2,5633998,35,0,0\n",
            &["sample"],
            vec![
                request(0, 0, Op::Write, 42_932_745 * S, 512),
                request(2_000_000, 0, Op::Read, 64 * S, 65536),
                request(100_000_000, 0, Op::Flush, 0, 0),
            ],
        ),
    ]
}

/// Logs of fio, and traces of a university.
fn others() -> Vec<Sample> {
    vec![
        text(
            Format::FioLog,
            "0, 81234, 1, 4096, 8192, 0x0000\n1, 70000, 0, 8192, 65536, 0x0000\n\
             1002, 12000, 2, 1048576, 0, 0x0000\n",
            &["sample"],
            vec![
                request(0, 0, Op::Write, 8192, 4096),
                request(1_000, 0, Op::Read, 65536, 8192),
                request(1_002_000, 0, Op::Trim, 0, 1 << 20),
            ],
        ),
        text(
            Format::Fiu,
            "1000 3100 logd 70004000 8 W 6 0 00000000000000000000000000001eef\n\
             1001000 3101 web server 70004008 16 R 6 0 00000000000000000000000000003dde\n\
             2001000 3102 logd 70004000 8 W 8 17\n",
            &["6,0", "8,17"],
            vec![
                request(0, 0, Op::Write, 70_004_000 * S, 4096),
                request(1_000, 0, Op::Read, 70_004_008 * S, 8192),
                request(2_000, 1, Op::Write, 70_004_000 * S, 4096),
            ],
        ),
    ]
}

fn simulators() -> Vec<Sample> {
    vec![
        text(
            Format::DiskSim,
            "0.000000 0 1024 8 1\n0.250000 1 2048 16 0\n1.500000 0 1024 8 2\n",
            &["0", "1"],
            vec![
                request(0, 0, Op::Read, 1024 * S, 4096),
                request(250, 1, Op::Write, 2048 * S, 8192),
                request(1_500, 0, Op::Write, 1024 * S, 4096),
            ],
        ),
        text(
            Format::MqSim,
            "48513000 0 1024 8 1\n48533000 0 2048 16 0\n",
            &["0"],
            vec![
                request(0, 0, Op::Read, 1024 * S, 4096),
                request(20, 0, Op::Write, 2048 * S, 8192),
            ],
        ),
        text(
            Format::Femu,
            "0.5,0,4096,8192,0\n1.25,0,0,4096,1\n",
            &["0"],
            vec![request(0, 0, Op::Write, 4096, 8192), request(750, 0, Op::Read, 0, 4096)],
        ),
        text(
            Format::Ftlsim,
            "12 1\n0x10 4\n",
            &["sample"],
            vec![
                request(0, 0, Op::Write, 12 * 4096, 4096),
                request(0, 0, Op::Write, 16 * 4096, 4 * 4096),
            ],
        ),
    ]
}

fn vscsi_v1() -> Sample {
    let record = |serial: u32, length: u32, code: u16, lbn: u64, micros: u64| {
        let mut record = Vec::new();
        record.extend(serial.to_le_bytes());
        record.extend(length.to_le_bytes());
        record.extend(1_u32.to_le_bytes());
        record.extend(code.to_le_bytes());
        record.extend(0x0100_u16.to_le_bytes());
        record.extend(lbn.to_le_bytes());
        record.extend(micros.to_le_bytes());
        record
    };
    vscsi(&[
        record(1, 4096, 0x2a, 1000, 7_000_000),
        record(2, 512, 0x28, 8, 7_000_040),
        record(3, 36, 0x12, 0, 7_000_050),
        record(4, 65536, 0x8a, 5_000_000_000, 7_000_060),
    ])
}

fn vscsi_v2() -> Sample {
    let record = |serial: u32, length: u32, code: u16, lbn: u64, micros: u64| {
        let mut record = Vec::new();
        record.extend(code.to_le_bytes());
        record.extend(0x0200_u16.to_le_bytes());
        record.extend(serial.to_le_bytes());
        record.extend(length.to_le_bytes());
        record.extend(1_u32.to_le_bytes());
        record.extend(lbn.to_le_bytes());
        record.extend(micros.to_le_bytes());
        record.extend(120_u64.to_le_bytes());
        record
    };
    vscsi(&[
        record(1, 4096, 0x2a, 1000, 7_000_000),
        record(2, 512, 0x28, 8, 7_000_040),
        record(3, 65536, 0x8a, 5_000_000_000, 7_000_060),
    ])
}

fn vscsi(records: &[Vec<u8>]) -> Sample {
    Sample {
        format: Format::Vscsi,
        bytes: records.concat(),
        volumes: &["sample"],
        requests: vec![
            request(0, 0, Op::Write, 1000 * S, 4096),
            request(40, 0, Op::Read, 8 * S, 512),
            request(60, 0, Op::Write, 5_000_000_000 * S, 65536),
        ],
    }
}
