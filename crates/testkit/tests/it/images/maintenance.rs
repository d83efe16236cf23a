//! Snapshots, clones and sizes: what users do with images beside reads and writes, and what it comes to.

use super::history::{History, Moment, ZEROS};
use super::model::{BLOCK, ImageModel, MAX_BLOCKS, SnapshotModel};
use super::user::{Job, JobAnswer};
use super::world::{Fate, SharedWorld};
use rand::Rng;

/// Most images, and snapshots of an image, at a time.
const MAX_IMAGES: usize = 5;
const MAX_SNAPSHOTS: usize = 4;

/// Clones between an image and the first one, at most.
const MAX_DEPTH: usize = 2;

/// What the model notes when something begins. Gives the name of the snapshot that it is about.
pub(super) fn noted(image: &mut ImageModel, job: &Job, client: u32, now: Moment) -> String {
    match job {
        Job::RollBack(index) => {
            let (size, shown) = image.snapshots[*index].content().expect("it was read before");
            image.size.begin(client, size, now);
            image.blocks.iter_mut().zip(shown).for_each(|(block, stamp)| block.begin(client, stamp, now));
        }
        Job::Resize(size) | Job::ResizeOpen(size) => {
            image.size.begin(client, *size, now);
            // Objects are removed before the size changes: meanwhile a clone's parent shows through, as with librbd.
            let begin = if image.is_clone { History::begin_with_first } else { History::begin };
            let cut = &mut image.blocks[(size / BLOCK) as usize..];
            cut.iter_mut().for_each(|block| begin(block, client, ZEROS, now));
        }
        Job::RemoveSnapshot(index) => image.snapshots[*index].removal = Some(now),
        _ => {}
    }
    match job {
        Job::MakeSnapshot(index)
        | Job::ReadSnapshot(index)
        | Job::RemoveSnapshot(index)
        | Job::RollBack(index)
        | Job::Clone(index, _) => image.snapshots[*index].name.clone(),
        _ => String::new(),
    }
}

impl SharedWorld {
    /// Has a user do something with its image, if that can be now.
    pub(super) fn maintain(&mut self, index: usize) {
        let image = &self.images[self.users[index].image];
        let there: Vec<usize> =
            (0..image.snapshots.len()).filter(|at| image.snapshots[*at].is_there()).collect();
        let some = (!there.is_empty()).then(|| there[self.random.random_range(0..there.len())]);
        let is_known = some.is_some_and(|at| image.snapshots[at].content().is_some());
        let may_clone = self.images.len() < MAX_IMAGES && image.depth < MAX_DEPTH;
        let job = match (self.random.random_range(0..17), some) {
            (0..3, _) | (3..13, None) if there.len() < MAX_SNAPSHOTS => self.new_snapshot(index),
            (3, Some(at)) if there.len() > 1 => Job::RemoveSnapshot(at),
            (4 | 5, Some(at)) if is_known => Job::RollBack(at),
            (6..9, Some(at)) if is_known && may_clone => {
                self.names += 1;
                Job::Clone(at, format!("clone{}", self.names))
            }
            (9 | 10, _) if image.is_clone => Job::Flatten,
            (11, _) => Job::List,
            (12, _) => Job::Resize(self.random_size()),
            (13 | 14, _) => Job::ResizeOpen(self.random_size()),
            (_, Some(at)) => Job::ReadSnapshot(at),
            (_, None) => Job::List,
        };
        self.begin(index, job);
    }

    fn random_size(&mut self) -> u64 {
        self.random.random_range(16..=MAX_BLOCKS as u64) * BLOCK
    }

    fn new_snapshot(&mut self, index: usize) -> Job {
        self.names += 1;
        let snapshots = &mut self.images[self.users[index].image].snapshots;
        snapshots.push(SnapshotModel::new(format!("snap{}", self.names), self.moment + 1));
        Job::MakeSnapshot(snapshots.len() - 1)
    }

