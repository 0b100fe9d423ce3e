//! The suite that proves a backend's promises (see [`switchboard_core::port::store`]): each function takes a fresh
//! [`Bench`] and panics when the backend breaks a promise. A backend runs all of them, see [`store_conformance`].
//!
//! To add a promise: a function in the file of its subject, its name in the list of [`store_conformance`].

#![expect(clippy::missing_panics_doc, reason = "panicking is how a test speaks")]

pub mod append;
pub mod balance;
pub mod bench;
pub mod binding;
pub mod chain;
#[cfg(all(unix, feature = "postgres"))]
pub mod cluster;
pub mod console;
pub mod credentials;
pub mod nodes;
pub mod outbound;
pub mod presence;
pub mod questions;
pub mod reads;
pub mod receipts;
pub mod requests;
pub mod retention;
pub mod rooms;

pub use bench::{Backend, Bench};
// The suite's lists name a file of it by one word.
pub use outbound::{
    accept as outbound_accept, amends as outbound_amends, approvals as outbound_approvals,
    attempts as outbound_attempts, consent as outbound_consent, escalate as outbound_escalate,
    floor as outbound_floor, hear as outbound_hear, nodes as outbound_nodes, quiet as outbound_quiet,
    random as outbound_random, reads as outbound_reads, rounds as outbound_rounds, strand as outbound_strand,
    texts as outbound_texts,
};

