//! Progress on standard error: bars on a terminal, and lines elsewhere where a command asks for them.

use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// Steps of a bar.
const STEPS: u64 = 10_000;

/// Time between two lines.
const LINE: Duration = Duration::from_secs(30);

/// The progress bars of one command.
#[derive(Clone, Default)]
pub struct Progress(MultiProgress);

impl Progress {
    /// Adds a bar for `what`; it disappears when dropped.
    pub fn bar(&self, what: &str) -> Bar {
        let style = ProgressStyle::with_template(
            "{prefix:24!} [{bar:40}] {percent:>3} %  {elapsed} + {eta}",
        );
        let bar = self.0.add(ProgressBar::new(STEPS));
        bar.set_style(style.expect("the template is valid").progress_chars("=> "));
        bar.set_prefix(what.to_owned());
        Bar(bar)
    }

    /// The same. Where there is no terminal, it writes a line now and then.
    pub fn aloud(&self, what: &str) -> Aloud {
        Aloud(self.bar(what), Instant::now())
    }
}

/// One progress bar.
pub struct Bar(ProgressBar);

impl Bar {
    /// Shows the share done, 0..=1.
    pub fn set(&self, share: f64) {
        let step = (share.clamp(0.0, 1.0) * STEPS as f64) as u64;
        if step != self.0.position() {
            self.0.set_position(step);
        }
    }
}

/// A progress bar, or lines, with the time of the last line.
pub struct Aloud(Bar, Instant);

impl Aloud {
    /// Shows the share done, 0..=1.
    pub fn set(&mut self, share: f64) {
        let Aloud(Bar(bar), last) = self;
        if bar.is_hidden() && last.elapsed() >= LINE {
            *last = Instant::now();
            eprintln!("{}: {:.0} %", bar.prefix(), share * 100.0);
        }
        self.0.set(share);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
