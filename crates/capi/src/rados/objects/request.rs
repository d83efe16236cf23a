//! Requests to objects, waited for or not.

use crate::border::{Errno, Handle, Text, call};
use crate::rados::ioctx::IoCtx;
use crate::runtime::{AioCompletion, Operation};
use onego_buf::SegmentMut;
use onego_ceph::client::{OpReply, Request};
use onego_ceph::ops::Op;
use std::ffi::c_int;
use std::sync::Arc;

/// How a call takes the result.
#[derive(Clone, Copy)]
pub(super) enum How {
    /// It waits.
    Wait,
    /// The completion has it.
    Later(Handle<AioCompletion>),
}

/// Makes a request. `ask` fills it, and may lend it the program's memory in the operation's name; `take` makes the result of the
/// reply, also of one that says that the request failed.
pub(super) fn submit<T>(
    ioctx: Handle<IoCtx>,
    object: Text,
    how: How,
    ask: impl FnOnce(&mut Request, &Arc<Operation>) -> Result<(), Errno>,
    take: T,
) -> c_int
where
    T: FnOnce(OpReply) -> Result<i64, Errno> + Send + 'static,
{
    call(|| {
        let ioctx = ioctx.share()?;
        let mut request = ioctx.request(object.bytes()?);
        let (client, flights) = (Arc::clone(ioctx.client()), Arc::clone(ioctx.flights()));
        let make = |operation: &Arc<Operation>| {
            ask(&mut request, operation)?;
            let operation = Arc::clone(operation);
            Ok(async move {
                let (reply, buffer) = ioctx.client().cluster().request(request).await;
                drop::<Option<SegmentMut>>(buffer);
                let reply = reply?;
                ioctx.view().version = reply.user_version;
                if let Some(completion) = operation.completion() {
                    completion.set_version(reply.user_version);
                }
                take(reply)
            })
        };
        match how {
            How::Wait => client.run(make).map(|result| result as c_int),
            How::Later(completion) => {
                let flight = flights.begin();
                client.start(completion.share()?, Some(flight), make);
                Ok(0)
            }
        }
    })
}

/// A request that changes an object by one operation.
pub(super) fn change(
    ioctx: Handle<IoCtx>,
    object: Text,
    how: How,
    op: impl FnOnce(&Arc<Operation>) -> Result<Op, Errno>,
) -> c_int {
    let ask = |request: &mut Request, operation: &Arc<Operation>| {
        request.ops.push((op(operation)?, 0));
        Ok(())
    };
    submit(ioctx, object, how, ask, |reply| Errno::check(reply.result).map(i64::from))
}
