use crate::failure::Failure;
use crate::map::queues::QueueServer;
use onego::Wait;
use onego::block::{Device, Host};
use onego_export::nbd::{Config, Export, Server};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

/// The only export. Nobody names it: in metrics, it has the name of its source.
const NAME: &str = "";

impl QueueServer for Server {
    type KernelEnd = OwnedFd;

    fn begin(slow: Option<Duration>) -> Self {
        Self::new(Config { slow, ..Config::default() })
    }

    fn serve(
        host: &mut Host<Self>,
        source: Rc<dyn Device>,
        socket: OwnedFd,
        _number: u16,
    ) -> Result<(), Failure> {
        let export =
            Export { name: NAME.into(), description: String::new(), device: source, read_only: false };
        let server = &mut host.export().0;
        server.add_export(export).map_err(|error| Failure::Device(error.to_string()))?;
        debug_assert!(server.connections() == 0, "a device of nbd has one connection");
        if !server.attach(socket, NAME) {
            return Err(Failure::Device("the server takes no connection".into()));
        }
        host.turn(Wait::Poll)?;
        Ok(())
    }

    fn failure(&mut self) -> Option<io::Error> {
        self.failure()
    }

    fn is_over(&self) -> bool {
        self.connections() == 0
    }
}
