//! Tests that run on each engine.

/// Lists each function once for each engine, as `ON_EACH_ENGINE`: `on_each_engine![one, other]`, or with needs in front,
/// `on_each_engine![[Need::Root]; one]`.
macro_rules! on_each_engine {
    ($($test:ident),* $(,)?) => {
        on_each_engine![[]; $($test),*];
    };
    ($needs:tt; $($test:ident),* $(,)?) => {
        pub(crate) const ON_EACH_ENGINE: &[onego_testkit::NeedyTest] = &[
            $(
                on_engine!("epoll", $test, Epoll, $needs, []),
                on_engine!("uepoll", $test, Uepoll, $needs, []),
                on_engine!("uring", $test, Uring, $needs, [onego_testkit::Need::Uring]),
            )*
        ];
    };
}

macro_rules! on_engine {
    ($name:literal, $test:ident, $kind:ident, [$($need:expr),*], [$($more:expr),*]) => {
        onego_testkit::NeedyTest {
            path: concat!(module_path!(), "::", $name, "::", stringify!($test)),
            needs: &[$($need,)* $($more,)*],
            run: || $test(onego_engine::EngineKind::$kind),
        }
    };
}
