use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const BLOCK: u64 = 4096;
const METADATA: StreamId = StreamId { directory: 9, file: 0 };

fn options(allocator: Allocator) -> FileSystemOptions {
    FileSystemOptions {
        allocator,
        extent: Bytes(8 * BLOCK),
        block: Bytes(BLOCK),
        metadata_share: 0.0,
        metadata_area: Bytes(16 * BLOCK),
        node: Bytes(BLOCK),
        discard: true,
        request: Bytes(3 * BLOCK),
    }
}

fn taken(fs: &mut FileSystem) -> Vec<Request> {
    std::iter::from_fn(|| fs.next_request()).collect()
}

fn stream(file: u16) -> StreamId {
    StreamId { directory: 1, file }
}

#[test]
fn allocators_look_where_they_say() {
    for (allocator, expected) in [(Allocator::First, 0), (Allocator::Next, 16)] {
        let mut fs = FileSystem::new(Bytes(64 * BLOCK), options(allocator), METADATA, 1);
        let [mut a, mut b] = [0, 1].map(|number| fs.create(stream(number)));
        fs.append(&mut a, Bytes(8 * BLOCK)).unwrap();
        fs.append(&mut b, Bytes(8 * BLOCK)).unwrap();
        fs.delete(a);
        let mut c = fs.create(stream(2));
        fs.append(&mut c, Bytes(BLOCK)).unwrap();
        assert_eq!(c.extents()[0].start, expected * BLOCK, "{allocator}");
    }
    let mut fs = FileSystem::new(Bytes(4096 * BLOCK), options(Allocator::Roam), METADATA, 1);
    let [mut a, mut b] = [0, 1].map(|number| fs.create(stream(number)));
    for _ in 0..4 {
        fs.append(&mut a, Bytes(8 * BLOCK)).unwrap();
        fs.append(&mut b, Bytes(8 * BLOCK)).unwrap();
    }
    assert_eq!([a.extents().len(), b.extents().len()], [1, 1], "files keep apart");
    // The others interleave files that grow in turn.
    let mut fs = FileSystem::new(Bytes(4096 * BLOCK), options(Allocator::Next), METADATA, 1);
    let [mut a, mut b] = [0, 1].map(|number| fs.create(stream(number)));
    for _ in 0..4 {
        fs.append(&mut a, Bytes(8 * BLOCK)).unwrap();
        fs.append(&mut b, Bytes(8 * BLOCK)).unwrap();
    }
    assert_eq!([a.extents().len(), b.extents().len()], [4, 4]);
}

#[test]
fn a_full_one_says_so_and_room_comes_back_with_deletions() {
    let mut fs = FileSystem::new(Bytes(20 * BLOCK), options(Allocator::Next), METADATA, 1);
    let mut file = fs.create(stream(0));
    assert_eq!(fs.append(&mut file, Bytes(21 * BLOCK)), Err(NoRoom));
    assert_eq!((file.size(), fs.free()), (Bytes(20 * BLOCK), Bytes::ZERO));
    fs.delete(file);
    assert_eq!((fs.free(), fs.peak()), (Bytes(20 * BLOCK), Bytes(20 * BLOCK)));
}

#[test]
fn metadata_are_their_share_and_keep_to_their_area() {
    let options = FileSystemOptions { metadata_share: 0.25, ..options(Allocator::Next) };
    let mut fs = FileSystem::new(Bytes(1024 * BLOCK), options, METADATA, 1);
    let mut file = fs.create(stream(0));
    fs.append(&mut file, Bytes(900 * BLOCK)).unwrap();
    let requests = taken(&mut fs);
    let (nodes, data): (Vec<Request>, Vec<Request>) =
        requests.into_iter().partition(|request| request.stream == METADATA);
    assert!((299..=300).contains(&nodes.len()), "a quarter of 1200 blocks: {}", nodes.len());
    assert!(nodes.iter().all(|node| node.end() <= Bytes(16 * BLOCK)));
    assert!(data.iter().all(|data| data.offset >= Bytes(16 * BLOCK)));
}

