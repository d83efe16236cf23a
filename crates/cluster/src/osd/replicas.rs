//! How the other OSDs of a placement group come to have what its primary has.
//!
//! All OSDs of a cluster live in one process, and those that serve a group have the same objects. So an object is in
//! memory once, however many OSDs have it: each has a reference to its data and its map. To change it, the others let go of
//! theirs, the primary changes what then is its alone in place, and the others take a reference to what it has become.
//!
//! An OSD that is away, or does not have the object yet, takes no part in that. Its reference stays, and what others hold
//! is never changed in place: so it keeps the object as it was when it went, and so do checkpoints and requests that may be
//! undone. Nothing has to be known of who shares what.

use super::daemon::Osd;
use super::store::object::State;
use super::store::{Identity, ObjectId};
use super::transaction::Transaction;
use onego_ceph::types::PgId;
use smallvec::SmallVec;

/// An object that the primary of its group is about to change, and those who are to follow.
#[must_use = "those who let go of an object do not have it until they follow"]
pub(crate) struct Replicas {
    primary: usize,
    /// The primary's object; none: there was none before.
    object: Option<ObjectId>,
    others: SmallVec<[(usize, Option<ObjectId>); 3]>,
}

/// The OSD of a number, if it is one of these.
fn index<T>(osds: &[T], osd: i32) -> Option<usize> {
    usize::try_from(osd).ok().filter(|at| *at < osds.len())
}

impl Replicas {
    /// Has `others` let go of an object, as far as they have it. `None`: one of these OSDs is none.
    pub(crate) fn let_go<T: AsRef<Osd> + AsMut<Osd>>(
        osds: &mut [T],
        primary: i32,
        others: &[i32],
        pg: PgId,
        object: &Identity<'_>,
    ) -> Option<Self> {
        let at = index(osds, primary)?;
        let mut all = Self { primary: at, object: None, others: SmallVec::new() };
        for &other in others.iter().filter(|other| **other != primary) {
            all.others.push((index(osds, other)?, None));
        }
        if !all.others.is_empty() {
            all.object = osds[at].as_ref().store.find(object);
        }
        for (other, id) in &mut all.others {
            let [primary, other] = osds.get_disjoint_mut([all.primary, *other]).ok()?;
            *id = other.as_mut().let_go(primary.as_ref(), all.object, pg, object);
        }
        Some(all)
    }

    /// The primary has done what it was asked to, which may be nothing: the others follow.
    pub(crate) fn follow<T: AsRef<Osd> + AsMut<Osd>>(
        self,
        osds: &mut [T],
        transaction: Option<&Transaction>,
        record: u64,
    ) {
        let Self { primary, object, others } = self;
        for (other, id) in others {
            let Ok([primary, other]) = osds.get_disjoint_mut([primary, other]) else { continue };
            other.as_mut().follow(primary.as_ref(), object, id, transaction, record);
        }
    }
}

impl Osd {
    fn has_place(&self, pg: PgId, hash: u32) -> bool {
        self.groups.get(&pg).is_none_or(|group| group.has(hash.reverse_bits()))
    }

    /// Lets go of what is shared with the primary's object, and says which object that is.
    fn let_go(
        &mut self,
        primary: &Self,
        theirs: Option<ObjectId>,
        pg: PgId,
        object: &Identity<'_>,
    ) -> Option<ObjectId> {
        if !self.has_place(pg, object.hash) {
            return None;
        }
        let ours = self.store.find(object)?;
        if let Some(theirs) = theirs {
            self.store.state_mut(ours).0.let_go(&primary.store.object(theirs).state);
        }
        Some(ours)
    }

    /// Has what the primary has, whose object was `theirs` before, and the one here is `ours`, as far as they were there.
    /// An object that is missing here is left out: it comes as a whole later.
    fn follow(
        &mut self,
        primary: &Self,
        theirs: Option<ObjectId>,
        ours: Option<ObjectId>,
        transaction: Option<&Transaction>,
        record: u64,
    ) {
        let Some(transaction) = transaction else {
            if let (Some(ours), Some(theirs)) = (ours, theirs) {
                // It is what it was.
                self.store.state_mut(ours).0.clone_from(&primary.store.object(theirs).state);
            }
            return;
        };
        let Transaction { pg, object, version, outcome, .. } = transaction;
        let share = self.outcomes_share();
        let group = self.groups.entry(*pg).or_default();
        if let Some((reqid, done)) = outcome {
            group.outcomes.record(reqid, done.clone());
            group.outcomes.shrink_to(share);
        }
        let place = object.hash.reverse_bits();
        let has_place = group.has(place);
        if let Some(version) = *version {
            group.advance(version, place, true);
        }
        if !has_place {
            return;
        }
        let identity = object.in_pool(pg.pool);
        let theirs = theirs.or_else(|| primary.store.find(&identity)).and_then(|id| primary.store.get(id));
        let ours = match (ours, theirs) {
            (Some(ours), _) => ours,
            (None, Some(_)) => self.store.prepare(&identity),
            (None, None) => return,
        };
        match theirs {
            Some(theirs) => self.store.state_mut(ours).0.clone_from(&theirs.state),
            None => {
                *self.store.state_mut(ours).0 = State::default();
                self.watches.object_gone(ours);
            }
        }
        if version.is_some() {
            self.store.set_record(ours, record);
        }
        self.settle(*pg, ours);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Bench, write};
    use super::super::{Config, Osd, recover};
    use super::*;
    use onego_buf::{List, Segment};
    use onego_ceph::ops::Op;

    /// Three OSDs of all groups, the first of which is the primary.
    struct Trio {
        benches: [Bench; 3],
    }

