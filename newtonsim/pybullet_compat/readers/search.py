"""Where the loading functions look for files."""

import os

_DATA_FOLDERS = ("data", "../data", "../../data", "../../../data", "../../../../data")


def find(name: str, search_path: str) -> str | None:
    """Find a file by the name that a script gives.

    The working directory comes first, then the path of setAdditionalSearchPath, then folders called data in
    and above the working directory.

    Returns:
        The path to open, None when there is none.
    """
    if not name or "\0" in name:
        return None
    places = [name]
    if search_path:
        places.append(f"{search_path}/{name}")
    places += [f"{folder}/{name}" for folder in _DATA_FOLDERS]
    return next((place for place in places if os.path.isfile(place)), None)