#[test]
fn reads_follow_the_extents() {
    let mut fs = FileSystem::new(Bytes(64 * BLOCK), options(Allocator::Next), METADATA, 1);
    let [mut a, mut b] = [0, 1].map(|number| fs.create(stream(number)));
    for _ in 0..2 {
        fs.append(&mut a, Bytes(8 * BLOCK)).unwrap();
        fs.append(&mut b, Bytes(8 * BLOCK)).unwrap();
    }
    taken(&mut fs);
    fs.read(&a, Bytes(6 * BLOCK), Bytes(100 * BLOCK));
    let read: Vec<(u64, u64)> =
        taken(&mut fs).iter().map(|r| (r.offset.0 / BLOCK, r.length.0 / BLOCK)).collect();
    assert_eq!(read, [(6, 2), (16, 3), (19, 3), (22, 2)]);
}

/// What happens to one of a few files.
#[derive(Clone, Copy, Debug)]
enum Change {
    Append(u64),
    Close,
    Delete,
}

fn changes() -> impl Strategy<Value = Vec<(u16, Change)>> {
    let change = prop_oneof![
        4 => (1_u64..30 * BLOCK).prop_map(Change::Append),
        1 => Just(Change::Close),
        1 => Just(Change::Delete),
    ];
    prop::collection::vec((0_u16..6, change), 1..120)
}

/// The owner of each block by the requests alone.
#[derive(Default)]
struct Seen(BTreeMap<u64, u16>);

impl Seen {
    fn see(&mut self, request: &Request, discarded: &mut u64) -> Result<(), TestCaseError> {
        for block in request.offset.0 / BLOCK..request.end().0 / BLOCK {
            match request.op {
                Op::Write => {
                    let before = self.0.insert(block, request.stream.file);
                    prop_assert_eq!(before, None, "block {} has two owners", block);
                }
                Op::Trim => {
                    prop_assert_eq!(self.0.remove(&block), Some(request.stream.file));
                    *discarded += 1;
                }
                op => prop_assert!(false, "{:?}", op),
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn blocks_have_one_owner_and_deletions_discard_exactly_their_files(
        which in 0_usize..3,
        blocks in 1_u64..200,
        changes in changes(),
    ) {
        let (allocator, _) = Allocator::ALL[which];
        let mut fs = FileSystem::new(Bytes(blocks * BLOCK), options(allocator), METADATA, 7);
        let mut files: BTreeMap<u16, DataFile> = BTreeMap::new();
        let mut seen = Seen::default();
        for (number, change) in changes {
            let mut left = 0;
            match change {
                Change::Append(bytes) => {
                    let file = files.entry(number).or_insert_with(|| fs.create(stream(number)));
                    let before = file.size().0;
                    let done = fs.append(file, Bytes(bytes));
                    let asked = bytes.next_multiple_of(BLOCK);
                    let written = file.size().0 - before;
                    let as_asked = done.is_ok() == (written == asked) && written <= asked;
                    prop_assert!(as_asked, "{} of {}", written, asked);
                    prop_assert!(done.is_ok() || fs.free() == Bytes::ZERO);
                }
                Change::Close => files.get_mut(&number).into_iter().for_each(|f| fs.close(f)),
                Change::Delete => {
                    if let Some(file) = files.remove(&number) {
                        left = file.size().0 / BLOCK;
                        fs.delete(file);
                    }
                }
            }
            let mut discarded = 0;
            for request in taken(&mut fs) {
                prop_assert!(request.end().0 <= blocks * BLOCK);
                seen.see(&request, &mut discarded)?;
            }
            prop_assert_eq!(discarded, left);
            let held: u64 = files.values().flat_map(|f| f.extents()).map(|e| e.length).sum();
            prop_assert_eq!(fs.free().0 + held, blocks * BLOCK);
            for (number, file) in &files {
                let owned = seen.0.values().filter(|owner| *owner == number).count() as u64;
                prop_assert_eq!(owned * BLOCK, file.size().0);
            }
        }
    }
}
