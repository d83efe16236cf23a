//! Serves memory by NBD on the loopback address: `nbd_memory mem:SIZE[K|M|G] [PORT]`. It prints its URI and runs until it is
//! killed.

use onego_block::{Geometry, Memory};
use onego_engine::{EngineKind, Pump, Wait};
use onego_export::nbd::{Config, Export, Server};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

/// Bytes that a text like `mem:64M` names.
fn size(text: &str) -> Option<u64> {
    let text = text.strip_prefix("mem:")?;
    let units = [('K', 10), ('M', 20), ('G', 30)];
    let unit = units.into_iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, bits)));
    let (number, bits) = unit.unwrap_or((text, 0));
    number.parse::<u64>().ok()?.checked_mul(1 << bits)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let size = arguments.next().and_then(|text| size(&text));
    let size = size.ok_or("what is to be served is missing: say mem:SIZE, such as mem:64M")?;
    let port = arguments.next().map_or(Ok(0), |port| port.parse())?;

    let mut server = Server::new(Config::default());
    let device = Rc::new(Memory::new(Geometry::new(size)));
    let (name, description) = ("memory".into(), "bytes in memory".into());
    server.add_export(Export { name, description, device, read_only: false })?;
    server.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));

    let mut pump = Pump::new(onego_engine::open(EngineKind::default())?, server);
    pump.turn(Wait::Poll)?;
    if let Some(error) = pump.machine_mut().failure() {
        return Err(error.into());
    }
    let addresses = pump.machine().addresses().ok_or("the listener is not there")?;
    println!("nbd://{}/memory", addresses[0]);
    loop {
        pump.turn(Wait::Forever)?;
    }
}
