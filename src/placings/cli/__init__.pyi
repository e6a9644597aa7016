from .main import app as app
from .main import run as run