/// Makes one test of each function of the suite, for `$backend` (an expression that makes a [`Backend`]) and for its
/// stores when they are restarted before every batch.
#[macro_export]
macro_rules! store_conformance {
    ($backend:expr) => {
        $crate::store_conformance! { @with $backend;
            nodes::{
                a_lease_has_one_holder_and_a_growing_fence,
                a_write_under_an_old_fence_is_refused,
                agents_of_nodes_that_beat_are_spared,
                a_node_is_told_what_moved,
                a_beat_keeps_a_lease_and_tells_who_cannot_ring,
            }
            outbound_nodes::{
                nodes_share_the_work,
                nodes_agree_on_keys_limits_and_floors,
            }
        }
    };
    // A store that is nobody's while it is restarted: what nodes promise each other is not asked of it.
    (alone $backend:expr) => {
        $crate::store_conformance! { @with $backend; }
    };
    (@with $backend:expr; $($more:tt)*) => {
        $crate::store_conformance! { @each $backend;
            append::{
                sequences_start_at_one_and_have_no_gaps,
                concurrent_callers_leave_no_gap,
                the_listener_hears_each_event_once,
                a_repeat_gets_the_first_answer,
                one_id_for_two_contents_is_refused,
                every_id_is_remembered,
                a_repeat_is_seen_before_all_else,
                ids_are_forgotten_only_after_thirty_days,
                a_refusal_hinders_nobody,
                channels_are_made_on_first_use,
                a_deadline_is_in_the_future,
                only_live_instances_send,
            }
            balance::{
                the_ledger_is_that_of_a_model,
            }
            binding::{
                replies_share_a_thread,
                a_reply_stays_in_its_stream,
                a_name_binds_to_the_instance_that_announced_it,
                an_announcement_counts_for_a_day,
                a_named_instance_is_taken_at_its_word,
                a_reply_goes_to_the_other_end,
                a_reply_to_a_direct_message_stays_between_its_ends,
            }
            chain::{
                every_commit_is_chained,
                a_flipped_bit_is_found,
                notes_from_above_stand_in_the_log,
                checkpoints_speak_of_records,
                the_log_is_read_in_pages,
                an_installation_is_made_once,
                a_probe_is_a_commit,
                an_empty_batch_is_nothing,
                a_closed_store_takes_no_calls,
                a_clock_that_goes_back_harms_nothing,
                the_clock_is_the_stores,
            }
            console::{
                a_link_lets_in_once,
                links_end_and_are_bounded,
                a_session_ends_when_unused_and_when_old,
                a_person_has_so_many_sessions,
                sessions_end_one_by_one_and_together,
                a_password_ends_other_sessions,
                a_password_that_was_changed_lets_nobody_in,
                entering_is_logged,
            }
            credentials::{
                instances_are_found_as_they_were_made,
                instance_ids_and_bearers_are_unique,
                instances_are_bounded,
                revoking_ends_all_bearers,
                a_nonce_works_once,
                a_lease_ends_with_its_grace,
                an_approved_device_redeems_once,
                devices_poll_at_a_pace,
                a_device_code_ends,
                device_codes_are_bounded,
            }
            presence::{
                announcements_change_the_directory,
                announcements_need_vault_and_instance,
                closing_spares_what_others_hold,
                agents_long_gone_leave_the_directory,
                an_offer_waits_until_it_is_settled,
                an_offer_is_over_at_its_deadline,
                two_offerers_may_choose_one_id,
            }
            questions::{
                an_unanswered_question_becomes_a_task_once,
                an_answered_question_becomes_no_task,
                questions_expire_in_order,
                a_swarms_question_becomes_no_task,
                a_proposal_is_decided_once,
                a_question_that_is_gone_becomes_no_task,
                a_task_outlives_its_question,
            }
            reads::{
                pages_are_bounded_and_fit_together,
                events_come_back_as_they_were,
                search_finds_what_the_reader_may_see,
                search_forgets_what_retention_removed,
                a_backup_is_whole,
            }
            receipts::{
                receipts_only_move_forward,
                only_receivers_give_receipts,
                the_sender_is_told_how_far_receivers_got,
                notices_end_with_their_message,
                unread_is_what_was_handed_and_not_read,
                inboxes_only_move_forward,
            }
            requests::{
                a_key_gets_the_same_bytes_again,
                a_key_for_two_requests_is_refused,
                a_refusal_is_not_remembered,
                keys_are_forgotten_after_a_week,
            }
            retention::{
                exactly_what_has_expired_goes,
                only_the_low_end_goes,
                a_sweep_is_bounded,
                numbering_outlives_every_row,
                a_thread_outlives_its_first_message,
            }
            rooms::{
                vaults_are_unique_and_bounded,
                a_repository_keeps_its_vault,
                a_handle_is_its_persons_for_ever,
                a_swarm_knows_handles_only,
                in_a_swarm_one_answers_who_spoke,
                the_hourly_limit_slides,
                a_closed_swarm_keeps_its_history_for_a_while,
                channels_of_two_vaults_are_two,
            }
            outbound_accept::{
                a_key_gets_the_first_answer,
                a_key_is_its_agents,
                a_key_for_two_messages_is_refused,
                two_at_once_send_once,
                a_key_is_free_again_when_nothing_has_left,
                a_key_waits_for_the_attempt_under_way,
                a_retry_takes_the_key_back,
                an_answer_keeps_the_key,
                limits_take_all_or_nothing,
                many_limits_are_all_kept,
                limits_outlive_restarts,
                what_cannot_be_accepted_is_refused,
                it_is_stored_as_it_was_given,
                the_log_tells_the_story,
            }
            outbound_escalate::{
                a_chain_is_stored_whole,
                rungs_come_by_the_stores_clock,
                who_is_asked_later_may_answer_and_the_first_counts,
                a_bare_answer_needs_one_open_question,
                who_may_not_be_asked_is_passed_over,
                the_end_of_a_question_ends_its_chain,
                silence_means_what_was_said,
                a_question_that_cannot_be_delivered_goes_on,
                a_chain_waits_for_the_approval,
                quiet_hours_hold_back_a_rung,
            }
            outbound_attempts::{
                a_part_is_claimed_once,
                an_older_attempt_is_fenced,
                a_lane_keeps_its_order,
                what_belongs_together_goes_out_together,
                a_claim_is_bounded,
                a_pause_is_kept,
                a_running_attempt_is_left_alone,
                a_lost_attempt_is_made_again_under_its_id,
                what_is_unknown_waits_for_a_person,
                a_late_word_settles_what_was_unknown,
                an_end_outlasts_the_attempt_under_way,
                what_arrived_in_part_says_so,
                a_shut_gate_attempts_nothing,
                an_address_that_is_gone_is_suppressed,
                what_comes_back_has_not_arrived,
                a_retry_has_its_bounds,
                what_waits_can_be_hurried,
                a_claim_tells_the_consent_of_now,
            }
            outbound_rounds::{
                what_a_person_sends_again_is_another_delivery,
                a_dead_one_is_another_delivery_too,
            }
            outbound_strand::{
                what_no_channel_carries_is_held,
                what_is_held_for_its_channel_ends_like_anything_else,
                an_attempt_on_a_channel_that_has_gone_is_unknown,
            }
            outbound_consent::{
                only_a_stop_that_nobody_vouches_for_can_be_lifted,
                nobody_is_reached_without_a_yes,
                each_rule_asks_what_it_says,
                a_stop_is_the_persons_own,
                a_start_allows_nobody_anew,
                a_claimed_stop_counts_and_a_claimed_start_does_not,
                a_stop_reaches_what_a_retry_brings_back,
                a_code_pairs_once,
                a_code_has_its_bounds,
                a_code_takes_a_stop_back,
                codes_cannot_be_guessed,
                codes_are_bounded,
                a_code_can_be_a_persons,
            }
            outbound_floor::{
                a_person_is_asked_one_thing_at_a_time,
                the_next_has_the_nearest_deadline,
                nobody_has_the_floor_for_ever,
                every_end_frees_the_floor,
                only_who_asked_takes_it_back,
                the_first_answer_counts,
                an_answer_after_the_deadline_is_none,
                a_deadline_waits_for_the_attempt_under_way,
                an_unknown_question_holds_the_floor_no_longer,
                expiring_is_bounded,
            }
            outbound_amends::{
                an_answer_is_shown_where_it_was_asked,
                a_decision_is_shown_to_all_who_were_asked,
                what_arrives_after_the_end_is_changed_then,
            }
            outbound_approvals::{
                a_held_send_waits_for_a_yes,
                the_first_decision_counts,
                nobody_deciding_is_a_no,
                a_rule_of_now_stops_what_was_approved,
                an_approval_ends_with_its_send,
                a_held_question_takes_no_floor,
                who_was_asked_decides_in_the_chat,
                only_who_was_asked_decides,
                the_link_of_a_message_decides,
                who_may_not_decide_is_written_down,
            }
            outbound_hear::{
                a_stranger_changes_nothing,
                a_text_is_at_most_an_answer,
                each_word_changes_what_it_is_for,
                an_event_counts_once,
                what_is_ambiguous_does_nothing,
                codes_and_references_are_for_who_was_asked,
                a_person_answers_on_every_address,
                a_notice_asks_nothing,
            }
            outbound_reads::{
                listings_show_what_is_asked_for,
                the_next_times_are_exact,
                approvals_are_listed,
                everything_outlives_a_restart,
                a_send_is_read_whole,
            }
            outbound_texts::{
                texts_are_erased,
                what_is_over_is_forgotten,
            }
            outbound_quiet::{
                quiet_hours_hold_back_what_is_not_urgent,
                what_comes_up_in_quiet_hours_waits_too,
                a_digest_brings_all_or_none,
            }
            outbound_random::{
                everything_holds_at_every_step,
            }
            $($more)*
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
