//! Watches of objects, and notifications.

use crate::border::{Errno, Handle, In, Opaque, Out, Text, call, copied, copied_array, done, free};
use crate::rados::cluster::Rados;
use crate::rados::ioctx::IoCtx;
use crate::rados::watches::{Fail, Notify, NotifyOld, Told};
use crate::runtime::{AioCompletion, block_on};
use onego::rados::Notified;
use onego_buf::Segment;
use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::time::Duration;

/// How long the watchers have to acknowledge a notification where the program does not say (`client_notify_timeout`).
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(10);

/// Watches an object, and tells its cookie.
async fn watch(
    ioctx: Arc<IoCtx>,
    object: String,
    told: Told,
    argument: Opaque,
    cookie: Out<u64>,
) -> Result<i64, Errno> {
    let client = ioctx.client();
    let watch = ioctx.pool_now(client.cluster()).await?.watch(&object).await?;
    ioctx.rados().watches().add(watch, told, argument, client.callbacks(), |id| cookie.set(id))?;
    Ok(0)
}

fn watch_waiting(
    ioctx: Handle<IoCtx>,
    object: Text,
    cookie: Out<u64>,
    told: Told,
    argument: Opaque,
) -> c_int {
    done(|| {
        let object = object.text()?.into_owned();
        block_on(watch(ioctx.share()?, object, told, argument, cookie)).map(drop)
    })
}

/// Two functions of which the first must be there.
fn callbacks(notify: Option<Notify>, fail: Fail) -> Result<Told, Errno> {
    Ok(Told::Callbacks(notify.ok_or(Errno::INVAL)?, fail))
}

