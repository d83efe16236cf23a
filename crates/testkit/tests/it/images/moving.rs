//! Writes and compare-and-writes of an image that is being moved or imported, while another client copies its objects.

use super::model::BLOCK;
use super::server::SimCluster;
use super::tasks::Tasks;
use super::user::{POOL, User, options};
use super::world::PATIENCE;
use onego::ceph::{Errno, Error};
use onego::rados::Pool;
use onego::rbd::upkeep::CopyKind;
use onego::rbd::{CreateOptions, Image, Layout, migration, snapshots};
use onego_testkit::seeds::Seeds;
use onego_testkit::{Faults, Node, Sim};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const SEEDS: Seeds = Seeds { short: 30, long: 3000 };

/// Blocks of the image, in eight objects of the source.
const BLOCKS: usize = 64;

/// Requests of the writer.
const REQUESTS: usize = 60;

/// The writer and the client that copies.
const WRITER: usize = 0;
const COPIER: usize = 1;

#[derive(Debug, PartialEq, Eq, Default)]
struct Summary {
    /// Compare-and-writes that found what they expected, and that did not.
    equal: u64,
    different: u64,
    /// Runs in which no client was shut out, and their snapshots.
    whole: u64,
    snapshots: u64,
}

/// A client whose connections broke for so long that its watch ended was taken for dead (ESHUTDOWN).
struct ShutOut;

struct MovingWorld {
    seed: u64,
    sim: Sim,
    random: SmallRng,
    server: SimCluster,
    users: [User; 2],
    /// The migration, while it is executed.
    copying: Option<Tasks<(), Result<(), Error>>>,
    /// Stamps of the blocks.
    model: Vec<u64>,
    /// The same at snapshots that were made meanwhile.
    snapshots: Vec<Vec<u64>>,
    stamps: u64,
    summary: Summary,
}

impl MovingWorld {
    fn new(seed: u64) -> Self {
        let sim = Sim::new(seed, Faults::none());
        let mut random = SmallRng::seed_from_u64(seed ^ 0x0030_714e);
        let server = SimCluster::start(&sim, seed, false, &mut random);
        let users = [User::new(&sim, seed, 1, 0), User::new(&sim, seed, 2, 0)];
        let (model, summary) = (vec![0; BLOCKS], Summary::default());
        Self {
            seed,
            sim,
            random,
            server,
            users,
            model,
            snapshots: Vec::new(),
            copying: None,
            stamps: 0,
            summary,
        }
    }

    /// Accepts the result of a request: only those of a client that was shut out may fail.
    fn accept<T>(&self, result: Result<T, Error>) -> Result<T, ShutOut> {
        result.map_err(|error| match error.errno() {
            Errno(108) => ShutOut,
            _ => panic!("seed {}: {error}", self.seed),
        })
    }

    fn step(&mut self) {
        let mut nodes = self.server.nodes();
        nodes.extend(self.users.iter_mut().map(|user| &mut user.pump as &mut dyn Node));
        self.sim.step(&mut nodes);
    }

    /// Runs what a future of a client waits for.
    fn finish<T>(&mut self, tasks: &mut Tasks<(), Result<T, Error>>) -> Result<T, ShutOut> {
        let deadline = self.sim.now() + PATIENCE;
        loop {
            if let Some(((), result)) = tasks.run() {
                return self.accept(result);
            }
            // A client that copies may own the lock meanwhile.
            if let Some(((), result)) = self.copying.as_mut().and_then(Tasks::run) {
                self.copying = None;
                self.accept(result)?;
            }
            self.step();
            assert!(self.sim.now() < deadline, "seed {}: a request never ends", self.seed);
        }
    }

