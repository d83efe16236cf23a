//! Builds the static program, and packs it for users: archive, Debian package, OCI image, bill of materials.

use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use cargo_metadata::Package;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// Statically linked, so that the program runs on any Linux.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// Largest program, in bytes.
const MAX_SIZE: u64 = 12_000_000;

/// Linker script and C header, relative to the root: they drop unwind tables and large tables of AWS-LC.
const NO_UNWIND: &str = "xtask/data/no-unwind.ld";
const SMALL_HANDSHAKES: &str = "xtask/data/small-handshakes.h";

/// Compressors of zstd that the messenger, which compresses at level 1, does not use.
const UNUSED_STRATEGIES: [&str; 7] = ["DFAST", "GREEDY", "LAZY", "LAZY2", "BTLAZY2", "BTOPT", "BTULTRA"];

/// Architecture in the terms of Debian and OCI.
const ARCHITECTURE: &str = "amd64";

/// Shells, and where each looks for completions.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/onego"),
    ("fish", "usr/share/fish/vendor_completions.d/onego.fish"),
    ("zsh", "usr/share/zsh/vendor-completions/_onego"),
];

#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Write the files to DIR, which is emptied first [default: target/dist-files]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Rebuild the last commit in another directory and compare
    #[arg(long, conflicts_with = "onego")]
    twice: bool,
    /// Pack this static program instead of building one
    #[arg(long, value_name = "PROGRAM")]
    onego: Option<PathBuf>,
}

/// Builds or checks the program, packs it, and prints size and path of each file, the program first.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let program = match &options.onego {
        Some(program) => {
            program.canonicalize().with_context(|| format!("no program {}", program.display()))?
        }
        None => {
            prepare(workspace)?;
            build(workspace, &workspace.root, &workspace.target)?
        }
    };
    check(workspace, &program)?;
    if options.twice {
        compare_with_rebuild(workspace, &program)?;
    }
    let out = options.out.clone().unwrap_or_else(|| workspace.target.join("dist-files"));
    let out = std::path::absolute(out)?;
    workspace.sh.remove_path(&out)?;
    workspace.sh.create_dir(&out)?;
    for file in pack(workspace, &program, &out)? {
        println!("{:>12} {}", fs::metadata(&file)?.len(), file.display());
    }
    Ok(())
}

/// Installs the C compiler and the standard library of the target.
fn prepare(Workspace { sh, .. }: &Workspace) -> Result<()> {
    if cmd!(sh, "musl-gcc --version").quiet().ignore_stdout().run().is_err() {
        cmd!(sh, "apt-get install --yes --no-install-recommends musl-tools").run()?;
    }
    Ok(cmd!(sh, "rustup target add {TARGET}").quiet().ignore_stderr().run()?)
}

/// Builds the program from the sources in `root`: the same bytes wherever `root`, `target` and cargo's home are.
fn build(Workspace { sh, .. }: &Workspace, root: &Path, target: &Path) -> Result<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| Some(env::home_dir()?.join(".cargo"))).context("there is no home directory")?;
    let libraries = cmd!(sh, "rustc --print target-libdir").quiet().read()?;
    let linker = Path::new(&libraries).with_file_name("bin").join("gcc-ld");
    let (shown, home, linker) = (root.display(), home.display(), linker.display());
    // A panic aborts, so the unwind tables of the standard library (1 MB) are useless. Packed relocations take a tenth
    // of the space (musl 1.2.4 and later). Only lld folds identical functions.
    let rust = format!(
        "--remap-path-prefix={shown}=/onego --remap-path-prefix={home}=/cargo -Clink-arg=-Wl,-T,{NO_UNWIND} \
         -Clink-arg=-Wl,-z,pack-relative-relocs -Clink-arg=-B{linker} -Clink-arg=-fuse-ld=lld \
         -Clink-arg=-Wl,--icf=all"
    );
    let mut c = format!("-ffile-prefix-map={}=/target -ffile-prefix-map={home}=/cargo", target.display());
    for strategy in UNUSED_STRATEGIES {
        c += &format!(" -DZSTD_EXCLUDE_{strategy}_BLOCK_COMPRESSOR");
    }
    // Replaces CFLAGS for AWS-LC.
    let aws_lc = format!("{c} -include {shown}/{SMALL_HANDSHAKES}");
    let _root = sh.push_dir(root);
    cmd!(sh, "cargo build --quiet --locked --profile dist --package onego-cli --target {TARGET} --target-dir {target}")
        .env("RUSTFLAGS", rust)
        .env("CFLAGS", c)
        .env("AWS_LC_SYS_CFLAGS", aws_lc)
        .run()?;
    Ok(target.join(TARGET).join("dist/onego"))
}

