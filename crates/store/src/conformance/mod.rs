//! The suite that proves a backend's promises (see [`switchboard_core::port::store`]): each function takes a fresh
//! [`Bench`] and panics when the backend breaks a promise. A backend runs all of them, see [`store_conformance`].
//!
//! To add a promise: a function in the file of its subject, its name in the list of [`store_conformance`].

#![expect(clippy::missing_panics_doc, reason = "panicking is how a test speaks")]

pub mod append;
pub mod bench;

pub use bench::{Backend, Bench};

/// Makes one test of each function of the suite, for `$backend` (an expression that makes a [`Backend`]) and for its
/// stores when they are restarted before every batch.
#[macro_export]
macro_rules! store_conformance {
    ($backend:expr) => {
        $crate::store_conformance! { @each $backend;
            append::{
                sequences_start_at_one_and_have_no_gaps, concurrent_callers_leave_no_gap,
                the_listener_hears_each_event_once, a_repeat_gets_the_first_answer,
                one_id_for_two_contents_is_refused, every_id_is_remembered, a_repeat_is_seen_before_all_else,
                ids_are_forgotten_only_after_thirty_days, a_refusal_hinders_nobody, channels_are_made_on_first_use,
                a_deadline_is_in_the_future, only_live_instances_send,
            }
        }
    };
    (@each $backend:expr; $($file:ident::{ $($name:ident,)* })*) => {
        $($crate::store_conformance! { @file $backend; $file; steady false; $($name,)* })*
        mod restless {
            $($crate::store_conformance! { @file $backend; $file; restless true; $($name,)* })*
        }
    };
    (@file $backend:expr; $file:ident; $mode:ident $restless:literal; $($name:ident,)*) => {
        mod $file {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let backend = $backend;
                    let bench = $crate::conformance::Bench::new(&backend, $restless).await;
                    $crate::conformance::$file::$name(bench).await;
                }
            )*
        }
    };
}
