//! Clients that lie and clients that send no valid message: what they gain, and what they cost.
//!
//! Attackers run in the server's sandbox, as subcommands of this program.

mod garbage;
mod memory;
mod nfs;
mod wire;

use crate::scenario::Scenario;
use anyhow::Result;
use onego_sandbox::Release::{Pacific, Reef, Tentacle};
use onego_sandbox::{Sandbox, sh};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "nfs-attacks",
            "callers who claim any identity gain nothing from a directory that we serve",
            nfs::run,
        )
        .smoke()
        .root(),
        Scenario::new(
            "memory-attacks",
            "clients that make our NFS servers hold memory gain little, and others are served",
            memory::on_nfs,
        )
        .smoke(),
        Scenario::new(
            "memory-attacks-cluster",
            "clients that make our embedded cluster hold memory gain little, and others are served",
            memory::on_cluster,
        )
        .smoke(),
        Scenario::new("bad-input", "broken bytes and wrong arguments harm nothing", garbage::run)
            .smoke()
            .releases(&[Reef, Pacific, Tentacle]),
    ]
}

/// An attack from inside a sandbox.
#[derive(clap::Subcommand)]
pub(crate) enum AttackCommand {
    #[command(hide = true)]
    SendGarbage(garbage::Options),
    #[command(hide = true)]
    NfsAttack(nfs::Options),
    #[command(hide = true)]
    MemoryAttack(memory::Options),
}

impl AttackCommand {
    pub(crate) fn carry_out(&self) -> Result<()> {
        match self {
            Self::SendGarbage(options) => garbage::send(options),
            Self::NfsAttack(options) => nfs::attack(options),
            Self::MemoryAttack(options) => memory::attack(options),
        }
    }
}

/// Carries out an attack in a sandbox and returns its report.
fn attack(sandbox: &Sandbox, line: &str) -> Result<String> {
    // Some attackers have more connections than processes usually may.
    let mut command = sandbox.host_command("prlimit", "--nofile=12000");
    sh::text(command.arg(std::env::current_exe()?).args(line.split_whitespace()))
}
