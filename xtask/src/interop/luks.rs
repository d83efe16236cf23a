//! Encrypted images: what one program formats and writes, the others open and read.

use crate::cluster::{Embedded, RealCeph, Stage, Store};
use crate::interop::disk;
use crate::interop::steps::{ensure_pool, says};
use anyhow::{Context as _, Result, ensure};
use std::fs;

/// What librbd, and a client of NBD, do with an image.
const PEER: &str = include_str!("luks.py");

/// Where our server of NBD is.
const EXPORT: &str = "nbd://127.0.0.1:10809/rbd";

/// Bytes of the images: 8 MiB and more behind either header.
const SIZE: &str = "24M";

/// Before 17.1 librbd has one key for a clone and its ancestors.
pub(crate) fn of_pacific(stage: &Stage) -> Result<()> {
    both(stage, false)
}

pub(crate) fn layered(stage: &Stage) -> Result<()> {
    both(stage, true)
}

/// On a real cluster, and on ours.
fn both(stage: &Stage, is_layered: bool) -> Result<()> {
    {
        let _ceph = RealCeph::start(stage, Store::Memory)?;
        run(stage, is_layered).context("on a real cluster")?;
    }
    stage.empty()?;
    let _cluster = Embedded::start(stage, "--memory 1G")?;
    run(stage, is_layered).context("on our cluster")
}

fn run(stage: &Stage, is_layered: bool) -> Result<()> {
    ensure_pool(stage)?;
    fs::write(stage.path("luks.py"), PEER)?;
    fs::write(stage.path("pass"), "open-sesame")?;
    fs::write(stage.path("other"), "another")?;
    for (format, cipher) in [("luks1", "aes-128"), ("luks2", "aes-256")] {
        let name = format!("ours-{format}-{cipher}");
        stage.onego(&format!("-c ceph.conf rbd create rbd/{name} --size {SIZE}"))?;
        stage.onego(&format!(
            "-c ceph.conf rbd encryption format rbd/{name} {format} pass --cipher-alg {cipher}"
        ))?;
        shared(stage, &name, format).with_context(|| name.clone())?;
        opened_elsewhere(stage, &name, format).with_context(|| name.clone())?;
        let name = format!("theirs-{format}-{cipher}");
        stage.ceph(&format!("rbd create --size {SIZE} rbd/{name}"))?;
        peer(stage, &name, &format!("format {format} {cipher} open-sesame"))?;
        shared(stage, &name, format).with_context(|| name.clone())?;
    }
    if is_layered {
        clones(stage)?;
    }
    formatted_elsewhere(stage)?;
    refused(stage)
}

/// Runs librbd, or a client of NBD, on an image.
fn peer(stage: &Stage, image: &str, words: &str) -> Result<String> {
    stage.ceph(&format!("python3 luks.py rbd:{image} {words}"))
}

/// Writes to an image by us.
fn ours(stage: &Stage, image: &str, passphrases: &[&str], words: &str) -> Result<()> {
    let options: String =
        passphrases.iter().map(|file| format!(" --encryption-passphrase-file {file}")).collect();
    let server = Embedded::start_nbd(stage, "-c ceph.conf", &format!("rbd:{image}{options}"))?;
    stage.host(&format!("/usr/bin/python3 luks.py {EXPORT}/{image} {words}"))?;
    server.stop()
}

/// Both write to an image, and each reads what the other wrote.
fn shared(stage: &Stage, image: &str, format: &str) -> Result<()> {
    let spec = format!("{format}:open-sesame");
    peer(stage, image, &format!("fill 1 {spec}"))?;
    same(stage, image, &spec, &["pass"])?;
    ours(stage, image, &["pass"], "work 2")?;
    same(stage, image, &spec, &["pass"])?;
    peer(stage, image, &format!("work 3 {spec}"))?;
    same(stage, image, &spec, &["pass"])
}

/// Both read the same.
fn same(stage: &Stage, image: &str, specs: &str, passphrases: &[&str]) -> Result<()> {
    let options: String =
        passphrases.iter().map(|file| format!(" --encryption-passphrase-file {file}")).collect();
    peer(stage, image, &format!("read theirs.raw {specs}"))?;
    stage.onego(&format!("-c ceph.conf rbd export rbd/{image} ours.raw{options}"))?;
    disk::compare(&stage.path("theirs.raw"), &stage.path("ours.raw"))?;
    fs::remove_file(stage.path("ours.raw"))?;
    Ok(())
}

/// What we format opens with cryptsetup, and, of LUKS1, QEMU reads the same.
fn opened_elsewhere(stage: &Stage, image: &str, format: &str) -> Result<()> {
    stage.onego(&format!("-c ceph.conf rbd export rbd/{image} sealed.raw"))?;
    says(&stage.host("cryptsetup luksDump sealed.raw")?, "aes")?;
    stage.host("cryptsetup open --test-passphrase --key-file pass sealed.raw")?;
    ensure!(
        stage.host("cryptsetup open --test-passphrase --key-file other sealed.raw").is_err(),
        "another passphrase opens it"
    );
    if format == "luks1" {
        let options = "driver=luks,key-secret=s,file.driver=file,file.filename=sealed.raw";
        stage.ceph(&format!(
            "qemu-img convert --object secret,id=s,file=pass --image-opts {options} -O raw theirs.raw"
        ))?;
        stage.onego(&format!(
            "-c ceph.conf rbd export rbd/{image} ours.raw --encryption-passphrase-file pass"
        ))?;
        disk::compare(&stage.path("theirs.raw"), &stage.path("ours.raw"))?;
        fs::remove_file(stage.path("ours.raw"))?;
    }
    Ok(fs::remove_file(stage.path("sealed.raw"))?)
}

