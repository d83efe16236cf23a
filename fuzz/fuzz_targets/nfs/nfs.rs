//! Any bytes as a stream of records, as what a server and a client take, and as every procedure's arguments and results.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onego_buf::{List, Segment, SegmentMut};
use onego_nfs::mount;
use onego_nfs::rpc::{Call, Procedure, RecordReader, Reply, Split, Splitter, rdma};
use onego_nfs::v3;
use onego_nfs::xdr::{Body, Reader, Xdr};

const BOUND: usize = 1 << 16;

/// The procedure of the replies; none: calls.
struct Side(Option<u32>);

impl Splitter for Side {
    fn split(&mut self, start: &[u8]) -> Split {
        match self.0 {
            Some(procedure) => v3::split_reply(start, procedure),
            None => v3::split_call(start),
        }
    }

    fn place(&mut self, _: &[u8], payload: usize) -> Option<SegmentMut> {
        (payload % 2 == 0).then(|| SegmentMut::zeroed(payload))
    }
}

fn records(bytes: &[u8], cut: usize, mut side: Side) {
    let mut reader = RecordReader::new(BOUND);
    for piece in bytes.chunks(cut) {
        let mut piece = Segment::copy_from(piece);
        while let Ok(Some(record)) = reader.next(&mut piece, &mut side) {
            let placed = record.placed.as_ref().map_or(0, |place| place.len());
            assert!(record.front.len() + record.payload.len() + placed <= BOUND);
        }
    }
}

fn body<B: Body>(bytes: &[u8], payload: &List) {
    let _ = B::read(&mut Reader::new(bytes), &mut payload.clone());
}

fn procedure<P: Procedure>(bytes: &[u8], payload: &List) {
    body::<P::Args>(bytes, payload);
    body::<P::Results>(bytes, payload);
}

macro_rules! procedures {
    ($bytes:expr, $payload:expr, $($procedure:path)*) => { $(procedure::<$procedure>($bytes, $payload);)* };
}

fuzz_target!(|input: (u8, u8, &[u8], &[u8])| {
    let (cut, number, bytes, more) = input;
    records(bytes, usize::from(cut) + 1, Side(None));
    records(bytes, usize::from(cut) + 1, Side(Some(number.into())));
    let _ = Call::decode(&mut Reader::new(bytes));
    let _ = Reply::decode(&mut Reader::new(bytes));
    let _ = rdma::Header::decode(&mut Reader::new(bytes));
    let _ = rdma::Parameters::decode(bytes);
    let payload = List::from(Segment::copy_from(more));
    procedures!(bytes, &payload, v3::Getattr v3::Setattr v3::Lookup v3::Access v3::Readlink v3::Read v3::Write
        v3::Create v3::Mkdir v3::Symlink v3::Mknod v3::Remove v3::Rename v3::Link v3::Readdir v3::Readdirplus
        v3::Fsstat v3::Fsinfo v3::Pathconf v3::Commit mount::Mnt mount::Dump mount::Export);
});
