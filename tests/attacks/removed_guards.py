"""Every guard against an attack, taken out: the test of that attack must then fail. `make mutants` tries them after its sixty."""

from __future__ import annotations

from tests.attacks.mistakes import FOLDER, Mutant

FORGED, SMALL = "tests/attacks/test_forged.py", "tests/attacks/test_small_inputs.py"
LLAMA, RECORDS = "tests/storage/test_llama_folder.py", "tests/attacks/test_records.py"
DATA, STORE = "tests/data/test_hostile.py", "tests/measure/test_store.py"
VERIFIER, PROCESSES = "tests/verify/test_verifier.py", "tests/attacks/test_processes.py"
ONE_CONTEXT = (
    "tests/construct/closed_forms/test_madden_2024.py::test_a_text_of_one_context_is_compiled_and_saved"
)

REMOVED_GUARDS = (
    # the model names its own tolerance
    Mutant(
        "R2a",
        "verify/distributions.py",
        "allowed_gap = min(allowed_gap, ALLOWED_GAP)",
        "pass",
        "tests/verify/test_distributions.py",
    ),
    Mutant(
        "R2b",
        "verify/verifier.py",
        "        holds=not problems,",
        "        holds=not others,",
        "tests/verify/test_distributions.py::test_the_record_of_a_model_has_no_say_in_the_rule "
        "tests/verify/test_distributions.py::test_a_model_that_meets_the_total_gap_alone_is_not_called_right",
    ),
    # what is loaded is not what was certified
    Mutant("R3a", "verify/digest.py", '"labels": list(memoriser.label_names),', "", FORGED),
    Mutant("R3b", "verify/digest.py", '"tokenizer": tokenizer,', "", FORGED),
    Mutant("R3c", "verify/digest.py", '"ordered": memoriser.ordered,', "", FORGED),
    # files beside the weights that other programs read
    Mutant(
        "R3d", "network/llama/checkpoint.py", "for key in [*wanted, *found]:", "for key in wanted:", LLAMA
    ),
    Mutant(
        "R3e",
        "network/llama/checkpoint.py",
        "if _as_text(found, key) != _as_text(wanted, key):",
        "if found.get(key) != wanted.get(key):",
        LLAMA,
    ),
    Mutant(
        "R3f", "storage/folder.py", "        _refuse_other_files(folder, family)\n", "        pass\n", LLAMA
    ),
    Mutant("R3g", "storage/folder.py", "    network.require_words(tokenizer, labels)\n", "", LLAMA),
    Mutant(
        "R3h", "storage/folder.py", '("notes", "options", "versions", "refused", "reading")', "()", RECORDS
    ),
    # small inputs that take everything
    Mutant(
        "R4a",
        "verify/encoded_inputs.py",
        "    is_known = (ids >= 0) & (ids < n_known)\n",
        "    is_known = np.zeros(max(n_known, int(ids.max(initial=0)) + 1), dtype=bool)\n"
        "    is_known[:n_known] = True\n    is_known = is_known[ids]\n",
        f"{VERIFIER}::test_a_large_token_id_takes_no_memory",
    ),
    Mutant(
        "R4b",
        "records/json_file.py",
        "if n_containers > MAX_CONTAINERS:",
        "if False:",
        SMALL,
        only="brackets",
    ),
    Mutant(
        "R4c",
        "records/json_file.py",
        "repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]",
        "names = [key for key, _ in pairs]\n        repeated = max(names, key=names.count)",
        "tests/records/test_reader.py::test_small_files_that_would_take_much_are_refused_at_once",
    ),
    Mutant(
        "R4d",
        "storage/sparse_weights.py",
        "return max(FEW_BITS, n_limbs)",
        "return 2**20",
        SMALL,
        only="exponents",
    ),
    Mutant("R4e", "storage/folder.py", "FEW_COLUMNS = 4096", "FEW_COLUMNS = 2**40", SMALL, only="sizes"),
    Mutant(
        "R4f",
        "data/tables.py",
        "claimed + BYTES_PER_CELL * len(wanted) * meta.num_rows,",
        "0,",
        f"{DATA}::test_parquet_that_grows_is_refused_unread",
    ),
    Mutant(
        "R4g",
        "data/npz.py",
        "n_numbers * array.dtype.itemsize + (COPIES - 1) * 8 * n_numbers,",
        "0,",
        "tests/data/test_npz.py",
    ),
    # tokenizer.json
    Mutant(
        "R5a", "data/tokenizer_document.py", '"decoder", "model")', '"decoder", "model", "truncation")', DATA
    ),
    Mutant(
        "R5b", "data/tokenizer_document.py", '"decoder", "model")', '"decoder", "model", "padding")', DATA
    ),
    Mutant(
        "R5c", "data/tokenizer_document.py", "if ids.setdefault(number, token) != token:", "if False:", DATA
    ),
    Mutant("R5d", "data/tokenizer_document.py", "or not 0 <= number <= MAX_ID:", "or not 0 <= number:", DATA),
    Mutant("R5e", "data/tokenizer_process.py", 'if not answer.endswith("\\n"):', "if False:", DATA),
    Mutant(
        "R5f", "data/tokenizer_process.py", "except BaseException as error:", "except OSError as error:", DATA
    ),
    Mutant(
        "R5g",
        "data/tokenizer_process.py",
        "timer = threading.Timer(SECONDS, process.kill)",
        "timer = threading.Timer(100 * SECONDS, process.kill)",
        f"{DATA}::test_a_tokenizer_that_does_not_end_is_ended",
    ),
    # workers
    Mutant("R6a", "process/liveness.py", 'return state not in (["Z"], ["X"])', "return True", PROCESSES),
    Mutant("R6b", "process/liveness.py", "        os._exit(1)", "        pass", PROCESSES),
    # a text of one context
    Mutant(
        "R7a", "pipeline.py", "if isinstance(value, float) and not isfinite(value):", "if False:", ONE_CONTEXT
    ),
    Mutant("R7b", "construct/madden_2024/random_features.py", "if not keep.any():", "if False:", ONE_CONTEXT),
    # other people's exceptions
    Mutant("R8a", "data/npz.py", "except Exception as error:", "except zipfile.BadZipFile as error:", DATA),
    Mutant(
        "R8b",
        "data/tables.py",
        "(pyarrow.ArrowException, OSError, ValueError, OverflowError, TypeError)",
        "(OSError,)",
        DATA,
    ),
    Mutant(
        "R8c",
        "measure/store.py",
        'for words in ("malformed", "Could not decode")',
        'for words in ("malformed",)',
        STORE,
    ),
    Mutant("R8d", "data/textfile.py", "    if not S_ISREG(mode):", "    if False:", DATA, only="pipes"),
    Mutant(
        "R8e",
        "storage/folder.py",
        "network.n_outputs > len(labels):",
        "network.n_outputs > len(labels) + 100:",
        SMALL,
        only="fewer_labels",
    ),
    Mutant("R8f", "reproduce/plots.py", '"text.parse_math": False,', "", SMALL, only="formula"),
    Mutant(
        "R8g",
        "cli/main.py",
        "if isinstance(error, MemoryError) or",
        "if",
        "tests/cli/test_failures.py",
        only="whatever",
    ),
    # a power cut between two renames
    Mutant("R9a", "storage/folder.py", "        mend(folder)  #", "        pass  #", FOLDER),
    Mutant("R9b", "storage/atomic_folder.py", "    mend(target)\n", "", FOLDER),
    # determinism
    Mutant(
        "R10a",
        "network/batches.py",
        "    torch.set_num_threads(1)\n    try:",
        "    try:",
        "tests/network/test_batches.py",
    ),
    Mutant(
        "R10c",
        "program/linear_solve.py",
        'with threadpool_limits(1, user_api="blas"):',
        "if True:",
        "tests/construct/closed_forms/test_dana_2024.py",
        only="threads",
    ),
    Mutant(
        "R10b",
        "verify/certificate.py",
        "seconds: float = field(compare=False)",
        "seconds: float = field()",
        VERIFIER,
    ),
    # terminals, long cells, stores that cannot be written
    Mutant(
        "R11a",
        "cli/output.py",
        "    if text.isprintable():",
        "    if True:",
        "tests/cli/test_commands.py",
        only="steer",
    ),
    Mutant(
        "R11b",
        "data/tables.py",
        "csv.field_size_limit(MAX_CELL_CHARACTERS)",
        "csv.field_size_limit(131_072)",
        DATA,
    ),
    Mutant(
        "R11c",
        "measure/store.py",
        "is_fixed = str(path), not os.access(path.parent, os.W_OK)",
        "is_fixed = str(path), False",
        SMALL,
        only="read_only",
    ),
)
