"""USD files from the web, with the files that they refer to."""

import os
import time
import warnings
from collections import deque
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from newtonsim.errors import ImportFileError, ModelError, UnsupportedElementWarning

MAX_FILE_BYTES = 1024 * 1024 * 1024
MAX_TOTAL_BYTES = 4 * MAX_FILE_BYTES
MAX_FILES = 2000
MAX_DEPTH = 32
"""References of references of ..."""

TIMEOUT = 30.0
"""Seconds without an answer after which a server counts as out of reach."""

_SCHEMES = ("http", "https")
_USD_ENDINGS = (".usd", ".usda", ".usdc")
_CHUNK = 1 << 16


def is_url(source: object) -> bool:
    """Tell a URL from a file name."""
    return "://" in os.fspath(source)


def resolve_usd_from_url(
    url: str, target_folder_name: str | os.PathLike | None = None, export_usda: bool = False
) -> str:
    """Download a USD file and the files that it refers to, directly or through others.

    The folder gets the tree of files below the place of the first one. References that are absolute, lead to
    another server or lead above that place cannot be kept there and are errors. Textures in tiles ("<UDIM>"),
    whose names no file holds, are left out with a warning. A progress bar is shown on a terminal.

    Args:
        url: Address of the file, http or https.
        target_folder_name: Where files are written; None for a new folder with the time in its name in the
            working directory.
        export_usda: Write each USD file as text too, with the ending .usda and the same name.

    Returns:
        The path of the first file.

    Raises:
        ImportFileError: An address is not http or https, cannot be reached, is too large or lies outside.
        ModelError: `url` is not a text or names no file, or the target is not a folder.
    """
    if not isinstance(url, str):
        raise ModelError(f"url: expected text, got {type(url).__name__}")
    url = _quoted(url)
    _check_scheme(url, url)
    base = urljoin(url, ".")
    if urlsplit(url).path.endswith("/") or not urlsplit(url).path:
        raise ModelError(f"url: {url!r} names a folder, expected a file")
    name = _local_name(url, base, url)
    folder = _target(target_folder_name)
    total, done = 0, {name}
    queue = deque([(url, name, 0)])
    with _progress() as bar:
        while queue:
            address, local, depth = queue.popleft()
            path = folder / local
            if folder not in path.resolve().parents:
                raise ImportFileError(f"would be written to {path.resolve()}, outside {folder}", address)
            total += _download(address, path, MAX_TOTAL_BYTES - total, bar)
            if path.suffix.lower() not in _USD_ENDINGS:
                continue
            for reference in _references(path, export_usda):
                target = urljoin(address, _quoted(reference))
                _check_scheme(target, address)
                if urlsplit(target).query:
                    raise ImportFileError(
                        f"refers to {reference!r}: no file can have a name with a query", address
                    )
                other = _local_name(target, base, address)
                if other in done:
                    continue
                if depth >= MAX_DEPTH or len(done) >= MAX_FILES:
                    limit = f"{MAX_DEPTH} levels" if depth >= MAX_DEPTH else f"{MAX_FILES} files"
                    raise ImportFileError(f"refers to {reference!r}, beyond the limit of {limit}", address)
                done.add(other)
                queue.append((target, other, depth + 1))
    return str(folder / name)


def _target(folder: str | os.PathLike | None) -> Path:
    if not isinstance(folder, str | os.PathLike | None):
        raise ModelError(f"target_folder_name: expected a path, got {type(folder).__name__}")
    path = Path(folder or time.strftime("usd_%Y%m%d_%H%M%S")).resolve()
    if path.exists() and not path.is_dir():
        raise ModelError(f"target_folder_name: {str(path)!r} is not a folder")
    return path


def _quoted(address: str) -> str:
    """An address without spaces and the like; what is quoted already stays."""
    return quote(address, safe="/:?&=%#+~@!$,;()'*[]")


def _check_scheme(address: str, source: str) -> None:
    parts = urlsplit(address)
    if parts.scheme.lower() not in _SCHEMES or not parts.netloc:
        raise ImportFileError(f"{address!r} cannot be fetched; supported are http:// and https://", source)
    if "@" in parts.netloc:
        server = parts.netloc.rpartition("@")[2]
        raise ImportFileError(
            "names and passwords in addresses are not supported", f"{parts.scheme}://{server}"
        )


