use std::fmt;

/// Which bytes are asked of a device that keeps them on several members.
///
/// A device without redundancy has the same bytes in every version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u8);

impl Version {
    /// The bytes as the device chooses to read them.
    pub const AS_READ: Version = Version(0);

    /// The bytes that the other members give, directly or computed, as if `member` were missing.
    ///
    /// # Panics
    /// If `member` is above 254.
    #[must_use]
    pub fn without(member: usize) -> Version {
        let number = u8::try_from(member + 1).expect("no device has more than 255 members");
        Version(number)
    }

    /// The member that gives no bytes of this version.
    #[must_use]
    pub fn member_left_out(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }

    /// Every version of a device with this many members: as it is read, then without each member.
    pub fn all(members: usize) -> impl Iterator<Item = Version> {
        std::iter::once(Version::AS_READ).chain((0..members).map(Version::without))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.member_left_out() {
            None => f.write_str("as read"),
            Some(member) => write!(f, "without member {member}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn all_versions_leave_out_nobody_and_then_each_member() {
        let left_out: Vec<Option<usize>> = Version::all(3).map(Version::member_left_out).collect();
        assert_eq!(left_out, [None, Some(0), Some(1), Some(2)]);
        assert_eq!(Version::default(), Version::AS_READ);
        assert_eq!(Version::without(254).member_left_out(), Some(254));
    }
}
