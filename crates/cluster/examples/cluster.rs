//! Runs a cluster until it is told to stop: `cargo run -p onego-cluster --example cluster -- --conf-dir DIR`.

use onego_cluster::{Cluster, Config};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::WARN).init();
    let mut config = Config::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{name} needs a value"));
        match name.as_str() {
            "--listen" => {
                let addr: SocketAddr = value()?.parse()?;
                (config.listen, config.mon_port) = (addr.ip(), addr.port());
            }
            "--conf-dir" => config.conf_dir = Some(value()?.into()),
            "--engine" => config.engine = value()?.parse()?,
            "--memory" => config.memory_limit = Some(value()?.parse()?),
            "--null-writes" => config.null_writes = true,
            other => return Err(format!("{other} is not an option").into()),
        }
    }
    let cluster = Cluster::start(config)?;
    println!("{}", cluster.conf());
    loop {
        std::thread::sleep(Duration::from_secs(10));
        println!("{:?}", cluster.stats()?);
    }
}
