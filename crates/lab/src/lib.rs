//! Workloads against simulated drives in virtual time.

pub mod theory;
