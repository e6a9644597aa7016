"""What Open Bandit Pipeline says of the off-policy cases, taken once.

Made by `freeze_obp.py` (the commands stand in its head) on 2026-11-18 with Python 3.11.7, obp 0.5.5, numpy
2.4.6, pandas 2.3.3 and torch 2.13.0. "random to bts" is Zozo's log of the random policy, judged for Bernoulli
Thompson sampling, on the 10,000 lines of the shared data; "bts to random" the reverse.
"""

FROZEN = {
    "generated": {
        "ips": 0.10854590144554209,
        "snips": 0.10496168774557267,
        "doubly robust": 0.09554372076353665,
        "item-position": 0.32563770433662625,
        "clipped at 2": 0.08882523505560673,
        "doubly robust, clipped at 2": 0.12857703588959563,
        "clipped at 5": 0.10854590144554209,
        "doubly robust, clipped at 5": 0.10246543625644411,
    },
    "random to bts": {
        "ips": 0.005035366932711512,
        "snips": 0.0052530721964214695,
        "doubly robust": 0.005198772442455585,
        "item-position": 0.015107611559290463,
        "clipped at 2": 0.003344377556001891,
        "doubly robust, clipped at 2": 0.005055525426029637,
        "clipped at 5": 0.004940106761082905,
        "doubly robust, clipped at 5": 0.005496297097660006,
    },
    "bts to random": {
        "ips": 0.0021868737623681827,
        "snips": 0.002179566041893355,
        "doubly robust": 0.002024738040960219,
        "item-position": 0.0065612774148460324,
        "clipped at 2": 0.001702278474655564,
        "doubly robust, clipped at 2": 0.003995947595366836,
        "clipped at 5": 0.0020679469814063704,
        "doubly robust, clipped at 5": 0.003591666471755177,
    },
}
