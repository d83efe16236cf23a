//! The options of encrypted images, as `rbd` has them.

use crate::failure::Failure;
use onego::rados::Pool;
use onego::rbd::Image;
use onego::rbd::encryption::{EncryptionSpec, LuksVersion};
use std::fs;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Most bytes of a passphrase; cryptsetup takes no more from a terminal.
const MAX_PASSPHRASE: u64 = 8 << 20;

/// What an image is formatted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum EncryptionFormat {
    /// LUKS1 or LUKS2
    Luks,
    /// LUKS1
    Luks1,
    /// LUKS2
    Luks2,
}

/// How encrypted images are opened.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct EncryptionArgs {
    /// The file with the passphrase of an encrypted image; again for its parent, and so on. A newline at its end does not count
    #[arg(long, value_name = "FILE")]
    encryption_passphrase_file: Vec<PathBuf>,
    /// What the image is formatted in, once for each passphrase [default: luks, which is both]
    #[arg(long, value_name = "FORMAT", value_enum, requires = "encryption_passphrase_file")]
    encryption_format: Vec<EncryptionFormat>,
}

impl EncryptionArgs {
    /// The passphrases; none if the image is to be used as it lies there.
    pub(crate) fn specs(&self) -> Result<Vec<EncryptionSpec>, Failure> {
        let (files, formats) = (&self.encryption_passphrase_file, &self.encryption_format);
        if !formats.is_empty() && formats.len() != files.len() {
            let words = "as many --encryption-format are needed as there are --encryption-passphrase-file";
            return Err(Failure::Usage(words.into()));
        }
        let formats = formats.iter().copied().chain(std::iter::repeat(EncryptionFormat::Luks));
        files.iter().zip(formats).map(|(file, format)| spec(file, format)).collect()
    }
}

fn spec(file: &Path, format: EncryptionFormat) -> Result<EncryptionSpec, Failure> {
    let spec = EncryptionSpec::new(read_passphrase(file)?.to_vec());
    Ok(match format {
        EncryptionFormat::Luks => spec,
        EncryptionFormat::Luks1 => spec.with_version(LuksVersion::One),
        EncryptionFormat::Luks2 => spec.with_version(LuksVersion::Two),
    })
}

/// The passphrase that a file has, without the newline at its end.
pub(crate) fn read_passphrase(file: &Path) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let length = fs::metadata(file).map_err(Failure::file(file))?.len();
    if length > MAX_PASSPHRASE {
        return Err(Failure::Usage(format!("{} is too large for a passphrase", file.display())));
    }
    let mut passphrase = Zeroizing::new(fs::read(file).map_err(Failure::file(file))?);
    passphrase.pop_if(|byte| *byte == b'\n');
    Ok(passphrase)
}

/// Opens an image, decrypted if there are passphrases.
pub(crate) async fn open_image(
    pool: &Pool,
    name: &str,
    read_only: bool,
    specs: &[EncryptionSpec],
) -> Result<Image, onego::ceph::Error> {
    let image = match read_only {
        true => Image::open_read_only(pool, name).await?,
        false => Image::open(pool, name).await?,
    };
    decrypted(image, specs).await
}

/// An image, decrypted if there are passphrases.
pub(crate) async fn decrypted(image: Image, specs: &[EncryptionSpec]) -> Result<Image, onego::ceph::Error> {
    if specs.is_empty() { Ok(image) } else { image.load_encryption(specs).await }
}
