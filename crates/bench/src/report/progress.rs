//! Progress bars on the terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static HIDDEN: AtomicBool = AtomicBool::new(false);

/// Hides all progress bars created afterwards.
pub fn hide() {
    HIDDEN.store(true, Ordering::Relaxed);
}

/// A bar on standard error; hidden if that is not a terminal.
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
        // Our own templates are valid; the default style is a fallback.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> "));
        Self { bar }
    }

    /// Creates a bar for work of known duration.
    pub fn of_time(total: Duration, shown: bool) -> Self {
        Self::new(Some(total.as_millis() as u64), shown, "{msg:24} [{wide_bar}] {percent:>3}%")
    }

    /// Creates a bar for a byte count and rate, without a total if it is unknown.
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

    /// Sets the name of the current task.
    pub fn task(&self, task: &str) {
        self.bar.set_message(task.to_owned());
    }

    /// Sets the total.
    pub fn of(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// Sets the position, in milliseconds or bytes.
    pub fn at(&self, position: u64) {
        self.bar.set_position(position);
    }

    /// Prints a line on standard output, above the bar. Fails if its reader is gone.
    pub fn print(&self, line: &str) -> std::io::Result<()> {
        self.bar.suspend(|| writeln!(std::io::stdout(), "{line}"))
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
