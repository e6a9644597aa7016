from .places_log import simulate_log as simulate_log
from .rankings import make_ranking as make_ranking
from .shop_actions import make_shop_actions as make_shop_actions
from .shop_log import make_shop_log as make_shop_log
