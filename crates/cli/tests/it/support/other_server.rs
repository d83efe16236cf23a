//! NFS servers that lack something: a proxy in front of ours that answers some calls itself.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Program numbers.
pub(crate) const NFS: u32 = 100_003;
pub(crate) const MOUNT: u32 = 100_005;

/// Treatment of a call.
pub(crate) enum Treatment {
    Pass,
    /// The server never answers.
    Silence,
    /// PROC_UNAVAIL.
    Unavailable,
    /// These words are the results.
    Results(Vec<u32>),
    /// The reply gets another verifier than any before; it ends in that.
    NewVerifier,
}

/// Program and procedure of a call, and its arguments.
type Decide = dyn Fn(u32, u32, &[u8]) -> Treatment + Send + Sync;

/// A server that treats some calls in its own way.
pub(crate) struct OtherServer {
    pub(crate) port: u16,
    calls: Arc<Mutex<BTreeMap<(u32, u32), u32>>>,
}

/// State that both directions of a connection share.
struct Connection {
    to_client: Mutex<TcpStream>,
    /// Calls whose replies get a new verifier.
    changed: Mutex<HashMap<[u8; 4], u64>>,
}

impl OtherServer {
    /// Starts one in front of the server at that port. It ends with the test.
    pub(crate) fn start(
        real: u16,
        decide: impl Fn(u32, u32, &[u8]) -> Treatment + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls = Arc::<Mutex<BTreeMap<_, _>>>::default();
        let (counted, decide) = (Arc::clone(&calls), Arc::new(decide));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (counted, decide) = (Arc::clone(&counted), Arc::clone(&decide));
                thread::spawn(move || serve(client, real, &counted, &*decide));
            }
        });
        Self { port, calls }
    }

    /// Calls of a procedure so far.
    pub(crate) fn calls(&self, program: u32, procedure: u32) -> u32 {
        self.calls.lock().unwrap().get(&(program, procedure)).copied().unwrap_or_default()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("nfs://127.0.0.1:{}/{path}", self.port)
    }
}

fn serve(mut client: TcpStream, real: u16, calls: &Mutex<BTreeMap<(u32, u32), u32>>, decide: &Decide) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", real)) else { return };
    let shared = Arc::new(Connection {
        to_client: Mutex::new(client.try_clone().unwrap()),
        changed: Mutex::default(),
    });
    let (mut replies, back) = (server.try_clone().unwrap(), Arc::clone(&shared));
    thread::spawn(move || {
        while let Ok(mut reply) = record(&mut replies) {
            if let Some(number) = back.changed.lock().unwrap().remove(&reply[..4]) {
                let at = reply.len() - 8;
                reply[at..].copy_from_slice(&number.to_be_bytes());
            }
            if send(&mut back.to_client.lock().unwrap(), &reply).is_err() {
                return;
            }
        }
    });
    let mut verifiers = 1 << 32;
    while let Ok(call) = record(&mut client) {
        let word = |at: usize| u32::from_be_bytes(call[4 * at..][..4].try_into().unwrap());
        let xid: [u8; 4] = call[..4].try_into().unwrap();
        let (program, procedure) = (word(3), word(5));
        *calls.lock().unwrap().entry((program, procedure)).or_default() += 1;
        // Credential and verifier are opaque, with their lengths.
        let credential = word(7).next_multiple_of(4) as usize;
        let verifier_len = word(8 + credential / 4 + 1).next_multiple_of(4) as usize;
        let arguments = &call[40 + credential + verifier_len..];
        let results = match decide(program, procedure, arguments) {
            Treatment::Silence => continue,
            Treatment::Pass => None,
            Treatment::NewVerifier => {
                verifiers += 1;
                shared.changed.lock().unwrap().insert(xid, verifiers);
                None
            }
            Treatment::Unavailable => Some(vec![3]),
            Treatment::Results(words) => Some([vec![0], words].concat()),
        };
        let sent = match results {
            None => send(&mut server, &call),
            Some(results) => {
                let words = [vec![1, 0, 0, 0], results].concat();
                let words = words.into_iter().flat_map(u32::to_be_bytes);
                send(&mut shared.to_client.lock().unwrap(), &xid.into_iter().chain(words).collect::<Vec<_>>())
            }
        };
        if sent.is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

/// Reads a record of RPC over TCP (RFC 5531, section 11).
fn record(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut record = Vec::new();
    loop {
        let mut mark = [0; 4];
        from.read_exact(&mut mark)?;
        let mark = u32::from_be_bytes(mark);
        let start = record.len();
        record.resize(start + (mark & 0x7fff_ffff) as usize, 0);
        from.read_exact(&mut record[start..])?;
        if mark >> 31 == 1 {
            return Ok(record);
        }
    }
}

fn send(to: &mut TcpStream, record: &[u8]) -> io::Result<()> {
    to.write_all(&(record.len() as u32 | 1 << 31).to_be_bytes())?;
    to.write_all(record)
}
