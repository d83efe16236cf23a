//! NFS programs other than the kernel's: libnfs, nfs-ganesha, and tshark, which decodes our messages.

use crate::steps::{says, says_error};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{ADDRESS, Daemon, Ganesha, Sandbox, Server, disk};
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// Copies files both ways, lists and reads them with libnfs's programs, as several users.
pub(super) fn libnfs(sandbox: &Sandbox) -> Result<()> {
    // With these ports libnfs asks no port mapper.
    let url =
        |path: &str, more: &str| format!("nfs://{ADDRESS}/export{path}?nfsport=2049&mountport=2049{more}");
    disk::make(&sandbox.path("large.raw"), 9)?;
    sandbox.write("small", "a small file\n")?;
    sandbox.write("empty", "")?;
    let _server = Server::nfs(sandbox, "--mem --size 256M")?;
    for name in ["large.raw", "small", "empty"] {
        let there = url(&format!("/{name}"), "");
        sandbox.tool(&format!("nfs-cp {name} {there}"))?;
        sandbox.tool(&format!("nfs-cp {there} back"))?;
        disk::compare(&sandbox.path(name), &sandbox.path("back"))?;
        // It does not replace files.
        fs::remove_file(sandbox.path("back"))?;
    }
    says(&sandbox.tool(&format!("nfs-cat {}", url("/small", "")))?, "a small file")?;
    // Returns how many words of a file's line are `word`.
    let listed = |name: &str, word: &str| -> Result<usize> {
        let listed = sandbox.tool(&format!("nfs-ls {}", url("", "")))?;
        let line = listed.lines().find(|line| line.ends_with(name)).unwrap_or_default();
        Ok(line.split_whitespace().filter(|found| *found == word).count())
    };
    for (name, size) in [("large.raw", disk::SIZE.to_string().as_str()), ("small", "13"), ("empty", "0")] {
        ensure!(listed(name, size)? > 0, "nfs-ls does not print that {name} has {size} bytes");
    }

    // A user may write what belongs to the user, and no more.
    let as_user = |path| url(path, "&uid=1000&gid=1000");
    sandbox.tool(&format!("nfs-cp small {}", as_user("/mine")))?;
    ensure!(listed("mine", "1000")? == 2, "nfs-ls does not print that user and group 1000 own the file");
    let refused = sandbox.tool(&format!("nfs-cp small {}", as_user("/empty")));
    ensure!(refused.is_err(), "a user has written to a file of root's");
    says(&sandbox.tool(&format!("nfs-cat {}", as_user("/mine")))?, "a small file")
}

/// Copies files both ways, lists, moves and removes them with our client, which finds the server by its port mapper.
pub(super) fn ganesha(sandbox: &Sandbox) -> Result<()> {
    disk::make(&sandbox.path("whole"), 11)?;
    // As much as the server keeps, and no whole number of blocks.
    let whole = fs::read(sandbox.path("whole"))?;
    sandbox.write("large", &whole[..usize::try_from(Ganesha::FILE_MAX)? - 1])?;
    sandbox.write("small", "a small file\n")?;
    let _server = Ganesha::start(sandbox, Ganesha::FILE_MAX)?;
    let url = format!("nfs://{ADDRESS}{}", Ganesha::EXPORT);
    let comes_back = |from: &str, name: &str| {
        sandbox.onego(&format!("nfs cp {url}/{from} back"))?;
        disk::compare(&sandbox.path(name), &sandbox.path("back"))
    };
    sandbox.onego(&format!("nfs mkdir --parents {url}/a/b"))?;
    for name in ["large", "small"] {
        sandbox.onego(&format!("nfs put {name} {url}/a/b/"))?;
        comes_back(&format!("a/b/{name}"), name)?;
    }
    sandbox.onego(&format!("nfs cp {url}/a/b/large {url}/a/copy"))?;
    comes_back("a/copy", "large")?;

    // An interrupted copy continues at its end.
    sandbox.write("part", &whole[..1 << 20])?;
    sandbox.onego(&format!("nfs put part {url}/resumed"))?;
    sandbox.onego(&format!("nfs put --resume large {url}/resumed"))?;
    comes_back("resumed", "large")?;

    sandbox.onego(&format!("nfs mv {url}/a/b/small a/moved"))?;
    says(&sandbox.onego(&format!("nfs cat {url}/a/moved"))?, "a small file")?;
    let listed = sandbox.onego(&format!("nfs ls --recursive {url}"))?;
    let mut names: Vec<_> = listed.lines().collect();
    names.sort_unstable();
    ensure!(names == ["a", "a/b", "a/b/large", "a/copy", "a/moved", "resumed"], "the server lists {names:?}");
    says(&sandbox.onego(&format!("nfs stat {url}/a/moved"))?, "size    13")?;
    sandbox.onego(&format!("nfs df {url}"))?;
    sandbox.onego(&format!("nfs rm --recursive {url}/a {url}/resumed"))?;
    ensure!(sandbox.onego(&format!("nfs ls {url}"))?.is_empty(), "something is left on the server");
    let missing = sandbox.onego_fails(&format!("nfs stat {url}/a"))?;
    ensure!(missing.status.code() == Some(3), "a missing file has another exit status: {missing:?}");
    sandbox.onego(&format!("nfs ls {url}?resvport"))?;
    says_error(&sandbox.onego_fails(&format!("nfs ls {url}?noresvport"))?, "port below 1024")
}

