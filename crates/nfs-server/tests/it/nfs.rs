//! The server of NFS as its clients see it: messages over connections, carried by hand.

use crate::support::{Answered, Net, Who, garbage, header, results};
use onego_buf::List;
use onego_nfs::mount::{self, Mnt};
use onego_nfs::rpc::{Accepted, AuthSys, Credential, Denied, Procedure as _};
use onego_nfs::v3::{self, access};
use onego_nfs::v3::{
    AccessArgs, CreateArgs, CreateHow, Getattr, Handle, Place, ReadArgs, SetAttributes, Stability, Status,
    WriteArgs,
};
use onego_nfs::xdr::{Body as _, Writer};
use onego_nfs_server::{Export, Limits, Squash};
use std::time::Duration;

fn user(uid: u32) -> Credential {
    Credential::Sys(AuthSys { uid, gid: uid, ..AuthSys::default() })
}

fn place(dir: Handle, name: &str) -> Place {
    Place { dir, name: name.into() }
}

fn create(net: &mut Net, who: Who, dir: Handle, name: &str) -> Handle {
    let how = CreateHow::Guarded(SetAttributes { mode: Some(0o644), ..SetAttributes::default() });
    let made = net.call::<v3::Create>(who, CreateArgs { place: place(dir, name), how }).unwrap();
    made.file.unwrap()
}

