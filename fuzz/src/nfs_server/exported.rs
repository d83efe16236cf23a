//! A directory that a fuzzed server exports, the files beside it, and a local user at work in it.

use super::backend::Backend;
use onego_buf::Pool;
use onego_nfs_server::{Directory, Done, Export, Job, Rdma, ServerMachine};
use onego_wire::Time;
use std::fs::{self, File, FileTimes};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, SystemTime};

/// A call for the thread that carries calls out.
type Work = (Directory, Job);

/// The one thread that takes the credentials of callers: the fuzzer's own has to keep those it has.
struct Worker {
    jobs: Sender<Work>,
    done: Receiver<Done>,
}

static WORKER: LazyLock<Mutex<Worker>> = LazyLock::new(|| Mutex::new(Worker::start()));

impl Worker {
    fn start() -> Self {
        let (jobs, inbox) = channel::<Work>();
        let (outbox, done) = channel();
        std::thread::spawn(move || {
            for (mut fs, job) in inbox {
                let done = job.carry_out(&mut fs);
                // Descriptors are counted after this.
                drop(fs);
                if outbox.send(done).is_err() {
                    return;
                }
            }
        });
        Self { jobs, done }
    }
}

/// The state of a file that nobody may touch: a read changes the time of the last access, and everything else that of the
/// last change.
#[derive(Debug, PartialEq, Eq)]
struct ExportedState {
    path: PathBuf,
    ino: u64,
    links: u64,
    accessed: (i64, i64),
    changed: (i64, i64),
}

impl ExportedState {
    fn of(path: PathBuf) -> Self {
        let stat = fs::symlink_metadata(&path).expect("it is still there");
        Self {
            path,
            ino: stat.ino(),
            links: stat.nlink(),
            accessed: (stat.atime(), stat.atime_nsec()),
            changed: (stat.ctime(), stat.ctime_nsec()),
        }
    }
}

/// A directory. The server has its calls carried out as jobs.
pub struct Exported {
    folder: PathBuf,
    fs: Directory,
    beside: Vec<ExportedState>,
    descriptors: usize,
}

/// The number of open descriptors of the process.
fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("/proc is there").count()
}

fn put_beside(folder: &Path) -> Vec<ExportedState> {
    fs::create_dir_all(folder.join("beside/directory")).expect("there is room");
    fs::write(folder.join("beside/secret"), b"secret").expect("there is room");
    let paths = ["beside", "beside/directory", "beside/secret"].map(|name| folder.join(name));
    for path in &paths {
        // The system notes the time of a read if the last one was before the last change.
        let long_ago = FileTimes::new().set_accessed(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        File::open(path).and_then(|file| file.set_times(long_ago)).expect("it is ours");
    }
    paths.map(ExportedState::of).into()
}

impl Backend for Exported {
    fn new() -> Self {
        LazyLock::force(&WORKER);
        let descriptors = descriptors();
        let folder = PathBuf::from(format!("/dev/shm/onego-fuzz-{}", std::process::id()));
        // An input before may have ended the process.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("export")).expect("there is room");
        fs::create_dir(folder.join("moved")).expect("there is room");
        let beside = put_beside(&folder);
        for (name, target) in [("d", "../beside/secret"), ("e", "../beside")] {
            symlink(target, folder.join("export").join(name)).expect("the name is free");
        }
        let (key, pool) = ([9; 32], Pool::new(1 << 20));
        let fs = Directory::open(&folder.join("export"), &key, [1; 8], pool).expect("it is there");
        Self { folder, fs, beside, descriptors }
    }

    fn serve(&self, addrs: Vec<SocketAddr>, rdma: &Rdma, export: Export, _: Time) -> ServerMachine {
        ServerMachine::with_jobs(addrs, Some(rdma), export, Pool::new(1 << 20))
    }

    fn carry_out(&self, machine: &mut ServerMachine, now: Time) -> bool {
        let worker = WORKER.lock().expect("the worker does not panic");
        let mut any = false;
        while let Some(job) = machine.next_job() {
            any = true;
            worker.jobs.send((self.fs.clone(), job)).expect("the worker is there");
            machine.done(now, worker.done.recv().expect("the worker does not panic"));
        }
        any
    }

    /// Closes unused files.
    fn pass(&self) {
        self.fs.sweep();
    }

    /// It may not be possible.
    fn act(&self, what: u8, name: u8) {
        let name = String::from(char::from(b'a' + name % 8));
        let (inside, moved) = (self.folder.join("export").join(&name), self.folder.join("moved").join(&name));
        let _ = match what % 8 {
            0 => fs::rename(inside, moved),
            1 => fs::rename(moved, inside),
            2 => fs::remove_file(&inside).and_then(|()| symlink("../beside/secret", inside)),
            3 => fs::rename(&inside, moved).and_then(|()| symlink("../beside", inside)),
            4 => fs::rename(&inside, moved).and_then(|()| symlink(self.folder.join("beside"), inside)),
            5 => fs::remove_dir_all(inside),
            6 => fs::hard_link(&inside, moved),
            _ => fs::create_dir(inside),
        };
    }

    fn check(self) {
        let Self { folder, fs, beside, descriptors: before } = self;
        drop(fs);
        assert_eq!(descriptors(), before, "a descriptor was left open");
        for state in beside {
            assert_eq!(ExportedState::of(state.path.clone()), state, "nobody may touch what is not exported");
        }
        let secret = fs::read(folder.join("beside/secret")).expect("it is still there");
        assert_eq!(secret, b"secret");
        let _ = fs::remove_dir_all(folder);
    }
}
