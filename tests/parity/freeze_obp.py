"""Prints what Open Bandit Pipeline says of the cases; run it in an environment that has it.

    python3.11 -m venv obp && obp/bin/pip install --ignore-requires-python --no-deps obp==0.5.5
    obp/bin/pip install numpy pandas scipy scikit-learn torch matplotlib seaborn tqdm pyyaml
    obp/bin/python tests/parity/freeze_obp.py

The numbers go into `frozen_obp.py`. Its own data are looked for in $PLACINGS_DATA/logs/obd.
"""

import pprint

import numpy as np
from obp.ope import (
    DoublyRobust,
    InverseProbabilityWeighting,
    SelfNormalizedInverseProbabilityWeighting,
    SlateIndependentIPS,
)
from obp_cases import CLIPS, DATA, PLACES, make_case, read_case


def ask(case):
    rounds = len(case["action"])
    told = {
        "reward": case["reward"],
        "action": case["action"],
        "pscore": case["logged"],
        "position": case["position"],
        "action_dist": np.repeat(case["target"][None], rounds, axis=0),
    }
    model = np.repeat(case["predicted"][None], rounds, axis=0)
    found = {
        "ips": InverseProbabilityWeighting().estimate_policy_value(**told),
        "snips": SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**told),
        "doubly robust": DoublyRobust().estimate_policy_value(**told, estimated_rewards_by_reg_model=model),
        # lists of three, one after the other: rounds / 3 of them
        "item-position": SlateIndependentIPS(len_list=PLACES).estimate_policy_value(
            slate_id=np.arange(rounds - rounds % PLACES) // PLACES,
            reward=case["reward"][: rounds - rounds % PLACES],
            position=np.tile(np.arange(PLACES), rounds // PLACES),
            pscore_item_position=case["logged"][: rounds - rounds % PLACES],
            evaluation_policy_pscore_item_position=case["target"][case["action"], case["position"]][
                : rounds - rounds % PLACES
            ],
        ),
    }
    for clip in CLIPS:
        found[f"clipped at {clip:g}"] = InverseProbabilityWeighting(lambda_=clip).estimate_policy_value(
            **told
        )
        found[f"doubly robust, clipped at {clip:g}"] = DoublyRobust(lambda_=clip).estimate_policy_value(
            **told, estimated_rewards_by_reg_model=model
        )
    return {name: float(value) for name, value in found.items()}


if __name__ == "__main__":
    answers = {"generated": ask(make_case())}
    if DATA.is_dir():
        answers["random to bts"] = ask(read_case("random", "bts"))
        answers["bts to random"] = ask(read_case("bts", "random"))
    pprint.pprint(answers, sort_dicts=False)
