"""USD files from the web, under the name of the reference interface."""

from newtonsim.importers.files.resolve_url import resolve_usd_from_url as resolve_usd_from_url
