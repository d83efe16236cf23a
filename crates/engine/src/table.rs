use onego_wire::ConnId;

/// Name of one socket of an engine. A name is not reused in close succession.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    slot: u32,
    generation: u32,
}

impl SocketId {
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Table of an engine's sockets; it assigns their names.
#[derive(Debug)]
pub struct SocketTable<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for SocketTable<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> SocketTable<T> {
    /// Adds a socket and returns its name.
    pub fn insert(&mut self, value: T) -> SocketId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            u32::try_from(self.slots.len() - 1).expect("descriptors are far fewer than 2^32")
        });
        let entry = &mut self.slots[slot as usize];
        entry.1 = Some(value);
        SocketId { slot, generation: entry.0 }
    }

    /// Returns the socket named `id`, if it is still open.
    #[inline]
    pub fn get(&self, id: SocketId) -> Option<&T> {
        self.slots.get(id.slot as usize).filter(|s| s.0 == id.generation)?.1.as_ref()
    }

    /// Returns the socket named `id`, if it is still open.
    #[inline]
    pub fn get_mut(&mut self, id: SocketId) -> Option<&mut T> {
        self.slots.get_mut(id.slot as usize).filter(|s| s.0 == id.generation)?.1.as_mut()
    }

    /// Removes and returns the socket.
    pub fn remove(&mut self, id: SocketId) -> Option<T> {
        let entry = self.slots.get_mut(id.slot as usize).filter(|s| s.0 == id.generation)?;
        let value = entry.1.take()?;
        // The top value names the waker in an engine's event data; no socket ever has it.
        entry.0 = (entry.0 + 1) % u32::MAX;
        self.free.push(id.slot);
        Some(value)
    }

    /// Returns all sockets with their names.
    pub fn iter(&self) -> impl Iterator<Item = (SocketId, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, (generation, value))| {
            Some((SocketId { slot: slot as u32, generation: *generation }, value.as_ref()?))
        })
    }
}

/// Name assigned elsewhere that contains a small index.
pub(crate) trait Name: Copy + Eq {
    fn slot(self) -> usize;
}

impl Name for SocketId {
    fn slot(self) -> usize {
        self.slot as usize
    }
}

impl Name for ConnId {
    fn slot(self) -> usize {
        ConnId::slot(self)
    }
}

/// Values by names that are assigned elsewhere.
pub(crate) struct ByName<K, V> {
    slots: Vec<Option<(K, V)>>,
    len: usize,
}

impl<K, V> Default for ByName<K, V> {
    fn default() -> Self {
        Self { slots: Vec::new(), len: 0 }
    }
}

impl<K: Name, V> ByName<K, V> {
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let slot = key.slot();
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        let old = self.slots[slot].replace((key, value));
        self.len += usize::from(old.is_none());
        old.map(|(_, value)| value)
    }

    #[inline]
    pub(crate) fn get(&self, key: K) -> Option<&V> {
        let entry = self.slots.get(key.slot())?.as_ref()?;
        (entry.0 == key).then_some(&entry.1)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let entry = self.slots.get_mut(key.slot())?.as_mut()?;
        (entry.0 == key).then_some(&mut entry.1)
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        let slot = self.slots.get_mut(key.slot())?;
        if slot.as_ref()?.0 != key {
            return None;
        }
        self.len -= 1;
        slot.take().map(|(_, value)| value)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_closed_socket_finds_nothing() {
        let mut table = SocketTable::default();
        let old = table.insert('a');
        table.remove(old);
        let new = table.insert('b');
        assert_eq!(Name::slot(old), Name::slot(new));
        assert_eq!((table.get(old), table.get(new)), (None, Some(&'b')));
        assert_eq!(SocketId::from_bits(new.to_bits()), new);
    }

    #[test]
    fn a_new_name_does_not_find_an_old_names_value() {
        let mut table = SocketTable::default();
        let mut by_name = ByName::default();
        let old = table.insert(());
        by_name.insert(old, 1);
        table.remove(old);
        let new = table.insert(());
        assert_eq!(by_name.get_mut(new), None);
        assert_eq!(by_name.remove(new), None);
        by_name.insert(new, 2);
        assert_eq!(by_name.get_mut(old), None);
        assert_eq!(by_name.len(), 1);
        assert_eq!(by_name.remove(new), Some(2));
        assert_eq!(by_name.len(), 0);
    }
}
