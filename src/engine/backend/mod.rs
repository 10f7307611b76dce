//! The verbs a learner needs, as traits.
