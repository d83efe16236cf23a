//! Tests that are run on each engine.

/// Makes a test of each function for each engine.
macro_rules! on_each_engine {
    ($($test:ident),* $(,)?) => {
        mod epoll {
            $(#[test] fn $test() { super::$test(onego_engine::EngineKind::Epoll) })*
        }
        mod uepoll {
            $(#[test] fn $test() { super::$test(onego_engine::EngineKind::Uepoll) })*
        }
        mod uring {
            $(#[test] fn $test() { super::$test(onego_engine::EngineKind::Uring) })*
        }
    };
}
