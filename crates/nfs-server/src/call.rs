//! Calls of NFS version 3: from their arguments to their results.

use super::file_system::{Context, FileSystem};
use onego_buf::List;
use onego_nfs::rpc::{Accepted, Procedure, Reply};
use onego_nfs::v3::{self, Answer, Failed, Status, access};
use onego_nfs::xdr::{Body, Writer, Xdr};
use onego_wire::Decoded;

/// A call.
pub(super) struct Call<'a> {
    pub(super) xid: u32,
    pub(super) procedure: u32,
    pub(super) cx: Context<'a>,
    /// Is the export read-only?
    pub(super) read_only: bool,
    /// The arguments without their payload.
    pub(super) arguments: &'a [u8],
}

/// Reads the arguments of a procedure, carries it out, and appends the reply.
pub(super) fn results<P: Procedure>(
    xid: u32,
    arguments: &[u8],
    payload: List,
    front: &mut Writer,
    out: &mut List,
    act: impl FnOnce(P::Args) -> P::Results,
) -> Decoded<()> {
    put_results::<P>(xid, act(P::Args::read_all(arguments, payload)?), front, out);
    Ok(())
}

/// Appends the reply with these results.
pub(super) fn put_results<P: Procedure>(xid: u32, results: P::Results, front: &mut Writer, out: &mut List) {
    Reply { xid, result: Ok(Accepted::Success) }.encode(front);
    results.write(front, out);
}

impl Call<'_> {
    /// Carries it out, appends the front of the reply to an empty writer, and returns its payload.
    pub(super) fn carry_out(&self, fs: &mut dyn FileSystem, payload: List, front: &mut Writer) -> List {
        let mut out = List::new();
        if self.execute(fs, payload, front, &mut out).is_err() {
            front.clear();
            Reply { xid: self.xid, result: Ok(Accepted::GarbageArguments) }.encode(front);
        }
        out
    }

    fn execute(
        &self,
        fs: &mut dyn FileSystem,
        payload: List,
        front: &mut Writer,
        out: &mut List,
    ) -> Decoded<()> {
        let cx = self.cx;
        macro_rules! call {
            ($($procedure:ident: $method:ident $(($check:ident))?,)*) => {
                match self.procedure {
                    $(v3::$procedure::NUMBER => results::<v3::$procedure>(
                        self.xid, self.arguments, payload, front, out,
                        |args| { $(self.$check()?;)? fs.$method(cx, args) },
                    ),)*
                    v3::Access::NUMBER => results::<v3::Access>(
                        self.xid, self.arguments, payload, front, out,
                        |args| self.access(fs, args),
                    ),
                    _ => results::<v3::Null>(self.xid, self.arguments, payload, front, out, |()| ()),
                }
            };
        }
        call! {
            Getattr: getattr,
            Lookup: lookup,
            Readlink: readlink,
            Read: read,
            Readdir: readdir,
            Readdirplus: readdirplus,
            Fsstat: fsstat,
            Fsinfo: fsinfo,
            Pathconf: pathconf,
            Commit: commit,
            Write: write (writable),
            Setattr: setattr (writable),
            Create: create (writable),
            Mkdir: mkdir (writable),
            Symlink: symlink (writable),
            Mknod: mknod (writable),
            Remove: remove (writable),
            Rmdir: rmdir (writable),
            Rename: rename (writable),
            Link: link (writable),
        }
    }

    /// May the file system be changed?
    fn writable<F: Default>(&self) -> Result<(), Failed<F>> {
        if self.read_only { Err(Failed { status: Status::Rofs, more: F::default() }) } else { Ok(()) }
    }

    fn access(
        &self,
        fs: &mut dyn FileSystem,
        args: v3::AccessArgs,
    ) -> Answer<v3::AccessOk, Option<v3::Attributes>> {
        let mut answer = fs.access(self.cx, args)?;
        if self.read_only {
            answer.granted &= !(access::MODIFY | access::EXTEND | access::DELETE);
        }
        Ok(answer)
    }
}
