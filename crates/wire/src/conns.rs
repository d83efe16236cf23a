/// Names one connection of a machine. The machine gives the names; a name is never used twice in close succession,
/// so what comes late for a connection that is gone is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    slot: u32,
    generation: u32,
}

impl ConnId {
    /// The place in dense tables: small, and free again once the connection is gone.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// The connections of a machine, by [`ConnId`].
#[derive(Debug)]
pub struct ConnTable<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
    reserved: usize,
}

impl<T> Default for ConnTable<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), reserved: 0 }
    }
}

impl<T> ConnTable<T> {
    /// Adds a connection.
    pub fn insert(&mut self, value: T) -> ConnId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            u32::try_from(self.slots.len() - 1).expect("connections are far fewer than 2^32")
        });
        let entry = &mut self.slots[slot as usize];
        entry.1 = Some(value);
        ConnId { slot, generation: entry.0 }
    }

    /// A name that no connection ever has: for something else of the machine's that its driver has to know.
    pub fn reserve(&mut self) -> ConnId {
        self.slots.push((0, None));
        self.reserved += 1;
        ConnId { slot: u32::try_from(self.slots.len() - 1).expect("these are few"), generation: 0 }
    }

    /// The connection of that name, if it is still here.
    #[inline]
    pub fn get(&self, id: ConnId) -> Option<&T> {
        self.slots.get(id.slot()).filter(|s| s.0 == id.generation)?.1.as_ref()
    }

    /// The connection of that name, if it is still here.
    #[inline]
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut T> {
        self.slots.get_mut(id.slot()).filter(|s| s.0 == id.generation)?.1.as_mut()
    }

    /// Takes the connection out.
    pub fn remove(&mut self, id: ConnId) -> Option<T> {
        let entry = self.slots.get_mut(id.slot()).filter(|s| s.0 == id.generation)?;
        let value = entry.1.take()?;
        entry.0 = entry.0.wrapping_add(1);
        self.free.push(id.slot);
        Some(value)
    }

    /// All connections with their names.
    pub fn iter(&self) -> impl Iterator<Item = (ConnId, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, (generation, value))| {
            Some((ConnId { slot: slot as u32, generation: *generation }, value.as_ref()?))
        })
    }

    /// All connections with their names.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ConnId, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(slot, (generation, value))| {
            Some((ConnId { slot: slot as u32, generation: *generation }, value.as_mut()?))
        })
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len() - self.reserved
    }

    /// Is there no connection?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_name_finds_nothing() {
        let mut table = ConnTable::default();
        let first = table.insert(1);
        assert_eq!(table.remove(first), Some(1));
        let second = table.insert(2);
        assert_eq!(first.slot(), second.slot());
        assert_eq!(table.get(first), None);
        assert_eq!(table.get(second), Some(&2));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn a_reserved_name_is_no_connections() {
        let mut table = ConnTable::default();
        let name = table.reserve();
        assert!(table.is_empty());
        let first = table.insert(1);
        assert_ne!(first, name);
        assert_eq!((table.get(name), table.len()), (None, 1));
        assert_eq!(table.remove(name), None);
    }
}
