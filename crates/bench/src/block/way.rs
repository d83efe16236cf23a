use super::route::{Alone, CutUp, Plugged, Queued, Route, Whole};

/// Way of I/Os from callers to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// None: measures the cost of the loop itself.
    Alone,
    /// Each as one container.
    Whole,
    /// Each as one container, through its caller's plug.
    Plugged,
    /// Split into pieces of 4 KiB with a header each, which one queue for all callers merges again.
    Queued,
    /// Split into pieces of 4 KiB, which go down one by one.
    CutUp,
}

impl Way {
    /// Ways of I/Os larger than a piece.
    pub const OF_LARGE: [Self; 3] = [Self::Whole, Self::Queued, Self::CutUp];
    /// Ways of I/Os no larger than a piece.
    pub const OF_SMALL: [Self; 3] = [Self::Plugged, Self::Queued, Self::CutUp];

    /// Returns the name.
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