    /// Something was done.
    pub(super) fn succeeded(&mut self, index: usize, job: &Job, begun: Moment, answer: JobAnswer) {
        let (at, now) = (self.users[index].image, self.moment);
        let image = &mut self.images[at];
        match (job, answer) {
            (Job::Open, JobAnswer::Opened(open)) => self.users[index].open = Some(open),
            (Job::Read(blocks), JobAnswer::Bytes(bytes)) => self.check(at, blocks.clone(), &bytes, begun),
            // An owner that was shut out and does not know it takes objects for absent that others have made since: it has nothing
            // to clear there, as librbd's has not.
            (Job::Change(_, ZEROS), _) if image.owner != Some(self.users[index].number) => {}
            (Job::Change(blocks, _), _) => {
                self.summary.acknowledged += 1;
                image.blocks[blocks.clone()].iter_mut().for_each(|block| block.acknowledge(begun, now));
            }
            (Job::List, JobAnswer::Names(names)) => self.listed(at, &names, begun),
            (Job::MakeSnapshot(snapshot), _) => {
                self.summary.snapshots += 1;
                image.snapshots[*snapshot].made.get_or_insert(now);
            }
            (Job::ReadSnapshot(snapshot), JobAnswer::Bytes(bytes)) => {
                // What is being removed shows this or that.
                if image.snapshots[*snapshot].removal.is_none() {
                    self.summary.snapshot_reads += 1;
                    let checked = image.check_snapshot(*snapshot, &bytes);
                    checked.unwrap_or_else(|wrong| panic!("seed {}: {wrong}", self.seed));
                }
            }
            (Job::RemoveSnapshot(snapshot), _) => {
                self.summary.removals += 1;
                image.snapshots[*snapshot].is_removed = true;
            }
            (Job::RollBack(_), _) => {
                self.summary.rollbacks += 1;
                image.histories().for_each(|history| history.acknowledge(begun, now));
            }
            (Job::Resize(size) | Job::ResizeOpen(size), _) => {
                self.summary.resizes += 1;
                self.summary.open_resizes += u64::from(matches!(job, Job::ResizeOpen(_)));
                image.histories().for_each(|history| history.acknowledge(begun, now));
                // Whatever was written during the resize past its end is gone, too, unless the image has grown again.
                if image.size.is_alone(begun) {
                    let cut = &mut image.blocks[(size / BLOCK) as usize..];
                    cut.iter_mut().for_each(|block| block.reset(ZEROS, now));
                }
            }
            (Job::Flatten, _) => {
                self.summary.flattened += 1;
                image.is_clone = false;
            }
            (Job::Clone(snapshot, name), _) => self.cloned(at, *snapshot, name),
            (Job::Close, _) => {}
            (job, answer) => panic!("seed {}: {job:?} gives {answer:?}", self.seed),
        }
    }

    fn cloned(&mut self, parent: usize, snapshot: usize, name: &str) {
        let parent = &self.images[parent];
        let (size, shown) = parent.snapshots[snapshot].content().expect("it was read before");
        let child = ImageModel::new(name.to_owned(), size, &shown, parent.depth + 1, self.moment);
        self.summary.clones += 1;
        self.summary.grandchildren += u64::from(child.depth > 1);
        self.images.push(child);
    }

    /// Something was not done, or it is not known.
    pub(super) fn failed(&mut self, index: usize, job: &Job, begun: Moment, fate: Fate) {
        let image = &mut self.images[self.users[index].image];
        if fate != Fate::Refused {
            return;
        }
        match job {
            Job::Change(..) | Job::RollBack(_) | Job::Resize(_) | Job::ResizeOpen(_) => {
                image.histories().for_each(|history| history.forget(begun));
            }
            Job::MakeSnapshot(snapshot) => image.snapshots[*snapshot].is_refused = true,
            Job::RemoveSnapshot(snapshot) => image.snapshots[*snapshot].removal = None,
            _ => {}
        }
    }

    /// A list of an image's snapshots was read since `begun`.
    pub(super) fn listed(&mut self, image: usize, names: &[String], begun: Moment) {
        let (seed, now) = (self.seed, self.moment);
        let image = &mut self.images[image];
        for snapshot in &mut image.snapshots {
            let is_listed = names.contains(&snapshot.name);
            let must_be = snapshot.made.is_some_and(|made| made < begun) && snapshot.removal.is_none();
            let must_not_be = snapshot.is_refused || snapshot.is_removed && snapshot.removal < Some(begun);
            assert!(is_listed || !must_be, "seed {seed}: {snapshot:?} is lost");
            assert!(!is_listed || !must_not_be, "seed {seed}: {snapshot:?} is there");
            if is_listed {
                snapshot.made.get_or_insert(now);
            }
        }
        let is_known = |name: &String| image.snapshots.iter().any(|snapshot| snapshot.name == *name);
        assert!(names.iter().all(is_known), "seed {seed}: {names:?}");
    }
}
