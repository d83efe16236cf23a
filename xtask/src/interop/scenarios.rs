//! Every scenario there is.

use super::{attacks, capi, ceph, documents, embedded, export, luks, nfs, package};
use crate::cluster::{Release, Stage};
use anyhow::Result;

/// One thing that has to work between two programs of which one is not ours.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// Whose Ceph programs it uses.
    pub(super) release: Release,
    /// Does it start a guest?
    pub(super) guest: bool,
    /// Is it one of the long form of the tests alone?
    pub(super) long: bool,
    pub(super) run: fn(&Stage) -> Result<()>,
}

const fn scenario(
    name: &'static str,
    what: &'static str,
    release: Release,
    run: fn(&Stage) -> Result<()>,
) -> Scenario {
    Scenario { name, what, release, guest: false, long: false, run }
}

/// Scenarios that start guests, the longest first, of which the last belong to the long form of the tests, also with 18.2; those that
/// have no release of Ceph or 16.2 alone, of which the last belong to the long form; the same for every release that we are tested
/// against; those of the long form for every release; then those of which 20.2's belong to the long form, and those of which 16.2's
/// do, too; those of 18.2 alone, of which the last belong to the long form; those of what 16.2 has not, of which the last belong to the
/// long form; and those of 20.2, of which the first belong to the long form.
macro_rules! scenarios {
    (
        guests: $($guest:literal, $guest_what:literal, $guest_run:path;)*
        long_guests: $($long:literal, $long_what:literal, $long_run:path;)*
        long_reef_guests: $($reef_guest:literal, $reef_guest_what:literal, $reef_guest_run:path;)*
        once: $($once:literal, $once_what:literal, $once_run:path;)*
        long_once: $($rare:literal, $rare_what:literal, $rare_run:path;)*
        releases: $($name:literal, $what:literal, $run:path;)*
        long_releases: $($longer:literal, $longer_what:literal, $longer_run:path;)*
        releases_long_of_tentacle: $($most:literal, $most_what:literal, $most_run:path;)*
        before_tentacle: $($early:literal, $early_what:literal, $early_run:path;)*
        reef_first: $($first:literal, $first_what:literal, $first_run:path;)*
        reef: $($only:literal, $only_what:literal, $only_run:path;)*
        long_reef: $($deep:literal, $deep_what:literal, $deep_run:path;)*
        since_reef: $($reef:literal, $reef_what:literal, $reef_run:path;)*
        long_since_reef: $($late:literal, $late_what:literal, $late_run:path;)*
        long_of_tentacle: $($far:literal, $far_what:literal, $far_run:path;)*
        tentacle: $($last:literal, $last_what:literal, $last_run:path;)*
    ) => {
        &[
            $(Scenario { guest: true, ..scenario($guest, $guest_what, Release::Pacific, $guest_run) },)*
            $(Scenario { guest: true, long: true, ..scenario($long, $long_what, Release::Pacific, $long_run) },)*
            $(Scenario { guest: true, long: true, ..scenario(concat!("ceph18-", $reef_guest), $reef_guest_what, Release::Reef, $reef_guest_run) },)*
            $(Scenario { long: true, ..scenario($rare, $rare_what, Release::Pacific, $rare_run) },)*
            $(scenario(concat!("ceph16-", $name), $what, Release::Pacific, $run),)*
            $(scenario(concat!("ceph18-", $name), $what, Release::Reef, $run),)*
            $(scenario(concat!("ceph20-", $name), $what, Release::Tentacle, $run),)*
            $(Scenario { long: true, ..scenario(concat!("ceph16-", $longer), $longer_what, Release::Pacific, $longer_run) },)*
            $(Scenario { long: true, ..scenario(concat!("ceph18-", $longer), $longer_what, Release::Reef, $longer_run) },)*
            $(Scenario { long: true, ..scenario(concat!("ceph20-", $longer), $longer_what, Release::Tentacle, $longer_run) },)*
            $(scenario(concat!("ceph16-", $most), $most_what, Release::Pacific, $most_run),)*
            $(scenario(concat!("ceph18-", $most), $most_what, Release::Reef, $most_run),)*
            $(Scenario { long: true, ..scenario(concat!("ceph20-", $most), $most_what, Release::Tentacle, $most_run) },)*
            $(scenario(concat!("ceph18-", $early), $early_what, Release::Reef, $early_run),)*
            $(Scenario { long: true, ..scenario(concat!("ceph16-", $early), $early_what, Release::Pacific, $early_run) },)*
            $(scenario(concat!("ceph18-", $first), $first_what, Release::Reef, $first_run),)*
            $(Scenario { long: true, ..scenario(concat!("ceph16-", $first), $first_what, Release::Pacific, $first_run) },)*
            $(Scenario { long: true, ..scenario(concat!("ceph20-", $first), $first_what, Release::Tentacle, $first_run) },)*
            $(scenario(concat!("ceph18-", $only), $only_what, Release::Reef, $only_run),)*
            $(Scenario { long: true, ..scenario(concat!("ceph18-", $deep), $deep_what, Release::Reef, $deep_run) },)*
            $(scenario(concat!("ceph18-", $reef), $reef_what, Release::Reef, $reef_run),)*
            $(Scenario { long: true, ..scenario(concat!("ceph20-", $reef), $reef_what, Release::Tentacle, $reef_run) },)*
            $(Scenario { long: true, ..scenario(concat!("ceph18-", $late), $late_what, Release::Reef, $late_run) },)*
            $(Scenario { long: true, ..scenario(concat!("ceph20-", $late), $late_what, Release::Tentacle, $late_run) },)*
            $(Scenario { long: true, ..scenario(concat!("ceph20-", $far), $far_what, Release::Tentacle, $far_run) },)*
            $(scenario(concat!("ceph20-", $last), $last_what, Release::Tentacle, $last_run),)*
            $(scenario($once, $once_what, Release::Pacific, $once_run),)*
        ]
    };
}

