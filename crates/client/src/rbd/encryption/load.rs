use super::on_thread::on_thread;
use crate::ceph::error::{Errno, Error};
use crate::encryption_error::EncryptionError;
use crate::rbd::ancestors::{Generation, lineage};
use crate::rbd::header::Header;
use crate::rbd::image::Image;
use onego_luks::{Budget, Error as LuksError, LuksHeader, Sectors, Version};
use onego_rbd::Encryption;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Size of the first read of a header: both LUKS2 headers, at their usual size.
const FIRST_READ: u64 = 32 << 10;

/// Key to the encryption of an image.
#[derive(Clone)]
pub struct EncryptionSpec {
    /// Expected LUKS version; `None` accepts both.
    pub version: Option<Version>,
    /// The passphrase.
    pub passphrase: Zeroizing<Vec<u8>>,
}

impl EncryptionSpec {
    /// Creates a key to a header of either version.
    pub fn new(passphrase: impl Into<Vec<u8>>) -> Self {
        Self { version: None, passphrase: Zeroizing::new(passphrase.into()) }
    }

    /// Requires this version.
    pub fn with_version(self, version: Version) -> Self {
        Self { version: Some(version), ..self }
    }
}

impl Image {
    /// Unlocks the image's encryption, and returns an image that shows only the decrypted data after the header. This
    /// takes seconds of CPU time on a separate thread. It closes this handle; clones of it keep showing the encrypted
    /// data.
    ///
    /// The first passphrase is the image's, the second its parent's, and so on; the last one is tried on all further
    /// ancestors. The first such ancestor without a header is taken as unencrypted, as are its own ancestors. A clone
    /// that was not formatted itself has its parent's header.
    ///
    /// Fails with [`Error::Encryption`] if a header cannot be unlocked.
    pub async fn load_encryption(self, specs: &[EncryptionSpec]) -> Result<Self, Error> {
        if self.is_encrypted() {
            return Err(self.encryption_error(EncryptionError::Loaded));
        }
        if self.moves_here() {
            let what = format!("{} is being migrated: finish the migration first", self.info().name);
            return Err(Error::Unmet { what, errno: Errno::OPNOTSUPP });
        }
        let ancestors = lineage(self.pool(), self.info(), self.snap()).await?;
        let Some(last) = specs.last() else {
            return Err(self.encryption_error(LuksError::WrongPassphrase.into()));
        };
        if specs.len() > ancestors.len() + 1 {
            let (specs, ancestors) = (specs.len(), ancestors.len());
            return Err(self.encryption_error(EncryptionError::TooMany { specs, ancestors }));
        }
        let own = self.open_header(last_or(specs, 0, last)).await?;
        let mut opened = Vec::new();
        for (index, ancestor) in ancestors.iter().enumerate() {
            let Generation { home, info, snapshot, .. } = ancestor;
            let image = Self::open_snap(&Header::of(home, info), *snapshot).await?;
            let unlocked = image.open_header(last_or(specs, index + 1, last)).await;
            image.close().await?;
            match unlocked {
                Ok(encryption) => opened.push(encryption),
                Err(Error::Encryption { source: EncryptionError::Luks(LuksError::Missing), .. })
                    if index + 1 >= specs.len() =>
                {
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.reopen_with(own, ancestors, opened).await
    }

    async fn open_header(&self, spec: &EncryptionSpec) -> Result<Arc<Encryption>, Error> {
        let wrong = |error: EncryptionError| self.encryption_error(error);
        let header = self.read_header().await?;
        if spec.version.is_some_and(|version| version != header.version()) {
            return Err(wrong(EncryptionError::OtherVersion));
        }
        let data_offset = header.data_offset();
        let mut budget = Budget::default();
        for slot in header.slots() {
            let area = slot.area();
            if area.end > self.size() {
                return Err(wrong(LuksError::Damaged("the image ends within it").into()));
            }
            let area = self.read(area.start, area.end - area.start).await?.to_vec();
            let (header, slot, passphrase) = (header.clone(), slot.clone(), spec.passphrase.clone());
            let (unlocked, left) = on_thread(move || {
                let sectors = unlock(&header, &slot, &area, &passphrase, &mut budget);
                (sectors, budget)
            })
            .await?;
            budget = left;
            if let Some(sectors) = unlocked.map_err(|error| wrong(error.into()))? {
                return Encryption::new(data_offset, sectors, &self.info().layout, self.size())
                    .map(Arc::new)
                    .map_err(|error| wrong(error.into()));
            }
        }
        Err(wrong(LuksError::WrongPassphrase.into()))
    }

    async fn read_header(&self) -> Result<LuksHeader, Error> {
        let mut length = FIRST_READ;
        loop {
            let there = length.min(self.size());
            let mut bytes = self.read(0, there).await?.to_vec();
            // The image ends within the header: pad it with zeros.
            bytes.resize(length as usize, 0);
            match LuksHeader::parse(&bytes) {
                Err(LuksError::CutOff { needed }) if needed > length => length = needed,
                other => return other.map_err(|error| self.encryption_error(error.into())),
            }
        }
    }
}

fn last_or<'a>(specs: &'a [EncryptionSpec], index: usize, last: &'a EncryptionSpec) -> &'a EncryptionSpec {
    specs.get(index).unwrap_or(last)
}

fn unlock(
    header: &LuksHeader,
    slot: &onego_luks::KeySlot,
    area: &[u8],
    passphrase: &[u8],
    budget: &mut Budget,
) -> Result<Option<Sectors>, LuksError> {
    match header.unlock(slot, area, passphrase, budget)? {
        Some(key) => header.sectors(&key).map(Some),
        None => Ok(None),
    }
}
