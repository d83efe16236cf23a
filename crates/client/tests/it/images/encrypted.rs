//! Encrypted images: reads return what was written, whatever the sectors, and the passphrase is required.

use futures_util::future::try_join_all;
use onego::ceph::{Config, Error};
use onego::rados::{Cluster, Pool};
use onego::rbd::encryption::{
    EncryptionCosts, EncryptionError, EncryptionOptions, EncryptionSpec, KeySize, LuksError, LuksVersion,
};
use onego::rbd::{self, CreateOptions, Features, Image, Layout, clones, migration, snapshots, upkeep};

const CHEAP: EncryptionCosts = EncryptionCosts { iterations: 1000, memory: 64, passes: 1 };

const DATA: u64 = 2 << 20;

fn with_pool(body: impl AsyncFnOnce(&Pool) -> Result<(), Error>) {
    let server = onego_cluster::Cluster::start(onego_cluster::Config::default()).unwrap();
    let config = Config::from_text(&server.conf()).unwrap();
    smol::block_on(async {
        let cluster = Cluster::connect(&config).await?;
        body(&cluster.pool("rbd").await?).await
    })
    .unwrap();
}

/// Creates an image with small objects and all features, larger than its header by [`DATA`].
async fn create(pool: &Pool, name: &str, version: LuksVersion) -> Result<(), Error> {
    create_raw(pool, name, header(version) + DATA).await
}

async fn create_raw(pool: &Pool, name: &str, size: u64) -> Result<(), Error> {
    let options = CreateOptions::new(size).with_features(Features::DEFAULT);
    rbd::create(pool, name, &options.with_layout(Layout::plain(16)?)).await
}

fn header(version: LuksVersion) -> u64 {
    match version {
        LuksVersion::One => 17 << 16,
        LuksVersion::Two => 16 << 20,
    }
}

async fn format(pool: &Pool, name: &str, version: LuksVersion, passphrase: &str) -> Result<(), Error> {
    let image = Image::open(pool, name).await?;
    let options = EncryptionOptions::new(version, passphrase).with_costs(CHEAP);
    image.format_encryption(&options.with_key_size(KeySize::Aes128)).await?;
    image.close().await
}

async fn open(pool: &Pool, name: &str, passphrases: &[&str]) -> Result<Image, Error> {
    let specs: Vec<_> = passphrases.iter().map(|passphrase| EncryptionSpec::new(*passphrase)).collect();
    Image::open(pool, name).await?.load_encryption(&specs).await
}

async fn clone(pool: &Pool, parent: &str, child: &str) -> Result<(), Error> {
    snapshots::create(pool, parent, "base").await?;
    snapshots::protect(pool, parent, "base").await?;
    let options = CreateOptions::new(0).with_features(Features::DEFAULT).with_layout(Layout::plain(16)?);
    clones::clone((pool, parent, "base"), (pool, child), &options, None).await
}

/// Expected content of an image, and the state of the random number generator.
struct Model {
    bytes: Vec<u8>,
    seed: u64,
}

impl Model {
    fn new(seed: u64) -> Self {
        Self { bytes: vec![0; DATA as usize], seed }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.seed >> 33) % below
    }

    /// Returns adjacent writes, many of which share a sector, in random order, and updates the expected content.
    fn neighbours(&mut self, count: usize) -> Vec<(u64, Vec<u8>)> {
        let mut at = self.random(DATA);
        let mut pieces = Vec::new();
        while pieces.len() < count && at < DATA {
            let length = match self.random(4) {
                0 => 1 + self.random(100),
                1 => 512,
                2 => 1 + self.random(9000),
                _ => 4096 - at % 4096,
            };
            let length = length.min(DATA - at);
            let fill = self.random(256) as u8;
            pieces.push((at, vec![fill; length as usize]));
            self.bytes[at as usize..(at + length) as usize].fill(fill);
            at += length + self.random(2) * self.random(3000);
        }
        let turn = self.random(pieces.len() as u64) as usize;
        pieces.rotate_left(turn);
        pieces
    }

    /// Writes at random places, many concurrently, and reads at random places.
    async fn work(&mut self, image: &Image, rounds: usize) -> Result<(), Error> {
        for _ in 0..rounds {
            let pieces = self.neighbours(12);
            try_join_all(pieces.into_iter().map(|(at, bytes)| async move {
                match bytes.iter().all(|byte| *byte == 0) {
                    true => image.write_zeroes(at, bytes.len() as u64).await,
                    false => image.write(at, bytes).await,
                }
            }))
            .await?;
            let at = self.random(DATA);
            let length = 1 + self.random((DATA - at).min(200_000));
            self.check(image, at, length).await?;
        }
        self.check(image, 0, DATA).await
    }

    async fn check(&self, image: &Image, at: u64, length: u64) -> Result<(), Error> {
        let expected = &self.bytes[at as usize..(at + length) as usize];
        let read = image.read(at, length).await?.to_vec();
        let differs = read.iter().zip(expected).position(|(read, expected)| read != expected);
        assert_eq!(differs, None, "of {length} bytes from {at} on");
        let buffer = image.read_into(at, vec![1; length as usize]).await?;
        assert!(buffer[..] == *expected);
        Ok(())
    }
}