    impl AsRef<Osd> for Bench {
        fn as_ref(&self) -> &Osd {
            &self.osd
        }
    }

    impl AsMut<Osd> for Bench {
        fn as_mut(&mut self) -> &mut Osd {
            &mut self.osd
        }
    }

    impl Trio {
        fn new() -> Self {
            let config = Config { transactions: true, ..Config::default() };
            Self { benches: std::array::from_fn(|_| Bench::with(config.clone())) }
        }

        /// Has the primary and `others` do something to an object, and returns the result.
        fn ask(&mut self, others: &[i32], name: &str, ops: Vec<Op>) -> i32 {
            let (pg, object) = Bench::place(name);
            let replicas = Replicas::let_go(&mut self.benches, 0, others, pg, &object.in_pool(pg.pool));
            let result = self.benches[0].ask(name, ops).result;
            let transaction = self.benches[0].transaction.take();
            replicas.unwrap().follow(&mut self.benches, transaction.as_deref(), 0);
            result
        }

        fn state(&self, osd: usize, name: &str) -> Option<&super::super::State> {
            let (pg, object) = Bench::place(name);
            let store = &self.benches[osd].osd.store;
            Some(&store.object(store.find(&object.in_pool(pg.pool))?).state)
        }

        fn read(&self, osd: usize, name: &str) -> List {
            let state = self.state(osd, name).expect("the object is there");
            state.read(0, u64::MAX, &Segment::from_static(&[0; 4096]))
        }

        /// Where the first bytes of an object are.
        fn memory(&self, osd: usize, name: &str) -> *const u8 {
            self.read(osd, name).segments().next().unwrap().as_ptr()
        }

        fn used(&self) -> [u64; 3] {
            std::array::from_fn(|osd| self.benches[osd].osd.used())
        }
    }

    #[test]
    fn those_in_step_have_one_object_in_memory_and_change_it_in_place() {
        let mut trio = Trio::new();
        trio.ask(&[1, 2], "o", vec![write(0, &[1; 200_000])]);
        let memory = trio.memory(0, "o");
        for n in 2..50 {
            assert_eq!(trio.ask(&[1, 2], "o", vec![write(0, &[n; 4096])]), 0);
            trio.ask(&[1, 2], "o", vec![Op::SetXattr { name: "x".into(), value: vec![n].into() }]);
        }
        for osd in 0..3 {
            assert_eq!(trio.memory(osd, "o"), memory, "osd.{osd}");
            assert_eq!(trio.state(osd, "o").unwrap().meta().xattrs()[&b"x"[..]], [49]);
        }
        let used = trio.used();
        assert!(used[0] > 200_000 && used == [used[0]; 3], "{used:?}");
        trio.ask(&[1, 2], "o", vec![Op::Delete]);
        assert!((0..3).all(|osd| trio.state(osd, "o").is_none()));
        assert_eq!(trio.used(), [0; 3]);
    }

    #[test]
    fn who_was_away_has_what_was_there_then() {
        let mut trio = Trio::new();
        trio.ask(&[1, 2], "o", vec![write(0, &[1; 200_000])]);
        trio.ask(
            &[1],
            "o",
            vec![write(100, &[2; 10]), Op::SetXattr { name: "x".into(), value: vec![1].into() }],
        );
        assert_eq!(trio.read(2, "o").to_vec(), [1; 200_000]);
        assert!(trio.state(2, "o").unwrap().meta().xattrs().is_empty());
        assert_eq!(trio.read(1, "o").to_vec()[99..111], [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
        assert_eq!(trio.memory(0, "o"), trio.memory(1, "o"));
        // It catches up, and takes part again.
        let (pg, _) = Bench::place("o");
        let [source, _, target] = &mut trio.benches;
        recover::tests::recover_all(&mut target.osd, &source.osd, 10);
        assert!(target.osd.group(pg).unwrap().is_whole());
        let memory = trio.memory(0, "o");
        trio.ask(&[1, 2], "o", vec![write(0, &[3; 10])]);
        assert!((0..3).all(|osd| trio.memory(osd, "o") == memory));
    }

    #[test]
    fn who_misses_an_object_has_none_of_what_is_done_to_it() {
        let mut trio = Trio::new();
        trio.ask(&[1], "o", vec![write(0, &[1; 100])]);
        let (pg, _) = Bench::place("o");
        let [source, _, target] = &mut trio.benches;
        target.osd.begin_recovery(&source.osd, pg, &recover::tests::pool());
        trio.ask(&[1, 2], "o", vec![write(0, &[2; 10])]);
        assert!(trio.state(2, "o").is_none());
        let [source, _, target] = &mut trio.benches;
        recover::tests::recover_all(&mut target.osd, &source.osd, 10);
        assert_eq!(trio.read(2, "o").to_vec(), trio.read(0, "o").to_vec());
    }

    #[test]
    fn a_request_that_fails_leaves_the_object_with_all_of_them() {
        let mut trio = Trio::new();
        trio.ask(&[1, 2], "o", vec![write(0, &[1; 100_000])]);
        let used = trio.used();
        let fails = Op::CmpExt { offset: 0, data: vec![9].into() };
        assert!(trio.ask(&[1, 2], "o", vec![write(0, &[2; 10]), fails]) < 0);
        assert!(trio.ask(&[1, 2], "o", vec![Op::Create { exclusive: true }]) < 0);
        assert!(trio.ask(&[1, 2], "new", vec![Op::Delete]) < 0);
        for osd in 0..3 {
            assert_eq!(trio.read(osd, "o").to_vec(), [1; 100_000], "osd.{osd}");
            assert!(trio.state(osd, "new").is_none());
        }
        assert_eq!(trio.used(), used);
    }
}
