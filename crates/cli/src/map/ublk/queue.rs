use crate::failure::Failure;
use crate::map::queues::QueueServer;
use onego::Wait;
use onego::block::{Device, Host};
use onego_export::ublk::Target;
use onego_ublk::{CharDevice, Queue};
use std::io;
use std::rc::Rc;
use std::time::Duration;

impl QueueServer for Target<Queue> {
    type KernelEnd = CharDevice;

    fn begin(slow: Option<Duration>) -> Self {
        if let Err(error) = onego_ublk::serve_block_device() {
            tracing::info!(%error, "memory may be gained by writing to the device that this process serves");
        }
        let mut target = Self::new();
        slow.into_iter().for_each(|slow| target.set_slow(slow));
        target
    }

    fn serve(
        host: &mut Host<Self>,
        source: Rc<dyn Device>,
        device: CharDevice,
        number: u16,
    ) -> Result<(), Failure> {
        let queue = Queue::open(device, number)?;
        host.export().0.serve(queue, source).map_err(Failure::io("serving a queue"))?;
        // The kernel has all buffers after that.
        host.turn(Wait::Poll)?;
        Ok(())
    }

    fn failure(&mut self) -> Option<io::Error> {
        self.failure()
    }

    fn is_over(&self) -> bool {
        self.is_over()
    }
}
