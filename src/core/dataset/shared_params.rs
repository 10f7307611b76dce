//! The parameters that several learners have, each declared once.

/// Declares a struct of parameters as [`params!`](crate::params::limits) does. A field without a type is one of those that several
/// learners have.
macro_rules! learner_params {
    ($(#[$meta:meta])* pub struct $name:ident { $($fields:tt)* } $($rest:tt)*) => {
        $crate::dataset::shared_params::learner_params! { @ { {} [$(#[$meta])* pub struct $name] [$($rest)*] } $($fields)* }
    };
    (@ { { $($done:tt)* } [$($head:tt)*] [$($rest:tt)*] }) => {
        $crate::params::limits::params! { $($head)* { $($done)* } $($rest)* }
    };
    (@ { { $($done:tt)* } $($around:tt)* } $(#[$doc:meta])* pub $field:ident: $type:ty = $value:expr $(=> $limit:expr)?, $($more:tt)*) => {
        $crate::dataset::shared_params::learner_params! {
            @ { { $($done)* $(#[$doc])* pub $field: $type = $value $(=> $limit)?, } $($around)* } $($more)*
        }
    };
    (@ $before:tt pub categorical, $($more:tt)*) => {
        $crate::dataset::shared_params::learner_params! { @ $before
            /// Names of integer and Boolean features that are categories; whoever makes the table reads it.
            pub categorical: Vec<String> = vec![], $($more)* }
    };
    (@ $before:tt pub class_weight, $($more:tt)*) => {
        $crate::dataset::shared_params::learner_params! { @ $before
            /// Class weights.
            pub class_weight: $crate::dataset::ClassWeight = $crate::dataset::ClassWeight::None
                => $crate::params::limits::By(|params: &Self, problems| problems.take(params.class_weight.validate())), $($more)* }
    };
    (@ $before:tt pub positive, $($more:tt)*) => {
        $crate::dataset::shared_params::learner_params! { @ $before
            /// Of two classes, the one whose probability is predicted; whoever makes the target puts it last
            /// ([`Labels::with_positive`](crate::dataset::labels::Labels::with_positive)). The last one unless told otherwise.
            pub positive: Option<$crate::dataset::Label> = None, $($more)* }
    };
    (@ $before:tt pub seed, $($more:tt)*) => {
        $crate::dataset::shared_params::learner_params! { @ $before
            /// The seed of every random choice.
            pub seed: u64 = 0, $($more)* }
    };
    (@ $before:tt pub n_threads, $($more:tt)*) => {
        $crate::dataset::shared_params::learner_params! { @ $before
            /// Threads; as many as Polars uses unless told otherwise. Never changes the model.
            pub n_threads: Option<u32> = None => $crate::params::limits::Limit::Between(1, 1024), $($more)* }
    };
    (@ $before:tt pub devices, $($more:tt)*) => {
        $crate::dataset::shared_params::learner_params! { @ $before
            /// `"auto"` (a GPU where there is one and the work is large enough to gain), `"cpu"`, `"cuda"`, `"cuda:N"`, or several GPUs of
            /// this host: `"cuda:N,M"`, `"cuda:all"`. Never changes the model.
            pub device: String = "auto".into() => $crate::params::limits::DeviceNames, $($more)* }
    };
    (@ $before:tt pub device, $($more:tt)*) => {
        $crate::dataset::shared_params::learner_params! { @ $before
            /// `"auto"` (a GPU where there is one and the work is large enough to gain), `"cpu"`, `"cuda"` or `"cuda:N"`. Never
            /// changes the model.
            pub device: String = "auto".into() => $crate::params::limits::DeviceName, $($more)* }
    };
}
pub(crate) use learner_params;
