//! Elementwise maths from plain operations.
