//! The class `hello`, which shows how methods work and which tests and examples of librados call (ceph
//! `src/cls/hello/cls_hello.cc`).

use super::context::Context;
use super::method::Entry;
use crate::osd::errno::{Errno, Outcome};

const CLASS: &str = "hello";

/// Most bytes of a name that is greeted.
const MAX_NAME: usize = 100;

/// Most bytes that are read back of an object.
const MAX_READ: u64 = 1100;

/// What methods return that return a number, and that clients see only if they ask for it.
const NUMBER: i32 = 42;

pub(super) static METHODS: &[Entry] = &[
    method("say_hello", false, say_hello),
    method("record_hello", true, record_hello),
    method("replay", false, replay),
    method("write_return_data", true, write_return_data),
    // The same under the name that it had first.
    method("writes_dont_return_data", true, write_return_data),
    method("write_too_much_return_data", true, write_too_much_return_data),
    method("turn_it_to_11", true, turn_it_to_11),
    // An OSD fails a method that reads and is not marked as one that does, and likewise for writes.
    method("bad_reader", true, |_, _| Err(Errno::IO)),
    method("bad_writer", false, |_, _| Err(Errno::IO)),
];

const fn method(
    name: &'static str,
    writes: bool,
    run: fn(&mut Context<'_>, &[u8]) -> Outcome<Vec<u8>>,
) -> Entry {
    Entry { class: CLASS, name, writes, run }
}

fn greeting(name: &[u8]) -> Outcome<Vec<u8>> {
    if name.len() > MAX_NAME {
        return Err(Errno::INVAL);
    }
    let name = if name.is_empty() { b"world" } else { name };
    Ok([b"Hello, ", name, b"!"].concat())
}

/// Notes the caller in an attribute.
fn note_caller(context: &mut Context<'_>, attribute: &str) {
    let caller = format!("{} {}", context.origin.name, context.origin.addr);
    context.state.set_xattr(attribute.into(), caller.into_bytes());
}

fn say_hello(_: &mut Context<'_>, name: &[u8]) -> Outcome<Vec<u8>> {
    greeting(name)
}

fn record_hello(context: &mut Context<'_>, name: &[u8]) -> Outcome<Vec<u8>> {
    let greeting = greeting(name)?;
    if context.state.exists {
        return Err(Errno::EXIST);
    }
    context.write_all(greeting);
    note_caller(context, "said_by");
    Ok(Vec::new())
}

fn replay(context: &mut Context<'_>, _: &[u8]) -> Outcome<Vec<u8>> {
    Ok(context.state.read(0, MAX_READ, context.zeros).to_vec())
}

/// Sets the attribute that the methods set which return something.
fn set_attribute(context: &mut Context<'_>) {
    context.changes();
    context.state.set_xattr("foo".into(), b"bar".to_vec());
    context.number = NUMBER;
}

fn write_return_data(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    if !input.is_empty() {
        context.error_output = b"too much input data!".to_vec();
        return Err(Errno::INVAL);
    }
    set_attribute(context);
    Ok(b"you might see this".to_vec())
}

fn write_too_much_return_data(context: &mut Context<'_>, _: &[u8]) -> Outcome<Vec<u8>> {
    set_attribute(context);
    Ok(b"you should not see this because it is toooooo long. ".repeat(10))
}

fn turn_it_to_11(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    if !input.is_empty() {
        return Err(Errno::INVAL);
    }
    context.must_exist()?;
    let loud = context.state.read(0, MAX_READ, context.zeros).to_vec().to_ascii_uppercase();
    context.write_all(loud);
    note_caller(context, "amplified_by");
    Ok(Vec::new())
}
