//! Counts of what a run has seen: they add up over the runs.

/// A struct of counts, and its sum.
macro_rules! tally {
    ($(#[$meta:meta])* $name:ident { $($count:ident),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default)]
        pub(crate) struct $name {
            $(pub(crate) $count: u64,)*
        }

        impl std::ops::Add for $name {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self { $($count: self.$count + other.$count,)* }
            }
        }
    };
}
pub(crate) use tally;