def _local_name(address: str, base: str, source: str) -> str:
    """Path below the target folder, for an address below the base."""
    plain = urlsplit(address)._replace(query="", fragment="").geturl()
    inside = unquote(plain[len(base) :]) if plain.startswith(base) else ""
    parts = inside.split("/")
    if not inside or "\\" in inside or "\0" in inside or any(part in ("", ".", "..") for part in parts):
        raise ImportFileError(f"refers to {address!r}, which lies outside {base}", source)
    return inside


class _SameSchemes(HTTPRedirectHandler):
    """Follows redirections to http and https only."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        _check_scheme(newurl, req.full_url)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _download(address: str, path: Path, budget: int, bar: object) -> int:
    """Write what stands at an address to a file and return its size."""
    limit = min(MAX_FILE_BYTES, budget)
    bar.set_description(path.name)
    request = Request(address, headers={"User-Agent": "newtonsim"})
    size = 0
    part = path.with_name(path.name + ".part")
    try:
        with build_opener(_SameSchemes).open(request, timeout=TIMEOUT) as response:
            announced = _announced(response)
            if announced is not None and announced > limit:
                raise ImportFileError(f"has {announced} bytes, more than the limit of {limit} bytes", address)
            path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as file:
                while chunk := response.read(_CHUNK):
                    size += len(chunk)
                    if size > limit:
                        raise ImportFileError(f"is larger than the limit of {limit} bytes", address)
                    file.write(chunk)
                    bar.update(len(chunk))
        if announced is not None and size < announced:
            raise ImportFileError(f"is incomplete: {size} of {announced} bytes arrived", address)
        part.replace(path)
    except HTTPError as error:
        raise ImportFileError(f"the server answers {error.code} {error.reason}", address) from error
    except HTTPException as error:
        raise ImportFileError(f"the server's answer is broken: {error!r:.200}", address) from error
    except (URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        raise ImportFileError(
            f"the server cannot be reached ({reason}); is this machine offline? "
            "Download the file elsewhere and pass its path",
            address,
        ) from error
    except OSError as error:
        raise ImportFileError(f"cannot be written to {path}: {error}", address) from error
    finally:
        part.unlink(missing_ok=True)
    return size


def _announced(response: HTTPResponse) -> int | None:
    """Number of bytes that the server says will come, None if it does not say."""
    text = response.headers.get("Content-Length", "")
    return int(text) if text.isascii() and text.isdigit() else None


def _references(path: Path, export_usda: bool) -> list[str]:
    """Files that a layer names: sublayers, references, payloads, and assets such as textures."""
    from pxr import Sdf, Tf, UsdUtils

    try:
        layer = Sdf.Layer.OpenAsAnonymous(str(path))
    except (Tf.ErrorException, RuntimeError) as error:
        raise ImportFileError("the downloaded file is not a USD file", str(path)) from error
    if export_usda and path.suffix.lower() != ".usda":
        layer.Export(str(path.with_suffix(".usda")))
    named: list[str] = []

    def note(name: str) -> str:
        named.append(name)
        return name

    UsdUtils.ModifyAssetPaths(layer, note)
    tiled = [name for name in named if "<UDIM>" in name]
    if tiled:
        message = f"{path}: textures in tiles are not downloaded: {', '.join(dict.fromkeys(tiled))}"
        warnings.warn(message, UnsupportedElementWarning, stacklevel=3)
    # Files in a package, "a.usdz[b.usd]", come with it; "omniverse://" and "file://" are told by the caller.
    return [name.partition("[")[0] for name in dict.fromkeys(named) if name and not _is_built_in(name)]


def _is_built_in(name: str) -> bool:
    """Whether a name is for renderers alone: a material that they bring along, or tiles of a texture."""
    return (name.endswith(".mdl") and "/" not in name) or "<UDIM>" in name


def _progress() -> object:
    from tqdm import tqdm

    return tqdm(unit="B", unit_scale=True, leave=False, disable=None)
