//! Every order of events of what threads share, tried by loom.
//!
//! Loom sees accesses to whole blocks: in a model, no two threads write to pieces of one block at a time, though
//! they may.
use crate::mapping::PAGE;
use crate::pool::Pool;
use crate::segment::Segment;
use crate::slab::SLAB;
use loom::thread;

/// Tries every order with at most three switches that no thread asked for. Nearly all faults show with two.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn orders_of_readers_leave_a_block_to_the_last_of_them() {
    check(|| {
        let segment = Segment::from(vec![1; 4]);
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let segment = segment.clone();
                thread::spawn(move || {
                    assert_eq!(*segment, [1; 4]);
                    // The last reader may write.
                    segment.try_into_mut().map(|mut bytes| bytes.fill(2)).is_ok()
                })
            })
            .collect();
        let main = segment.try_into_mut().map(|mut bytes| bytes.fill(2)).is_ok();
        let writers = readers.into_iter().filter_map(|reader| reader.join().unwrap().then_some(()));
        assert!(writers.count() + usize::from(main) <= 1, "more than one was alone");
    });
}

#[test]
fn orders_of_giving_back_make_a_block_free_after_its_last_reader() {
    check(|| {
        let pool = Pool::new(PAGE);
        let mut block = pool.get(PAGE);
        block[0] = 1;
        let segment = block.freeze();
        let reader = {
            let segment = segment.slice(..1);
            thread::spawn(move || assert_eq!(*segment, [1]))
        };
        drop(segment);
        // The same block, if it is free already.
        pool.get(PAGE)[0] = 2;
        reader.join().unwrap();
        // Two that come back at once may both make room for the other.
        assert!(pool.stats().idle_bytes <= PAGE as u64, "{:?}", pool.stats());
    });
}

#[test]
fn orders_of_threads_that_share_a_pool_give_each_block_to_one_of_them() {
    check(|| {
        let pool = Pool::new(2 * PAGE);
        drop(pool.get(PAGE));
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                let mut block = pool.get(PAGE);
                block[0] = 1;
                assert_eq!(block[0], 1);
            })
        };
        let mut block = pool.get(PAGE);
        block[0] = 2;
        assert_eq!(block[0], 2);
        drop(block);
        other.join().unwrap();
        let stats = pool.stats();
        assert_eq!(stats.allocated + stats.reused, 3);
        assert_eq!(stats.idle_bytes, stats.allocated * PAGE as u64, "what was allocated is idle: {stats:?}");
    });
}

#[test]
fn orders_of_cutting_slabs_keep_to_the_limit() {
    check(|| {
        let pool = Pool::registrable(0, SLAB);
        let cut = |pool: &Pool| pool.get(SLAB / 2).freeze();
        let other = {
            let pool = pool.clone();
            thread::spawn(move || cut(&pool))
        };
        let (mine, theirs) = (cut(&pool), other.join().unwrap());
        assert_ne!(mine.as_ptr(), theirs.as_ptr());
        assert_eq!(pool.stats().slab_bytes, SLAB as u64);
        assert!(mine.slab().is_some() || theirs.slab().is_some());
    });
}
