//! Formats of files that contain the bytes of a disk in another form.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Bytes at the start of a file that tell its format: VDI's magic ends last.
const HEAD: usize = 68;

/// Bytes of the footer of a VHD; older versions of Virtual PC wrote one less.
const VHD_FOOTER: u64 = 512;

/// Format of a file whose bytes are not those of the disk that it contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileFormat {
    /// QEMU, version 2 or 3.
    Qcow2,
    /// QEMU, version 1.
    Qcow,
    /// QEMU enhanced disk.
    Qed,
    /// VMware: a sparse extent, or a descriptor.
    Vmdk,
    /// Microsoft Virtual PC and Azure.
    Vhd,
    /// Microsoft Hyper-V.
    Vhdx,
    /// VirtualBox.
    Vdi,
    /// gzip
    Gzip,
    /// xz
    Xz,
    /// Zstandard
    Zstd,
    /// bzip2
    Bzip2,
    /// LZ4 frames.
    Lz4,
}

/// Formats by their magic at the start of a file (RFC 1952, RFC 8878, and the formats' own specifications).
const MAGICS: [(&[u8], FileFormat); 12] = [
    (b"QFI\xfb\0\0\0\x01", FileFormat::Qcow),
    (b"QFI\xfb", FileFormat::Qcow2),
    (b"QED\0", FileFormat::Qed),
    (b"KDMV", FileFormat::Vmdk),
    (b"COWD", FileFormat::Vmdk),
    (b"# Disk DescriptorFile", FileFormat::Vmdk),
    (b"conectix", FileFormat::Vhd),
    (b"vhdxfile", FileFormat::Vhdx),
    (b"\x1f\x8b\x08", FileFormat::Gzip),
    (b"\xfd7zXZ\0", FileFormat::Xz),
    (b"\x28\xb5\x2f\xfd", FileFormat::Zstd),
    (b"\x04\x22\x4d\x18", FileFormat::Lz4),
];

/// Formats by the extensions of file names.
const EXTENSIONS: [(&str, FileFormat); 13] = [
    ("qcow2", FileFormat::Qcow2),
    ("qcow", FileFormat::Qcow),
    ("qed", FileFormat::Qed),
    ("vmdk", FileFormat::Vmdk),
    ("vhd", FileFormat::Vhd),
    ("vpc", FileFormat::Vhd),
    ("vhdx", FileFormat::Vhdx),
    ("vdi", FileFormat::Vdi),
    ("gz", FileFormat::Gzip),
    ("xz", FileFormat::Xz),
    ("zst", FileFormat::Zstd),
    ("bz2", FileFormat::Bzip2),
    ("lz4", FileFormat::Lz4),
];

impl FileFormat {
    /// Detects the format of an open file. `None`: its bytes are those of a disk.
    pub fn detect(file: &File) -> io::Result<Option<Self>> {
        let size = file.metadata()?.len();
        let (mut head, mut tail) = ([0; HEAD], [0; VHD_FOOTER as usize]);
        let head_len = size.min(HEAD as u64) as usize;
        file.read_exact_at(&mut head[..head_len], 0)?;
        let tail_len = size.min(VHD_FOOTER) as usize;
        file.read_exact_at(&mut tail[..tail_len], size - tail_len as u64)?;
        Ok(Self::of_bytes(&head[..head_len], &tail[..tail_len]))
    }

    /// Detects the format by the first bytes of a file, and by its last 512.
    pub fn of_bytes(head: &[u8], tail: &[u8]) -> Option<Self> {
        // A block of bzip2 begins with a magic of its own: three letters alone are any text.
        let is_bzip2 =
            matches!(head, [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..]);
        let is_vdi = head.get(64..68) == Some(&[0x7f, 0x10, 0xda, 0xbe]);
        let is_fixed_vhd = [0, 1].iter().any(|at| tail.get(*at..at + 8) == Some(b"conectix"));
        match MAGICS.iter().find(|(magic, _)| head.starts_with(magic)) {
            Some((_, format)) => Some(*format),
            None if is_bzip2 => Some(Self::Bzip2),
            None if is_vdi => Some(Self::Vdi),
            None if is_fixed_vhd => Some(Self::Vhd),
            None => None,
        }
    }

    /// Returns the format that the extension of a file name stands for.
    pub fn of_name(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        EXTENSIONS.iter().find(|(known, _)| *known == extension).map(|(_, format)| *format)
    }

    /// Returns the program that decompresses a file of this format to its standard output, for a compressed file.
    pub fn decompressor(self) -> Option<&'static str> {
        match self {
            Self::Gzip => Some("zcat"),
            Self::Xz => Some("xzcat"),
            Self::Zstd => Some("zstdcat"),
            Self::Bzip2 => Some("bzcat"),
            Self::Lz4 => Some("lz4cat"),
            Self::Qcow2 | Self::Qcow | Self::Qed | Self::Vmdk | Self::Vhd | Self::Vhdx | Self::Vdi => None,
        }
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Qcow2 => "qcow2",
            Self::Qcow => "qcow",
            Self::Qed => "QED",
            Self::Vmdk => "VMDK",
            Self::Vhd => "VHD",
            Self::Vhdx => "VHDX",
            Self::Vdi => "VDI",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Lz4 => "lz4",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_detected_and_a_disk_is_none_of_them() {
        for (magic, format) in MAGICS {
            assert_eq!(FileFormat::of_bytes(&[magic, &[0; 80]].concat(), &[]), Some(format));
            // The magic of qcow2 is a part of that of qcow: a reader of qcow2 refuses other versions.
            assert_ne!(FileFormat::of_bytes(&magic[..magic.len() - 1], &[]), Some(format));
            assert_eq!(FileFormat::of_bytes(&[&[0], magic].concat(), &[]), None, "{format}");
        }
        assert_eq!(FileFormat::of_bytes(b"BZh91AY&SY", &[]), Some(FileFormat::Bzip2));
        assert_eq!(FileFormat::of_bytes(b"BZh9 is a text", &[]), None);
        let vdi = [&[b'<'; 64][..], &[0x7f, 0x10, 0xda, 0xbe]].concat();
        assert_eq!(FileFormat::of_bytes(&vdi, &[]), Some(FileFormat::Vdi));
        let footer = [b"conectix".as_slice(), &[0; 504]].concat();
        assert_eq!(FileFormat::of_bytes(&[0xeb; 68], &footer), Some(FileFormat::Vhd));
        assert_eq!(FileFormat::of_bytes(&[0xeb; 68], &[0; 512]), None);
        assert_eq!(FileFormat::of_bytes(&[], &[]), None);
    }

    #[test]
    fn names_stand_for_formats() {
        let of = |name: &str| FileFormat::of_name(Path::new(name));
        assert_eq!(of("/srv/a.b/Disk.QCOW2"), Some(FileFormat::Qcow2));
        assert_eq!(of("disk.img.gz"), Some(FileFormat::Gzip));
        assert_eq!(
            (of("qcow2"), of("disk.img"), of("disk.raw"), of("a.qcow2/disk")),
            (None, None, None, None)
        );
    }
}
