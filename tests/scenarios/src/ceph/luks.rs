//! Encrypted images: each program opens and reads what the others format and write.

use super::{onego_fails, same_file, script};
use crate::steps::{ensure_pool, says, says_error, wait_until};
use anyhow::{Context as _, Result, ensure};
use onego_sandbox::{Release, Sandbox, Server};
use std::fs;
use std::time::Duration;

/// QEMU's options for a file that the passphrase in `pass` opens; the file's name follows.
const QEMU: &str = "qemu-img convert --object secret,id=s,file=pass -O raw --image-opts \
                    driver=luks,key-secret=s,file.driver=file,file.filename=";

pub(super) fn run(sandbox: &Sandbox) -> Result<()> {
    ensure_pool(sandbox)?;
    sandbox.write("luks.py", include_str!("luks.py"))?;
    sandbox.write("pass", "open-sesame")?;
    sandbox.write("other", "another")?;
    // After either header 8 MiB and more are left of 24 MiB.
    for (format, cipher) in [("luks1", "aes-128"), ("luks2", "aes-256")] {
        let name = format!("ours-{format}-{cipher}");
        let encrypt = format!("rbd encryption format rbd/{name} {format} pass --cipher-alg {cipher}");
        script(sandbox, &format!("onego rbd create rbd/{name} --size 24M; onego {encrypt}"))?;
        shared(sandbox, &name, format)?;
        opened_elsewhere(sandbox, &name, format).with_context(|| name.clone())?;
        let name = format!("theirs-{format}-{cipher}");
        sandbox.ceph(&format!("rbd create --size 24M rbd/{name}"))?;
        peer(sandbox, &name, &format!("format {format} {cipher} open-sesame"))?;
        shared(sandbox, &name, format)?;
    }
    // Before 17.1 librbd has one key for a clone and its ancestors.
    if sandbox.release() != Release::Pacific {
        clones(sandbox)?;
    }
    formatted_elsewhere(sandbox)?;
    refused(sandbox)
}

/// Uses an image by librbd.
fn peer(sandbox: &Sandbox, image: &str, words: &str) -> Result<String> {
    sandbox.ceph(&format!("python3 luks.py rbd:{image} {words}"))
}

/// Writes to an image by our NBD server.
fn ours(sandbox: &Sandbox, image: &str, passphrases: &[&str], words: &str) -> Result<()> {
    let server = Server::nbd(sandbox, &format!("rbd:{image}{}", options(passphrases)))?;
    sandbox.ceph(&format!("python3 luks.py nbd://127.0.0.1:10809/rbd/{image} {words}"))?;
    server.stop()
}

/// Returns our options for files with passphrases.
fn options(passphrases: &[&str]) -> String {
    passphrases.iter().map(|file| format!(" --encryption-passphrase-file {file}")).collect()
}

/// Lets both sides write to an image and read the other's data.
fn shared(sandbox: &Sandbox, image: &str, format: &str) -> Result<()> {
    let spec = format!("{format}:open-sesame");
    let same = || same(sandbox, image, &spec, &["pass"]);
    peer(sandbox, image, &format!("fill 1 {spec}"))?;
    same()?;
    ours(sandbox, image, &["pass"], "work 2")?;
    same()?;
    peer(sandbox, image, &format!("work 3 {spec}"))?;
    same()
}

/// Checks that both sides read the same.
fn same(sandbox: &Sandbox, image: &str, specs: &str, passphrases: &[&str]) -> Result<()> {
    peer(sandbox, image, &format!("read theirs.raw {specs}"))?;
    sandbox.onego(&format!("rbd export rbd/{image} ours.raw{}", options(passphrases)))?;
    same_file(sandbox, "theirs.raw", "ours.raw").with_context(|| image.to_owned())
}

/// Opens an image of ours with cryptsetup; QEMU reads LUKS1.
fn opened_elsewhere(sandbox: &Sandbox, image: &str, format: &str) -> Result<()> {
    sandbox.onego(&format!("rbd export rbd/{image} sealed.raw"))?;
    says(&sandbox.tool("cryptsetup luksDump sealed.raw")?, "aes")?;
    let open =
        |file: &str| sandbox.tool(&format!("cryptsetup open --test-passphrase --key-file {file} sealed.raw"));
    open("pass")?;
    ensure!(open("other").is_err(), "another passphrase opens the image");
    if format == "luks1" {
        sandbox.ceph(&format!("{QEMU}sealed.raw theirs.raw"))?;
        sandbox.onego(&format!("rbd export rbd/{image} ours.raw{}", options(&["pass"])))?;
        same_file(sandbox, "theirs.raw", "ours.raw")?;
    }
    Ok(fs::remove_file(sandbox.path("sealed.raw"))?)
}

