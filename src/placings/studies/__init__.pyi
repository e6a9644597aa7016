from .coverage_drop import study_coverage_drop as study_coverage_drop
from .places import CELLS as CELLS
from .places import MODEL as MODEL
from .places import study_places as study_places
from .places_demo import run_demo as run_demo
from .places_settings import choose_settings as choose_settings
from .places_tables import render_study as render_study
from .table1 import reproduce_table1 as reproduce_table1
