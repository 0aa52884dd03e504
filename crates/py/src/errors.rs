//! Errors of the lab as exceptions. A class exists where a caller acts differently on it.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use thermocline::lab;

create_exception!(thermocline_lab, Error, PyException, "An error of the lab.");
create_exception!(
    thermocline_lab,
    SettingsError,
    Error,
    "The stack, the workload or a key cannot be, or they contradict each other."
);
create_exception!(
    thermocline_lab,
    TraceError,
    Error,
    "A file cannot be read, or is another than the specification names."
);
create_exception!(thermocline_lab, DriveError, Error, "The drive refused a request.");
create_exception!(
    thermocline_lab,
    Interrupted,
    Error,
    "The run was stopped before anything was measured."
);
create_exception!(thermocline_lab, DefectError, Error, "A defect of Thermocline.");

/// The exception of `error`, with its causes in the text.
pub fn raised(error: &lab::Error) -> PyErr {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    match error {
        lab::Error::Read { .. }
        | lab::Error::Specification { .. }
        | lab::Error::OtherFile { .. }
        | lab::Error::Trace(_)
        | lab::Error::Map(_) => TraceError::new_err(text),
        lab::Error::Drive { .. } => DriveError::new_err(text),
        lab::Error::Interrupted => Interrupted::new_err(text),
        lab::Error::Engine(_) | lab::Error::Accounting(_) => DefectError::new_err(text),
        lab::Error::Stack { .. }
        | lab::Error::Key { .. }
        | lab::Error::Axis { .. }
        | lab::Error::Profile(_)
        | lab::Error::Workload(_)
        | lab::Error::TooSmall { .. }
        | lab::Error::DoesNotFit(_)
        | lab::Error::Settings(_) => SettingsError::new_err(text),
        _ => Error::new_err(text),
    }
}
