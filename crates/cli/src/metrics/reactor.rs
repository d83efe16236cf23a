//! The figures of a thread that serves devices.

use onego::Stats;
use onego::block::{Export, Host};
use onego_export::REQUESTS;
use onego_export::nbd::Server;
use onego_export::ublk::{KernelQueue, Target};
use onego_export::vhost_user::DiskServer;
use onego_metrics::{Families, OperationsSnapshot, Published, Registry};
use std::sync::Arc;

/// What an export has counted, by the names of what it serves.
pub(crate) trait CountingExport: Export {
    /// How clients reach it: `nbd`, `vhost-user` or `ublk`.
    const PROTOCOL: &str;

    /// Requests, by what they are to; no name: the source that the command was given.
    fn operations(&self) -> Vec<(Option<String>, OperationsSnapshot)>;
}

impl CountingExport for Server {
    const PROTOCOL: &str = "nbd";

    fn operations(&self) -> Vec<(Option<String>, OperationsSnapshot)> {
        let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        self.operations().map(|(name, seen)| (named(name), seen)).collect()
    }
}

impl CountingExport for DiskServer {
    const PROTOCOL: &str = "vhost-user";

    fn operations(&self) -> Vec<(Option<String>, OperationsSnapshot)> {
        vec![(None, self.operations())]
    }
}

impl<K: KernelQueue> CountingExport for Target<K> {
    const PROTOCOL: &str = "ublk";

    fn operations(&self) -> Vec<(Option<String>, OperationsSnapshot)> {
        vec![(None, self.operations())]
    }
}

/// What a thread has to tell.
#[derive(Debug, Clone, Default)]
struct Figures {
    engine: Stats,
    operations: Vec<(Option<String>, OperationsSnapshot)>,
}

/// Tells of the threads that serve devices of one command. Cheap to clone: a thread has one.
#[derive(Debug, Clone)]
pub(crate) struct ReactorMetrics {
    registry: Registry,
    /// What is served, where an export does not name it.
    source: String,
}

impl ReactorMetrics {
    pub(crate) fn new(registry: &Registry, source: impl ToString) -> Self {
        Self { registry: registry.clone(), source: source.to_string() }
    }

    /// Begins to tell of this thread, which drives the host.
    pub(crate) fn begin<E: CountingExport>(&self, host: &Host<E>) -> ReactorFigures {
        let published = Arc::new(Published::<Figures>::default());
        let thread = std::thread::current().name().unwrap_or("onego").to_owned();
        let (waker, source, asked) = (host.waker(), self.source.clone(), Arc::clone(&published));
        self.registry.add(move |families: &mut Families| {
            let Figures { engine, operations } = asked.ask(|| waker.wake());
            engine.collect(&thread, families);
            for (name, seen) in operations {
                let export = name.unwrap_or_else(|| source.clone());
                let labels = vec![("protocol", E::PROTOCOL.to_owned()), ("export", export)];
                families.operations(&REQUESTS, &labels, &seen);
            }
        });
        host.cluster_figures().for_each(|figures| self.registry.add(figures));
        host.mount_figures().for_each(|figures| self.registry.add(figures));
        ReactorFigures { published }
    }
}

/// Tells of the thread that has it.
#[derive(Debug)]
pub(crate) struct ReactorFigures {
    published: Arc<Published<Figures>>,
}

impl ReactorFigures {
    /// Tells, if somebody has asked. For each turn.
    #[inline]
    pub(crate) fn tell<E: CountingExport>(&self, host: &mut Host<E>) {
        self.published.answer(|| {
            let engine = host.stats();
            Figures { engine, operations: host.export().0.operations() }
        });
    }
}
