//! Destination of a request's outcome.

use crate::error::Error;
use crate::outcome::Outcome;
use onego_wire::Time;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

/// A completed request.
#[derive(Debug)]
pub struct Completion {
    /// The caller's name for the request.
    pub tag: u64,
    /// The outcome.
    pub result: Result<Outcome, Error>,
}

/// A caller's queue of completed requests, in the order of completion. It holds at most as many as its caller has
/// submitted.
#[derive(Debug, Clone, Default)]
pub struct Completions {
    queue: Rc<RefCell<VecDeque<Completion>>>,
}

impl Completions {
    /// Returns the caller of a request with that tag, whose completion goes to this queue.
    pub fn caller(&self, tag: u64) -> Caller {
        Caller { to: Some(Destination::Queue(self.clone(), tag)) }
    }

    /// Takes the oldest completed request.
    pub fn take(&self) -> Option<Completion> {
        self.queue.borrow_mut().pop_front()
    }

    /// Returns whether there is no completed request.
    pub fn is_empty(&self) -> bool {
        self.queue.borrow().is_empty()
    }

    fn push(&self, tag: u64, result: Result<Outcome, Error>) {
        self.queue.borrow_mut().push_back(Completion { tag, result });
    }
}

/// Parts of a merged request: length in bytes, and caller.
pub(crate) type Parts = SmallVec<[(u64, Caller); 1]>;

/// Destination of one request's outcome. Dropped without an outcome, it delivers [`Error::Dropped`].
pub struct Caller {
    /// `None` once the outcome is delivered.
    to: Option<Destination>,
}

enum Destination {
    Queue(Completions, u64),
    /// The callers of merged requests, in the order of the device's bytes.
    Parts(Box<Parts>),
    Call(Box<dyn FnOnce(Time, Result<Outcome, Error>)>),
}

impl Caller {
    /// Creates a caller that is a function: a device that wraps another sees the outcome before its own caller does.
    pub fn call(function: impl FnOnce(Time, Result<Outcome, Error>) + 'static) -> Self {
        Self { to: Some(Destination::Call(Box::new(function))) }
    }

    pub(crate) fn joined(mut parts: Parts) -> Self {
        match parts.len() {
            1 => parts.remove(0).1,
            _ => Self { to: Some(Destination::Parts(Box::new(parts))) },
        }
    }

    /// Delivers the outcome of the request.
    pub fn complete(mut self, now: Time, result: Result<Outcome, Error>) {
        if let Some(to) = self.to.take() {
            to.deliver(now, result);
        }
    }
}

impl Destination {
    fn deliver(self, now: Time, result: Result<Outcome, Error>) {
        match self {
            Self::Queue(queue, tag) => queue.push(tag, result),
            Self::Parts(parts) => split(now, *parts, result),
            Self::Call(function) => function(now, result),
        }
    }
}

/// Splits the outcome of a merged request among its parts.
fn split(now: Time, parts: Parts, result: Result<Outcome, Error>) {
    let mut result = result;
    for (length, caller) in parts {
        let part = match &mut result {
            Ok(Outcome::Done) => Ok(Outcome::Done),
            Ok(Outcome::Data(list)) if list.len() as u64 >= length => {
                Ok(Outcome::Data(list.split_to(length as usize)))
            }
            Ok(Outcome::Filled(buffer)) if buffer.len() as u64 >= length => {
                Ok(Outcome::Filled(buffer.split_to(length as usize)))
            }
            Ok(_) => Err(Error::Failed("the device returned less data than requested".into())),
            Err(error) => Err(error.clone()),
        };
        caller.complete(now, part);
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            // The time is unknown here, and not needed for an error.
            to.deliver(Time::default(), Err(Error::Dropped));
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.to {
            Some(Destination::Queue(_, tag)) => write!(f, "Caller({tag})"),
            Some(Destination::Parts(parts)) => f.debug_list().entries(parts.iter()).finish(),
            Some(Destination::Call(_)) => f.write_str("Caller(function)"),
            None => f.write_str("Caller(completed)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_dropped_completes_with_an_error() {
        let completions = Completions::default();
        drop(completions.caller(7));
        let completion = completions.take().unwrap();
        assert_eq!((completion.tag, completion.result.unwrap_err()), (7, Error::Dropped));
        assert!(completions.is_empty());
    }

    #[test]
    fn a_request_completes_once() {
        let completions = Completions::default();
        completions.caller(1).complete(Time::default(), Ok(Outcome::Done));
        assert!(completions.take().unwrap().result.is_ok());
        assert!(completions.take().is_none());
    }

    #[test]
    fn each_part_of_a_merged_request_gets_its_bytes() {
        let completions = Completions::default();
        let parts = [(2, 1), (3, 2)].map(|(length, tag)| (length, completions.caller(tag)));
        let data = Outcome::Data(b"abcde".into());
        Caller::joined(parts.into_iter().collect()).complete(Time::default(), Ok(data));
        let next = || match completions.take().unwrap() {
            Completion { tag, result: Ok(Outcome::Data(list)) } => (tag, list.to_vec()),
            other => panic!("{other:?}"),
        };
        assert_eq!(next(), (1, b"ab".to_vec()));
        assert_eq!(next(), (2, b"cde".to_vec()));
    }
}
