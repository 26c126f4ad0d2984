"""Every module has one name. Imported twice, each struct and kernel exists twice, and isinstance says no."""

import importlib
import subprocess
import sys

from rooms import ROOMS, module_name, source_files


def test_no_room_is_imported_by_its_bare_name():
    for path in source_files():
        if path.name != "__main__.py":
            importlib.import_module(module_name(path))
    bare = {room for room in ROOMS if room != "newtonsim"}
    assert not {name for name in sys.modules if name.split(".")[0] in bare}


def test_rooms_are_not_importable_by_their_bare_name(tmp_path):
    tried = [room for room in ROOMS if room != "newtonsim"]
    code = "import importlib.util as u, sys; sys.exit(any(u.find_spec(n) for n in sys.argv[1:]))"
    assert subprocess.run([sys.executable, "-c", code, *tried], cwd=tmp_path).returncode == 0
