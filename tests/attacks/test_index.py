"""Every attack that once succeeded, and where its outcome is tested. The tests stand beside what they test; this is the list."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

CASES: dict[str, tuple[str, ...]] = {
    "unknown inputs near a key are answered": (
        "construct/retrieval/test_unknown_inputs.py::test_near_misses_are_turned_away",
        "construct/retrieval/test_method.py::test_reject_bits_turn_unknown_inputs_away",
    ),
    "the record of a model names the rule by which it is judged": (
        "verify/test_distributions.py::test_the_record_of_a_model_has_no_say_in_the_rule",
        "verify/test_distributions.py::test_a_model_that_meets_the_total_gap_alone_is_not_called_right",
    ),
    "a rule that there is not one of judges nothing": (
        "attacks/test_odd_values.py::test_what_is_of_another_kind_is_refused_in_words",
    ),
    "the record of a model chooses an encoding that hides rows or swaps characters": (
        "verify/test_one_meaning.py::test_a_record_chooses_no_encoding_that_hides_rows",
        "verify/test_one_meaning.py::test_an_encoding_that_the_model_names_comes_first",
        "verify/test_one_meaning.py::test_a_delimiter_that_the_model_names_comes_first",
    ),
    "a folder is replaced between the check of its signature and its use": (
        "storage/test_forgeries.py::test_a_model_that_takes_the_place_of_the_signed_one_is_not_loaded",
        "storage/test_forgeries.py::test_verify_names_the_key_whose_signature_was_checked",
        "storage/test_forgeries.py::test_what_is_signed_is_the_certificate_that_was_compared_with_the_model",
    ),
    "the type of labels makes one answer of two labels": (
        "test_labels.py::test_a_type_that_merges_labels_is_refused",
    ),
    "a forged certificate is shown as a fact": (
        "cli/test_inspect.py::test_inspect_vouches_for_nothing_in_the_certificate_but_the_digests",
        "cli/test_inspect.py::test_a_certificate_that_no_check_of_this_model_issues_is_refused",
        "verify/test_certificate.py::test_a_file_that_contradicts_itself_is_refused",
    ),
    "a folder leaves out the rows that it does not know": (
        "attacks/test_forged.py::test_a_folder_leaves_out_no_row_without_a_word",
    ),
    "a changed label, token, order or architecture loads under its certificate": (
        "attacks/test_forged.py::test_a_changed_document_is_refused_under_its_certificate",
        "attacks/test_forged.py::test_changed_weights_are_refused",
        "verify/test_verifier.py::test_labels_and_vocabulary_are_under_a_digest",
    ),
    "the settings of a Llama, its tokenizer, or an adapter beside it change what other programs answer": (
        "storage/test_llama_folder.py::test_no_setting_is_changed_unnoticed",
        "storage/test_llama_folder.py::test_a_file_of_settings_that_is_none_is_refused",
        "storage/test_llama_folder.py::test_what_other_programs_would_read_too_is_refused",
        "storage/test_llama_folder.py::test_a_tokenizer_that_agrees_with_its_digest_is_still_the_one_of_model_json",
    ),
    "nobody can tell who says what a certificate says": (
        "storage/test_forgeries.py::test_a_folder_that_was_changed_is_not_opened",
        "storage/test_forgeries.py::test_no_field_of_the_certificate_is_changed_unnoticed",
        "storage/test_forgeries.py::test_weights_and_labels_are_under_the_signature",
    ),
    "sizes without end overflow an estimate": (
        "attacks/test_small_inputs.py::test_sizes_without_end_are_not_estimated",
        "attacks/test_small_inputs.py::test_a_weight_of_a_gigabyte_is_not_estimated",
    ),
    "a word of the record crashes a command": (
        "attacks/test_records.py::test_no_word_of_a_record_crashes_a_command",
        "attacks/test_records.py::test_a_part_of_the_record_that_is_of_another_kind_is_named",
    ),
    "a token id takes memory in proportion to it": (
        "attacks/test_small_inputs.py::test_a_large_id_at_predict",
        "verify/test_verifier.py::test_a_large_token_id_takes_no_memory",
        "attacks/test_small_inputs.py::test_an_array_of_large_ids",
    ),
    "a header of repeated keys takes quadratic time": (
        "records/test_reader.py::test_small_files_that_would_take_much_are_refused_at_once",
    ),
    "a short text of one line or one cell takes gigabytes": (
        "data/test_hostile.py::test_a_row_of_very_many_tokens_is_memorised_on_request_only",
        "data/test_hostile.py::test_contexts_of_long_documents_are_not_written_out",
    ),
    "lists without end in the header of a GGUF file": (
        "graft/test_hostile_gguf.py::test_what_the_file_does_not_hold_is_refused",
        "graft/test_hostile_gguf.py::test_the_kept_file_of_a_graft_is_read_as_a_host_is",
    ),
    "settings of a foreign checkpoint, cases of a golden folder and answers of a server of another type": (
        "graft/test_hostile_gguf.py::test_settings_are_read_by_type",
        "graft/test_refused_hosts.py::test_hostile_hosts_are_refused_and_nothing_is_written",
        "golden/test_hostile_cases.py::test_cases_fit_their_checkpoint",
        "golden/test_hostile_server.py::test_an_answer_is_read_by_type",
        "golden/test_hostile_server.py::test_an_answer_without_end_is_not_read_to_its_end",
    ),
    "claimed sizes take memory": (
        "attacks/test_small_inputs.py::test_sizes_that_the_weights_do_not_have",
        "attacks/test_small_inputs.py::test_many_exponents",
        "attacks/test_small_inputs.py::test_a_document_of_nothing_but_brackets",
        "storage/test_hostile.py::test_a_lie_in_model_json_is_refused",
    ),
    "compressed data that grow": ("data/test_hostile.py::test_parquet_that_grows_is_refused_unread",),
    "the limit of memory": (
        "data/test_hostile.py::test_the_limit_is_one_variable",
        "cli/test_failures.py::test_the_limit_of_memory_is_an_option",
    ),
    "a tokenizer pads, truncates, or gives two tokens one id": (
        "data/test_hostile.py::test_padding_and_truncation_are_left_out",
        "data/test_hostile.py::test_a_tokenizer_is_checked_before_it_is_used",
    ),
    "a tokenizer panics, aborts or does not end": (
        "data/test_hostile.py::test_what_the_package_refuses_is_our_error",
        "data/test_hostile.py::test_a_tokenizer_that_aborts_ends_a_child_and_not_this_process",
        "data/test_hostile.py::test_a_tokenizer_that_does_not_end_is_ended",
    ),
    "a dead worker counts as alive": ("attacks/test_processes.py::test_a_claim_of_a_zombie_is_taken_over",),
    "workers train on without their parent": (
        "attacks/test_processes.py::test_a_child_ends_with_its_parent",
        "attacks/test_processes.py::test_no_worker_trains_on_when_its_sweep_is_gone",
    ),
    "a text of one context cannot be saved": (
        "construct/closed_forms/test_madden_2024.py::test_a_text_of_one_context_is_compiled_and_saved",
    ),
    "exceptions of other packages": (
        "data/test_hostile.py::test_damaged_archives_are_our_error",
        "data/test_hostile.py::test_times_that_python_cannot_hold_are_our_error",
        "measure/test_store.py::test_a_record_with_odd_fields_is_named",
        "measure/test_store.py::test_a_text_that_is_not_unicode_is_damage",
        "attacks/test_small_inputs.py::test_fewer_labels_than_logits",
        "attacks/test_small_inputs.py::test_a_formula_in_a_figures_record_is_drawn_as_it_stands",
        "cli/test_failures.py::test_whatever_is_raised_has_a_status",
        "inspect/test_trace.py::test_numbers_of_every_precision_are_read_as_an_answer",
        "attacks/test_fuzz.py::test_nothing_is_found",
    ),
    "pipes and devices are read": (
        "data/test_hostile.py::test_pipes_and_devices_are_not_read",
        "measure/test_specification.py::test_a_pipe_is_not_waited_for",
        "files/test_work_folder.py::test_a_pipe_is_not_waited_for",
        "cli/test_failures.py::test_no_file_takes_the_place_of_a_pipe",
        "graft/test_hostile_gguf.py::test_a_pipe_is_not_waited_for",
    ),
    "a changed file of an unfinished compilation becomes a model": (
        "files/test_work_folder.py::test_a_changed_file_is_named_with_the_folder_to_remove",
        "files/test_work_folder.py::test_missing_and_exchanged_files_are_named",
        "files/test_work_folder.py::test_a_result_that_is_whole_and_wrong_does_not_become_a_model",
    ),
    "a record of a figure with odd fields": (
        "reproduce/test_hostile_records.py::test_odd_fields_are_named",
        "reproduce/test_hostile_records.py::test_observations_that_do_not_make_the_figure_are_said_so",
        "reproduce/test_hostile_records.py::test_a_pass_of_odd_fields_is_named_by_its_line",
    ),
    "an option of a construction that nothing can follow": (
        "construct/test_odd_options.py::test_options_are_finite",
        "construct/test_odd_options.py::test_sizes_without_memory_for_them_are_not_drawn",
        "construct/test_odd_options.py::test_more_shards_than_keys_are_solved",
        "cli/test_llama.py::test_options_out_of_range_are_refused",
    ),
    "a specification of the wrong types, of endless numbers, or of data without end": (
        "measure/test_specification.py::test_each_mistake_is_named",
        "measure/test_specification.py::test_toml_that_its_reader_cannot_take_is_our_error",
        "measure/test_specification.py::test_data_larger_than_memory_are_not_drawn",
    ),
    "a power cut between two renames": (
        "storage/test_folder.py::test_a_crash_between_two_renames_is_mended",
        "storage/test_folder.py::test_leftovers_are_cleared_by_the_next_save_and_no_one_elses",
    ),
    "weights depend on the number of threads": (
        "construct/closed_forms/test_dana_2024.py::test_the_number_of_threads_changes_no_bit",
    ),
    "answers depend on the number of threads": (
        "network/test_batches.py::test_two_threads_give_the_bits_of_one",
    ),
    "two certificates of one check differ": (
        "verify/test_verifier.py::test_two_equal_checks_differ_in_their_seconds_alone",
    ),
    "terminal escapes, long cells, read-only stores": (
        "cli/test_predict.py::test_a_label_cannot_steer_the_terminal",
        "data/test_hostile.py::test_long_cells_are_read",
        "attacks/test_small_inputs.py::test_the_runs_of_a_read_only_store",
    ),
    "forgetting obeys options of a record that was tampered with": (
        "attacks/test_tampered_record.py::test_what_forgetting_writes_was_verified",
        "attacks/test_tampered_record.py::test_forgetting_refuses_options_that_compile_does_not_record",
        "attacks/test_tampered_record.py::test_forgetting_refuses_a_method_that_nobody_offers",
    ),
    "a store with a trigger of its own": (
        "measure/test_store.py::test_tables_that_are_not_ours_are_refused",
    ),
    "a cluster of this machine listens on all interfaces": (
        "process/test_ray_addresses.py::test_a_cluster_of_this_machine_listens_on_the_loopback_address",
    ),
    "a small archive grows": (
        "files/test_npz_archive.py::test_a_bomb_in_the_directory_is_refused",
        "files/test_npz_archive.py::test_nothing_is_packed_more_densely_than_deflate_can",
        "files/test_npz_archive.py::test_other_ways_to_pack_are_refused",
    ),
    "a short value holds a worker of the page": ("web/test_server.py::test_a_short_value_holds_no_worker",),
    "slow connections keep others out": (
        "web/test_connections.py::test_an_unfinished_request_is_ended_and_a_finished_one_answered",
        "web/test_server.py::test_three_hundred_slow_connections_keep_nobody_out",
    ),
    "a download follows a link": ("web/test_server.py::test_a_download_follows_no_link",),
    "a killed server leaves processes and folders": (
        "web/test_janitor.py::test_a_killed_server_leaves_no_process_and_no_folder",
    ),
    "a command whose streams are closed ends without a word": (
        "cli/test_closed_streams.py::test_a_closed_stream",
    ),
    "an output replaces an input or a file of a model": (
        "attacks/test_places.py::test_no_export_into_the_folder_of_a_model",
        "attacks/test_places.py::test_answers_do_not_replace_their_questions",
        "attacks/test_places.py::test_forgetting_does_not_replace_the_model_that_it_reads",
    ),
    "two programs work in one folder": (
        "files/test_work_folder.py::test_a_folder_in_use_is_refused_and_names_the_process",
    ),
    "a value of a store is too large to be read": (
        "measure/test_store.py::test_a_value_that_is_too_large_is_not_read",
    ),
    "a tokenizer beside a GGUF host is changed where transformers does not look": (
        "graft/test_export.py::test_a_changed_tokenizer_beside_a_gguf_host_is_found",
    ),
    "transformers reads other weights, settings or files of a graft than those that are checked": (
        "graft/test_weight_files.py::test_a_folder_in_which_transformers_reads_something_else_is_refused",
        "graft/test_weight_files.py::test_settings_that_were_not_compared_are_found",
        "graft/test_weight_files.py::test_a_graft_without_a_number_type_is_found",
        "graft/test_weight_files.py::test_a_tensor_in_another_number_type_is_found",
        "graft/test_weight_files.py::test_a_file_that_the_host_lacks_is_found",
        "graft/test_weight_files.py::test_links_to_folders_are_found_and_hidden_files_are_not_read",
    ),
    "a graft names a prompt format in which nobody would ask": (
        "graft/test_checks.py::test_the_check_says_in_which_format_the_facts_were_asked",
        "graft/test_checks.py::test_the_command_shows_the_format_and_takes_one",
    ),
    "a training step larger than memory is run to measure it": (
        "measure/test_devices.py::test_a_step_over_the_memory_limit_is_refused_before_it_runs",
    ),
    "guards that no test would have missed": (
        "verify/test_distributions.py::test_a_successor_that_the_model_has_no_name_for_is_wrong",
        "attacks/test_guards.py::test_logits_that_are_not_finite_answer_nothing",
        "attacks/test_guards.py::test_a_record_that_was_stored_survives_a_power_cut",
        "attacks/test_guards.py::test_a_lower_bound_is_never_raised_by_a_wide_enclosure",
        "attacks/test_guards.py::test_a_stack_that_is_lost_again_and_again_ends_the_sweep",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_case_has_its_test(case: str) -> None:
    for place in CASES[case]:
        file, name = place.split("::")
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, place
