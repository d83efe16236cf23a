//! The least that a server of NBD can cost: `nbd_bare SOCKET MIB` serves memory on a Unix socket until it is killed. A thread of
//! each connection receives as much as there is, answers what is whole of it, and sends all answers at once. It checks nothing, so
//! it is no server for anybody; what others cost beside it is theirs, and the rest is the kernel's.

use onego_nbd::codec::{
    COMPACT_REQUEST_LEN, ClientFlags, ExportInfo, Greeting, HandshakeFlags, HeaderStyle, InfoItem,
    OPTION_HEADER_LEN, OptionCode, OptionError, OptionHeader, OptionReply, OptionReplyType, RequestHeader,
    RequestType, SIMPLE_REPLY_LEN, SimpleReply, TransmissionFlags,
};
use onego_wire::Reader;
use std::error::Error;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, RwLock};

/// Bytes received at a time.
const RECEIVED: usize = 256 << 10;

type Memory = Arc<RwLock<Vec<u8>>>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (path, size) = arguments.next().zip(arguments.next()).ok_or("say SOCKET MIB")?;
    let memory = Memory::new(RwLock::new(vec![0; size.parse::<usize>()? << 20]));
    for stream in UnixListener::bind(path)?.incoming() {
        let (stream, memory) = (stream?, Arc::clone(&memory));
        // A client that goes ends its thread.
        std::thread::spawn(move || negotiate(stream, &memory).and_then(|stream| serve(stream, &memory)));
    }
    Ok(())
}

/// Answers options until the client uses the export.
fn negotiate(mut stream: UnixStream, memory: &Memory) -> io::Result<UnixStream> {
    stream.write_all(&Greeting(HandshakeFlags::FIXED_NEWSTYLE | HandshakeFlags::NO_ZEROES).encode())?;
    stream.read_exact(&mut [0; size_of::<ClientFlags>()])?;
    loop {
        let mut header = [0; OPTION_HEADER_LEN];
        stream.read_exact(&mut header)?;
        let OptionHeader { code, length, .. } =
            OptionHeader::decode(&mut Reader::new(&header)).map_err(io::Error::other)?;
        stream.read_exact(&mut vec![0; length as usize])?;
        let mut reply = |kind, data: &[u8]| {
            stream
                .write_all(&[&OptionReply { code, kind, length: data.len() as u32 }.encode(), data].concat())
        };
        if code != OptionCode::Go {
            reply(OptionReplyType::Error(OptionError::Unsupported), &[])?;
            continue;
        }
        let size = memory.read().map_err(|_| io::ErrorKind::Other)?.len() as u64;
        let info = ExportInfo { size, flags: TransmissionFlags::HAS_FLAGS | TransmissionFlags::SEND_FLUSH };
        reply(OptionReplyType::Info, &InfoItem::Export(info).encode())?;
        reply(OptionReplyType::Ack, &[])?;
        return Ok(stream);
    }
}

/// Carries out requests, as many as come at once.
fn serve(mut stream: UnixStream, memory: &Memory) -> io::Result<()> {
    let mut received = vec![0; RECEIVED + (32 << 20)];
    let mut filled = 0;
    loop {
        let came = stream.read(&mut received[filled..filled + RECEIVED])?;
        if came == 0 {
            return Ok(());
        }
        filled += came;
        let mut bytes = &received[..filled];
        let mut answers: Vec<([u8; SIMPLE_REPLY_LEN], usize, usize)> = Vec::new();
        while let Some((header, body)) = bytes.split_at_checked(COMPACT_REQUEST_LEN) {
            let request = RequestHeader::decode(&mut Reader::new(header), HeaderStyle::Simple)
                .map_err(io::Error::other)?;
            let (at, length) = (request.offset as usize, request.length as usize);
            let (mut rest, mut read) = (body, 0);
            match request.command {
                RequestType::Read => read = length,
                RequestType::Write => {
                    let Some((data, behind)) = body.split_at_checked(length) else { break };
                    memory.write().map_err(|_| io::ErrorKind::Other)?[at..at + length].copy_from_slice(data);
                    rest = behind;
                }
                RequestType::Disconnect => return Ok(()),
                _ => {}
            }
            let mut reply = [0; SIMPLE_REPLY_LEN];
            SimpleReply { error: 0, cookie: request.cookie }.encode(&mut reply);
            answers.push((reply, at, read));
            bytes = rest;
        }
        let left = bytes.len();
        let memory = memory.read().map_err(|_| io::ErrorKind::Other)?;
        let slices = answers.iter().flat_map(|(reply, at, length)| [&reply[..], &memory[*at..*at + length]]);
        let mut slices: Vec<IoSlice<'_>> = slices.filter(|part| !part.is_empty()).map(IoSlice::new).collect();
        let mut slices = &mut slices[..];
        while !slices.is_empty() {
            let sent = stream.write_vectored(slices)?;
            IoSlice::advance_slices(&mut slices, sent);
        }
        if left < filled {
            received.copy_within(filled - left..filled, 0);
            filled = left;
        }
    }
}
