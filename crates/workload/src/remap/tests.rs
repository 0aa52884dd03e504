use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::testing::{self, Listed};

fn request(tenant: u32, op: Op, offset: u64, length: u64) -> Request {
    testing::request(0, tenant, op, offset, length)
}

fn scanned(mut map: AddressMap, requests: &[Request]) -> (AddressMap, WorkingSet) {
    let set = map.scan(&mut Listed::new(requests)).unwrap();
    (map, set)
}

fn places(map: &mut AddressMap, request: &Request) -> Vec<(u64, u64)> {
    let mut out = Vec::new();
    map.map(request, &mut out).unwrap();
    out.iter().map(|r| (r.offset.get(), r.length.get())).collect()
}

#[test]
fn dense_numbers_granules_by_first_write_and_splits_what_is_no_longer_contiguous() {
    let k = 1024;
    let requests = [
        request(0, Op::Write, 400 * k, 4 * k),
        request(0, Op::Read, 800 * k, 4 * k),
        request(0, Op::Write, 100 * k, 8 * k),
        request(1, Op::Write, 400 * k, 4 * k),
        request(0, Op::Write, 396 * k, 8 * k),
    ];
    let (mut map, set) = scanned(AddressMap::dense(Bytes::kib(4)).unwrap(), &requests);
    assert_eq!(places(&mut map, &requests[0]), [(0, 4 * k)]);
    assert_eq!(places(&mut map, &requests[2]), [(4 * k, 8 * k)]);
    assert_eq!(places(&mut map, &requests[3]), [(12 * k, 4 * k)]);
    assert_eq!(places(&mut map, &requests[4]), [(16 * k, 4 * k), (0, 4 * k)]);
    assert_eq!(places(&mut map, &request(0, Op::Write, 400 * k + 512, 512)), [(512, 512)]);
    assert_eq!((set.size, set.distinct_blocks, set.requests), (Bytes::kib(20), 5, 5));
    assert_eq!((set.bytes_written, set.span), (Bytes::kib(24), Bytes::kib(804)));
}

#[test]
fn reads_outside_the_working_set_stay_whole_in_length_and_are_counted() {
    let (mut map, _) =
        scanned(AddressMap::dense(Bytes::kib(4)).unwrap(), &[request(0, Op::Write, 0, 1 << 20)]);
    assert_eq!(places(&mut map, &request(0, Op::Read, 4096, 8192)), [(4096, 8192)]);
    assert_eq!(map.reads_outside(), 0);
    let far = places(&mut map, &request(0, Op::Read, 1 << 40, 64 << 10));
    assert_eq!(far.iter().map(|piece| piece.1).sum::<u64>(), 64 << 10);
    assert!(far.iter().all(|piece| piece.0 + piece.1 <= 1 << 20) && far.len() <= 2, "{far:?}");
    assert_eq!(map.reads_outside(), 1);
    let mut empty = AddressMap::dense(Bytes::kib(4)).unwrap();
    assert_eq!(places(&mut empty, &request(0, Op::Read, 0, 4096)), []);
}

#[test]
fn trims_reach_exactly_what_is_written_however_large_they_are() {
    let writes = [request(0, Op::Write, 16384, 4096), request(0, Op::Write, 1 << 45, 8192)];
    let (mut map, _) = scanned(AddressMap::dense(Bytes::kib(4)).unwrap(), &writes);
    let everything = request(0, Op::Trim, 512, (1 << 63) - 512);
    assert_eq!(places(&mut map, &everything), [(0, 12288)]);
    assert_eq!(places(&mut map, &request(0, Op::Trim, 16384 + 1024, 1 << 20)), [(1024, 3072)]);
    assert_eq!(map.trims_dropped(), 0);
    assert_eq!(places(&mut map, &request(1, Op::Trim, 0, 1 << 50)), []);
    assert_eq!(map.trims_dropped(), 1);
}

