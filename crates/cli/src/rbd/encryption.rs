//! `onego rbd encryption`.

use super::names::ImageOptions;
use crate::access::Access;
use crate::device::read_passphrase;
use crate::failure::Failure;
use onego::rbd::Image;
use onego::rbd::encryption::{EncryptionOptions, KeySize, LuksVersion};

#[derive(clap::Subcommand)]
pub(crate) enum EncryptionCommand {
    /// Format an image: what it has cannot be read any more
    #[command(after_help = "Example:\n  onego rbd encryption format rbd/disk luks2 passphrase.txt")]
    Format(FormatOptions),
}

#[derive(clap::Args)]
pub(crate) struct FormatOptions {
    /// The image; luks1 or luks2; and the file with the passphrase, of which a newline at the end does not count
    #[arg(value_name = "IMAGE FORMAT PASSPHRASE-FILE", num_args = 0..)]
    words: Vec<String>,
    #[command(flatten)]
    options: ImageOptions,
    /// The cipher of the data
    #[arg(long, value_name = "CIPHER", value_enum, default_value_t = CipherAlg::Aes256)]
    cipher_alg: CipherAlg,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum CipherAlg {
    #[value(name = "aes-128")]
    Aes128,
    #[value(name = "aes-256")]
    Aes256,
}

pub(super) fn run(access: &Access, command: &EncryptionCommand) -> Result<(), Failure> {
    let EncryptionCommand::Format(options) = command;
    let (image, words) =
        options.options.image_and(&options.words, 2..=2, "a format and a passphrase file")?;
    let version = match words.first().map(String::as_str) {
        Some("luks1") => LuksVersion::One,
        Some("luks2") => LuksVersion::Two,
        other => {
            let shown = other.unwrap_or_default();
            return Err(Failure::Usage(format!("{shown:?} is no format: write luks1 or luks2")));
        }
    };
    let passphrase = read_passphrase(words[1].as_ref())?;
    let key_size = match options.cipher_alg {
        CipherAlg::Aes128 => KeySize::Aes128,
        CipherAlg::Aes256 => KeySize::Aes256,
    };
    let how = EncryptionOptions::new(version, passphrase.to_vec()).with_key_size(key_size);
    access.with_cluster(async |cluster| {
        let image_pool = image.pool(cluster).await?;
        let opened = Image::open(&image_pool, &image.name).await?;
        let formatted = opened.format_encryption(&how).await;
        let closed = opened.close().await;
        formatted?;
        Ok(closed?)
    })
}