#[test]
fn a_file_is_written_and_read_back() {
    let mut net = Net::new(Export::default());
    let who = net.connect("10.0.0.1:700");
    let root = net.mount(who, "/export").unwrap();
    let file = create(&mut net, who, root, "file");
    let data: Vec<u8> = (0..1 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for (offset, len) in [(0, 1 << 20), (1 << 20, 70_001), (1_118_577, 5), (1_118_582, 4096)] {
        let data = List::from(data[..len].to_vec());
        let args = WriteArgs { file, offset, stable: Stability::Unstable, data };
        let written = net.call::<v3::Write>(who, args).unwrap();
        assert_eq!(written.count, len as u32);
    }
    let read = net.call::<v3::Read>(who, ReadArgs { file, offset: 1 << 20, count: 1 << 20 }).unwrap();
    assert!(read.eof);
    assert_eq!(read.data.to_vec(), [&data[..70_001], &data[..5], &data[..4096]].concat());
    // However the bytes of both directions are cut.
    for cut in [1, 3, 1000, 100_000] {
        net.cut = cut;
        let part = List::from(data[..50_001].to_vec());
        let args = WriteArgs { file, offset: 3, stable: Stability::FileSync, data: part };
        net.call::<v3::Write>(who, args).unwrap();
        let read = net.call::<v3::Read>(who, ReadArgs { file, offset: 2, count: 50_003 }).unwrap();
        assert_eq!(read.data.to_vec(), [&data[2..3], &data[..50_001], &data[50_004..50_005]].concat());
    }
}

#[test]
fn what_is_not_there_is_named_as_the_rfc_has_it() {
    let mut net = Net::new(Export::default());
    let who = net.connect("10.0.0.1:700");
    let mut answer = |program, version, procedure| {
        let xid = net.raw(who, &header(program, version, procedure, &user(0)));
        net.result(who, xid)
    };
    assert_eq!(answer(100_003, 3, 0), Ok(Accepted::Success));
    assert_eq!(answer(100_005, 3, 0), Ok(Accepted::Success));
    assert_eq!(answer(100_003, 3, 22), Ok(Accepted::ProcedureUnavailable));
    assert_eq!(answer(100_005, 3, 6), Ok(Accepted::ProcedureUnavailable));
    // How clients find out which versions there are.
    assert_eq!(answer(100_003, 4, 0), Ok(Accepted::ProgramMismatch(3, 3)));
    assert_eq!(answer(100_003, 2, 1), Ok(Accepted::ProgramMismatch(3, 3)));
    assert_eq!(answer(100_005, 1, 1), Ok(Accepted::ProgramMismatch(3, 3)));
    // The side protocol for access control lists.
    assert_eq!(answer(100_227, 3, 0), Ok(Accepted::ProgramUnavailable));
    // A handle is missing.
    assert_eq!(answer(100_003, 3, 1), Ok(Accepted::GarbageArguments));
    assert_eq!(answer(100_005, 3, 1), Ok(Accepted::GarbageArguments));
}

#[test]
fn arguments_that_are_too_long_or_too_short_are_garbage() {
    let mut net = Net::new(Export::default());
    let who = net.connect("10.0.0.1:700");
    let root = net.mount(who, "/export").unwrap();
    let file = create(&mut net, who, root, "file");
    let data = List::from(vec![7; 100]);
    let mut arguments = Writer::new();
    let mut payload = List::new();
    WriteArgs { file, offset: 0, stable: Stability::Unstable, data }.write(&mut arguments, &mut payload);
    let arguments = [arguments.as_slice(), &payload.to_vec()].concat();
    let call = |net: &mut Net, arguments: &[u8]| {
        let xid = net.raw(who, &[&header(v3::PROGRAM, 3, v3::Write::NUMBER, &user(0)), arguments].concat());
        net.result(who, xid)
    };
    assert_eq!(call(&mut net, &arguments), Ok(Accepted::Success));
    let mut longer = arguments.clone();
    // It counts more bytes than there are.
    let count_at = arguments.len() - 100 - 4 - 8;
    longer[count_at..count_at + 4].copy_from_slice(&200_u32.to_be_bytes());
    assert_eq!(call(&mut net, &longer), Ok(Accepted::GarbageArguments));
    for end in [0, 10, 24, 40] {
        assert_eq!(call(&mut net, &arguments[..end]), Ok(Accepted::GarbageArguments), "{end}");
    }
    // A handle that is longer than any.
    let xid = net.raw(who, &[&header(v3::PROGRAM, 3, 1, &user(0))[..], &[0, 0, 0, 68], &[0; 68]].concat());
    assert_eq!(net.result(who, xid), Ok(Accepted::GarbageArguments));
    assert_eq!(net.call::<Getattr>(who, root).unwrap().fileid, 1);
}

#[test]
fn who_cannot_be_understood_is_told_so() {
    let mut net = Net::new(Export::default());
    let who = net.connect("10.0.0.1:700");
    let denied = |net: &mut Net, message: &[u8]| {
        let xid = net.raw(who, message);
        net.result(who, xid).unwrap_err()
    };
    let getattr = header(v3::PROGRAM, 3, 1, &user(0));
    let mut other_rpc = getattr.clone();
    other_rpc[11] = 3;
    assert_eq!(denied(&mut net, &other_rpc), Denied::RpcMismatch(2, 2));
    let mut other_flavor = getattr.clone();
    other_flavor[27] = 6;
    assert_eq!(denied(&mut net, &other_flavor), Denied::TOO_WEAK);
    // NULL as well: clients try flavors by it.
    let mut null = header(v3::PROGRAM, 3, v3::Null::NUMBER, &user(0));
    null[27] = 6;
    assert_eq!(denied(&mut net, &null), Denied::TOO_WEAK);
    let mut broken = getattr.clone();
    // A group more than there are.
    let groups = broken.len() - 8 - 4;
    broken[groups + 3] = 1;
    assert_eq!(denied(&mut net, &broken), Denied::BAD_CREDENTIAL);
    assert_eq!(denied(&mut net, &getattr[..40]), Denied::BAD_CREDENTIAL);
    let end = getattr.len() - 4;
    assert_eq!(denied(&mut net, &getattr[..end]), Denied::BAD_VERIFIER);
}

#[test]
fn what_is_no_call_is_passed_over_and_what_is_no_record_ends_the_connection() {
    let mut net = Net::new(Export::default());
    let who = net.connect("10.0.0.1:700");
    let root = net.mount(who, "/export").unwrap();
    let mut reply = header(v3::PROGRAM, 3, 0, &user(0));
    reply[7] = 1;
    for message in [&reply[..], b"", b"short", &reply[..7]] {
        let xid = net.raw(who, message);
        assert!(!net.is_answered(who, xid), "{message:?}");
        net.call::<Getattr>(who, root).unwrap();
    }
    // A record that is longer than any call.
    let other = net.connect("10.0.0.1:700");
    net.send_bytes(other, &(0x8000_0000_u32 | (4 << 20)).to_be_bytes());
    net.turn();
    assert!(net.is_closed(other));
    net.call::<Getattr>(who, root).unwrap();
}

#[test]
fn a_call_that_ends_before_it_says_what_is_called_is_garbage() {
    let mut net = Net::new(Export::default());
    let who = net.connect("10.0.0.1:700");
    let getattr = header(v3::PROGRAM, 3, 1, &user(0));
    for end in 8..24 {
        let xid = net.raw(who, &getattr[..end]);
        assert_eq!(net.result(who, xid), Ok(Accepted::GarbageArguments), "{end} bytes");
    }
}

/// A message as a record of fragments of at most `len` bytes.
fn fragments(message: &[u8], len: usize) -> Vec<u8> {
    let last = message.len().div_ceil(len) - 1;
    let parts = message.chunks(len).enumerate();
    let marked = parts.flat_map(|(n, part)| {
        let mark = part.len() as u32 | if n == last { 0x8000_0000 } else { 0 };
        [&mark.to_be_bytes(), part].concat()
    });
    marked.collect()
}

#[test]
fn a_payload_of_another_length_than_its_front_says_is_garbage_and_nothing_is_written() {
    for jobs in [false, true] {
        let mut net = if jobs { Net::with_jobs() } else { Net::new(Export::default()) };
        let who = net.connect("10.0.0.1:700");
        let root = net.mount(who, "/export").unwrap();
        let file = create(&mut net, who, root, "file");
        let mut xid = 1000;
        for (len, told) in
            [(0, 8), (8, 0), (9, 5), (8, 12), (40_000, 39_996), (40_000, 40_004), (8, u32::MAX)]
        {
            let data = List::from(vec![7; len]);
            let (mut w, mut payload) = (Writer::new(), List::new());
            WriteArgs { file, offset: 0, stable: Stability::Unstable, data }.write(&mut w, &mut payload);
            let mut arguments = w.as_slice().to_vec();
            let at = arguments.len() - 4;
            arguments[at..].copy_from_slice(&told.to_be_bytes());
            let fill = vec![0; payload.len().next_multiple_of(4) - payload.len()];
            let call = header(v3::PROGRAM, 3, v3::Write::NUMBER, &user(0));
            let message = [&call[..], &arguments, &payload.to_vec(), &fill].concat();
            for (fragment, cut) in [(usize::MAX, usize::MAX), (usize::MAX, 1000), (100, 7), (30_000, 5000)] {
                (xid, net.cut) = (xid + 1, cut);
                let numbered = [&u32::to_be_bytes(xid), &message[4..]].concat();
                net.send_bytes(who, &fragments(&numbered, fragment.min(message.len())));
                let result = net.result(who, xid);
                assert_eq!(result, Ok(Accepted::GarbageArguments), "{len} bytes as {told}, {fragment}");
                assert_eq!(net.call::<Getattr>(who, file).unwrap().size, 0);
            }
        }
    }
}

#[test]
fn bytes_by_chance_do_no_harm() {
    for seed in 0..200 {
        let mut net = Net::new(Export::default());
        let who = net.connect("10.0.0.1:700");
        let root = net.mount(who, "/export").unwrap();
        let hostile = net.connect("10.0.0.9:700");
        for message in garbage(seed, root) {
            net.raw(hostile, &message);
            net.turn();
        }
        net.call::<Getattr>(who, root).unwrap();
    }
}

#[test]
fn mounts_are_given_of_what_is_exported() {
    let mut net = Net::new(Export::default().with_allow(vec!["10.0.0.0/8".parse().unwrap()]));
    let who = net.connect("10.0.0.1:700");
    let root = net.mount(who, "/export").unwrap();
    assert_eq!(net.mount(who, "/"), Ok(root));
    assert_eq!(net.mount(who, "/export/none"), Err(mount::MountStatus::Noent));
    assert_eq!(net.mount(who, "/elsewhere"), Err(mount::MountStatus::Noent));
    create(&mut net, who, root, "file");
    assert_eq!(net.mount(who, "/export/file"), Err(mount::MountStatus::Notdir));
    let made = net.call::<v3::Mkdir>(
        who,
        v3::MkdirArgs { place: place(root, "dir"), attributes: SetAttributes::default() },
    );
    let dir = made.unwrap().file.unwrap();
    assert_eq!(net.mount(who, "/export/dir"), Ok(dir));

    let exports = net.call::<mount::Export>(who, ());
    assert_eq!(exports.0[0].path, mount::Path(b"/export".to_vec()));
    assert_eq!(exports.0[0].groups, [mount::Host(b"10.0.0.0/8".to_vec())]);
    assert_eq!(net.call::<mount::Dump>(who, ()).0.len(), 3);
    net.call::<mount::Umnt>(who, mount::Path(b"/".to_vec()));
    assert_eq!(net.call::<mount::Dump>(who, ()).0.len(), 2);
    net.call::<mount::Umntall>(who, ());
    assert!(net.call::<mount::Dump>(who, ()).0.is_empty());
    assert_eq!(net.try_connect("192.168.0.1:700"), None);
}

#[test]
fn a_read_only_export_is_not_changed() {
    let mut net = Net::new(Export::default().with_read_only(true));
    let who = net.connect("10.0.0.1:700");
    let root = net.mount(who, "/export").unwrap();
    let how = CreateHow::Unchecked(SetAttributes::default());
    let refused = net.call::<v3::Create>(who, CreateArgs { place: place(root, "x"), how }).unwrap_err();
    assert_eq!(refused.status, Status::Rofs);
    let granted =
        net.call::<v3::Access>(who, AccessArgs { file: root, wanted: access::ALL }).unwrap().granted;
    assert_eq!(granted, access::READ | access::LOOKUP);
}

#[test]
fn who_is_not_believed_is_nobody() {
    let mut net = Net::new(Export::default().with_squash(Squash::Root));
    let who = net.connect("10.0.0.1:700");
    let root = net.mount(who, "/export").unwrap();
    let owner = |net: &mut Net, name: &str| {
        let file = create(net, who, root, name);
        net.call::<Getattr>(who, file).unwrap().uid
    };
    assert_eq!(owner(&mut net, "a"), 65_534);
    net.credential = user(5);
    assert_eq!(owner(&mut net, "b"), 5);
    net.credential = Credential::None;
    assert_eq!(owner(&mut net, "c"), 65_534);
}

#[test]
fn calls_from_ports_of_every_user_are_refused_unless_they_are_let_in() {
    let mut net = Net::new(Export::default());
    let (root_port, user_port) = (net.connect("10.0.0.1:1023"), net.connect("10.0.0.1:1024"));
    let root = net.mount(root_port, "/export").unwrap();
    net.call::<Getattr>(root_port, root).unwrap();
    assert_eq!(net.mount(user_port, "/export"), Err(mount::MountStatus::Access));
    let xid = net.raw(user_port, &header(v3::PROGRAM, 3, Getattr::NUMBER, &user(0)));
    assert_eq!(net.result(user_port, xid), Err(Denied::TOO_WEAK));
    // Whether the server is there, and what it exports, everybody may ask.
    net.call::<v3::Null>(user_port, ());
    assert_eq!(net.call::<mount::Export>(user_port, ()).0.len(), 1);
    let mut net = Net::new(Export::default().with_secure(false));
    let user_port = net.connect("10.0.0.1:1024");
    let root = net.mount(user_port, "/export").unwrap();
    net.call::<Getattr>(user_port, root).unwrap();
}

#[test]
fn a_call_that_comes_again_is_not_carried_out_again() {
    let mut net = Net::new(Export::default());
    let who = net.connect("10.0.0.1:700");
    let root = net.mount(who, "/export").unwrap();
    create(&mut net, who, root, "file");
    let remove = net.message::<v3::Remove>(&place(root, "file"));
    net.send_message(who, 77, &remove);
    let first = net.answer(who, 77);
    // The connection breaks, and the client comes from another port.
    net.disconnect(who);
    let again = net.connect("10.0.0.1:800");
    net.send_message(again, 77, &remove);
    assert_eq!(net.answer(again, 77), first);
    assert!(matches!(first, Answered::Reply(_)));
    // Another number, another client, another user, or another name: another call.
    net.send_message(again, 78, &remove);
    let status = |answer| results::<v3::Remove>(answer).unwrap_err().status;
    assert_eq!(status(net.answer(again, 78)), Status::Noent);
    let other = net.connect("10.0.0.2:700");
    net.send_message(other, 77, &remove);
    assert_eq!(status(net.answer(other, 77)), Status::Noent);
    net.credential = user(5);
    let other_user = net.message::<v3::Remove>(&place(root, "file"));
    net.send_message(again, 77, &other_user);
    assert_eq!(status(net.answer(again, 77)), Status::Noent);
    net.credential = user(0);
    let else_remove = net.message::<v3::Remove>(&place(root, "x"));
    net.send_message(again, 77, &else_remove);
    assert_eq!(status(net.answer(again, 77)), Status::Noent);
}

/// A WRITE of these bytes to the beginning of a file.
fn write(file: Handle, data: &[u8]) -> WriteArgs {
    WriteArgs { file, offset: 0, stable: Stability::Unstable, data: data.to_vec().into() }
}

#[test]
fn a_write_that_comes_late_does_not_bring_old_bytes_back() {
    let mut net = Net::new(Export::default());
    let first = net.connect("10.0.0.1:700");
    let root = net.mount(first, "/export").unwrap();
    let file = create(&mut net, first, root, "file");
    let old = net.message::<v3::Write>(&write(file, b"old bytes"));
    // The connection breaks while the write is on its way; the client sends it again, and then another.
    let second = net.connect("10.0.0.1:800");
    net.send_message(second, 77, &old);
    let answer = net.answer(second, 77);
    net.call::<v3::Write>(second, write(file, b"new bytes")).unwrap();
    // Only now the first copy is found in what had come on the first connection.
    net.send_message(first, 77, &old);
    assert_eq!(net.answer(first, 77), answer);
    let read = net.call::<v3::Read>(second, ReadArgs { file, offset: 0, count: 99 }).unwrap();
    assert_eq!(read.data.to_vec(), b"new bytes");
}

#[test]
fn a_call_in_work_that_comes_again_is_answered_where_it_came_last() {
    let mut net = Net::with_jobs();
    let first = net.connect("10.0.0.1:700");
    let root = net.mount(first, "/export").unwrap();
    let file = create(&mut net, first, root, "file");
    let write = net.message::<v3::Write>(&write(file, b"bytes"));
    let remove = net.message::<v3::Remove>(&place(root, "file"));
    net.held = true;
    net.send_message(first, 77, &write);
    net.send_message(first, 78, &remove);
    net.turn();
    // The client connects anew, twice, and sends both calls again, which are still in progress.
    net.disconnect(first);
    let (second, third) = (net.connect("10.0.0.1:800"), net.connect("10.0.0.1:900"));
    for who in [second, third] {
        net.send_message(who, 77, &write);
        net.send_message(who, 78, &remove);
        assert!(!net.is_answered(who, 77) && !net.is_answered(who, 78));
    }
    net.held = false;
    assert_eq!(results::<v3::Write>(net.answer(third, 77)).unwrap().count, 5);
    // REMOVE was carried out once: the second time it would have failed.
    results::<v3::Remove>(net.answer(third, 78)).unwrap();
    assert!(!net.is_answered(second, 77) && !net.is_answered(second, 78));
    let gone = net.call::<Getattr>(third, file).unwrap_err();
    assert_eq!(gone.status, Status::Stale);
}

#[test]
fn calls_that_came_in_full_are_answered_after_a_half_close() {
    for mut net in [Net::new(Export::default()), Net::with_jobs()] {
        let who = net.connect("10.0.0.1:700");
        let root = net.mount(who, "/export").unwrap();
        let file = create(&mut net, who, root, "file");
        let write = net.message::<v3::Write>(&write(file, b"bytes"));
        net.held = true;
        for xid in 1000..1100 {
            net.send_message(who, xid, &write);
        }
        net.send_part(who, 1100, &write, 60);
        net.half_close(who);
        net.held = false;
        for xid in 1000..1100 {
            assert_eq!(results::<v3::Write>(net.answer(who, xid)).unwrap().count, 5);
        }
        assert!(net.is_closed(who), "the connection ends with the last reply");
    }
}

#[test]
fn replies_after_a_half_close_are_not_waited_for_without_end() {
    let mut net = Net::with_jobs();
    let who = net.connect("10.0.0.1:700");
    let root = net.mount(who, "/export").unwrap();
    net.held = true;
    let getattr = net.message::<Getattr>(&root);
    net.send_message(who, 77, &getattr);
    let other = net.connect("10.0.0.1:800");
    net.half_close(who);
    net.half_close(other);
    assert!(net.is_closed(other) && !net.is_closed(who));
    net.pass(Duration::from_secs(29));
    assert!(!net.is_closed(who));
    net.pass(Duration::from_secs(1));
    assert!(net.is_closed(who));
}

#[test]
fn replies_are_sent_before_the_calls_behind_them_are_carried_out() {
    let mut net = Net::new(Export::default());
    let who = net.connect("10.0.0.1:700");
    let root = net.mount(who, "/export").unwrap();
    let before = net.calls();
    net.set_reading(who, false);
    let getattr = net.message::<Getattr>(&root);
    for xid in 1000..1100 {
        net.send_message(who, xid, &getattr);
    }
    net.turn();
    assert_eq!(net.calls() - before, 16);
    assert!(!net.wants_bytes(who));
    net.set_reading(who, true);
    for xid in 1000..1100 {
        results::<Getattr>(net.answer(who, xid)).unwrap();
    }
    assert!(net.wants_bytes(who));
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    let mut net = Net::new(Export::default());
    let who = net.connect("10.0.0.1:700");
    let root = net.mount(who, "/export").unwrap();
    let file = create(&mut net, who, root, "file");
    let data = List::from(vec![7; 1 << 20]);
    net.call::<v3::Write>(who, WriteArgs { file, offset: 0, stable: Stability::Unstable, data }).unwrap();
    net.set_reading(who, false);
    let read = net.message::<v3::Read>(&ReadArgs { file, offset: 0, count: 1 << 20 });
    for xid in 1000..1200 {
        net.send_message(who, xid, &read);
    }
    net.turn();
    assert!(!net.wants_bytes(who));
    assert!(net.unsent(who) <= 10 << 20, "{}", net.unsent(who));
    // Others are served.
    let other = net.connect("10.0.0.2:700");
    net.call::<Getattr>(other, root).unwrap();
    // Once it reads, all is answered.
    net.set_reading(who, true);
    for xid in 1000..1200 {
        let read = results::<v3::Read>(net.answer(who, xid)).unwrap();
        assert_eq!(read.data.len(), 1 << 20);
    }
    assert!(net.wants_bytes(who));
}

#[test]
fn only_so_many_payloads_come_in_at_a_time() {
    let mut net = Net::with(Export::default(), Limits { bytes: 1 << 30, files: 1000 });
    let first = net.connect("10.0.0.1:700");
    let root = net.mount(first, "/export").unwrap();
    let file = create(&mut net, first, root, "file");
    let data = List::from(vec![7; 1 << 20]);
    let args = WriteArgs { file, offset: 0, stable: Stability::Unstable, data };
    let write = net.message::<v3::Write>(&args);
    let clients: Vec<Who> = (0..80).map(|n| net.connect(&format!("10.0.1.{n}:700"))).collect();
    for who in &clients {
        net.send_part(*who, 5, &write, 1000);
    }
    net.turn();
    let reading = clients.iter().filter(|who| net.wants_bytes(**who)).count();
    assert!((64..70).contains(&reading), "{reading}");
    // Those that wait come in when others are done, and one that is silent for too long is given up.
    for who in &clients[1..] {
        net.send_rest(*who, 5, &write, 1000);
    }
    for who in &clients[1..] {
        assert_eq!(results::<v3::Write>(net.answer(*who, 5)).unwrap().count, 1 << 20);
    }
    net.pass(std::time::Duration::from_secs(61));
    assert!(net.is_closed(clients[0]));
    assert!(!net.is_closed(clients[1]));
}

#[test]
fn mount_and_nfs_share_a_connection() {
    let mut net = Net::new(Export::default());
    let who = net.connect("10.0.0.1:700");
    let mount = net.message::<Mnt>(&mount::Path(b"/export".to_vec()));
    net.send_message(who, 1, &mount);
    let null = net.message::<v3::Null>(&());
    net.send_message(who, 2, &null);
    results::<v3::Null>(net.answer(who, 2));
    results::<Mnt>(net.answer(who, 1)).unwrap();
}
