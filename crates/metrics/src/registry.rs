use crate::families::Families;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A source of metrics.
pub trait Collect: Send + Sync {
    /// Adds the source's metrics.
    fn collect(&self, families: &mut Families);
}

impl<F: Fn(&mut Families) + Send + Sync> Collect for F {
    fn collect(&self, families: &mut Families) {
        self(families);
    }
}

/// The sources of a process's metrics. Clones share the same sources.
#[derive(Clone, Default)]
pub struct Registry {
    sources: Arc<Mutex<Vec<Arc<dyn Collect>>>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

impl Registry {
    /// Adds a source, for the lifetime of the registry.
    pub fn add(&self, source: impl Collect + 'static) {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(source));
    }

    /// Collects the metrics of all sources. Samples with the same labels are merged.
    pub fn collect(&self) -> Families {
        // Sources may be slow, and may add others.
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut families = Families::default();
        sources.iter().for_each(|source| source.collect(&mut families));
        families
    }
}
