"""Fields of a model by name: reading and changing them in chosen worlds, with what depends on them."""

from newtonsim.fields.field import Field as Field
from newtonsim.fields.table import FIELDS as FIELDS
from newtonsim.fields.table import FieldSpec as FieldSpec
from newtonsim.fields.table import find_field as find_field
from newtonsim.fields.view import View as View
