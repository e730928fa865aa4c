"""For vulture: names that something reaches in a way it cannot see. Each line says how. Keep it short."""

# Documented for users of the package in docs/ (tests/test_docs.py looks for each of these names there)
_.from_tsv
_.from_jsonl
_.from_parquet
_.from_npz
_.dense_probabilities
_.entropy_nats_per_token
_.context_entropies
_.holds_for
_.multiset
save_onnx
exact_outputs
polynomial_matrix
require_positive
spread_rows
spread_of
johnson_lindenstrauss_coherence
goldberg_jerrum_vc_dimension
bartlett_vc_dimension
theorem_3_parameters
proposition_1
theorem_2
theorem_4_2_shallow
theorem_4_3_depth
theorem_5
theorem_7
equation_3
mahdavi_2023
linear_memory
full_rank_encoder
memorise_approximately
lookup_encoder
memorise_in_part
measure_context_ids
decide_capacity
witness_corpus
certify_injectivity
kruskal_rank
certified_kruskal_rank
_.cross_entropy_nats
length_keeping_direction
on_equal_tokens
_.free_parameters
sign_vectors
count_on_line
_.sign_vectors
generic_integers
certified_jacobian_rank
_.is_free

# Fields of records that are written whole, by dataclasses.asdict or vars
_.context_length
_.experts_per_token
_.n_kv_heads
_.max_abs
_.last_tokens
_.n_left_out
_.n_trained_here
_.n_without
_.n_texts
_.n_long_enough
_.loss_nats
_.allowed_divergence
_.allowed_gap_percent
_.wrong_tokens
_.devices

# Read or called by a library: click, tokenizers, urllib, Sphinx, llama.cpp, torch, numba
_.padding_side
_.format_commands
_.pre_tokenizer
_.n_parallel
_.verbosity
_.allow_tf32
_.on_start
_.on_end
_.readable
_.http_open
_.https_open
_.response_class
to_restructured_text

# golden: settings that llama.cpp, ONNX Runtime and transformers read, a field written by asdict, hooks that pytest calls
_.answer_text
_.model_alias
_.n_ctx
_.cache_type_v
_.flash_attn_type
_.intra_op_num_threads
_.eos_token_id
pytest_addoption
pytest_configure
pytest_generate_tests

# The type of what is called with progress; what the command lines of the page's worker and janitor call
_.__call__
serve_requests
clean_up
