use super::*;
use onego_buf::List;

#[test]
fn reads_stop_at_the_end_and_say_so() {
    let mut world = World::new();
    world.create("file", 0o644).unwrap();
    assert_eq!(world.read("file", 0, 10), Ok((vec![], true)));
    world.write("file", 3, b"bytes").unwrap();
    assert_eq!(world.read("file", 0, 10), Ok((b"\0\0\0bytes".to_vec(), true)));
    assert_eq!(world.read("file", 0, 8), Ok((b"\0\0\0bytes".to_vec(), true)));
    assert_eq!(world.read("file", 0, 7), Ok((b"\0\0\0byte".to_vec(), false)));
    assert_eq!(world.read("file", 8, 1), Ok((vec![], true)));
    assert_eq!(world.read("file", u64::MAX, 1), Ok((vec![], true)));
    world.set("file", SetAttributes { size: Some(5), ..SetAttributes::default() }).unwrap();
    world.set("file", SetAttributes { size: Some(9), ..SetAttributes::default() }).unwrap();
    assert_eq!(world.read("file", 0, 10), Ok((b"\0\0\0by\0\0\0\0".to_vec(), true)));
}

#[test]
fn large_data_is_kept_and_given_where_it_was_received() {
    let mut world = World::new();
    let file = world.create("file", 0o644).unwrap();
    let mut place = world.fs.place(1 << 20).unwrap();
    place.fill(7);
    let data = place.freeze();
    let at = data.as_ptr();
    let args = WriteArgs { file, offset: 4096, stable: Stability::FileSync, data: List::from(data) };
    let written = world.call(Memory::write, args).unwrap();
    assert_eq!((written.count, written.committed), (1 << 20, Stability::FileSync));
    let args = ReadArgs { file, offset: 4096, count: 1 << 20 };
    let read = world.call(Memory::read, args).unwrap();
    let pieces: Vec<_> = read.data.segments().map(|segment| (segment.as_ptr(), segment.len())).collect();
    assert_eq!(pieces, [(at, 1 << 20)]);
    assert!(world.fs.place(4096).is_none());
}

#[test]
fn what_is_read_does_not_change_when_the_file_does() {
    let mut world = World::new();
    let file = world.create("file", 0o644).unwrap();
    world.write("file", 0, &[1; 4096]).unwrap();
    let read = world.call(Memory::read, ReadArgs { file, offset: 0, count: 4096 }).unwrap();
    world.write("file", 0, &[2; 4096]).unwrap();
    assert_eq!(read.data.to_vec(), [1; 4096]);
}

#[test]
fn what_is_said_to_be_free_can_be_written() {
    let mut world = World::with(Limits { bytes: 2 << 20, files: 4 });
    let file = world.create("a", 0o644).unwrap();
    // As a large WRITE is received: in memory of the pool.
    for (offset, fill) in [(0, 1), (1 << 19, 2), (1 << 20, 3)] {
        let mut place = world.fs.place(1 << 19).unwrap();
        place.fill(fill);
        let data = List::from(place.freeze());
        let root = world.root();
        let free = world.call(Memory::fsstat, root).unwrap().free_bytes;
        assert!(free > (1 << 19) + 4096, "{free}");
        let args = WriteArgs { file, offset, stable: Stability::Unstable, data };
        assert_eq!(
            world.call(Memory::write, args).map(|done| done.count),
            Ok(1 << 19),
            "{free} bytes are free"
        );
        assert_eq!(world.read("a", offset, 1 << 19).unwrap().0, vec![fill; 1 << 19]);
    }
    let mut world = World::with(Limits { bytes: 1_100_000, files: 4 });
    world.create("a", 0o644).unwrap();
    assert_eq!(world.write("a", 0, &[1; 1 << 20]), Ok(()));
}

#[test]
fn a_full_file_system_takes_no_more_and_room_comes_back() {
    let mut world = World::with(Limits { bytes: 1 << 20, files: 4 });
    world.create("a", 0o644).unwrap();
    world.write("a", 0, &[1; 700_000]).unwrap();
    world.create("b", 0o644).unwrap();
    assert_eq!(world.write("b", 0, &[1; 700_000]), Err(Status::Nospc));
    assert_eq!(world.attributes("b").size, 0);
    // What is there can be written over.
    assert_eq!(world.write("a", 0, &[2; 700_000]), Ok(()));
    world.create("c", 0o644).unwrap();
    assert_eq!(world.create("d", 0o644), Err(Status::Nospc), "the root is a file, too");
    let root = world.root();
    let stat = world.call(Memory::fsstat, root).unwrap();
    assert_eq!((stat.total_bytes, stat.total_files, stat.free_files), (1 << 20, 4, 0));
    assert!(stat.free_bytes < (1 << 20) - 700_000);
    world.remove("a").unwrap();
    assert_eq!(world.write("b", 0, &[1; 700_000]), Ok(()));
}

#[test]
fn a_name_needs_room_too() {
    let mut world = World::with(Limits { bytes: 1000, files: 100 });
    world.create("a", 0o644).unwrap();
    assert_eq!(world.create("b", 0o644), Err(Status::Nospc));
    assert_eq!(world.symlink("c", &"x".repeat(2000)), Err(Status::Nospc));
    let links = (0..).map_while(|n| world.link("a", &format!("link {n}")).ok()).count();
    assert_eq!(links, 2);
}

#[test]
fn reads_set_the_time_of_access_now_and_then() {
    let mut world = World::new();
    world.create("file", 0o644).unwrap();
    world.now = world.now + std::time::Duration::from_secs(1);
    world.write("file", 0, b"x").unwrap();
    world.now = world.now + std::time::Duration::from_secs(1);
    let atime = |world: &mut World| {
        world.read("file", 0, 1).unwrap();
        world.attributes("file").atime.seconds
    };
    let first = atime(&mut world);
    world.now = world.now + std::time::Duration::from_secs(60);
    assert_eq!(atime(&mut world), first);
    world.now = world.now + std::time::Duration::from_secs(25 * 3600);
    assert_eq!(atime(&mut world), first + 25 * 3600 + 60);
}

#[test]
fn a_commit_has_the_verifier_of_the_writes() {
    let mut world = World::new();
    let file = world.create("file", 0o644).unwrap();
    let data = b"x".to_vec().into();
    let args = WriteArgs { file, offset: 0, stable: Stability::Unstable, data };
    let written = world.call(Memory::write, args).unwrap();
    assert_eq!(written.committed, Stability::Unstable);
    let args = CommitArgs { file, offset: 0, count: 0 };
    assert_eq!(world.call(Memory::commit, args).unwrap().verifier, written.verifier);
}
