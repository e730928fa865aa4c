"""Every point of SECURITY.md's two lists, by its first words, with the tests that show it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "SECURITY.md").read_text(encoding="utf-8")

SHOWN_BY: dict[str, tuple[str, ...]] = {
    "A model folder, a data file, a store of runs": (
        "files/test_npz_archive.py::test_objects_made_by_numpy_are_refused",
        "graft/test_refused_hosts.py::test_hostile_hosts_are_refused_and_nothing_is_written",
        "storage/test_hostile.py::test_json_that_is_no_document_is_refused",
        "attacks/test_fuzz.py::test_nothing_is_found",
    ),
    "A program of yours runs only if you name it": (
        "measure/test_own_module.py::test_a_specification_alone_runs_no_program",
    ),
    "Sizes that a file claims": (
        "attacks/test_hostile_inputs.py::test_a_small_input_takes_little",
        "files/test_npz_archive.py::test_absurd_claims_are_refused_before_memory_is_taken",
        "data/test_hostile.py::test_parquet_that_repeats_a_long_text_is_refused",
        "data/test_hostile.py::test_a_row_of_very_many_tokens_is_memorised_on_request_only",
        "data/test_hostile.py::test_contexts_of_long_documents_are_not_written_out",
        "files/test_work_folder.py::test_a_small_archive_does_not_take_much_memory",
    ),
    "`load` refuses weights": (
        "attacks/test_forged.py::test_changed_weights_are_refused",
        "attacks/test_forged.py::test_a_changed_document_is_refused_under_its_certificate",
        "cli/test_failures.py::test_one_flipped_label",
        "attacks/test_forged.py::test_a_folder_leaves_out_no_row_without_a_word",
    ),
    "A model folder holds the files": (
        "attacks/test_places.py::test_other_files_of_a_folder_are_named_and_refused",
        "storage/test_folder.py::test_what_systems_put_into_folders_is_not_in_the_way",
    ),
    "In the folder of a Llama": (
        "storage/test_llama_folder.py::test_no_setting_is_changed_unnoticed",
        "storage/test_llama_folder.py::test_what_other_programs_would_read_too_is_refused",
        "storage/test_llama_folder.py::test_a_changed_model_card_is_refused",
        "storage/test_llama_folder.py::test_a_tokenizer_that_agrees_with_its_digest_is_still_the_one_of_model_json",
    ),
    "`verify --signed-by KEY`": (
        "storage/test_forgeries.py::test_a_folder_that_was_changed_is_not_opened",
        "storage/test_forgeries.py::test_a_signed_certificate_of_another_model_speaks_of_that_one",
    ),
    "A private key that byheart makes": (
        "storage/test_keys.py::test_a_new_key_is_for_its_owner_alone",
        "storage/test_keys.py::test_a_key_is_never_overwritten",
    ),
    "`forget` reads the options": (
        "attacks/test_tampered_record.py::test_forgetting_refuses_options_that_compile_does_not_record",
        "attacks/test_tampered_record.py::test_what_forgetting_writes_was_verified",
    ),
    "A folder is written whole": (
        "storage/test_folder.py::test_a_failure_at_any_moment_leaves_the_old_model",
        "storage/test_folder.py::test_a_model_that_is_saved_anew_meanwhile_is_read_whole",
    ),
    "`export` and `predict` write neither": (
        "attacks/test_places.py::test_no_export_into_the_folder_of_a_model",
        "attacks/test_places.py::test_answers_do_not_replace_their_questions",
        "attacks/test_places.py::test_forgetting_does_not_replace_the_model_that_it_reads",
    ),
    "A Ray cluster that": (
        "process/test_ray_addresses.py::test_a_cluster_of_this_machine_listens_on_the_loopback_address",
    ),
    "`byheart serve` listens": (
        "web/test_guard.py::test_beyond_this_machine_a_token_is_needed",
        "web/test_guard.py::test_own_names_are_answered",
    ),
    "The page answers": (
        "web/test_server.py::test_three_hundred_slow_connections_keep_nobody_out",
        "web/test_janitor.py::test_a_killed_server_leaves_no_process_and_no_folder",
        "web/test_server.py::test_a_download_follows_no_link",
    ),
    "The folder of an unfinished compilation": (
        "files/test_work_folder.py::test_a_changed_file_is_named_with_the_folder_to_remove",
        "files/test_work_folder.py::test_documents_with_right_checksums_that_do_not_fit_are_damage",
    ),
    "The files of a golden folder have digests": (
        "golden/test_hostile_cases.py::test_a_damaged_file_is_noticed_before_an_engine_is_asked",
        "golden/test_hostile_cases.py::test_cases_fit_their_checkpoint",
    ),
    "A certificate says what was checked": (
        "storage/test_signature.py::test_the_signature_is_what_the_documentation_says",
        "storage/test_forgeries.py::test_a_certificate_that_vouches_for_too_little_is_refused",
    ),
    "Reject bits turn unknown inputs away": (
        "construct/retrieval/test_unknown_inputs.py::test_near_misses_are_turned_away",
    ),
    "Every program of this machine": ("web/test_guard.py::test_own_names_are_answered",),
}


def points(page: str) -> list[str]:
    """The points of the first two lists."""
    lists = page.partition("## What byheart promises")[2].partition("## Reporting")[0]
    return [" ".join(point.split()) for point in re.split(r"^- ", lists, flags=re.MULTILINE)[1:]]


def test_every_point_has_its_tests() -> None:
    for point in points(PAGE):
        assert [words for words in SHOWN_BY if point.startswith(words)], point
    for words, places in SHOWN_BY.items():
        assert [point for point in points(PAGE) if point.startswith(words)], words
        for place in places:
            file, name = place.split("::")
            tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
            assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, place


def test_a_point_without_a_test_is_noticed() -> None:
    more = PAGE.replace("## What it does not promise", "- It brews coffee.\n\n## What it does not promise")
    assert len(points(more)) == len(points(PAGE)) + 1
    assert "It brews coffee. ## What it does not promise" in points(more)