#[test]
fn an_encrypted_image_keeps_writes_to_any_part_of_its_sectors() {
    with_pool(async |pool| {
        for (version, name) in [(LuksVersion::One, "one"), (LuksVersion::Two, "two")] {
            create(pool, name, version).await?;
            format(pool, name, version, "open sesame").await?;
            let image = open(pool, name, &["open sesame"]).await?;
            assert_eq!(image.size(), DATA);
            let mut model = Model::new(7);
            model.check(&image, 0, DATA).await?;
            model.work(&image, 30).await?;
            image.close().await?;
            let image = open(pool, name, &["open sesame"]).await?;
            model.check(&image, 0, DATA).await?;
            image.close().await?;
            let raw = Image::open_read_only(pool, name).await?;
            let sealed = raw.read(header(version), DATA).await?.to_vec();
            assert!(sealed != model.bytes);
            raw.close().await?;
        }
        Ok(())
    });
}

#[test]
fn clones_show_the_data_of_their_parents_with_any_combination_of_keys() {
    with_pool(async |pool| {
        let (one, two) = (LuksVersion::One, LuksVersion::Two);
        // Header of the parent and of the clone, and their passphrases.
        for (case, (parent, child)) in [
            (Some(two), None),
            (Some(one), Some(two)),
            (Some(two), Some(one)),
            (None, Some(one)),
            (Some(one), Some(one)),
        ]
        .into_iter()
        .enumerate()
        {
            let (base, copy) = (format!("base{case}"), format!("copy{case}"));
            // Headers are not visible, but they shorten what a clone shows of the end of its parent.
            let size = if parent.is_some() { header(two) + DATA } else { DATA };
            create_raw(pool, &base, size).await?;
            let mut model = Model::new(case as u64);
            let image = match parent {
                Some(version) => {
                    format(pool, &base, version, "parent").await?;
                    open(pool, &base, &["parent"]).await?
                }
                None => Image::open(pool, &base).await?,
            };
            model.work(&image, 5).await?;
            image.close().await?;
            clone(pool, &base, &copy).await?;
            let passphrases: &[&str] = match (parent, child) {
                (Some(_), Some(_)) => &["child", "parent"],
                (Some(_), None) => &["parent"],
                (None, _) => &["child"],
            };
            if let Some(version) = child {
                rbd::resize(pool, &copy, size.max(header(version) + DATA), |_, _| {}).await?;
                format(pool, &copy, version, "child").await?;
                let raw = Image::open_read_only(pool, &copy).await?;
                assert!(raw.read(0, 4).await?.to_vec() == b"RBDL");
                raw.close().await?;
                let refused = clones::flatten(pool, &copy, |_, _| {}).await.unwrap_err();
                assert!(refused.to_string().contains("its own key"), "{refused}");
            }
            let image = open(pool, &copy, passphrases).await?;
            // End of the data that the clone shows.
            let shown = match (parent, child) {
                (None, Some(version)) => DATA - header(version),
                _ => DATA,
            };
            model.bytes[shown as usize..].fill(0);
            model.check(&image, 0, DATA).await?;
            model.work(&image, 20).await?;
            image.close().await?;
            let image = open(pool, &copy, passphrases).await?;
            model.check(&image, 0, DATA).await?;
            image.close().await?;
        }
        Ok(())
    });
}

#[test]
fn snapshots_of_a_clone_with_its_own_key_keep_what_a_shrink_through_the_key_cuts() {
    with_pool(async |pool| {
        let two = LuksVersion::Two;
        for (case, parent) in [None, Some(two)].into_iter().enumerate() {
            let (base, copy) = (format!("base{case}"), format!("copy{case}"));
            create_raw(pool, &base, header(two) + DATA).await?;
            let mut model = Model::new(case as u64);
            let (image, passphrases): (_, &[&str]) = match parent {
                Some(version) => {
                    format(pool, &base, version, "parent").await?;
                    (open(pool, &base, &["parent"]).await?, &["child", "parent"])
                }
                None => (Image::open(pool, &base).await?, &["child"]),
            };
            model.work(&image, 20).await?;
            image.close().await?;
            clone(pool, &base, &copy).await?;
            if parent.is_none() {
                // After its header the clone shows the start of its parent.
                rbd::resize(pool, &copy, header(two) + DATA, |_, _| {}).await?;
            }
            format(pool, &copy, two, "child").await?;
            let image = open(pool, &copy, passphrases).await?;
            image.write(4096, vec![7; 4096]).await?;
            model.bytes[4096..8192].fill(7);
            model.check(&image, 0, DATA).await?;
            snapshots::create(pool, &copy, "before").await?;
            image.resize(DATA / 2, |_, _| {}).await?;
            model.check(&image, 0, DATA / 2).await?;
            image.close().await?;
            let specs: Vec<_> =
                passphrases.iter().map(|passphrase| EncryptionSpec::new(*passphrase)).collect();
            let before = Image::open_at(pool, &copy, "before").await?.load_encryption(&specs).await?;
            model.check(&before, 0, DATA).await?;
            before.close().await?;
            assert!(upkeep::check_object_map(pool, &copy, Some("before"), |_, _| {}).await?);
        }
        Ok(())
    });
}