#[unsafe(no_mangle)]
extern "C" fn rados_watch(
    ioctx: Handle<IoCtx>,
    object: Text,
    _version: u64,
    cookie: Out<u64>,
    notify: Option<NotifyOld>,
    argument: Opaque,
) -> c_int {
    match notify {
        Some(notify) => watch_waiting(ioctx, object, cookie, Told::Old(notify), argument),
        None => Errno::INVAL.negative(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn rados_watch2(
    ioctx: Handle<IoCtx>,
    object: Text,
    cookie: Out<u64>,
    notify: Option<Notify>,
    fail: Fail,
    argument: Opaque,
) -> c_int {
    rados_watch3(ioctx, object, cookie, notify, fail, 0, argument)
}

/// Watches time out as the cluster has it.
#[unsafe(no_mangle)]
extern "C" fn rados_watch3(
    ioctx: Handle<IoCtx>,
    object: Text,
    cookie: Out<u64>,
    notify: Option<Notify>,
    fail: Fail,
    _timeout: u32,
    argument: Opaque,
) -> c_int {
    match callbacks(notify, fail) {
        Ok(told) => watch_waiting(ioctx, object, cookie, told, argument),
        Err(errno) => errno.negative(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_watch(
    ioctx: Handle<IoCtx>,
    object: Text,
    completion: Handle<AioCompletion>,
    cookie: Out<u64>,
    notify: Option<Notify>,
    fail: Fail,
    argument: Opaque,
) -> c_int {
    rados_aio_watch2(ioctx, object, completion, cookie, notify, fail, 0, argument)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_watch2(
    ioctx: Handle<IoCtx>,
    object: Text,
    completion: Handle<AioCompletion>,
    cookie: Out<u64>,
    notify: Option<Notify>,
    fail: Fail,
    _timeout: u32,
    argument: Opaque,
) -> c_int {
    done(|| {
        let (ioctx, told) = (ioctx.share()?, callbacks(notify, fail)?);
        let object = object.text()?.into_owned();
        let client = Arc::clone(ioctx.client());
        client.start(completion.share()?, None, |_| Ok(watch(ioctx, object, told, argument, cookie)));
        Ok(())
    })
}

/// Gives a watch up.
async fn unwatch(ioctx: Arc<IoCtx>, cookie: u64) -> Result<i64, Errno> {
    let watch = ioctx.rados().watches().take(cookie)?;
    if let Some(watch) = watch {
        watch.close().await?;
    }
    Ok(0)
}

#[unsafe(no_mangle)]
extern "C" fn rados_unwatch2(ioctx: Handle<IoCtx>, cookie: u64) -> c_int {
    done(|| block_on(unwatch(ioctx.share()?, cookie)).map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn rados_unwatch(ioctx: Handle<IoCtx>, _object: Text, cookie: u64) -> c_int {
    rados_unwatch2(ioctx, cookie)
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_unwatch(
    ioctx: Handle<IoCtx>,
    cookie: u64,
    completion: Handle<AioCompletion>,
) -> c_int {
    done(|| {
        let ioctx = ioctx.share()?;
        let client = Arc::clone(ioctx.client());
        client.start(completion.share()?, None, |_| Ok(unwatch(ioctx, cookie)));
        Ok(())
    })
}

/// How long ago, in milliseconds, the watch was known to hold. The client pings the OSD by itself, so it holds until it is
/// lost.
#[unsafe(no_mangle)]
extern "C" fn rados_watch_check(ioctx: Handle<IoCtx>, cookie: u64) -> c_int {
    call(|| ioctx.get()?.rados().watches().check(cookie))
}

/// Waits until all callbacks that were due have returned.
#[unsafe(no_mangle)]
extern "C" fn rados_watch_flush(cluster: Handle<Rados>) -> c_int {
    done(|| {
        let client = cluster.get()?.client()?;
        let (told, hear) = std::sync::mpsc::channel();
        client.callbacks().call(move || {
            let _ = told.send(());
        });
        hear.recv().map_err(|_| Errno::IO)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_watch_flush(cluster: Handle<Rados>, completion: Handle<AioCompletion>) -> c_int {
    done(|| {
        let (client, completion) = (cluster.get()?.client()?, completion.share()?);
        let of = Arc::clone(&client);
        client.callbacks().call(move || completion.complete(0, &of.callbacks()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_notify_ack(
    ioctx: Handle<IoCtx>,
    _object: Text,
    notification: u64,
    cookie: u64,
    reply: In<u8>,
    len: c_int,
) -> c_int {
    done(|| {
        let reply = payload(reply, len)?;
        ioctx.get()?.rados().watches().acknowledge(cookie, notification, reply.into())
    })
}

/// Where the answers to a notification go.
#[derive(Clone, Copy)]
struct Answers {
    buf: Out<*mut c_char>,
    len: Out<usize>,
}

/// Notifies the watchers. ETIMEDOUT if some have not acknowledged it; the answers are given in any case.
async fn notify(
    ioctx: Arc<IoCtx>,
    object: String,
    payload: Segment,
    timeout_ms: u64,
    answers: Answers,
) -> Result<i64, Errno> {
    let pool = ioctx.pool_now(ioctx.client().cluster()).await?;
    let timeout = if timeout_ms == 0 { NOTIFY_TIMEOUT } else { Duration::from_millis(timeout_ms) };
    let notified = pool.notify(&object, payload, timeout).await?;
    let encoded = encode(&notified);
    if !answers.buf.is_null() {
        answers.buf.set(copied(&encoded)?)?;
    }
    answers.len.set_if_wanted(encoded.len());
    if notified.missed.is_empty() { Ok(0) } else { Err(Errno::TIMEDOUT) }
}

/// As an OSD sends them (`Notify::maybe_complete_notify`): the answers, and the watchers that have not answered.
fn encode(notified: &Notified) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((notified.acknowledgements.len() as u32).to_le_bytes());
    for answer in &notified.acknowledgements {
        bytes.extend(answer.client.to_le_bytes());
        bytes.extend(answer.cookie.to_le_bytes());
        bytes.extend((answer.reply.len() as u32).to_le_bytes());
        bytes.extend(&answer.reply);
    }
    bytes.extend((notified.missed.len() as u32).to_le_bytes());
    for missed in &notified.missed {
        bytes.extend(missed.client.to_le_bytes());
        bytes.extend(missed.cookie.to_le_bytes());
    }
    bytes
}

/// What a notification or an answer says. Where there are no bytes, Python's bindings give any length.
fn payload(buf: In<u8>, len: c_int) -> Result<Segment, Errno> {
    let len = if buf.is_null() { 0 } else { usize::try_from(len).unwrap_or(0) };
    Ok(Segment::copy_from(buf.slice(len)?))
}

#[unsafe(no_mangle)]
extern "C" fn rados_notify(
    ioctx: Handle<IoCtx>,
    object: Text,
    _version: u64,
    buf: In<u8>,
    len: c_int,
) -> c_int {
    rados_notify2(ioctx, object, buf, len, 0, Out::NULL, Out::NULL)
}

#[unsafe(no_mangle)]
extern "C" fn rados_notify2(
    ioctx: Handle<IoCtx>,
    object: Text,
    buf: In<u8>,
    len: c_int,
    timeout_ms: u64,
    answers: Out<*mut c_char>,
    answers_len: Out<usize>,
) -> c_int {
    done(|| {
        let (object, payload) = (object.text()?.into_owned(), payload(buf, len)?);
        let answers = Answers { buf: answers, len: answers_len };
        block_on(notify(ioctx.share()?, object, payload, timeout_ms, answers)).map(drop)
    })
}

#[unsafe(no_mangle)]
extern "C" fn rados_aio_notify(
    ioctx: Handle<IoCtx>,
    object: Text,
    completion: Handle<AioCompletion>,
    buf: In<u8>,
    len: c_int,
    timeout_ms: u64,
    answers: Out<*mut c_char>,
    answers_len: Out<usize>,
) -> c_int {
    done(|| {
        let (ioctx, object, payload) = (ioctx.share()?, object.text()?.into_owned(), payload(buf, len)?);
        let answers = Answers { buf: answers, len: answers_len };
        let client = Arc::clone(ioctx.client());
        client.start(completion.share()?, None, |_| Ok(notify(ioctx, object, payload, timeout_ms, answers)));
        Ok(())
    })
}

/// An answer, decoded (`struct notify_ack_t`).
#[repr(C)]
#[derive(Clone, Copy)]
struct Ack {
    notifier: u64,
    cookie: u64,
    payload: *mut c_char,
    payload_len: u64,
}

/// A watcher that has not answered (`struct notify_timeout_t`).
#[repr(C)]
#[derive(Clone, Copy)]
struct Missed {
    notifier: u64,
    cookie: u64,
}

#[unsafe(no_mangle)]
extern "C" fn rados_decode_notify_response(
    buf: In<u8>,
    len: usize,
    acks: Out<*mut Ack>,
    ack_count: Out<usize>,
    missed: Out<*mut Missed>,
    missed_count: Out<usize>,
) -> c_int {
    done(|| {
        if len == 0 {
            return Err(Errno::INVAL);
        }
        let decoded = Decoded::read(buf.slice(len)?).map_err(|_| Errno::INVAL)?;
        let ack = |(notifier, cookie, reply): &(u64, u64, Vec<u8>)| {
            let payload = if reply.is_empty() { std::ptr::null_mut() } else { copied(reply)? };
            Ok(Ack { notifier: *notifier, cookie: *cookie, payload, payload_len: reply.len() as u64 })
        };
        let all = decoded.acks.iter().map(ack).collect::<Result<Vec<_>, Errno>>()?;
        let late: Vec<_> = decoded
            .missed
            .iter()
            .map(|(notifier, cookie)| Missed { notifier: *notifier, cookie: *cookie })
            .collect();
        acks.set(array(&all)?)?;
        ack_count.set(all.len())?;
        missed.set(array(&late)?)?;
        missed_count.set(late.len())
    })
}

/// A program's copy of some values; none of no values.
fn array<T: Copy>(values: &[T]) -> Result<*mut T, Errno> {
    if values.is_empty() { Ok(std::ptr::null_mut()) } else { copied_array(values) }
}

/// What [`encode`] wrote.
struct Decoded {
    acks: Vec<(u64, u64, Vec<u8>)>,
    missed: Vec<(u64, u64)>,
}

impl Decoded {
    fn read(bytes: &[u8]) -> onego_wire::Decoded<Self> {
        let r = &mut onego_wire::Reader::new(bytes);
        let count = r.count(20, "answers")?;
        let acks = (0..count)
            .map(|_| Ok((r.u64("watcher")?, r.u64("cookie")?, r.blob("answer")?.to_vec())))
            .collect::<onego_wire::Decoded<_>>()?;
        let count = r.count(16, "watchers without an answer")?;
        let missed = (0..count)
            .map(|_| Ok((r.u64("watcher")?, r.u64("cookie")?)))
            .collect::<onego_wire::Decoded<_>>()?;
        Ok(Self { acks, missed })
    }
}

#[unsafe(no_mangle)]
extern "C" fn rados_free_notify_response(acks: In<Ack>, count: usize, missed: Opaque) {
    call(|| {
        for ack in acks.slice(count)? {
            free(ack.payload.cast());
        }
        free(acks.ptr());
        free(missed.0);
        Ok(())
    });
}