/// Checks that the program is small and static.
fn check(Workspace { sh, .. }: &Workspace, program: &Path) -> Result<()> {
    let headers = cmd!(sh, "readelf --wide --program-headers {program}").quiet().read()?;
    ensure!(!headers.contains("INTERP"), "{} needs shared libraries", program.display());
    let size = fs::metadata(program)?.len();
    ensure!(size <= MAX_SIZE, "{}: size {size} exceeds {MAX_SIZE}", program.display());
    Ok(())
}

fn compare_with_rebuild(workspace: &Workspace, first: &Path) -> Result<()> {
    let Workspace { sh, root, target, .. } = workspace;
    workspace.ensure_committed()?;
    let clone = target.join("dist-again/tree");
    sh.remove_path(&clone)?;
    cmd!(sh, "git clone --quiet {root} {clone}").run()?;
    let second = build(workspace, &clone, &target.join("dist-again/target"))?;
    ensure!(fs::read(first)? == fs::read(&second)?, "{} and {} differ", first.display(), second.display());
    Ok(())
}

/// Packs the program into the empty directory `out`. Returns the program and the new files.
fn pack(workspace: &Workspace, program: &Path, out: &Path) -> Result<Vec<PathBuf>> {
    let sh = &workspace.sh;
    let version = workspace.member("onego-cli")?.version.to_string();
    // Equal sources give equal bytes: everything is dated with the last commit.
    let date = cmd!(sh, "git log -1 --format=%ct").quiet().read()?;
    let name = format!("onego-{version}-linux-{ARCHITECTURE}");
    let file = |suffix: &str| out.join(format!("{name}.{suffix}"));
    let (archive, bill, image) = (file("tar.zst"), file("cdx.json"), file("oci.tar"));
    let package = out.join(format!("onego_{version}_{ARCHITECTURE}.deb"));
    let tree = out.join(&name);
    lay_out(workspace, program, &tree)?;
    fs::write(&bill, bill_of_materials(workspace, &version)?)?;
    fs::write(&archive, zstd::bulk::compress(&tar(sh, out, &[&name], &date)?, 19)?)?;
    fs::write(&image, oci_image(sh, program, &version, &date, out)?)?;
    debian(sh, &workspace.root.join("xtask/data/debian"), &tree, &version, &date, &package)?;
    sh.remove_path(&tree)?;
    let _out = sh.push_dir(out);
    let names = [&archive, &bill, &image, &package].map(|path| path.file_name().unwrap_or_default());
    let sums = out.join("SHA256SUMS");
    fs::write(&sums, cmd!(sh, "sha256sum -- {names...}").quiet().read()? + "\n")?;
    Ok(vec![program.to_owned(), archive, bill, image, package, sums])
}

/// Lays out the installed files below `tree`.
fn lay_out(workspace: &Workspace, program: &Path, tree: &Path) -> Result<()> {
    let Workspace { sh, root, .. } = workspace;
    let write = |path: &str, bytes: Vec<u8>| sh.write_file(tree.join(path), bytes);
    write("usr/bin/onego", fs::read(program)?)?;
    for (shell, path) in COMPLETIONS {
        write(path, cmd!(sh, "{program} completions {shell}").quiet().output()?.stdout)?;
    }
    let pages = sh.create_dir(tree.join("usr/share/man/man1"))?;
    cmd!(sh, "{program} man {pages}").quiet().run()?;
    write("etc/onego/onego.toml", cmd!(sh, "{program} config template").quiet().output()?.stdout)?;
    for unit in sh.read_dir(root.join("systemd"))? {
        let name = unit.file_name().context("unit without a name")?.to_string_lossy();
        write(&format!("usr/lib/systemd/system/{name}"), fs::read(&unit)?)?;
    }
    for document in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        write(&format!("usr/share/doc/onego/{document}"), fs::read(root.join(document))?)?;
    }
    write("usr/share/doc/onego/copyright", licences(workspace)?.into_bytes())?;
    cmd!(sh, "chmod --recursive u=rwX,go=rX {tree}").quiet().run()?;
    Ok(fs::set_permissions(tree.join("usr/bin/onego"), fs::Permissions::from_mode(0o755))?)
}

/// Returns a reproducible archive of `names` in `folder`.
fn tar(sh: &Shell, folder: &Path, names: &[&str], date: &str) -> Result<Vec<u8>> {
    let options = ["--create", "--format=gnu", "--sort=name", "--owner=root:0", "--group=root:0"];
    let tar = cmd!(sh, "tar {options...} --mtime=@{date} --directory {folder} -- {names...}");
    Ok(tar.quiet().output()?.stdout)
}

