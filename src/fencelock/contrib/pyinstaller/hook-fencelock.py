"""Have the scripts of the server, and what the dashboard shows, come along besides the modules."""

from PyInstaller.utils.hooks import collect_data_files

datas: list[tuple[str, str]] = collect_data_files("fencelock")
