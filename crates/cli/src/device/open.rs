//! How devices are opened: what a process opens once, and what each of its threads opens.

use super::encryption::{EncryptionArgs, decrypted, open_image};
use super::files::FileArgs;
use super::source::Source;
use crate::access::Access;
use crate::failure::Failure;
use crate::identity::{Identity, SourceFacts};
use crate::nfs_files::last_name;
use crate::partial_import::IncompleteArgs;
use crate::spec::SnapSpec;
use onego::block::{Device, Export, Geometry, Host, Memory, NbdUrl, Null};
use onego::ceph::Config;
use onego::nfs::{self, FileType};
use onego::rados::Cluster;
use onego::rbd::Image;
use onego::rbd::encryption::EncryptionSpec;
use onego_disk::{Disk, DiskOpener, Disks};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

/// A source of which everything is open that a process opens once: a disk, with its lock. Each thread opens the rest.
#[derive(Clone)]
pub(crate) enum Prepared {
    Disk(Disk),
    Nfs(Box<PreparedNfs>),
    Nbd(NbdUrl),
    Image(Box<PreparedImage>),
    Memory(u64),
    Null(u64),
}

/// A file on a server, and how each thread reaches it.
#[derive(Clone)]
pub(crate) struct PreparedNfs {
    config: nfs::Config,
    path: Vec<u8>,
    files: FileArgs,
}

/// An image, and how each thread opens it.
#[derive(Clone)]
pub(crate) struct PreparedImage {
    spec: SnapSpec,
    encryption: Vec<EncryptionSpec>,
    incomplete: IncompleteArgs,
}

impl Prepared {
    /// Opens what is opened once.
    pub(crate) fn new(
        access: &Access,
        source: &Source,
        read_only: bool,
        files: FileArgs,
    ) -> Result<Self, Failure> {
        Ok(match source {
            Source::Disk(path) => Self::Disk(files.open(path, read_only)?),
            Source::Nfs(url) => {
                let (config, path) = (url.config(access)?, url.path().to_vec());
                Self::Nfs(Box::new(PreparedNfs { config, path, files }))
            }
            Source::Nbd(url) => Self::Nbd(url.clone()),
            Source::Image(spec) => Self::image(spec, IncompleteArgs::default()),
            Source::Memory(size) => Self::Memory(*size),
            Source::Null(size) => Self::Null(*size),
        })
    }

    pub(crate) fn image(spec: &SnapSpec, incomplete: IncompleteArgs) -> Self {
        Self::Image(Box::new(PreparedImage { spec: spec.clone(), encryption: Vec::new(), incomplete }))
    }

    /// The same, with the options for incomplete images.
    pub(crate) fn with_incomplete(self, incomplete: IncompleteArgs) -> Self {
        match self {
            Self::Image(image) => Self::Image(Box::new(PreparedImage { incomplete, ..*image })),
            other => other,
        }
    }

    /// The same, with the passphrases of an encrypted image.
    pub(crate) fn with_encryption(self, args: &EncryptionArgs) -> Result<Self, Failure> {
        match (self, args.specs()?) {
            (device, specs) if specs.is_empty() => Ok(device),
            (Self::Image(image), encryption) => {
                Ok(Self::Image(Box::new(PreparedImage { encryption, ..*image })))
            }
            _ => Err(Failure::Usage("passphrases are for images: rbd:[POOL/[NAMESPACE/]]IMAGE".into())),
        }
    }
}

/// Bytes at either end of a file on a server that tell its format.
const FORMAT_ENDS: usize = 512;

/// Opens the devices of one thread.
pub(crate) struct Opener<'a> {
    /// How the cluster of images is reached; `None`: there are no images.
    pub(crate) config: Option<&'a Config>,
    /// The pool of images that name none.
    pub(crate) pool: Option<&'a str>,
    /// Its client, once there is one.
    cluster: Option<Cluster>,
    /// What carries out the requests to disks, once there is one.
    disks: Option<DiskOpener>,
}

impl<'a> Opener<'a> {
    pub(crate) fn new(config: Option<&'a Config>, pool: Option<&'a str>) -> Self {
        Self { config, pool, cluster: None, disks: None }
    }

    /// The source as a device of this host.
    pub(crate) fn open<E: Export>(
        &mut self,
        host: &mut Host<E>,
        prepared: &Prepared,
        read_only: bool,
    ) -> Result<Rc<dyn Device>, Failure> {
        self.open_known(host, prepared, read_only).map(|(device, _)| device)
    }