/// What cryptsetup and QEMU format opens with us.
fn formatted_elsewhere(stage: &Stage) -> Result<()> {
    for (name, options) in [
        ("crypt1", "--type luks1 --offset 8192"),
        ("crypt2", "--type luks2 --sector-size 512"),
        ("crypt3", "--type luks2 --pbkdf pbkdf2 --hash sha512 --sector-size 4096"),
    ] {
        fs::File::create(stage.path("sealed.raw"))?.set_len(24 << 20)?;
        stage.host(&format!(
            "cryptsetup luksFormat --batch-mode --iter-time 200 {options} --key-file pass sealed.raw"
        ))?;
        stage.onego(&format!("-c ceph.conf rbd import sealed.raw rbd/{name}"))?;
        shared(stage, name, if name == "crypt1" { "luks1" } else { "luks2" })
            .with_context(|| name.to_owned())?;
    }
    // Its data does not begin at a multiple of the usual size of objects.
    stage.ceph(
        "qemu-img create -f luks --object secret,id=s,file=pass -o key-secret=s,iter-time=200 sealed.luks 8M",
    )?;
    stage.onego("-c ceph.conf rbd import sealed.luks rbd/qemu --object-size 4K")?;
    shared(stage, "qemu", "luks1").context("qemu")?;
    stage.onego("-c ceph.conf rbd export rbd/qemu back.luks")?;
    let options = "driver=luks,key-secret=s,file.driver=file,file.filename=back.luks";
    stage.ceph(&format!(
        "qemu-img convert --object secret,id=s,file=pass --image-opts {options} -O raw qemu.raw"
    ))?;
    disk::compare(&stage.path("theirs.raw"), &stage.path("qemu.raw"))
}

/// What is wrong is told, and how.
fn refused(stage: &Stage) -> Result<()> {
    let wrong = "-c ceph.conf rbd export rbd/ours-luks2-aes-256 - --encryption-passphrase-file other";
    let failed = stage.onego_fails(wrong)?;
    ensure!(failed.status.code() == Some(5), "a wrong passphrase ends with {}", failed.status);
    says(&String::from_utf8_lossy(&failed.stderr), "passphrase is wrong")?;
    stage.onego("-c ceph.conf rbd create rbd/plain --size 1M")?;
    let failed =
        stage.onego_fails("-c ceph.conf rbd export rbd/plain - --encryption-passphrase-file pass")?;
    says(&String::from_utf8_lossy(&failed.stderr), "no LUKS header")?;
    let failed = stage.onego_fails("-c ceph.conf rbd encryption format rbd/plain luks1 pass")?;
    says(&String::from_utf8_lossy(&failed.stderr), "make it larger")?;
    peer(stage, "ours-luks2-aes-256", "damage -")?;
    let right = "-c ceph.conf rbd export rbd/ours-luks2-aes-256 - --encryption-passphrase-file pass";
    says(&String::from_utf8_lossy(&stage.onego_fails(right)?.stderr), "checksum is wrong")
}

/// Clones with keys of their own, formatted by any of them.
fn clones(stage: &Stage) -> Result<()> {
    for (parent, format, by_us) in [
        ("ours-luks1-aes-128", "luks1", true),
        ("theirs-luks2-aes-256", "luks1", true),
        ("theirs-luks1-aes-128", "luks2", false),
    ] {
        let child = format!("child-{parent}");
        stage.ceph(&format!("rbd snap create rbd/{parent}@base"))?;
        stage.ceph(&format!("rbd snap protect rbd/{parent}@base"))?;
        stage.ceph(&format!("rbd clone rbd/{parent}@base rbd/{child}"))?;
        let of_parent = if parent.contains("luks1") { "luks1" } else { "luks2" };
        same(stage, &child, &format!("{of_parent}:open-sesame"), &["pass"])
            .context("without a header of its own")?;
        if by_us {
            stage.onego(&format!("-c ceph.conf rbd encryption format rbd/{child} {format} other"))?;
        } else {
            peer(stage, &child, &format!("format {format} aes-256 another"))?;
        }
        let specs = format!("{format}:another {of_parent}:open-sesame");
        let passphrases = ["other", "pass"];
        same(stage, &child, &specs, &passphrases).context("as it was cloned")?;
        if (of_parent, format) == ("luks2", "luks1") {
            // The clone ends behind its parent. What nobody has written there is noise to librbd once the object exists.
            ours(stage, &child, &passphrases, "tail 4")?;
            same(stage, &child, &specs, &passphrases).context("after we wrote behind its parent's end")?;
        }
        ours(stage, &child, &passphrases, "work 5")?;
        same(stage, &child, &specs, &passphrases).context("after we wrote")?;
        peer(stage, &child, &format!("work 6 {specs}"))?;
        same(stage, &child, &specs, &passphrases).context("after librbd wrote")?;
    }
    Ok(())
}
