//! What values parameters take, and structs of parameters declared with their defaults and limits.

use super::Problems;
use crate::device::DeviceSet;

/// The values that a parameter takes which is a number, or a number or nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Whole numbers from the first to the second.
    Between(u64, u64),
    /// Whole numbers from this one on.
    AtLeast(u64),
    /// Finite numbers between the two, neither among them.
    Inside(f64, f64),
    /// More than 0, and at most 1.
    Share,
    /// Finite, more than 0.
    Positive,
    /// More than 0, and at most this.
    PositiveUpTo(f64),
    /// Finite, 0 or more.
    NotNegative,
    /// Any that is finite.
    Finite,
}

impl Limit {
    /// Whether a number is among them.
    fn holds(self, number: Number) -> bool {
        match (self, number) {
            (Limit::Between(least, most), Number::Whole(n)) => (least..=most).contains(&n),
            (Limit::AtLeast(least), Number::Whole(n)) => n >= least,
            (Limit::Between(..) | Limit::AtLeast(_), Number::Real(_)) => false,
            (_, Number::Whole(n)) => self.holds(Number::Real(n as f64)),
            (Limit::Inside(a, b), Number::Real(x)) => x > a && x < b,
            (Limit::Share, Number::Real(x)) => x > 0.0 && x <= 1.0,
            (Limit::Positive, Number::Real(x)) => x.is_finite() && x > 0.0,
            (Limit::PositiveUpTo(most), Number::Real(x)) => x > 0.0 && x <= most,
            (Limit::NotNegative, Number::Real(x)) => x.is_finite() && x >= 0.0,
            (Limit::Finite, Number::Real(x)) => x.is_finite(),
        }
    }

    /// The values in words: what follows "is not".
    fn text(self) -> String {
        match self {
            Limit::Between(least, most) => format!("between {} and {}", grouped(least), grouped(most)),
            Limit::AtLeast(least) => format!("at least {}", grouped(least)),
            Limit::Inside(a, b) => format!("inside ({a}, {b})"),
            Limit::Share => "inside (0, 1]".into(),
            Limit::Positive => "a positive number".into(),
            Limit::PositiveUpTo(most) => format!("a positive number up to {most:e}"),
            Limit::NotNegative => "zero or a positive number".into(),
            Limit::Finite => "a finite number".into(),
        }
    }
}

/// A whole number with its digits in groups of three.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A parameter's value, where it is a number.
#[derive(Clone, Copy)]
pub enum Number {
    Whole(u64),
    Real(f64),
}

impl std::fmt::Debug for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Whole(n) => n.fmt(f),
            Number::Real(x) => std::fmt::Debug::fmt(x, f),
        }
    }
}

impl From<u32> for Number {
    fn from(n: u32) -> Number {
        Number::Whole(n as u64)
    }
}

impl From<u64> for Number {
    fn from(n: u64) -> Number {
        Number::Whole(n)
    }
}

impl From<f64> for Number {
    fn from(x: f64) -> Number {
        Number::Real(x)
    }
}

impl Problems {
    /// Adds a problem where a number is given that a parameter does not take.
    pub fn limit<T: Into<Number>>(&mut self, name: &str, value: Option<T>, limit: Limit) {
        if let Some(number) = value.map(Into::into).filter(|number| !limit.holds(*number)) {
            self.check(false, name, number, &limit.text());
        }
    }
}

/// What finds the problems of one of the parameters `P`, whose type is `T`.
pub trait Check<P, T> {
    /// Adds what is wrong with `value`, which is that of the parameter `name`.
    fn check(&self, params: &P, value: &T, name: &str, problems: &mut Problems);
}

impl<P, T: Copy + Into<Number>> Check<P, T> for Limit {
    fn check(&self, _params: &P, value: &T, name: &str, problems: &mut Problems) {
        problems.limit(name, Some(*value), *self);
    }
}

impl<P, T: Copy + Into<Number>> Check<P, Option<T>> for Limit {
    fn check(&self, _params: &P, value: &Option<T>, name: &str, problems: &mut Problems) {
        problems.limit(name, *value, *self);
    }
}

/// The rule for `device`.
pub struct DeviceName;

impl<P> Check<P, String> for DeviceName {
    fn check(&self, _params: &P, value: &String, _name: &str, problems: &mut Problems) {
        problems.check_device(value);
    }
}

/// The rule for `device` where several GPUs may share the work.
pub struct DeviceNames;

impl<P> Check<P, String> for DeviceNames {
    fn check(&self, _params: &P, value: &String, _name: &str, problems: &mut Problems) {
        problems.take(DeviceSet::parse(value).map(drop));
    }
}

/// Problems found by a function, which may look at other parameters too.
pub struct By<P>(pub fn(&P, &mut Problems));

impl<P, T> Check<P, T> for By<P> {
    fn check(&self, params: &P, _value: &T, _name: &str, problems: &mut Problems) {
        (self.0)(params, problems);
    }
}

