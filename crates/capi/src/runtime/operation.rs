//! A request of a program that is in flight.

use super::client::SharedClient;
use super::completion::AioCompletion;
use super::flights::Flight;
use super::task;
use crate::border::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A request in flight. It completes when its last reference is gone.
pub(crate) struct Operation {
    client: Arc<SharedClient>,
    completion: Option<Arc<AioCompletion>>,
    result: AtomicI64,
    /// Dropped after the completion has its result.
    _flight: Option<Flight>,
}

impl Operation {
    /// Begins a request; waits while there are too many in flight.
    pub(crate) fn begin(
        client: &Arc<SharedClient>,
        completion: Arc<AioCompletion>,
        flight: Option<Flight>,
    ) -> Arc<Self> {
        client.admit();
        Arc::new(Self {
            client: Arc::clone(client),
            completion: Some(completion),
            result: AtomicI64::new(PENDING),
            _flight: flight,
        })
    }

    /// Has a future carry it out, whose output is its result.
    pub(crate) fn carry_out<F>(self: &Arc<Self>, future: F)
    where
        F: Future<Output = Result<i64, Errno>> + Send + 'static,
    {
        let operation = Arc::clone(self);
        let task = task::begin(async move { operation.end(future.await) });
        if let Some(completion) = &self.completion {
            completion.can_be_ended_by(&task);
        }
    }

    /// Notes how it has ended.
    pub(crate) fn end(&self, result: Result<i64, Errno>) {
        let result = result.unwrap_or_else(|errno| errno.negative().into());
        self.result.store(result, Ordering::Relaxed);
    }

    /// The completion, for what it says besides the result.
    pub(crate) fn completion(&self) -> Option<&Arc<AioCompletion>> {
        self.completion.as_ref()
    }
}

/// No result is known; if none ever is, the future has ended by a panic.
const PENDING: i64 = i64::MIN;

impl Drop for Operation {
    fn drop(&mut self) {
        let result = match *self.result.get_mut() {
            PENDING if self.completion.as_ref().is_some_and(|completion| completion.is_cancelled()) => {
                Errno::CANCELED.negative().into()
            }
            PENDING => Errno::IO.negative().into(),
            result => result,
        };
        self.client.release();
        if let Some(completion) = self.completion.take() {
            completion.complete(result, &self.client.callbacks());
        }
    }
}

impl SharedClient {
    /// Begins an operation; `go` has it carried out.
    pub(crate) fn begin(
        self: &Arc<Self>,
        completion: Arc<AioCompletion>,
        flight: Option<Flight>,
        go: impl FnOnce(&Arc<Operation>) -> Result<(), Errno>,
    ) {
        let operation = Operation::begin(self, completion, flight);
        if let Err(errno) = go(&operation) {
            operation.end(Err(errno));
        }
    }

    /// The same, waiting for the result.
    pub(crate) fn wait_for(
        self: &Arc<Self>,
        go: impl FnOnce(&Arc<Operation>) -> Result<(), Errno>,
    ) -> Result<i64, Errno> {
        let completion = AioCompletion::plain();
        self.begin(Arc::clone(&completion), None, go);
        match completion.wait() {
            result if result < 0 => Err(Errno(-(result as i32))),
            result => Ok(result),
        }
    }

    /// Starts the future that `make` makes of the operation; its result is that of the completion.
    pub(crate) fn start<F>(
        self: &Arc<Self>,
        completion: Arc<AioCompletion>,
        flight: Option<Flight>,
        make: impl FnOnce(&Arc<Operation>) -> Result<F, Errno>,
    ) where
        F: Future<Output = Result<i64, Errno>> + Send + 'static,
    {
        self.begin(completion, flight, |operation| {
            operation.carry_out(make(operation)?);
            Ok(())
        });
    }

    /// The same, waiting for the result.
    pub(crate) fn run<F>(
        self: &Arc<Self>,
        make: impl FnOnce(&Arc<Operation>) -> Result<F, Errno>,
    ) -> Result<i64, Errno>
    where
        F: Future<Output = Result<i64, Errno>> + Send + 'static,
    {
        self.wait_for(|operation| {
            operation.carry_out(make(operation)?);
            Ok(())
        })
    }
}
