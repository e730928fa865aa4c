"""Save networks and certificates as folders of files, and load them."""

from byheart.storage.folder import load_folder, save_folder

__all__ = ["load_folder", "save_folder"]
