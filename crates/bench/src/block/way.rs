use super::route::{Alone, CutUp, Plugged, Queued, Route, Whole};

/// How the I/Os of callers get to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// They do not: what the loop around it costs.
    Alone,
    /// Each as one container.
    Whole,
    /// Each as one container, through the plug of its caller.
    Plugged,
    /// Cut to pieces of 4 KiB with a header each, which one queue for all callers puts together again.
    Queued,
    /// Cut to pieces of 4 KiB, which go down one by one.
    CutUp,
}

impl Way {
    /// Ways of I/Os that are larger than a piece.
    pub const OF_LARGE: [Self; 3] = [Self::Whole, Self::Queued, Self::CutUp];
    /// Ways of I/Os that are pieces already.
    pub const OF_SMALL: [Self; 3] = [Self::Plugged, Self::Queued, Self::CutUp];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alone => "loop alone",
            Self::Whole => "containers",
            Self::Plugged => "plugs",
            Self::Queued => "global queue",
            Self::CutUp => "pieces",
        }
    }

    pub(super) fn route(self, callers: u32) -> Box<dyn Route> {
        match self {
            Self::Alone => Box::new(Alone::default()),
            Self::Whole => Box::new(Whole::default()),
            Self::Plugged => Box::new(Plugged::new(callers)),
            Self::Queued => Box::new(Queued::default()),
            Self::CutUp => Box::new(CutUp::default()),
        }
    }
}
