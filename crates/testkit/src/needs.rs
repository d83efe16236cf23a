//! Tests that need more than an ordinary user has, for targets with `harness = false`.
//!
//! Such a test is reported as ignored, with what is missing, where its needs are not met. It never passes without
//! running.

use onego_engine::EngineKind;
use rustix::process::{Resource, geteuid, getrlimit};
use std::os::unix::fs::PermissionsExt;

/// A requirement of a test.
#[derive(Debug, Clone, Copy)]
pub enum Need {
    /// A program on `PATH`.
    Program(&'static str),
    /// The user root, with its capabilities for networks and namespaces.
    Root,
    /// A kernel that lets this process have an io_uring.
    Uring,
    /// A hard limit of at least this many open descriptors.
    Descriptors(u64),
}

/// The bits of `CAP_SETGID`, `CAP_SETUID`, `CAP_NET_ADMIN` and `CAP_SYS_ADMIN` in `/proc/self/status`.
const CAPABILITIES: u64 = 1 << 6 | 1 << 7 | 1 << 12 | 1 << 21;

impl Need {
    /// Returns the reason why the need is not met, if so.
    pub fn missing(self) -> Option<String> {
        match self {
            Need::Program(name) => (!is_on_path(name)).then(|| format!("no {name} on PATH")),
            Need::Root => (!is_root()).then(|| "needs root with CAP_NET_ADMIN and CAP_SYS_ADMIN".to_owned()),
            Need::Uring => {
                onego_engine::open(EngineKind::Uring).err().map(|error| format!("no io_uring: {error}"))
            }
            Need::Descriptors(count) => {
                let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
                (limit < count).then(|| format!("needs {count} descriptors, the hard limit is {limit}"))
            }
        }
    }
}

fn is_on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| {
        let metadata = folder.join(name).metadata();
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    })
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    geteuid().is_root() && effective & CAPABILITIES == CAPABILITIES
}

/// A test that may not run everywhere; [`needy_tests!`](crate::needy_tests) makes them.
#[derive(Debug, Clone, Copy)]
pub struct NeedyTest {
    /// Path of the function, with the name of the test target in front.
    pub path: &'static str,
    /// All of its requirements.
    pub needs: &'static [Need],
    /// The test itself, which panics if it fails.
    pub run: fn(),
}

impl NeedyTest {
    /// Returns the name as libtest prints it.
    pub fn name(&self) -> &'static str {
        self.path.split_once("::").map_or(self.path, |(_, name)| name)
    }

    /// Returns the reason why the test cannot run here, if so.
    pub fn missing(&self) -> Option<String> {
        self.needs.iter().find_map(|need| need.missing())
    }
}

/// Runs the tests with libtest's command line, each on a thread of its own. While the kernel takes down an io_uring, it
/// interrupts the waits of the thread that used it, which must not be those of the next test.
#[cfg(feature = "harness")]
pub fn run_needy(tests: &[&'static [NeedyTest]]) -> std::process::ExitCode {
    let on_own_thread = |run: fn()| {
        if let Err(panic) = std::thread::spawn(run).join() {
            std::panic::resume_unwind(panic);
        }
    };
    run_with(libtest_mimic::Arguments::from_args(), tests, on_own_thread)
}

/// Runs the tests with libtest's command line, one after the other on this thread.
#[cfg(feature = "harness")]
pub fn run_needy_in_turn(tests: &[&'static [NeedyTest]]) -> std::process::ExitCode {
    let arguments = libtest_mimic::Arguments::from_args();
    run_with(libtest_mimic::Arguments { test_threads: Some(1), ..arguments }, tests, |run| run())
}

#[cfg(feature = "harness")]
fn run_with(
    arguments: libtest_mimic::Arguments,
    tests: &[&'static [NeedyTest]],
    run: fn(fn()),
) -> std::process::ExitCode {
    use libtest_mimic::{Completion, Trial};
    let trial = |test: &'static NeedyTest| {
        Trial::ignorable_test(test.name(), move || {
            if let Some(reason) = test.missing() {
                return Ok(Completion::ignored_with(reason));
            }
            run(test.run);
            Ok(Completion::Completed)
        })
    };
    let trials = tests.iter().copied().flatten().map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Lists functions as [`NeedyTest`]s with the same needs: `needy_tests![&[Need::Root]; one, other]`.
#[macro_export]
macro_rules! needy_tests {
    ($needs:expr; $($test:ident),+ $(,)?) => {
        [$($crate::NeedyTest {
            path: concat!(module_path!(), "::", stringify!($test)),
            needs: $needs,
            run: $test,
        }),+]
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_that_is_not_met_is_named() {
        assert_eq!(Need::Program("sh").missing(), None);
        assert_eq!(Need::Program("no-such-program").missing().as_deref(), Some("no no-such-program on PATH"));
        assert_eq!(Need::Descriptors(1).missing(), None);
        let [test] = needy_tests![&[Need::Program("sh"), Need::Program("no-such-program")]; is_root_if_asked];
        assert!(test.missing().is_some());
        assert!(test.name().ends_with("is_root_if_asked") && test.name().starts_with("needs::"));
    }

    fn is_root_if_asked() {
        let _ = is_root();
    }
}