    fn ask<T: 'static, F>(
        &mut self,
        user: usize,
        body: impl FnOnce(Pool) -> F + 'static,
    ) -> Result<T, ShutOut>
    where
        F: Future<Output = Result<T, Error>> + 'static,
    {
        let mut tasks = self.begin(user, body);
        self.finish(&mut tasks)
    }

    fn begin<T: 'static, F>(
        &mut self,
        user: usize,
        body: impl FnOnce(Pool) -> F + 'static,
    ) -> Tasks<(), Result<T, Error>>
    where
        F: Future<Output = Result<T, Error>> + 'static,
    {
        let cluster = self.users[user].cluster.clone();
        let mut tasks = Tasks::default();
        tasks.start((), async move { body(cluster.pool(POOL).await?).await });
        tasks
    }

    fn new_stamp(&mut self) -> u64 {
        self.stamps += 1;
        // Stamps differ in any byte first.
        self.stamps << self.random.random_range(0..40)
    }

    fn write(&mut self, image: &Image) -> Result<(), ShutOut> {
        let first = self.random.random_range(0..BLOCKS);
        let count = self.random.random_range(1..=4).min(BLOCKS - first);
        let stamp = if self.random.random_range(0..4) == 0 { 0 } else { self.new_stamp() };
        self.model[first..first + count].fill(stamp);
        let (image, offset, length) = (image.clone(), first as u64 * BLOCK, count as u64 * BLOCK);
        self.ask(WRITER, move |_| async move {
            if stamp == 0 {
                return image.write_zeroes(offset, length).await;
            }
            image.write(offset, bytes(stamp, length)).await
        })
    }

    fn compare_and_write(&mut self, image: &Image) -> Result<(), ShutOut> {
        let block = self.random.random_range(0..BLOCKS);
        let there = self.model[block];
        let expected = if self.random.random_range(0..3) == 0 { self.new_stamp() } else { there };
        let stamp = self.new_stamp();
        let (image, offset) = (image.clone(), block as u64 * BLOCK);
        let difference = self.ask(WRITER, move |_| async move {
            image.compare_and_write(offset, bytes(expected, BLOCK), bytes(stamp, BLOCK)).await
        })?;
        let differs = |byte: &usize| there.to_le_bytes()[*byte] != expected.to_le_bytes()[*byte];
        let right = (0..8).find(differs).map(|byte| byte as u64);
        assert_eq!(difference, right, "seed {}: block {block} has {there:#x}, not {expected:#x}", self.seed);
        match difference {
            None => (self.summary.equal, self.model[block]) = (self.summary.equal + 1, stamp),
            Some(_) => self.summary.different += 1,
        }
        Ok(())
    }

    /// Has another client make a snapshot: of an image that the writer has open, or whose lock has no owner.
    fn snapshot(&mut self, image: &mut Image) -> Result<(), ShutOut> {
        let is_closed: bool = self.random.random();
        if is_closed {
            let image = image.clone();
            self.ask(WRITER, move |_| async move { image.close().await })?;
        }
        let name = format!("later{}", self.snapshots.len());
        self.snapshots.push(self.model.clone());
        self.ask(COPIER, move |pool| async move { snapshots::create(&pool, "moved", &name).await })?;
        if is_closed {
            *image = self.ask(WRITER, |pool| async move { Image::open(&pool, "moved").await })?;
        }
        Ok(())
    }

    /// Maps of objects are checked once the image `is_whole`.
    fn check_snapshots(&mut self, is_whole: bool) -> Result<(), ShutOut> {
        for (number, model) in self.snapshots.clone().into_iter().enumerate() {
            let name = format!("later{number}");
            let at = name.clone();
            let image =
                self.ask(COPIER, move |pool| async move { Image::open_at(&pool, "moved", &at).await })?;
            self.compare(&image, &model)?;
            self.ask(COPIER, move |_| async move { image.close().await })?;
            if !is_whole {
                continue;
            }
            let is_right = self.ask(COPIER, move |pool| async move {
                onego::rbd::upkeep::check_object_map(&pool, "moved", Some(&name), |_, _| {}).await
            })?;
            assert!(is_right, "seed {}: the object map of snapshot {number} is wrong", self.seed);
        }
        Ok(())
    }

    fn check(&mut self, image: &Image) -> Result<(), ShutOut> {
        let model = self.model.clone();
        self.compare(image, &model)
    }

    fn compare(&mut self, image: &Image, model: &[u64]) -> Result<(), ShutOut> {
        let image = image.clone();
        let read = self.ask(WRITER, move |_| async move { image.read(0, BLOCKS as u64 * BLOCK).await })?;
        let expected: Vec<u8> = model.iter().flat_map(|stamp| bytes(*stamp, BLOCK)).collect();
        let read = read.to_vec();
        let wrong = (0..read.len()).find(|at| read[*at] != expected[*at]).map(|at| at as u64 / BLOCK);
        assert_eq!(wrong, None, "seed {}: a block has other bytes", self.seed);
        Ok(())
    }

    /// Makes the source, and an image that shows it.
    fn prepare(&mut self) -> Result<(), ShutOut> {
        self.ask(WRITER, |pool| async move { onego::rbd::create(&pool, "disk", &options(BLOCKS)).await })?;
        let image = self.ask(WRITER, |pool| async move { Image::open(&pool, "disk").await })?;
        for _ in 0..self.random.random_range(0..6) {
            self.write(&image)?;
        }
        let is_import: bool = self.random.random();
        if is_import || self.random.random() {
            self.ask(WRITER, |pool| async move { snapshots::create(&pool, "disk", "snap").await })?;
        }
        if !is_import {
            self.write(&image)?;
        }
        self.ask(WRITER, move |_| async move { image.close().await })?;
        let layout = Layout::plain(self.random.random_range(15..=17)).expect("a size of objects");
        let options: CreateOptions = options(BLOCKS).with_layout(layout);
        self.ask(WRITER, move |pool| async move {
            if !is_import {
                let (from, to) = ((&pool, "disk"), (&pool, "moved"));
                return migration::prepare(from, to, &options, CopyKind::Flat).await;
            }
            let spec =
                r#"{"type":"native","pool_name":"rbd","image_name":"disk","snap_name":"snap"}"#.parse()?;
            migration::prepare_import(&spec, (&pool, "moved"), &options).await
        })
    }

    fn try_run(&mut self) -> Result<(), ShutOut> {
        self.prepare()?;
        self.sim.set_faults(Faults::random(self.seed));
        let mut image = self.ask(WRITER, |pool| async move { Image::open(&pool, "moved").await })?;
        let copied_at = self.random.random_range(0..REQUESTS);
        for request in 0..REQUESTS {
            if request == copied_at {
                let copy = |pool: Pool| async move { migration::execute(&pool, "moved", |_, _| {}).await };
                self.copying = Some(self.begin(COPIER, copy));
            }
            match self.random.random_range(0..30) {
                0 => self.snapshot(&mut image)?,
                1..10 => self.write(&image)?,
                _ => self.compare_and_write(&image)?,
            }
        }
        if let Some(mut tasks) = self.copying.take() {
            self.finish(&mut tasks)?;
        }
        self.check(&image)?;
        self.check_snapshots(false)?;
        self.ask(COPIER, |pool| async move { migration::commit(&pool, "moved", |_, _| {}).await })?;
        self.compare_and_write(&image)?;
        self.check(&image)?;
        self.check_snapshots(true)?;
        self.summary.whole += 1;
        self.summary.snapshots += self.snapshots.len() as u64;
        Ok(())
    }

    fn run(mut self) -> Summary {
        // What it has seen until a client is shut out counts.
        let _ = self.try_run();
        self.summary
    }
}

/// Bytes of a block with this stamp.
fn bytes(stamp: u64, length: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat((length / 8) as usize)
}

#[test]
fn what_an_image_shows_of_its_source_is_compared_before_a_write() {
    let seen =
        SEEDS.each("-p onego-testkit --release --test it moving::", |seed| MovingWorld::new(seed).run());
    if let Some(seen) = seen {
        assert!(seen.iter().map(|summary| summary.equal).sum::<u64>() > 300);
        assert!(seen.iter().map(|summary| summary.different).sum::<u64>() > 100);
        let whole = seen.iter().map(|summary| summary.whole).sum::<u64>();
        assert!(whole * 10 > seen.len() as u64 * 9, "only {whole} runs are whole");
        assert!(seen.iter().map(|summary| summary.snapshots).sum::<u64>() > 20);
    }
}