#[test]
fn copies_of_a_clone_with_its_own_key_are_clones_or_refused() {
    with_pool(async |pool| {
        let version = LuksVersion::One;
        create(pool, "base", version).await?;
        format(pool, "base", version, "parent").await?;
        let mut model = Model::new(3);
        let image = open(pool, "base", &["parent"]).await?;
        model.work(&image, 5).await?;
        image.close().await?;
        clone(pool, "base", "disk").await?;
        format(pool, "disk", version, "child").await?;
        let keys = &["child", "parent"];
        let image = open(pool, "disk", keys).await?;
        model.work(&image, 5).await?;
        image.close().await?;
        snapshots::create(pool, "disk", "kept").await?;

        let refused = |result: Result<(), Error>| {
            let error = result.unwrap_err();
            assert!(error.to_string().contains("its own key"), "{error}");
        };
        let options = CreateOptions::new(0).with_features(Features::DEFAULT).with_layout(Layout::plain(16)?);
        let larger = options.clone().with_layout(Layout::plain(17)?);
        for snapshot in [None, Some("kept")] {
            let from = (pool, "disk", snapshot);
            refused(upkeep::copy(from, (pool, "copy"), &options, |_, _| {}).await);
            refused(
                upkeep::deep_copy(from, (pool, "copy"), &options, upkeep::CopyKind::Flat, |_, _| {}).await,
            );
        }
        refused(migration::prepare((pool, "disk"), (pool, "moved"), &options, upkeep::CopyKind::Flat).await);
        refused(
            migration::prepare((pool, "disk"), (pool, "moved"), &larger, upkeep::CopyKind::AsSource).await,
        );
        refused(rbd::resize(pool, "disk", header(version) + DATA / 2, |_, _| {}).await);
        assert_eq!(rbd::list(pool).all().await?, ["base", "disk"]);

        upkeep::deep_copy(
            (pool, "disk", None),
            (pool, "copy"),
            &options,
            upkeep::CopyKind::AsSource,
            |_, _| {},
        )
        .await?;
        migration::prepare((pool, "disk"), (pool, "moved"), &options, upkeep::CopyKind::AsSource).await?;
        migration::execute(pool, "moved", |_, _| {}).await?;
        migration::commit(pool, "moved", |_, _| {}).await?;
        for name in ["copy", "moved"] {
            let image = open(pool, name, keys).await?;
            model.check(&image, 0, DATA).await?;
            image.close().await?;
            let kept = Image::open_at(pool, name, "kept").await?;
            let kept = kept.load_encryption(&keys.map(EncryptionSpec::new)).await?;
            model.check(&kept, 0, DATA).await?;
            kept.close().await?;
        }
        Ok(())
    });
}

#[test]
fn errors_name_the_reason_for_a_refused_unlock() {
    with_pool(async |pool| {
        let version = LuksVersion::Two;
        create(pool, "disk", version).await?;
        let why = async |passphrases: &[&str]| match open(pool, "disk", passphrases).await {
            Err(Error::Encryption { source, .. }) => source,
            other => panic!("{other:?}"),
        };
        assert_eq!(why(&["a"]).await, EncryptionError::Luks(LuksError::Missing));
        format(pool, "disk", version, "open sesame").await?;
        assert_eq!(why(&["a"]).await.errno().0, 1);
        let too_many = EncryptionError::TooMany { specs: 2, ancestors: 0 };
        assert_eq!(why(&["open sesame", "more"]).await, too_many);
        let raw = Image::open(pool, "disk").await?;
        raw.write(4096, vec![0; 100]).await?;
        raw.write((16 << 10) + 4096, vec![0; 100]).await?;
        raw.close().await?;
        assert_eq!(why(&["open sesame"]).await.errno().0, 22);
        rbd::create(pool, "small", &CreateOptions::new(1 << 20)).await?;
        let refused = format(pool, "small", version, "a").await.unwrap_err();
        assert!(matches!(&refused, Error::Encryption { source, .. } if source.errno().0 == 28), "{refused}");
        Ok(())
    });
}