fn debian(sh: &Shell, data: &Path, tree: &Path, version: &str, date: &str, package: &Path) -> Result<()> {
    let about = sh.create_dir(tree.join("DEBIAN"))?;
    let sizes = cmd!(sh, "find {tree} -type f -printf %s\\n").quiet().read()?;
    let size =
        sizes.lines().filter_map(|size| size.parse::<u64>().ok()).sum::<u64>().div_ceil(1024).to_string();
    let control =
        fs::read_to_string(data.join("control"))?.replace("VERSION", version).replace("SIZE", &size);
    fs::write(about.join("control"), control)?;
    // Debian keeps the administrator's changes to these.
    fs::write(about.join("conffiles"), "/etc/onego/onego.toml\n")?;
    for script in ["postinst", "postrm", "prerm"] {
        fs::copy(data.join(script), about.join(script))?;
    }
    cmd!(sh, "chmod --recursive u=rwX,go=rX {about}").quiet().run()?;
    // Debian 11 cannot read zstd.
    let build = cmd!(sh, "dpkg-deb --root-owner-group -Zxz --build {tree} {package}");
    Ok(build.env("SOURCE_DATE_EPOCH", date).quiet().ignore_stdout().run()?)
}

/// Returns an archive of an OCI image (image specification 1.1) with the program and an empty `/tmp`.
fn oci_image(sh: &Shell, program: &Path, version: &str, date: &str, out: &Path) -> Result<Vec<u8>> {
    let temporary = sh.create_temp_dir()?;
    let (root, layout) = (sh.create_dir(temporary.path().join("root"))?, out.join("layout"));
    sh.write_file(root.join("onego"), fs::read(program)?)?;
    let folder = sh.create_dir(root.join("tmp"))?;
    fs::set_permissions(root.join("onego"), fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o1777))?;
    let blob = |kind: &str, bytes: &[u8]| -> Result<Value> {
        let sum = cmd!(sh, "sha256sum").stdin(bytes).quiet().read()?;
        let sum = sum.split_whitespace().next().unwrap_or_default();
        sh.write_file(layout.join("blobs/sha256").join(sum), bytes)?;
        let media_type = format!("application/vnd.oci.image.{kind}");
        Ok(json!({ "mediaType": media_type, "digest": format!("sha256:{sum}"), "size": bytes.len() }))
    };
    let layer = blob("layer.v1.tar", &tar(sh, &root, &["onego", "tmp"], date)?)?;
    let config = json!({
        "architecture": ARCHITECTURE,
        "os": "linux",
        "config": { "Entrypoint": ["/onego"], "Cmd": ["demo"], "WorkingDir": "/tmp" },
        "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
    });
    let config = blob("config.v1+json", config.to_string().as_bytes())?;
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest =
        json!({ "schemaVersion": 2, "mediaType": media_type, "config": config, "layers": [layer] });
    let mut manifest = blob("manifest.v1+json", manifest.to_string().as_bytes())?;
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": version });
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    sh.write_file(layout.join("index.json"), index.to_string())?;
    sh.write_file(layout.join("oci-layout"), json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    cmd!(sh, "chmod --recursive u=rwX,go=rX {layout}").quiet().run()?;
    let archive = tar(sh, &layout, &["blobs", "index.json", "oci-layout"], date)?;
    sh.remove_path(layout)?;
    Ok(archive)
}

/// Returns the crates linked into the program, without those of the workspace.
fn linked(workspace: &Workspace) -> Result<Vec<&Package>> {
    let mut linked = workspace.linked(workspace.member("onego-cli")?, &[])?;
    linked.retain(|package| package.source.is_some());
    Ok(linked)
}

/// Returns the licence of every linked crate, and each licence text once.
fn licences(workspace: &Workspace) -> Result<String> {
    let mut text =
        "Onego: MIT OR Apache-2.0, see LICENSE-MIT and LICENSE-APACHE.\n\nLinked crates:\n".to_owned();
    let mut texts: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for package in linked(workspace)? {
        let licence = package.license.as_deref().unwrap_or("see its text");
        writeln!(text, "  {} {}: {licence}", package.name, package.version)?;
        let folder = package.manifest_path.parent().context("manifest without a folder")?;
        for path in workspace.sh.read_dir(folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
            let prefixes = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];
            if path.is_file() && prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                let words = String::from_utf8_lossy(&fs::read(&path)?).trim().to_owned();
                texts.entry(words).or_default().insert(&package.name);
            }
        }
    }
    for (words, packages) in texts {
        let packages = packages.into_iter().collect::<Vec<_>>().join(", ");
        write!(text, "\n{}\n{packages}:\n\n{words}\n", "-".repeat(80))?;
    }
    Ok(text)
}

/// Returns the linked crates as CycloneDX 1.5.
fn bill_of_materials(workspace: &Workspace, version: &str) -> Result<String> {
    let component = |package: &Package| {
        json!({
            "type": "library",
            "name": package.name,
            "version": package.version,
            "purl": format!("pkg:cargo/{}@{}", package.name, package.version),
            "licenses": [{ "expression": package.license.as_deref().unwrap_or("NOASSERTION") }],
        })
    };
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "onego", "version": version } },
        "components": linked(workspace)?.into_iter().map(component).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}
