//! A process that has no descriptors left.

use onego_engine::{EngineKind, Pump, Wait, now, open};
use onego_testkit::{FrameEvent, Frames};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::net::TcpStream;
use std::time::Duration;

fn a_listener_pauses_without_descriptors_and_resumes(kind: EngineKind) {
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(100), ..before }).unwrap();
    let mut machine = Frames::default();
    machine.listen(0, "127.0.0.1:0".parse().unwrap());
    let mut pump = Pump::new(open(kind).unwrap(), machine);
    pump.turn(Wait::Poll).unwrap();
    let Some(FrameEvent::Listening(_, Ok(addr))) = pump.machine_mut().events.pop_front() else { panic!() };
    let _peers = [TcpStream::connect(addr).unwrap(), TcpStream::connect(addr).unwrap()];
    let mut all = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        all.push(file);
    }
    let end = now() + Duration::from_millis(350);
    while now() < end {
        pump.turn(Wait::Until(end)).unwrap();
    }
    assert_eq!(pump.connections(), 0);
    assert!(pump.stats().waits < 20, "{kind} does not spin: {:?}", pump.stats());
    drop(all);
    let end = now() + Duration::from_secs(20);
    while pump.connections() < 2 {
        assert!(now() < end);
        pump.turn(Wait::Until(end)).unwrap();
    }
    setrlimit(Resource::Nofile, before).unwrap();
}

on_each_engine![a_listener_pauses_without_descriptors_and_resumes];
