//! Loom models that try every order of events between threads.
//!
//! Loom sees accesses to whole blocks: in a model, no two threads write to pieces of one block concurrently, though
//! they may.
use crate::mapping::PAGE;
use crate::pool::Pool;
use crate::segment::Segment;
use crate::slab::SLAB;
use loom::thread;

/// Tries every order with at most three preemptions. Nearly all faults show with two.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn orders_of_readers_make_only_the_last_one_a_writer() {
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
        assert!(writers.count() + usize::from(main) <= 1, "more than one had exclusive access");
    });
}

#[test]
fn orders_of_release_free_a_block_after_its_last_reader() {
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
        // Two blocks returned at once may each make room for the other.
        assert!(pool.stats().idle_bytes <= PAGE as u64, "{:?}", pool.stats());
    });
}

#[test]
fn orders_of_threads_sharing_a_pool_give_each_block_to_one_of_them() {
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
        assert_eq!(
            stats.idle_bytes,
            stats.allocated * PAGE as u64,
            "all allocated memory is idle: {stats:?}"
        );
    });
}

#[test]
fn orders_of_cutting_slabs_respect_the_limit() {
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
