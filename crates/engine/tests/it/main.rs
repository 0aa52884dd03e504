//! The engine through its public API.

mod opening_ten_terabytes;
