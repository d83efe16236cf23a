//! The package's units under the service manager of a small Debian system.

use super::{debian, file, pack};
use anyhow::{Result, bail};
use onego_sandbox::{Sandbox, sh};

/// Starts the units with their sandboxes, and uses what they serve.
pub(super) fn run(sandbox: &Sandbox) -> Result<()> {
    let (system, package) = (debian::system("bookworm")?, file(&pack(sandbox)?, ".deb")?);
    sandbox.write("script", include_str!("services.sh"))?;
    sandbox.write("check", include_str!("services_check.sh"))?;
    let mut boot = sandbox.host_command("unshare", "--pid --mount --cgroup --uts --ipc --fork sh script");
    let output = sh::output(boot.arg(system).arg(package).arg(sandbox.path("check")))?;
    if !sandbox.path("report/passed").exists() {
        let said = sandbox.read("report/said").unwrap_or_default();
        bail!("the services do not work ({}):\n{}\n{said}", output.status, sh::both(&output));
    }
    Ok(())
}
