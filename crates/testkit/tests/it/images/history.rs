//! Which bytes a block may show.

/// What a block shows that nobody has written.
pub(crate) const ZEROS: u64 = 0;

/// The order in which things happen, as far as anybody can see it.
pub(crate) type Moment = u64;

/// A change of a block.
#[derive(Debug)]
struct Change {
    /// What the block shows then.
    stamp: u64,
    /// Whose it is.
    client: u32,
    begun: Moment,
    /// It has no effect later than this.
    over: Option<Moment>,
    acknowledged: bool,
    /// The block shows this only if the change is broken off.
    is_broken_off: bool,
}

impl Change {
    /// One that begins now.
    fn new(stamp: u64, client: u32, now: Moment) -> Self {
        Self { stamp, client, begun: now, over: None, acknowledged: false, is_broken_off: false }
    }
}

/// The changes of one block, or of an image's size, in the order in which they began.
#[derive(Debug)]
pub(crate) struct History {
    changes: Vec<Change>,
}

impl History {
    /// It shows `stamp` since `now`.
    pub(crate) fn new(stamp: u64, now: Moment) -> Self {
        let mut first = Change::new(stamp, u32::MAX, now);
        (first.over, first.acknowledged) = (Some(now), true);
        Self { changes: vec![first] }
    }

    pub(crate) fn begin(&mut self, client: u32, stamp: u64, now: Moment) {
        self.changes.push(Change::new(stamp, client, now));
    }

    /// A change begins that, if it is broken off, may show what the block showed first of all.
    pub(crate) fn begin_with_first(&mut self, client: u32, stamp: u64, now: Moment) {
        let first = self.changes.first().map_or(ZEROS, |first| first.stamp);
        self.changes.push(Change { is_broken_off: true, ..Change::new(first, client, now) });
        self.begin(client, stamp, now);
    }

    /// The change of that moment is acknowledged.
    pub(crate) fn acknowledge(&mut self, begun: Moment, now: Moment) {
        self.changes.retain(|change| change.begun != begun || !change.is_broken_off);
        for change in self.changes.iter_mut().filter(|change| change.begun == begun) {
            (change.over, change.acknowledged) = (Some(now), true);
        }
    }

    /// The change of that moment was refused, and never had an effect.
    pub(crate) fn forget(&mut self, begun: Moment) {
        self.changes.retain(|change| change.begun != begun);
    }

    /// What these clients have begun and nobody has acknowledged has no effect from now on.
    pub(crate) fn bury(&mut self, is_dead: impl Fn(u32) -> bool, now: Moment) {
        for change in self.changes.iter_mut().filter(|change| change.over.is_none() && is_dead(change.client))
        {
            change.over = Some(now);
        }
    }

    /// May a read that lasted from `begun` to `now` have seen that?
    pub(crate) fn may_show(&self, stamp: u64, begun: Moment, now: Moment) -> bool {
        let mut candidates = self.changes.iter().filter(|change| change.stamp == stamp && change.begun < now);
        candidates.any(|candidate| {
            let is_hidden_by = |later: &Change| {
                later.acknowledged
                    && candidate.over.is_some_and(|over| later.begun > over)
                    && later.over.is_some_and(|over| over < begun)
            };
            !self.changes.iter().any(is_hidden_by)
        })
    }

    /// Undoes every change that has ended: it shows `stamp` since `now`.
    pub(crate) fn reset(&mut self, stamp: u64, now: Moment) {
        self.begin(u32::MAX, stamp, now);
        self.acknowledge(now, now);
    }

    /// Returns whether no other change was in flight since the one of that moment began.
    pub(crate) fn is_alone(&self, begun: Moment) -> bool {
        let mut others = self.changes.iter().filter(|change| change.begun != begun);
        others.all(|other| other.over.is_some_and(|over| over < begun))
    }

    /// The least that it may ever have been.
    pub(crate) fn least(&self) -> u64 {
        self.changes.iter().map(|change| change.stamp).min().unwrap_or(0)
    }
}