#[test]
fn fold_wraps_and_none_refuses_with_the_furthest_address() {
    let mut fold = AddressMap::fold(Bytes(65536)).unwrap();
    let wrapping = request(0, Op::Write, 65536 + 61440, 8192);
    assert_eq!(places(&mut fold, &wrapping), [(61440, 4096), (0, 4096)]);
    assert_eq!(places(&mut fold, &request(0, Op::Trim, 4096, 1 << 30)).len(), 2);
    let requests = [request(0, Op::Write, 1 << 20, 4096), request(0, Op::Read, 1 << 30, 4096)];
    let mut none = AddressMap::none(Bytes(8192));
    let error = none.scan(&mut Listed::new(requests)).unwrap_err();
    assert!(matches!(error, MapError::BeyondCapacity { end: Bytes(1_073_745_920), .. }), "{error}");
    assert!(none.map(&requests[0], &mut Vec::new()).is_err());
    assert_eq!(places(&mut none, &request(0, Op::Write, 4096, 4096)), [(4096, 4096)]);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for granule in [0, 512, 4097, 12288] {
        assert!(matches!(AddressMap::dense(Bytes(granule)), Err(MapError::Granule { .. })));
    }
    assert!(matches!(AddressMap::fold(Bytes(1000)), Err(MapError::Capacity { .. })));
    assert!("densely".parse::<Remap>().unwrap_err().to_string().contains("`densely`"));
    assert_eq!("fold".parse::<Remap>().unwrap(), Remap::Fold);
}

fn workload() -> impl Strategy<Value = Vec<Request>> {
    let op = prop_oneof![3 => Just(Op::Write), 1 => Just(Op::Read), 1 => Just(Op::Trim)];
    let one = (0..3_u32, op, 0..4000_u64, 1..200_u64);
    let one =
        one.prop_map(|(tenant, op, sector, count)| request(tenant, op, sector * 512, count * 512));
    proptest::collection::vec(one, 1..60)
}

/// The sectors of a request.
fn sectors(request: &Request) -> impl Iterator<Item = u64> + use<> {
    request.offset.get() / 512..request.end().get() / 512
}

proptest! {
    /// Sector by sector against a plain table: same byte, same place; other byte, other place.
    #[test]
    fn a_dense_map_is_a_bijection_that_keeps_offsets(requests in workload(), shift in 0..5_u32) {
        let granule = 4096_u64 << shift;
        let (mut map, set) = scanned(AddressMap::dense(Bytes(granule)).unwrap(), &requests);
        let written: HashSet<(u32, u64)> = requests
            .iter()
            .filter(|r| r.op == Op::Write)
            .flat_map(|r| sectors(r).map(|sector| (r.tenant.0, sector * 512 / granule)))
            .collect();
        prop_assert_eq!(set.size.get(), written.len() as u64 * granule);
        let (mut forward, mut back) = (HashMap::new(), HashMap::new());
        for request in &requests {
            let mut out = Vec::new();
            map.map(request, &mut out).unwrap();
            let mapped: Vec<u64> = out.iter().flat_map(sectors).collect();
            let wanted: Vec<(u32, u64)> = sectors(request).map(|s| (request.tenant.0, s)).collect();
            let inside = |&(tenant, sector): &(u32, u64)| written.contains(&(tenant, sector * 512 / granule));
            let kept: Vec<(u32, u64)> = match request.op {
                Op::Trim => wanted.iter().copied().filter(inside).collect(),
                _ => wanted,
            };
            if request.op == Op::Read && written.is_empty() {
                prop_assert!(mapped.is_empty());
                continue;
            }
            prop_assert_eq!(mapped.len(), kept.len());
            for (key, place) in kept.into_iter().zip(mapped) {
                prop_assert!(place * 512 < set.size.get());
                prop_assert_eq!(place * 512 % granule, key.1 * 512 % granule);
                if inside(&key) {
                    prop_assert_eq!(*forward.entry(key).or_insert(place), place);
                    prop_assert_eq!(*back.entry(place).or_insert(key), key);
                }
            }
        }
    }

    #[test]
    fn the_prefill_writes_each_touched_block_once_in_order_of_first_touch(
        requests in workload(),
        shift in 0..5_u32,
        fold in any::<bool>(),
    ) {
        let map = if fold { AddressMap::fold(Bytes(1 << 20)) } else { AddressMap::dense(Bytes(4096 << shift)) };
        let (mut map, set) = scanned(map.unwrap(), &requests);
        let mut order = Vec::new();
        for request in requests.iter().filter(|r| r.op == Op::Write) {
            let mut out = Vec::new();
            map.map(request, &mut out).unwrap();
            for piece in out {
                for block in piece.offset.get() / 4096..piece.end().get().div_ceil(4096) {
                    if !order.contains(&block) {
                        order.push(block);
                    }
                }
            }
        }
        let prefill = map.prefill().flat_map(|r| r.offset.get() / 4096..r.end().get() / 4096);
        let prefill: Vec<u64> = prefill.collect();
        prop_assert_eq!(prefill.len() as u64, set.distinct_blocks);
        prop_assert_eq!(&prefill, &order);
        if !fold && shift == 0 {
            prop_assert!(prefill.into_iter().eq(0..set.distinct_blocks));
        }
    }
}
