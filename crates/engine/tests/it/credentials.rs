//! Threads that act as other users.

use onego_engine::credentials::{Credentials, assume, can_switch, may_access};
use onego_testkit::{Need, NeedyTest, needy_tests};
use rustix::fs::{Access, Gid, Mode};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;

pub(crate) const TESTS: &[NeedyTest] = &needy_tests![&[]; an_unprivileged_thread_cannot_act_as_a_user];
pub(crate) const ROOT: &[NeedyTest] = &needy_tests![&[Need::Root]; a_thread_acts_with_exactly_a_users_rights];

fn in_folder(name: &str, test: impl FnOnce(PathBuf) + Send + 'static) {
    let folder = std::env::temp_dir().join(format!("onego-acting-{name}-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let inside = folder.clone();
    let outcome = std::thread::spawn(move || test(inside)).join();
    fs::remove_dir_all(folder).unwrap();
    outcome.unwrap();
}

fn user(uid: u32, groups: &[u32], overrides: bool) -> Credentials<'_> {
    Credentials::User { uid, gid: uid, groups, overrides }
}

fn a_thread_acts_with_exactly_a_users_rights() {
    in_folder("user", |folder| {
        let secret = folder.join("secret");
        fs::OpenOptions::new().create(true).write(true).truncate(true).mode(0o640).open(&secret).unwrap();
        let place = rustix::fs::open(&secret, rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
        let may = |access| may_access(place.as_fd(), access).is_ok();
        let own_gid = fs::metadata(&secret).unwrap().gid();
        assume(user(1234, &[77], false)).unwrap();
        assert_eq!(File::open(&secret).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(!may(Access::READ_OK));
        let made =
            File::options().create_new(true).write(true).mode(0o6666).open(folder.join("made")).unwrap();
        let made = made.metadata().unwrap();
        // The process's mask has no effect.
        assert_eq!((made.uid(), made.gid(), made.mode() & 0o7777), (1234, 1234, 0o6666));
        assert!(rustix::fs::chown(folder.join("made"), None, Some(Gid::from_raw(77))).is_ok());
        assert!(rustix::fs::chown(folder.join("made"), None, Some(Gid::from_raw(78))).is_err());
        assume(user(1236, &[77], false)).unwrap();
        assert!(!may(Access::READ_OK));
        // The group may read it.
        assume(user(1234, &[own_gid], false)).unwrap();
        assert!(may(Access::READ_OK) && !may(Access::WRITE_OK));
        // Even with overrides, new files belong to the user.
        assume(user(1235, &[], true)).unwrap();
        assert!(may(Access::READ_OK | Access::WRITE_OK));
        let made = File::options().create_new(true).write(true).open(folder.join("more")).unwrap();
        assert_eq!(made.metadata().unwrap().uid(), 1235);
        assume(user(1235, &[], false)).unwrap();
        assert!(!may(Access::READ_OK));
        assume(Credentials::Process).unwrap();
        assert!(may(Access::READ_OK | Access::WRITE_OK));
    });
}

fn an_unprivileged_thread_cannot_act_as_a_user() {
    let unprivileged = || {
        let mut sets = capabilities(None).unwrap();
        let switch = CapabilitySet::SETUID | CapabilitySet::SETGID;
        sets.effective -= switch;
        sets.permitted -= switch;
        set_capabilities(None, sets).unwrap();
        assert!(!can_switch());
        assert!(assume(user(1234, &[], false)).is_err());
    };
    std::thread::spawn(unprivileged).join().unwrap();
}
