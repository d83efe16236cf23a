use crate::families::Families;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Something that has figures to tell.
pub trait Collect: Send + Sync {
    /// Adds its figures.
    fn collect(&self, families: &mut Families);
}

impl<F: Fn(&mut Families) + Send + Sync> Collect for F {
    fn collect(&self, families: &mut Families) {
        self(families);
    }
}

/// Everything in a process that has figures to tell. Cheap to clone: all clones are one.
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
    /// Adds a source of figures, for as long as the registry lives.
    pub fn add(&self, source: impl Collect + 'static) {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(source));
    }

    /// What all sources have to tell. Samples with the same labels, of several threads, are added up.
    pub fn collect(&self) -> Families {
        // A source may take a while, and may add others.
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut families = Families::default();
        sources.iter().for_each(|source| source.collect(&mut families));
        families
    }
}
