use super::on_thread::on_thread;
use crate::ceph::error::Error;
use crate::encryption_error::EncryptionError;
use crate::rbd::image::Image;
use onego_luks::{Costs, Format, Formatted, KeySize, Version, hide};
use onego_rbd::{MAX_IO, Misfit, stripe_period};
use zeroize::Zeroizing;

/// Parameters of an encryption.
#[derive(Clone)]
#[non_exhaustive]
pub struct EncryptionOptions {
    /// LUKS version: LUKS1, which old programs support, or LUKS2.
    pub version: Version,
    /// Size of the data key.
    pub key_size: KeySize,
    /// Passphrase that unlocks the header.
    pub passphrase: Zeroizing<Vec<u8>>,
    /// Cost of testing a passphrase.
    pub costs: Costs,
}

impl EncryptionOptions {
    /// Creates parameters with AES-256 and the usual costs.
    pub fn new(version: Version, passphrase: impl Into<Vec<u8>>) -> Self {
        let passphrase = Zeroizing::new(passphrase.into());
        Self { version, key_size: KeySize::Aes256, passphrase, costs: Costs::USUAL }
    }

    /// Sets the size of the data key.
    pub fn with_key_size(self, key_size: KeySize) -> Self {
        Self { key_size, ..self }
    }

    /// Sets the cost of testing a passphrase; use lower costs only in tests.
    pub fn with_costs(self, costs: Costs) -> Self {
        Self { costs, ..self }
    }
}

impl Image {
    /// Writes a LUKS header with a new random key to the start of the image. This makes existing data unreadable: the
    /// header overwrites its first bytes, and the rest decrypts to noise. A clone still shows its parent's data after
    /// its own header.
    ///
    /// The image must be larger than its header: an object of 4 MiB for LUKS1, 16 MiB for LUKS2. This handle keeps
    /// showing the encrypted data; [`load_encryption`](Self::load_encryption) shows the decrypted data.
    pub async fn format_encryption(&self, options: &EncryptionOptions) -> Result<(), Error> {
        self.check_writable()?;
        if self.is_encrypted() {
            return Err(self.encryption_error(EncryptionError::Loaded));
        }
        let EncryptionOptions { version, key_size, passphrase, costs } = options.clone();
        let layout = self.info().layout;
        let alignment = stripe_period(&layout);
        let format = Format { version, key_size, alignment, costs };
        let (data_offset, size) = (format.data_offset(), self.size());
        if data_offset > size {
            return Err(self.encryption_error(Misfit::Size { data_offset, size }.into()));
        }
        let made = on_thread(move || {
            let mut failed = None;
            let mut random = |bytes: &mut [u8]| {
                if let Err(error) = getrandom::fill(bytes) {
                    failed = Some(error);
                }
            };
            let made = format.make(&passphrase, &mut random);
            (made, failed)
        });
        let (made, failed) = made.await?;
        if let Some(error) = failed {
            return Err(Error::Io { what: "reading random numbers", source: error.into() });
        }
        let Formatted { mut bytes, header, key } =
            made.map_err(|error| self.encryption_error(error.into()))?;
        let sectors = header.sectors(&key).map_err(|error| self.encryption_error(error.into()))?;
        onego_rbd::Encryption::new(data_offset, sectors, &layout, size)
            .map_err(|error| self.encryption_error(error.into()))?;
        if self.info().parent.is_some() {
            hide(&mut bytes);
        }
        // Write whole objects, so that no parent data is copied into them.
        bytes.resize(bytes.len().next_multiple_of(alignment as usize), 0);
        for (index, part) in bytes.chunks(MAX_IO as usize).enumerate() {
            self.write(index as u64 * MAX_IO, part.to_vec()).await?;
        }
        self.flush().await
    }
}
