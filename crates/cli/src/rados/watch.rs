//! Watchers of objects, and what they are told.

use super::arguments::ObjectArg;
use super::hexdump::hexdump;
use crate::ceph::errno::{because, because_twice};
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use onego::rados::{Notified, Pool, WatchEvent};
use onego::text;
use std::fmt::Write as _;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

#[derive(clap::Args)]
pub(super) struct NotifyOptions {
    /// The object
    object: String,
    /// What the watchers get, as Ceph encodes a string
    #[arg(allow_hyphen_values = true)]
    message: String,
}

/// How long watchers may take to answer, as `rados` has it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Shows notifications, and answers each with what it says, until a line is read or a signal comes.
pub(super) async fn watch(pool: &Pool, ObjectArg { object }: &ObjectArg) -> Result<(), Failure> {
    // The watch ends in order by a signal, too: the notifiers of others need not wait for it.
    let _unfinished = interrupt::Unfinished::winding_down(|| None);
    let mut watch = pool.watch(object).await.map_err(because_twice("error calling watch"))?;
    output::lines(["press enter to exit..."])?;
    let is_over = line_read();
    loop {
        let event = {
            let mut next = pin!(watch.next());
            interrupt::unless(poll_fn(|context| match is_over(context.waker()) {
                true => Poll::Ready(None),
                false => next.as_mut().poll(context),
            }))
            .await?
        };
        match event {
            Some(WatchEvent::Notify(notification)) => {
                let payload = notification.payload().to_vec();
                let (cookie, id) = (notification.cookie(), notification.id());
                let head = format!("NOTIFY cookie {cookie} notify_id {id} from {}", notification.notifier());
                output::lines([format!("{head}\n{}", hexdump(&payload).trim_end_matches('\n'))])?;
                notification.acknowledge(payload);
            }
            Some(WatchEvent::Lost) => {
                output::lines([format!(
                    "ERROR cookie {} err {}",
                    watch.cookie(),
                    crate::ceph::errno::sentence(107)
                )])?;
            }
            None => return Ok(()),
        }
    }
}

/// Says whether a line of standard input, or its end, was read; the waker that asked last is woken then.
fn line_read() -> impl Fn(&Waker) -> bool {
    let state = Arc::new((AtomicBool::new(false), std::sync::Mutex::new(None::<Waker>)));
    let reader = Arc::clone(&state);
    // It waits in the kernel, and ends with the program.
    thread::spawn(move || {
        let _ = io::stdin().read_line(&mut String::new());
        reader.0.store(true, Ordering::SeqCst);
        let waker = reader.1.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        waker.into_iter().for_each(Waker::wake);
    });
    move |waker| {
        *state.1.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(waker.clone());
        state.0.load(Ordering::SeqCst)
    }
}

pub(super) async fn notify(pool: &Pool, options: &NotifyOptions) -> Result<(), Failure> {
    let NotifyOptions { object, message } = options;
    // A string on the wire: its length, and its bytes.
    let mut payload = (message.len() as u32).to_le_bytes().to_vec();
    payload.extend_from_slice(&text::to_bytes(message));
    let Notified { acknowledgements, missed, .. } =
        pool.notify(object, payload, PATIENCE).await.map_err(because_twice("error calling notify"))?;
    let mut text = String::new();
    for answer in &acknowledgements {
        let (client, cookie, reply) = (answer.client, answer.cookie, &answer.reply);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "reply client.{client} cookie {cookie} : {} bytes", reply.len());
        text.push_str(&hexdump(reply));
    }
    for watcher in &missed {
        let _ = writeln!(text, "timeout client.{} cookie {}", watcher.client, watcher.cookie);
    }
    output::bytes(text.as_bytes())?;
    match missed.is_empty() {
        true => Ok(()),
        false => Err(because_twice("error calling notify")(onego::ceph::Error::Refused {
            what: "the watchers".into(),
            errno: onego::ceph::Errno::TIMEDOUT,
        })),
    }
}

pub(super) async fn list(pool: &Pool, ObjectArg { object }: &ObjectArg) -> Result<(), Failure> {
    let mut op = onego::rados::ReadOp::new();
    let watchers = op.watchers();
    let what = || because(format!("error listing watchers {}/{object}", pool.name()));
    let reply = pool.operate_read(object, op).await.map_err(what())?;
    let watchers = reply.get(&watchers).map_err(what())?;
    output::lines(watchers.iter().map(|watcher| {
        format!("watcher={} {} cookie={}", legacy(&watcher.addr), watcher.name, watcher.cookie)
    }))
}

/// An address as clients were named before there were versions of the protocol: without its kind.
pub(super) fn legacy(addr: &onego::ceph::EntityAddr) -> String {
    let shown = addr.to_string();
    match shown.split_once(':') {
        Some(("v1" | "v2" | "any" | "-", rest)) => rest.to_owned(),
        _ => shown,
    }
}