/// Declares a struct of parameters: each is a field with its meaning, its default, and what values it takes, in the order in which
/// they are checked. `local`: the parameters that say how a fit is done and never change its result. `held_out`: those that need
/// held-out rows, the first to be told of first; `unless`: where what this says is not so. `together`: functions that check what does not go
/// together, after all others. `called`: functions that check what somebody asks for by hand, and a model may have.
macro_rules! params {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$doc:meta])* pub $field:ident: $type:ty = $default:expr $(=> $limit:expr)?,)*
        }
        local { $($local:ident),* }
        held_out { $($held_out:ident $(unless $instead:ident)?),* }
        together { $($together:ident),* }
        called { $($called:ident),* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default,)* }
            }
        }

        impl $name {
            /// The names of the parameters that say how a fit is done and never change its result, which is why no model keeps them.
            pub const LOCAL: &[&str] = &[$(stringify!($local)),*];

            /// The names of all parameters.
            const NAMES: &[&str] = &[$(stringify!($field)),*];

            /// Returns the parameters as a model records them: those of [`Self::LOCAL`] at their defaults.
            pub fn recorded(&self) -> Self {
                let local = Self::default();
                $name { $($local: local.$local,)* ..self.clone() }
            }

            /// Reads parameters from a JSON object; what it does not name has its default.
            ///
            /// # Errors
            /// [`Error::UnknownParameter`](crate::Error::UnknownParameter) with what was probably meant,
            /// [`Error::Parameter`](crate::Error::Parameter) for a value of the wrong type or out of range,
            /// [`Error::Several`](crate::Error::Several) for more than one of these: all is told at once.
            pub fn from_json(value: &serde_json::Value) -> $crate::error::Result<Self> {
                $crate::params::from_json(value, Self::problems)
            }

            /// Returns the parameters as a JSON object, without those of [`Self::LOCAL`].
            pub fn to_json(&self) -> serde_json::Value {
                $crate::params::to_json(self, Self::LOCAL)
            }

            /// Returns the parameters as a model keeps them ([`to_stored`](crate::params::stored::to_stored)).
            pub fn to_stored(&self) -> serde_json::Value {
                $crate::params::stored::to_stored(self.to_json())
            }

            /// Reads parameters as a model keeps them.
            ///
            /// # Errors
            /// As [`Self::from_json`].
            pub fn from_stored(value: &serde_json::Value) -> $crate::error::Result<Self> {
                Self::from_json(&$crate::params::stored::from_stored(value.clone(), |name| Self::NAMES.contains(&name)))
            }

            /// Checks the parameters of a call, as [`Self::from_json`] does, that those which need held-out rows come with some, and that each is
            /// read.
            ///
            /// # Errors
            /// As [`Self::from_json`].
            pub fn check_call(value: &serde_json::Value, held_out: bool) -> $crate::error::Result<()> {
                let check = |params: &Self, problems: &mut $crate::params::Problems| {
                    params.problems(problems);
                    $(params.$called(problems);)*
                    if !held_out {
                        params.needing_held_out().for_each(|name| problems.add($crate::params::no_held_out(name)));
                    }
                };
                $crate::params::from_json(value, check).map(|_: Self| ())
            }

            /// Checks each parameter alone and those that exclude each other.
            ///
            /// # Errors
            /// [`Error::Parameter`](crate::Error::Parameter) naming the parameter, its value and what was expected;
            /// [`Error::Several`](crate::Error::Several) for more than one.
            pub fn validate(&self) -> $crate::error::Result<()> {
                let mut problems = $crate::params::Problems::default();
                self.problems(&mut problems);
                problems.result()
            }

            /// Adds what is wrong with the parameters, in their order.
            fn problems(&self, problems: &mut $crate::params::Problems) {
                $($($crate::params::limits::Check::check(&$limit, self, &self.$field, stringify!($field), problems);)?)*
                $(self.$together(problems);)*
            }

            /// Returns the names of the given parameters that need held-out rows.
            pub fn needing_held_out(&self) -> impl Iterator<Item = &'static str> {
                let all: &[(&'static str, bool)] = &[$((stringify!($held_out), self.$held_out.is_some() $(&& !self.$instead())?)),*];
                all.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect::<Vec<_>>().into_iter()
            }

            /// Checks that nothing is asked for that needs held-out rows, where there are none.
            ///
            /// # Errors
            /// [`Error::Parameter`](crate::Error::Parameter) naming the first that does.
            pub fn check_measured(&self) -> $crate::error::Result<()> {
                self.needing_held_out().next().map_or(Ok(()), |name| Err($crate::params::no_held_out(name)))
            }
        }
    };
}
pub(crate) use params;

#[cfg(test)]
mod tests {
    use super::Limit::*;
    use super::*;

    #[test]
    fn limits_say_what_they_take() {
        let says = |limit: Limit, number: Number| {
            let mut problems = Problems::default();
            problems.limit("x", Some(number), limit);
            problems.result().err().map(|e| e.to_string())
        };
        assert_eq!(says(Between(1, 1_048_576), 0u32.into()).unwrap(), "parameter `x`: 0 is not between 1 and 1,048,576");
        assert_eq!(says(AtLeast(2), 1u64.into()).unwrap(), "parameter `x`: 1 is not at least 2");
        assert_eq!(says(Inside(0.0, 1.0), 1.0.into()).unwrap(), "parameter `x`: 1.0 is not inside (0, 1)");
        assert_eq!(says(PositiveUpTo(1e30), 0.0.into()).unwrap(), "parameter `x`: 0.0 is not a positive number up to 1e30");
        assert_eq!((says(Share, 1.0.into()), says(Between(1, 5), 5u32.into()), says(NotNegative, 0.0.into())), (None, None, None));
        for limit in [Inside(0.0, 1.0), Share, Positive, PositiveUpTo(1e30), NotNegative, Finite] {
            assert!(says(limit, f64::NAN.into()).is_some(), "{limit:?}");
        }
    }
}
