//! Bytes written to members, by cause.

/// Why bytes are written to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteCause {
    /// The user wrote them.
    Data,
    /// Parity of a full row; in a mirror, the copy of data.
    Parity,
    /// Zeros that fill the rest of a row.
    Padding,
    /// Running parity of a partial row, in the log.
    Log,
    /// Heads of the log.
    LogHead,
    /// Labels.
    Label,
    /// Bytes computed or copied from other members, to fill or to heal a member, and parity made to agree.
    Restored,
}

impl ByteCause {
    /// Every cause.
    pub const ALL: [ByteCause; 7] = [
        ByteCause::Data,
        ByteCause::Parity,
        ByteCause::Padding,
        ByteCause::Log,
        ByteCause::LogHead,
        ByteCause::Label,
        ByteCause::Restored,
    ];

    /// Its name in records and in the status of a service.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ByteCause::Data => "data",
            ByteCause::Parity => "parity",
            ByteCause::Padding => "row_padding",
            ByteCause::Log => "parity_log",
            ByteCause::LogHead => "parity_log_heads",
            ByteCause::Label => "labels",
            ByteCause::Restored => "restored",
        }
    }
}

/// Bytes written to a member, or to several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenBytes([u64; ByteCause::ALL.len()]);

impl WrittenBytes {
    /// Adds bytes of a cause.
    pub const fn add(&mut self, cause: ByteCause, bytes: u64) {
        self.0[cause as usize] += bytes;
    }

    /// Bytes of a cause.
    #[must_use]
    pub const fn of(&self, cause: ByteCause) -> u64 {
        self.0[cause as usize]
    }

    /// Bytes of all causes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Bytes beside the data.
    #[must_use]
    pub fn added(&self) -> u64 {
        self.total() - self.of(ByteCause::Data)
    }

    /// Each cause and its bytes.
    pub fn each(&self) -> impl Iterator<Item = (ByteCause, u64)> + '_ {
        ByteCause::ALL.into_iter().map(|cause| (cause, self.of(cause)))
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &WrittenBytes) -> WrittenBytes {
        WrittenBytes(std::array::from_fn(|index| self.0[index] + other.0[index]))
    }

    /// The same counted from `start`.
    #[must_use]
    pub fn since(&self, start: &WrittenBytes) -> WrittenBytes {
        WrittenBytes(std::array::from_fn(|index| self.0[index] - start.0[index]))
    }
}
