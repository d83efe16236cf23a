//! How tests run by seed, the same way in every crate.
//!
//! | variable | means |
//! |---|---|
//! | `ONEGO_SEED=17` | run this seed alone |
//! | `ONEGO_SEEDS=5000` | run the seeds below this one |
//! | `ONEGO_TEST_LONG=1` | run the long form: more seeds, larger worlds |

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Do tests run their long form?
pub fn is_long() -> bool {
    std::env::var_os("ONEGO_TEST_LONG").is_some()
}

/// Seeds of a test in its short form and in its long one.
#[derive(Debug, Clone, Copy)]
pub struct Seeds {
    /// Seeds in the short form.
    pub short: u64,
    /// Seeds in the long form.
    pub long: u64,
}

impl Seeds {
    /// Runs `one` for each seed, from 0 on, and returns what each run has seen.
    ///
    /// `None` if the environment asks for fewer seeds than the short form has: their coverage says nothing.
    ///
    /// # Panics
    ///
    /// With the panic of the first seed that fails. Before it, the command that repeats that seed is printed; `test` are
    /// the arguments of `cargo test` in it, like `-p onego-rdma --test it simulation::`.
    pub fn each<T>(self, test: &str, mut one: impl FnMut(u64) -> T) -> Option<Vec<T>> {
        if let Some(seed) = number("ONEGO_SEED") {
            one(seed);
            return None;
        }
        let usual = if is_long() { self.long } else { self.short };
        let count = number("ONEGO_SEEDS").unwrap_or(usual);
        let seen = (0..count).map(|seed| {
            catch_unwind(AssertUnwindSafe(|| one(seed))).unwrap_or_else(|panic| {
                eprintln!("seed {seed} fails; \"ONEGO_SEED={seed} cargo test {test}\" repeats it");
                resume_unwind(panic)
            })
        });
        let seen: Vec<T> = seen.collect();
        (count >= self.short).then_some(seen)
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text:?} is no number")))
}
