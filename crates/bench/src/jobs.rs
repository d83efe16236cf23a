//! Several clients that run the measured part of their work together.

use crate::cpu::Meter;
use crate::row::Ends;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Runs `jobs` clients, the first on this thread and each other on its own. All are prepared, then all work at the same
/// time, then each finishes. Returns their results, and the CPU time of the middle part.
///
/// A client's state never leaves its thread. The first error ends all clients once none waits for another.
pub(crate) fn run<Client, Done: Send, Error: Send>(
    jobs: u32,
    server: Option<u32>,
    prepare: impl Fn(u32) -> Result<Client, Error> + Sync,
    work: impl Fn(&mut Client) -> Result<(), Error> + Sync,
    finish: impl Fn(Client) -> Result<Done, Error> + Sync,
) -> Result<(Vec<Done>, Ends), Error> {
    let gate = Barrier::new(jobs as usize);
    let failed = AtomicBool::new(false);
    let job = |number: u32| -> Result<(Option<Done>, Ends), Error> {
        let prepared = prepare(number);
        failed.fetch_or(prepared.is_err(), Ordering::Relaxed);
        gate.wait();
        let mut client = prepared?;
        if failed.load(Ordering::Relaxed) {
            return Ok((None, Ends::default()));
        }
        let meter = Meter::start(server);
        let worked = work(&mut client);
        gate.wait();
        let spent = meter.spent();
        worked?;
        Ok((Some(finish(client)?), spent))
    };
    thread::scope(|scope| {
        let job = &job;
        let others: Vec<_> = (1..jobs).map(|number| scope.spawn(move || job(number))).collect();
        let first = job(0);
        let others = others.into_iter().map(|other| match other.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let (done, spent): (Vec<_>, Vec<_>) =
            std::iter::once(first).chain(others).collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        Ok((done.into_iter().flatten().collect(), spent[0]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn all_are_prepared_before_any_works_and_all_work_before_any_finishes() {
        let (prepared, worked) = (AtomicU32::new(0), AtomicU32::new(0));
        let (done, spent) = run::<_, _, ()>(
            4,
            None,
            |number| {
                prepared.fetch_add(1, Ordering::SeqCst);
                Ok(number)
            },
            |_| {
                assert_eq!(prepared.load(Ordering::SeqCst), 4);
                worked.fetch_add(1, Ordering::SeqCst);
                Ok(())
            },
            |number| {
                assert_eq!(worked.load(Ordering::SeqCst), 4);
                Ok(number)
            },
        )
        .unwrap();
        assert_eq!(done, [0, 1, 2, 3]);
        assert!(spent.client.is_some() && spent.server.is_none());
    }

    #[test]
    fn one_that_fails_ends_the_others() {
        let prepare = |number| if number == 2 { Err("no") } else { Ok(()) };
        let work = |_: &mut ()| panic!("no client must work");
        assert_eq!(run(4, None, prepare, work, Ok).unwrap_err(), "no");

        let failed = run(3, None, Ok, |number| if *number == 1 { Err("late") } else { Ok(()) }, Ok);
        assert_eq!(failed.unwrap_err(), "late");
    }
}
