//! Closed forms.
