"""Fuzzing: `make fuzz SECONDS=...` feeds byheart spoilt files and odd requests, in processes with limits, and keeps what it finds.

mutation    how bytes and documents are spoilt
target      what an attack is; one module for each: model_folders, data_files, stores, tokenizer_files, page_requests,
            command_lines, specifications, work_folders, architectures, figure_records, settings
children    processes that run cases, with limits on time and memory
__main__    the command
"""
