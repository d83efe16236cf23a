//! Files of an NFS server: written and read as streams, and listed.
//!
//! `cargo run -p onego --example nfs -- nfs://SERVER/EXPORT`

use onego::nfs::{Config, Mount, SetAttributes};
use smol::io::{AsyncReadExt as _, AsyncWriteExt as _};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "nfs://localhost/export".into());
    let (config, path) = Config::from_url(&url)?;
    run(&config, &path)
}

pub(crate) fn run(config: &Config, export: impl AsRef<[u8]>) -> Result<(), Box<dyn std::error::Error>> {
    smol::block_on(async {
        let mount = Mount::connect(config, export).await?;
        mount.mkdir("notes", SetAttributes::default()).await?;
        let file = mount.create("notes/today", SetAttributes::default(), true).await?;

        // `AsyncWrite` and `AsyncRead` of futures-io; `tokio_util::compat` adapts them to tokio's.
        let mut writer = file.writer(0);
        for line in 0..100_000 {
            writer.write_all(format!("line {line}\n").as_bytes()).await?;
        }
        writer.close().await?;
        let mut text = String::new();
        mount.open("notes/today").await?.reader(0).read_to_string(&mut text).await?;
        assert_eq!(text.lines().count(), 100_000);
        assert!(text.ends_with("line 99999\n"));

        // Read at any offset without a copy.
        assert!(file.read(5, 1).await? == b"0");

        let mut names = mount.read_dir("notes").await?;
        while let Some(entry) = names.try_next().await? {
            println!("{}", onego::nfs::Escaped(&entry.name));
        }
        let error = mount.open("notes/tomorrow").await.expect_err("the file does not exist");
        assert_eq!((error.kind(), error.is_retryable()), (onego::ErrorKind::NotFound, false));
        mount.remove("notes/today").await?;
        Ok(mount.rmdir("notes").await?)
    })
}
