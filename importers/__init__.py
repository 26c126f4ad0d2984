"""Readers of robot files: each adds the contents of a file to a ModelBuilder and reports what it did."""

from newtonsim.importers.mjcf import parse_mjcf as parse_mjcf
from newtonsim.importers.report import ImportReport as ImportReport
from newtonsim.importers.report import ReportEntry as ReportEntry
from newtonsim.importers.urdf import parse_urdf as parse_urdf
