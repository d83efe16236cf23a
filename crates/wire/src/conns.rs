/// Identifies one connection of a machine, which assigns it. Ids are not reused in close succession, so late events for
/// a closed connection are recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    slot: u32,
    generation: u32,
}

impl ConnId {
    /// Returns the index in dense tables: small, and reused once the connection is gone.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

/// Connections of a machine by [`ConnId`].
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

    /// Reserves an id that no connection ever gets, for something else that the machine's driver must identify.
    pub fn reserve(&mut self) -> ConnId {
        self.slots.push((0, None));
        self.reserved += 1;
        ConnId { slot: u32::try_from(self.slots.len() - 1).expect("reserved ids are few"), generation: 0 }
    }

    /// Returns the connection if it still exists.
    #[inline]
    pub fn get(&self, id: ConnId) -> Option<&T> {
        self.slots.get(id.slot()).filter(|s| s.0 == id.generation)?.1.as_ref()
    }

    /// Returns the connection if it still exists.
    #[inline]
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut T> {
        self.slots.get_mut(id.slot()).filter(|s| s.0 == id.generation)?.1.as_mut()
    }

    /// Removes the connection.
    pub fn remove(&mut self, id: ConnId) -> Option<T> {
        let entry = self.slots.get_mut(id.slot()).filter(|s| s.0 == id.generation)?;
        let value = entry.1.take()?;
        entry.0 = entry.0.wrapping_add(1);
        self.free.push(id.slot);
        Some(value)
    }

    /// Iterates over all connections and their ids.
    pub fn iter(&self) -> impl Iterator<Item = (ConnId, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, (generation, value))| {
            Some((ConnId { slot: slot as u32, generation: *generation }, value.as_ref()?))
        })
    }

    /// Iterates over all connections and their ids.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ConnId, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(slot, (generation, value))| {
            Some((ConnId { slot: slot as u32, generation: *generation }, value.as_mut()?))
        })
    }

    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len() - self.reserved
    }

    /// Returns whether there are no connections.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_id_finds_nothing() {
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
    fn a_reserved_id_is_never_a_connections() {
        let mut table = ConnTable::default();
        let name = table.reserve();
        assert!(table.is_empty());
        let first = table.insert(1);
        assert_ne!(first, name);
        assert_eq!((table.get(name), table.len()), (None, 1));
        assert_eq!(table.remove(name), None);
    }
}
