"""Saved folders: networks and certificates as files."""

from byheart.storage.folder import load_folder, save_folder

__all__ = ["load_folder", "save_folder"]