pub(super) const SCENARIOS: &[Scenario] = scenarios! {
    guests:
    "nfs-device", "NFS by devices, siw and rxe, over rdma-core: our client and server with the kernel's", nfs::verbs::nfs;
    "nbd-guest", "the kernel's client of NBD, in a guest, keeps a file system on an image of our embedded cluster", export::kernel_nbd::client;
    "ublk-guest", "images of our embedded cluster are block devices of a guest's kernel, also after a crash of who serves", export::ublk::mapped;
    "nfs-kernel-rdma", "the kernel's NFS client works on our server over RDMA", nfs::kernel::kernel_on_ours_by_rdma;
    "nfs-kernel-directory", "the kernel's NFS client works on a directory that we serve", nfs::kernel::kernel_on_directory;
    "krbd", "the kernel's client, in a guest, keeps a file system on our embedded cluster", embedded::krbd::modes;
    "nfs-pjdfstest", "the kernel's client on our server of NFS does what POSIX says", nfs::pjdfstest::on_memory;
    "vhost-user-guest", "an image of our embedded cluster is the disk of a guest, also when its server is killed under load", export::vhost_user::guest;
    "nfs-knfsd", "our NFS client works on the kernel's server, over TCP and RDMA", nfs::kernel::ours_on_kernel;
    "nfs-kernel-tcp", "the kernel's NFS client works on our server, over TCP", nfs::kernel::kernel_on_ours;
    "nbd-root-guest", "a guest runs from a root file system on an image of our embedded cluster, which QEMU uses by NBD", export::root::by_nbd;
    "vhost-user-root-guest", "the same by vhost-user", export::root::by_vhost_user;
    "rdma-core", "our provider over rdma-core, with itself over siw and over rxe", nfs::verbs::with_itself;
    long_guests:
    "krbd-cephx", "the kernel's client, in a guest, uses our embedded cluster with keys: encrypted, with checksums and with signatures", embedded::krbd::modes_with_key;
    "tcmu-guest", "tcmu-runner, in a guest, has an image of our embedded cluster as a disk of the kernel through our librbd", capi::tcmu::disk;
    "nfs-pjdfstest-directory", "the kernel's client on a directory that we serve does what POSIX says", nfs::pjdfstest::on_directory;
    "nfs-kernel-kernel", "the kernel's NFS client works on the kernel's server, over TCP and RDMA", nfs::kernel::kernel_on_kernel;
    "package-debian12", "our package is installed on Debian 12, used, by Prometheus and the kernel's NFS client, too, and removed: nothing is left", package::on_bookworm;
    "package-debian13", "the same on Debian 13", package::on_trixie;
    "krbd-shared", "the kernel's client, in a guest, and we write a clone on our embedded cluster by turns and at once", ceph::krbd::on_ours;
    "ceph16-krbd-shared", "the same on a real cluster", ceph::krbd::on_real_ceph;
    long_reef_guests:
    "krbd-shared", "the kernel's client, in a guest, and we write a clone on a real cluster by turns and at once", ceph::krbd::on_real_ceph;
    once:
    "nfs-attacks", "callers who say to be anybody gain nothing from a directory that we serve", attacks::nfs::run;
    "memory-attacks", "clients that would have our servers of NFS hold all memory gain little, and others are served", attacks::memory::run_on_nfs;
    "memory-attacks-cluster", "the same of our embedded cluster", attacks::memory::run_on_cluster;
    "block-devices", "our client of NBD copies from and to nbdkit and qemu-nbd, and serves them on", export::devices::devices;
    "nfs-libnfs", "libnfs's programs work on our server of NFS", nfs::libnfs::programs;
    "nfs-ganesha", "our client of NFS works on nfs-ganesha", nfs::ganesha::client;
    "nfs-tshark", "tshark reads what our NFS client and server say over RDMA", nfs::tshark::decodes;
    "documents", "every line that README and the guides tell people to type works, and so do their programs", documents::run;
    long_once:
    "ceph16-luks", "encrypted images open with us, librbd, cryptsetup and QEMU, formatted by each of them", luks::of_pacific;
    "ceph16-rbd-streams", "diffs of images and images with snapshots are the same streams on both sides, byte for byte, and each imports the other's", ceph::streams::streams_of_pacific;
    "capi-address-sanitizer", "what programs in C rely on holds where both they and our library are built with the address sanitizer", capi::address_sanitizer::run;
    "capi-memcheck", "what programs in C rely on holds under valgrind, which finds no fault with our library's use of memory", capi::memcheck::run;
    "package-debian11", "our package for Debian is installed on Debian 11, used, by Prometheus, too, and removed: nothing is left", package::on_bullseye;
    "package-image", "our image for containers says what is true of its files, and what is unpacked runs", package::image;
    "package-alone", "the static program runs in a root without any other file, and starts as fast as is said", package::program_alone;
    releases:
    "import-export", "images move between us and a real cluster, both ways, byte for byte", ceph::images::import_export;
    "osd-crash", "a real OSD is killed and starts again under a verified load", ceph::load::osd_crash;
    "cephx", "we use a real cluster that wants keys, in every mode, and renew tickets", ceph::cephx::client;
    "tools-cephx", "Ceph's programs use our embedded cluster with keys, in every mode", ceph::cephx::server;
    long_releases:
    "capi-guest", "a guest of QEMU runs from an image of our embedded cluster through our librbd, and from snapshots of it", capi::guest::runs;
    "owner-operations", "we make the changes that `rbd` asks for of an image that we are writing", ceph::owner::operations;
    "migration", "images are moved, each step by `rbd` or by us, while both use them", ceph::migration::run;
    releases_long_of_tentacle:
    "tools-ceph", "`ceph` manages pools of our embedded cluster", embedded::tools::ceph;
    "tools-rados", "`rados` works on objects of our embedded cluster", embedded::tools::rados;
    "tools-rbd", "`rbd` works on images of our embedded cluster", embedded::tools::rbd;
    "tools-v1", "Ceph's programs use our embedded cluster in version 1 of the messenger's protocol", embedded::tools::v1;
    "tools-cephx-v1", "Ceph's programs use our embedded cluster with keys in version 1 of the messenger's protocol", ceph::cephx::server_v1;
    "verified-load", "verified reads and writes on a real cluster", ceph::load::verified;
    "tools-fio", "fio verifies our embedded cluster through librbd and librados", embedded::tools::fio;
    "capi", "fio, QEMU and Python's bindings use our embedded cluster through our librados and librbd", capi::on_ours;
    "tools-cephx-users", "the same users of our embedded cluster, and `ceph auth`", ceph::users::on_ours;
    "osds-tools", "`ceph` sees and changes the OSDs of our embedded cluster", embedded::osds::tools;
    "nbd-clients", "libnbd's programs, QEMU's and fio of that release use what we export by NBD", export::nbd::clients;
    // What 20.2 lists of snapshots in groups and in the trash is other than what 16.2, 18.2 and we list.
    before_tentacle:
    "rbd-admin", "`rbd` and ours look after images of a real cluster: each sees what the other made, both end in the same way", ceph::upkeep::run;
    reef_first:
    "tools-qemu-img", "QEMU's driver makes, writes and reads images of our embedded cluster", embedded::qemu_img::modes;
    "tools-blocklist", "clients that are shut out of our embedded cluster fail and are told so", embedded::blocklist::shut_out;
    "snapshots", "`rados` makes, reads and removes snapshots of a pool while OSDs and our cluster with --data go and come back", embedded::snapshots::of_pools;
    "commands", "every command that Ceph's monitors know is answered by our embedded cluster", embedded::commands::all;
    "shared-images", "we and librbd write an image with all features by turns and at once", ceph::shared_images::shared;
    "shared-clones", "we and librbd write a clone of a clone by turns and at once", ceph::shared_images::clones;
    "rbd-tools", "`rbd` says and does on our embedded cluster what it does on a real one, and it and ours have each other's images of format 1", embedded::rbd::commands::as_on_ceph;
    "verified-load-v1", "verified reads and writes on a real cluster, and images, in version 1 of the messenger's protocol", ceph::load::verified_v1;
    "socket-failures", "connections that break every few messages lose nothing, ours or Ceph's", ceph::load::socket_failures;
    "osd-restart", "a real OSD stops and starts under a verified load", ceph::load::osd_restart;
    "tools-rados-bench", "`rados bench` writes and reads our embedded cluster", embedded::tools::rados_bench;
    "capi-real", "fio, QEMU and Python's bindings use a real cluster through our librados and librbd", capi::on_real_ceph;
    "tools-compression", "Ceph's programs compress what they send to our embedded cluster, if they can", ceph::compression::on_ours;
    "tools-dns", "Ceph's programs and ours find our embedded cluster by SRV records alone", embedded::dns::monitors;
    "cephx-users", "users of a real cluster do what their capabilities say, and not more", ceph::users::on_real_ceph;
    "memory-limit", "writes wait for a full embedded cluster, and for a pool at its quota", embedded::memory::limit;
    "bad-input", "broken bytes and wrong arguments harm nobody", attacks::bad_input::run;
    "osds", "OSDs of our embedded cluster stop and start under our and fio's verified load", embedded::osds::come_and_go;
    "nbd-tls", "libnbd's programs and QEMU's use what we export by TLS, and our client nbdkit, with certificates of all kinds", export::tls::clients;
    "commands-beside", "our `rados` and `status` commands print the bytes of Ceph's own, on a real cluster and on ours", ceph::beside::commands;
    "restart", "librbd goes on when our cluster with --data was stopped, or killed, and started again", embedded::restart::under_load;
    reef:
    "test-rbd", "upstream's tests of librbd's bindings for Python pass on our embedded cluster", embedded::bindings::rbd::run;
    "capi-test-rados", "upstream's tests of librados's bindings for Python pass on our library and our embedded cluster", capi::bindings::rados;
    "capi-test-rbd", "upstream's tests of librbd's bindings for Python run on our library and our embedded cluster", capi::bindings::rbd;
    long_reef:
    "capi-daemons", "tgt, libvirt, rbd-fuse and helpers of Ganesha and ctdb do on our librados and librbd what they do on Ceph's", capi::daemons::on_ours;
    "capi-daemons-real", "the same on a real cluster", capi::daemons::on_real_ceph;
    "capi-soak", "fio with 8 jobs verifies images through our librbd while OSDs of our embedded cluster stop and start, and its memory stays flat", capi::soak::run;
    since_reef:
    "test-rados", "upstream's tests of librados's bindings for Python pass on our embedded cluster", embedded::bindings::rados::run;
    "rbd-streams", "diffs of images and images with snapshots are the same streams on both sides, byte for byte, and each imports the other's", ceph::streams::streams;
    "vhost-user-blkio", "QEMU's programs use disks that we export by vhost-user, by libblkio", export::blkio::programs;
    "compression", "frames to and from a real OSD are compressed, by every method", ceph::compression::on_real_ceph;
    "compression-secure", "the same encrypted, where both sides agree to that", ceph::compression::on_real_ceph_secure;
    long_since_reef:
    "migration-import", "images are filled from snapshots of others, each step by `rbd` or by us, while both use them", ceph::migration::imports::run;
    "luks", "encrypted images open with us, librbd, cryptsetup and QEMU, formatted by each of them; clones with keys of their own, too", luks::layered;
    long_of_tentacle:
    "prometheus", "Prometheus reads what our commands tell of themselves, and promtool finds no fault with it", embedded::metrics::prometheus;
    tentacle:
    "cephx-keys", "users of a real cluster with keys of both types work in every mode", ceph::cephx::both_types_of_keys;
    "crush-changes", "maps that change CRUSH under a verified load are as the monitors have them", ceph::load::crush_changes;
};