    /// The source as a device of this host, and what a copy has to know of it.
    pub(crate) fn open_known<E: Export>(
        &mut self,
        host: &mut Host<E>,
        prepared: &Prepared,
        read_only: bool,
    ) -> Result<(Rc<dyn Device>, SourceFacts), Failure> {
        let known = |identity| SourceFacts { identity: Some(identity), ..SourceFacts::default() };
        match prepared {
            Prepared::Disk(disk) => {
                let about = disk.metadata().map_err(Failure::file(disk.path()))?;
                let name = disk.path().file_name().map(OsStrExt::as_bytes);
                Ok((self.disks(host)?.device(disk), SourceFacts::here(&about, name)))
            }
            Prepared::Nfs(at) => {
                let PreparedNfs { config, path, files } = &**at;
                let (mount, within) = host.mount(config, path)?;
                let file = host.block_on(mount.open(&within))??;
                if file.opened().file_type != FileType::Regular {
                    let path = nfs::Escaped(path);
                    return Err(Failure::Usage(format!("{path} on the server is not a file")));
                }
                let size = file.opened().size;
                if !files.raw && size > 0 {
                    let head = host.block_on(file.read(0, FORMAT_ENDS.min(size as usize)))??.to_vec();
                    let tail_at = size.saturating_sub(FORMAT_ENDS as u64);
                    let tail = host.block_on(file.read(tail_at, (size - tail_at) as usize))??.to_vec();
                    files.check_remote(format!("{} on the server", nfs::Escaped(path)), &head, &tail)?;
                }
                let facts = SourceFacts::there(file.opened(), last_name(path));
                Ok((host.file(file, size, read_only)?, facts))
            }
            Prepared::Nbd(url) => Ok((host.nbd(url)?, known(Identity::Nbd(url.clone())))),
            Prepared::Memory(size) => {
                Ok((Rc::new(Memory::new(Geometry::new(*size))), SourceFacts::default()))
            }
            Prepared::Null(size) => Ok((Rc::new(Null::new(Geometry::new(*size))), SourceFacts::default())),
            Prepared::Image(prepared) => {
                let PreparedImage { spec, encryption, incomplete } = &**prepared;
                if spec.snapshot.is_some() && !read_only {
                    return Err(Failure::Usage(format!(
                        "rbd:{spec} is a snapshot, which cannot be written to"
                    )));
                }
                let cluster = self.cluster(host)?;
                let (place, name) = (spec.image.place(self.pool), &spec.image.image);
                let (image, is_incomplete) = host.block_on(async {
                    let pool = place.open(&cluster).await?;
                    let is_incomplete = incomplete.check_named(&pool, name).await?;
                    let image = match &spec.snapshot {
                        Some(at) => decrypted(Image::open_at(&pool, name, at).await?, encryption).await?,
                        None => open_image(&pool, name, read_only, encryption).await?,
                    };
                    Ok::<_, Failure>((image, is_incomplete))
                })??;
                if !read_only {
                    image.check_writable()?;
                }
                // A snapshot is another device than its image.
                let snapshot =
                    spec.snapshot.iter().map(|snapshot| format!("@{snapshot}")).collect::<String>();
                let (pool, id) = (image.pool().id(), format!("{}{snapshot}", image.info().id));
                let namespace = image.pool().namespace().to_owned();
                let facts = known(Identity::Image { pool, namespace, id });
                Ok((host.image(image)?, SourceFacts { is_incomplete, ..facts }))
            }
        }
    }

    /// The client of the images' cluster.
    pub(crate) fn cluster<E: Export>(&mut self, host: &mut Host<E>) -> Result<Cluster, Failure> {
        if let Some(cluster) = &self.cluster {
            return Ok(cluster.clone());
        }
        let config = self.config.ok_or(onego::ceph::Error::Closed)?;
        let cluster = host.connect(config)?;
        host.block_on(cluster.ready())??;
        Ok(self.cluster.insert(cluster).clone())
    }

    /// What makes devices of disks.
    pub(crate) fn disks<E: Export>(&mut self, host: &mut Host<E>) -> Result<&DiskOpener, Failure> {
        if self.disks.is_none() {
            let disks = Disks::start(&host.waker()).map_err(Failure::io("starting the threads of disks"))?;
            self.disks = Some(disks.opener());
            host.add(disks);
        }
        self.disks.as_ref().ok_or_else(|| onego::ceph::Error::Closed.into())
    }
}
