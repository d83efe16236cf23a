//! The class `cas`: chunks that several objects refer to. Each reference is kept with the object that has it.
//!
//! Source: ceph `src/cls/cas` (`cls_cas.cc`, `cls_cas_ops.h`, `cls_cas_internal.h`). Ceph counts references less precisely
//! where there are many; here each is kept, in the most precise of its encodings.

use super::context::Context;
use super::method::{Entry, decode, entry};
use crate::osd::errno::{Errno, Outcome};
use onego_ceph::types::HObject;
use onego_msgr::encoding::{Decode as _, Encode as _, envelope, write_envelope};
use onego_wire::{DecodeError, Decoded, Reader, Writer};

pub(super) static METHODS: &[Entry] = &[
    entry("cas", "chunk_create_or_get_ref", true, create_or_get),
    entry("cas", "chunk_get_ref", true, get),
    entry("cas", "chunk_put_ref", true, put),
    entry("cas", "references_chunk", false, references_chunk),
];

/// The attribute that has a chunk's references.
const REFERENCES: &[u8] = b"chunk_refs";

/// The encoding that names each object (`TYPE_BY_OBJECT`).
const BY_OBJECT: u8 = 1;

/// Compare the data of an existing chunk with the given data (`FLAG_VERIFY`).
const VERIFY: u64 = 1;

/// The objects that refer to a chunk, in order, each as often as it does.
#[derive(Default)]
struct References(Vec<HObject>);

impl References {
    fn read(context: &Context<'_>) -> Outcome<Self> {
        context.must_exist()?;
        let Some(bytes) = context.state.meta().xattrs().get(REFERENCES) else { return Ok(Self::default()) };
        let read = |r: &mut Reader<'_>| {
            envelope(r, 1, "references", |_, r| match r.u8("kind of references")? {
                BY_OBJECT => envelope(r, 1, "references by object", |_, r| Ok(Self(Vec::decode(r)?))),
                other => Err(DecodeError::Invalid { what: "kind of references", value: other.into() }),
            })
        };
        read(&mut Reader::new(bytes)).map_err(|_| Errno::IO)
    }

    fn write(&self, context: &mut Context<'_>) {
        let mut w = Writer::new();
        write_envelope(&mut w, 1, 1, |w| {
            w.u8(BY_OBJECT);
            write_envelope(w, 1, 1, |w| self.0.encode(w));
        });
        context.changes();
        context.state.set_xattr(REFERENCES.to_vec(), w.into_vec());
    }

    fn add(&mut self, object: HObject) {
        let at = self.0.partition_point(|other| *other <= object);
        self.0.insert(at, object);
    }
}

fn source(input: &[u8]) -> Outcome<HObject> {
    decode(input, |r| envelope(r, 1, "reference", |_, r| HObject::decode(r)))
}

fn create_or_get(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let read = |r: &mut Reader<'_>| -> Decoded<_> {
        envelope(r, 1, "chunk", |_, r| Ok((HObject::decode(r)?, r.u64("flags")?, r.blob("data")?.to_vec())))
    };
    let (source, flags, data) = decode(input, read)?;
    let mut references = match References::read(context) {
        Ok(_) if flags & VERIFY != 0 && context.read_all() != data => return Err(Errno::NOMSG),
        Ok(references) => references,
        Err(Errno::NOENT) => {
            context.write_all(data);
            References::default()
        }
        Err(error) => return Err(error),
    };
    references.add(source);
    references.write(context);
    Ok(Vec::new())
}

fn get(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let source = source(input)?;
    let mut references = References::read(context)?;
    references.add(source);
    references.write(context);
    Ok(Vec::new())
}

/// Gives up a reference. With the last one the chunk goes.
fn put(context: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    let source = source(input)?;
    let mut references = References::read(context)?;
    let at = references.0.binary_search(&source).map_err(|_| Errno::NOLINK)?;
    references.0.remove(at);
    if references.0.is_empty() {
        context.remove();
    } else {
        references.write(context);
    }
    Ok(Vec::new())
}

/// Returns whether the object refers to a chunk of that name. There are no manifests here: it does not.
fn references_chunk(_: &mut Context<'_>, input: &[u8]) -> Outcome<Vec<u8>> {
    decode(input, |r| r.blob("chunk").map(drop))?;
    Err(Errno::NOLINK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::osd::tests::{Bench, failed, read};
    use onego_ceph::ops::Op;

    fn call(method: &str, body: impl FnOnce(&mut Writer)) -> Op {
        let mut w = Writer::new();
        write_envelope(&mut w, 1, 1, body);
        Op::Call { class: "cas".into(), method: method.into(), input: w.into_vec().into() }
    }

    fn object(name: &str) -> HObject {
        HObject { pool: 1, hash: 7, name: name.into(), ..HObject::min() }
    }

    fn create(name: &str, flags: u64, data: &[u8]) -> Op {
        call("chunk_create_or_get_ref", |w| {
            object(name).encode(w);
            w.u64(flags);
            w.blob(data);
        })
    }

    fn changing(method: &str, name: &str) -> Op {
        call(method, |w| object(name).encode(w))
    }

    #[test]
    fn a_chunk_goes_with_its_last_reference() {
        let mut bench = Bench::new();
        assert_eq!(bench.run(changing("chunk_get_ref", "a")), failed(Errno::NOENT));
        assert_eq!(bench.run(create("a", 0, b"data")), 0);
        assert_eq!(bench.get(read(0, 0)), b"data");
        assert_eq!(bench.run(create("b", VERIFY, b"other")), failed(Errno::NOMSG));
        assert_eq!(bench.run(create("b", VERIFY, b"data")), 0);
        assert_eq!(bench.run(changing("chunk_put_ref", "c")), failed(Errno::NOLINK));
        assert_eq!(bench.run(changing("chunk_get_ref", "a")), 0);
        for name in ["a", "b"] {
            assert_eq!(bench.run(changing("chunk_put_ref", name)), 0);
        }
        assert_eq!(bench.run(changing("chunk_put_ref", "b")), failed(Errno::NOLINK));
        assert_eq!(bench.get(read(0, 0)), b"data", "a refers to it twice");
        assert_eq!(bench.run(changing("chunk_put_ref", "a")), 0);
        assert_eq!(bench.run(Op::Stat), failed(Errno::NOENT));
    }
}
