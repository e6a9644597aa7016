"""A shop's log: from what was shown, clicked and bought to a ranker, with the commands of the terminal."""

# 1. A log.
#
# A log is two tables. Searches: when, what was typed, and the list shown, with the items' features. Actions:
# which item of which search was clicked, put into the cart, bought. Yours come from your collector; here
# simulate-shop makes four weeks of them. It breaks 2 % of the actions on purpose, as networks and phones do.

import shlex

from typer.testing import CliRunner

from placings.cli import app


def run(line):
    """What the terminal prints for this command, but for the model's digest, which pins every byte of it."""
    done = CliRunner().invoke(app, shlex.split(line), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    shown = [text for text in done.stdout.splitlines() if not text.startswith("digest: ")]
    print(f"$ placings {line}", *shown, sep="\n", end="\n\n")


run("log simulate-shop shop --searches 150 --broken 0.02 --seed 0")

# 2. The join.
#
# Each list is put together with what was done to its items: nothing 0, a click 1, a cart 2, a purchase 3. The
# report tells every event that was not used, and why; the numbers are those that were broken.

run("log join shop/searches.parquet shop/actions.parquet --out rows.parquet")

# 3. The past to learn from, the future to be judged by.
#
# Shuffled searches would let the ranker see next week's prices. The first three quarters of the sessions
# train, the last one judges.

run("log split rows.parquet past.parquet future.parquet --share 0.25")

# 4. Features.
#
# The shop preset takes every number of the items as it is, categories one-hot, and the place in the engine's
# list. What was fitted is kept, so that the future gets the same columns.

run("log features past.parquet --preset shop --out train.parquet --save features.json")
run("log features future.parquet --preset features.json --out test.parquet")

# 5. A ranker, and whether it is better.
#
# The shop's own order is the ranker to beat. The data know each item's position, so it stands in the tables
# as "engine" without being asked for.

run("fit train.parquet --ranker lightgbm --valid-share 0.2 --out run --seed 0 --metrics ndcg@5,mrr")
run("compare test.parquet --model ours=run/model --metrics ndcg@5,mrr --by frequency")

# 6. How far to trust it.
#
# The interval of the difference holds 0: on these searches ours is not shown to be better. Part of the reason
# is the judge. People click on what they see, and they see what stands on top, so that labels made of clicks
# favour the order that was shown. More weeks make the interval narrower; what they cannot do is take the
# favour away. The features hold the engine's rank, too, by which a ranker learns the favour; in Python,
# shop_features(rows, engine=False) leaves it out.