/// Time the capture gets to start.
const PATIENCE: Duration = Duration::from_secs(30);
/// The capture reads packets some time after they went by.
const LAG: Duration = Duration::from_secs(1);

/// tshark takes a second connection of a port for the first, and one of the few ports below 1024 may come twice.
const OPTIONS: &str = "rdma&noresvport";

/// tshark's filters for frames, and whether frames pass in a conversation of large messages and in one of small ones.
const FRAMES: &[(&str, bool, bool)] = &[
    // Calls and replies of READ and WRITE.
    ("nfs.procedure_v3==6&&rpc.msgtyp==0", true, true),
    ("nfs.procedure_v3==6&&rpc.msgtyp==1", true, true),
    ("nfs.procedure_v3==7&&rpc.msgtyp==0", true, true),
    ("nfs.procedure_v3==7&&rpc.msgtyp==1", true, true),
    // RDMAP's Send with Invalidate.
    ("iwarp_rdma.opcode==4", true, false),
    // Replies to READ with the data in the same message.
    ("nfs.procedure_v3==6&&rpc.msgtyp==1&&!rpcordma.writes_count==1", true, false),
    // Malformed frames, but for replies whose data RDMA Writes carry: tshark does not follow these, in the kernel's
    // conversations neither.
    (
        "iwarp_mpa&&_ws.malformed&&!(nfs.procedure_v3==6&&rpc.msgtyp==1&&rpcordma.writes_count==1)",
        false,
        false,
    ),
];

/// Captures conversations over RDMA for tshark to decode.
pub(super) fn tshark(sandbox: &Sandbox) -> Result<()> {
    capture(sandbox, "--mem --rdma", |(_, large, _)| *large)?;
    capture(sandbox, "--mem --rdma --inline 1K --no-remote-invalidation", |(_, _, small)| *small)
}

/// Captures how files of some sizes are written and read, and counts the frames that pass the filters.
fn capture(sandbox: &Sandbox, arguments: &str, expected: fn(&(&str, bool, bool)) -> bool) -> Result<()> {
    let server = Server::nfs(sandbox, &format!("{arguments} --insecure"))?;
    sandbox.write("dumpcap.out", "")?;
    let line = "dumpcap -q -B 64 -i lo -f tcp -w capture.pcapng";
    let mut dumpcap = Daemon::spawn("dumpcap", sandbox.tool_daemon(line), &sandbox.path("dumpcap.out"))?;
    let has_begun = || sandbox.read("dumpcap.out").is_ok_and(|said| said.contains("File: "));
    dumpcap.wait_until("capture", PATIENCE, has_begun)?;
    for size in [700, 3000, 300_001] {
        sandbox.write("there", vec![7; size])?;
        let url = format!("nfs://{ADDRESS}:2049/export/{size}?{OPTIONS}");
        sandbox.onego(&format!("nfs put there {url}"))?;
        for options in ["", "&rsize=1024"] {
            sandbox.onego(&format!("nfs cp {url}{options} back"))?;
            disk::compare(&sandbox.path("there"), &sandbox.path("back"))?;
        }
    }
    sandbox.onego(&format!("nfs ls nfs://{ADDRESS}:2049/export?{OPTIONS}"))?;
    sleep(LAG);
    dumpcap.stop()?;
    drop(server);
    let filters: String = FRAMES.iter().map(|(filter, ..)| format!(",{filter}")).collect();
    let said = sandbox.tool(&format!("tshark -q -r capture.pcapng -z io,stat,0{filters}"))?;
    // A row of the interval, then frames and bytes of each filter.
    let row = said.lines().find(|line| line.contains("<>")).context("tshark prints no statistics")?;
    let counts: Vec<&str> = row.split('|').skip(2).step_by(2).map(str::trim).collect();
    ensure!(counts.len() >= FRAMES.len(), "tshark prints other statistics:\n{said}");
    for (frames, count) in FRAMES.iter().zip(counts) {
        let found = count.parse::<u64>()? > 0;
        ensure!(found == expected(frames), "{arguments}: {count} frames pass {}:\n{said}", frames.0);
    }
    Ok(())
}
