//! How far something is, on the terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static HIDDEN: AtomicBool = AtomicBool::new(false);

/// Hides all bars that are made from here on.
pub fn hide() {
    HIDDEN.store(true, Ordering::Relaxed);
}

/// A bar on standard error; nothing where that is no terminal.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    fn new(length: Option<u64>, shown: bool, template: &str) -> Self {
        let bar = match length {
            Some(length) => ProgressBar::new(length),
            None => ProgressBar::new_spinner(),
        };
        let shown = shown && !HIDDEN.load(Ordering::Relaxed);
        let target =
            if shown { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        bar.set_draw_target(target);
        // Our own templates are right; should one not be, the usual look does as well.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> "));
        Self { bar }
    }

    /// Work of a known length in time.
    pub fn of_time(total: Duration, shown: bool) -> Self {
        Self::new(Some(total.as_millis() as u64), shown, "{msg:24} [{wide_bar}] {percent:>3}%")
    }

    /// Bytes that are moved, and how fast; without a total where nobody knows it.
    pub fn of_bytes(task: &str, total: Option<u64>, shown: bool) -> Self {
        let template = match total {
            Some(_) => {
                "{msg} [{wide_bar}] {percent:>3}% {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}"
            }
            None => "{msg} {spinner} {binary_bytes} {binary_bytes_per_sec}",
        };
        let progress = Self::new(total, shown, template);
        progress.task(task);
        progress
    }

    /// Says what is being done now.
    pub fn task(&self, task: &str) {
        self.bar.set_message(task.to_owned());
    }

    /// Says how much there is.
    pub fn of(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// Says how much is done, in milliseconds or bytes.
    pub fn at(&self, position: u64) {
        self.bar.set_position(position);
    }

    /// Prints a line on standard output, above the bar. It fails if nobody reads it any more.
    pub fn print(&self, line: &str) -> std::io::Result<()> {
        self.bar.suspend(|| writeln!(std::io::stdout(), "{line}"))
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