/// Opens images that cryptsetup and QEMU formatted.
fn formatted_elsewhere(sandbox: &Sandbox) -> Result<()> {
    for (name, format, options) in [
        ("crypt1", "luks1", "--offset 8192"),
        ("crypt2", "luks2", "--sector-size 512"),
        ("crypt3", "luks2", "--pbkdf pbkdf2 --hash sha512 --sector-size 4096"),
    ] {
        fs::File::create(sandbox.path("sealed.raw"))?.set_len(24 << 20)?;
        let format_line = format!("cryptsetup luksFormat --batch-mode --iter-time 200 --type {format}");
        sandbox.tool(&format!("{format_line} {options} --key-file pass sealed.raw"))?;
        sandbox.onego(&format!("rbd import sealed.raw rbd/{name}"))?;
        shared(sandbox, name, format)?;
    }
    // Its data does not begin at a multiple of the default object size.
    let options = "--object secret,id=s,file=pass -o key-secret=s,iter-time=200";
    let create = format!("qemu-img create -f luks {options} sealed.luks 8M");
    // QEMU times itself for the header's keys, and some versions fail on a busy machine.
    wait_until(sandbox, "file of qemu-img", Duration::from_secs(60), |sandbox| {
        Ok(sandbox.ceph(&create).is_ok())
    })?;
    sandbox.onego("rbd import sealed.luks rbd/qemu --object-size 4K")?;
    shared(sandbox, "qemu", "luks1")?;
    sandbox.onego("rbd export rbd/qemu back.luks")?;
    sandbox.ceph(&format!("{QEMU}back.luks qemu.raw"))?;
    same_file(sandbox, "theirs.raw", "qemu.raw")
}

fn refused(sandbox: &Sandbox) -> Result<()> {
    let export = "rbd export rbd/ours-luks2-aes-256 - --encryption-passphrase-file";
    let failed = sandbox.onego_fails(&format!("{export} other"))?;
    ensure!(failed.status.code() == Some(5), "a wrong passphrase ends with {}", failed.status);
    says_error(&failed, "passphrase is wrong")?;
    sandbox.onego("rbd create rbd/plain --size 1M")?;
    let plain = "rbd export rbd/plain - --encryption-passphrase-file pass";
    onego_fails(sandbox, plain, "no LUKS header")?;
    onego_fails(sandbox, "rbd encryption format rbd/plain luks1 pass", "make it larger")?;
    peer(sandbox, "ours-luks2-aes-256", "damage -")?;
    onego_fails(sandbox, &format!("{export} pass"), "checksum is wrong").map(drop)
}

/// Formats clones with their own keys on either side.
fn clones(sandbox: &Sandbox) -> Result<()> {
    for (parent, of_parent, format, by_us) in [
        ("ours-luks1-aes-128", "luks1", "luks1", true),
        ("theirs-luks2-aes-256", "luks2", "luks1", true),
        ("theirs-luks1-aes-128", "luks1", "luks2", false),
    ] {
        let child = format!("child-{parent}");
        let base = format!("rbd/{parent}@base");
        let clone = format!("rbd clone {base} rbd/{child}");
        script(sandbox, &format!("rbd snap create {base}; rbd snap protect {base}; {clone}"))?;
        same(sandbox, &child, &format!("{of_parent}:open-sesame"), &["pass"])
            .context("before it has its own header")?;
        if by_us {
            sandbox.onego(&format!("rbd encryption format rbd/{child} {format} other"))?;
        } else {
            peer(sandbox, &child, &format!("format {format} aes-256 another"))?;
        }
        let specs = format!("{format}:another {of_parent}:open-sesame");
        let same = |time: &'static str| same(sandbox, &child, &specs, &["other", "pass"]).context(time);
        same("as it was cloned")?;
        if (of_parent, format) == ("luks2", "luks1") {
            // The clone extends past its parent. There librbd reads noise from unwritten parts of existing objects.
            ours(sandbox, &child, &["other", "pass"], "tail 4")?;
            same("after we wrote past its parent's end")?;
        }
        ours(sandbox, &child, &["other", "pass"], "work 5")?;
        same("after we wrote")?;
        peer(sandbox, &child, &format!("work 6 {specs}"))?;
        same("after librbd wrote")?;
    }
    Ok(())
}
