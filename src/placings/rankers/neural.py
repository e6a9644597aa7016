"""`NeuralRanker`: a network that learns how to transform each feature while it learns to rank."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from placings.core import (
    AnyArray,
    BadInput,
    Floats32,
    Ints,
    UnknownName,
    need_library,
    parse_json,
    setting,
)
from placings.data import Matrix, RankingData
from placings.rankers.estimator import Ranker, as_seed
from placings.rankers.facts import Choice, Float, RankerFacts
from placings.rankers.given_transforms import name_transform, say_unsaved
from placings.rankers.presets import NetworkSettings, recall, settle
from placings.transforms import (
    TRANSFORMS,
    Mixture,
    Piecewise,
    SklearnTransform,
    Transform,
    make_transform,
    refuse_half,
    simplify,
)

if TYPE_CHECKING:
    from placings.rankers.ridges import RidgeFitter

MOST_DENSE = 1 << 28  # numbers; CSR data beyond it enter by a bag
WIDEST_DENSE = 1 << 12  # columns; so do wider ones
BASIS = ("gauss", "cdf", "log1p", "quantile_normal")  # standardised, raw is gauss; see docs/mixture_study.md
FEWEST_TO_SPLIT = 20  # queries; of fewer none is held out
NETWORK, TRANSFORM, FACTS = "network.safetensors", "transform.safetensors", "transform.json"
NETWORK_SHARE = "network"  # the name of its share beside those of ridges
PIECES = "pieces."  # in front of the names of their arrays, which stand with the transform's


class NeuralRanker(Ranker):
    """A network over transformed features, trained on a listwise loss.

    `transform` is a name ("raw", "gauss", "cdf", "log1p", "mixture", …), a Transform or a scikit-learn
    transformer; with the mixture the ranker learns, for each feature, how much of each transform to use.
    `loss` is a name ("softmax", "approx_ndcg@5", …) or a function of yours, `function(scores, labels, mask)`
    of tensors `[queries, places]` with one value for each query, which is tried on a small batch first.
    Every other argument that is None
    takes the preset's value: "default" (provisional), "zhuang2020", the paper's network and training, or
    one of Table 6.3 of the thesis ("thesis-fc-512-256-32", …; see `presets.PRESETS`).

    `network` is "feedforward", "groupwise" (`group_size` items scored together; features named in `context`
    belong to the query) or "attention" (`heads`, `blocks`, `width`). The last two look at a row's list:
    `predict` then wants a RankingData or `qid`.

    With `valid`, the mean of `metric` on it is checked every `check_every` steps, the best weights are kept,
    and `patience` checks without a better one end the training. Without it, a share of `holdout` of the
    queries is set aside for that, if there are 20 or more. `members` networks are trained side by side on
    the same transformed features; the score is their mean. A query weighs the mean of its rows' weights. The
    same seed gives the same bits on the same machine. NaN is filled by the transform's policy.
    CSR is made dense while that stays small; wider rows enter by a bag of vectors, `embedding` wide, where
    the transform must keep zeros ("mixture" stands for "log1p" there).

    `skip=True` adds a linear function of the transformed features to each member's score, so that hidden
    layers only learn what a line cannot say; `skip_decay` is its weight decay (None: `weight_decay`).
    `ridge=True` fits two ridges when the network is trained, one over its transformed features and one over
    these and up to 8 pieces of each feature, and makes them part of it: the held-out queries choose by how
    much. Without such queries there are none. It wants `skip`.
    `pieces=8` adds each feature's range in up to 8 pieces to the inputs, see `Piecewise`. With the `ensemble`
    "shared" members have one matrix in each hidden layer and differ by vectors ("separate": by everything).

    `budget` ("15m", "1h30m", seconds; "none" for no bound) is how long `fit` may take: training ends when the
    steps up to the next check would not fit. `history_` says how many were taken, and `steps=` with
    `budget="none"` repeats as many.

    `checkpoint` names a file for the run's state, written every `checkpoint_every` steps: `fit` called again
    with the same data and settings goes on from there, to the same bits on a CPU. Ctrl-C and SIGTERM end the
    step and write it too.

    After `fit`: `history_` (loss, gradient norm, checks), `settings_` (what the preset and the arguments came
    to), `transform_`, `network_`, `bag_` (whether rows enter by a bag), `shares_` (of the network and the
    ridges in the scores) and `ridge_C_`.

    >>> from placings.simulate.rankings import make_ranking
    >>> data = make_ranking(20, n_features=4, mean_size=10, random_state=0).data
    >>> ranker = NeuralRanker(hidden=(8,), steps=20, random_state=0).fit(data)
    >>> ranker.mixture_weights().shape, ranker.predict(data).shape == (data.n_rows,)
    ((4, 4), True)

    Zhuang, Wang, Bendersky and Najork: Feature transformation for neural ranking models, SIGIR 2020.
    """

    facts: ClassVar[RankerFacts] = RankerFacts(
        spaces={
            "default": {
                "lr": Float(3e-4, 5e-3, log=True, grid=(5e-4, 1e-3, 2e-3)),
                "dropout": Float(0.2, 0.8, grid=(0.3, 0.5, 0.7)),
                "weight_decay": Float(0.1, 20.0, log=True, grid=(1.0, 10.0)),
                "input_noise": Float(0.0, 0.5, grid=(0.0, 0.3)),
                "loss": Choice(("softmax", "ndcg_loss2pp", "mean_squared_error")),
            },
        },
        libraries=("torch",),
        familiar={
            "learning_rate": ("Keras", ("lr",)),
            "learning_rate_init": ("scikit-learn", ("lr",)),
            "lr": ("PyTorch", ("learning_rate",)),
            "n_iter_no_change": ("scikit-learn", ("early_stopping", "patience")),
            "patience": ("Keras", ("early_stopping",)),
            "batch_size": ("PyTorch", ("batch",)),
            "hidden_layer_sizes": ("scikit-learn", ("hidden",)),
            "epochs": ("Keras", ("steps",)),
            "n_epochs": ("PyTorch", ("steps",)),
            "num_train_steps": ("TF-Ranking", ("steps",)),
            "dropout_rate": ("TF-Ranking", ("dropout",)),
            "hidden_layer_dims": ("TF-Ranking", ("hidden",)),
            "hidden_units": ("TF-Ranking", ("hidden",)),
            "hidden_size": ("PyTorch", ("hidden",)),
            "num_heads": ("PyTorch", ("heads",)),
            "solver": ("scikit-learn", ("optimizer",)),
            "gradient_clip_val": ("PyTorch", ("clip",)),
            "slate_length": ("allRank", ("list_size",)),
            "num_sample": ("TF-Ranking", ("draws",)),
            "max_iter": ("scikit-learn", ("steps", "rounds")),
        },
        notes={
            "alpha": "scikit-learn's alpha is weight_decay here.",
            "c": "a network's penalty is weight_decay, larger for more.",
            "n_estimators": "a network has steps=4000 and members=16; trees are lightgbm, xgboost, catboost.",
            "rounds": "a network has steps=4000; rounds are of lightgbm, xgboost and catboost.",
            "num_leaves": "a network has no leaves: hidden=[64, 32] are its layers.",
            "max_depth": "a network has no trees: hidden=[64, 32] are its layers.",
        },
        quick={"hidden": [16], "steps": 150, "batch": 8, "check_every": 50, "random_state": 0},
    )

    def __init__(
        self,
        *,
        preset: str = "default",
        transform: Any = "mixture",
        random_state: int | None = None,
        hidden: Sequence[int] | None = None,
        activation: str | None = None,
        dropout: float | None = None,
        batch_norm: bool | None = None,
        loss: str | Callable[..., Any] | None = None,
        draws: int | None = None,
        optimizer: str | None = None,
        lr: float | None = None,
        mixture_lr: float | None = None,
        weight_decay: float | None = None,
        steps: int | None = None,
        batch: int | None = None,
        list_size: int | None = None,
        check_every: int | None = None,
        patience: int | None = None,
        network: str | None = None,
        members: int | None = None,
        group_size: int | None = None,
        context: Sequence[str] | None = None,
        heads: int | None = None,
        blocks: int | None = None,
        width: int | None = None,
        embedding: int | None = None,
        input_noise: float | None = None,
        output_activation: str | None = None,
        norm_input: bool | None = None,
        norm_after: bool | None = None,
        momentum: float | None = None,
        eps: float | None = None,
        optimizer_momentum: float | None = None,
        schedule: str | None = None,
        warmup: int | None = None,
        average: float | None = None,
        clip: float | None = None,
        holdout: float | None = None,
        precision: str | None = None,
        skip: bool | None = None,
        skip_decay: float | None = None,
        ridge: bool | None = None,
        pieces: int | None = None,
        ensemble: str | None = None,
        budget: str | float | None = None,
        metric: str | Callable[..., Any] = "ndcg@10",
        device: str | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 1000,
        verbose: bool = False,
    ) -> None:
        self.preset = preset
        self.transform = transform
        self.random_state = random_state
        self.hidden = hidden
        self.activation = activation
        self.dropout = dropout
        self.batch_norm = batch_norm
        self.loss = loss
        self.draws = draws
        self.optimizer = optimizer
        self.lr = lr
        self.mixture_lr = mixture_lr
        self.weight_decay = weight_decay
        self.steps = steps
        self.batch = batch
        self.list_size = list_size
        self.check_every = check_every
        self.patience = patience
        self.network = network
        self.members = members
        self.group_size = group_size
        self.context = context
        self.heads = heads
        self.blocks = blocks
        self.width = width
        self.embedding = embedding
        self.input_noise = input_noise
        self.output_activation = output_activation
        self.norm_input = norm_input
        self.norm_after = norm_after
        self.momentum = momentum
        self.eps = eps
        self.optimizer_momentum = optimizer_momentum
        self.schedule = schedule
        self.warmup = warmup
        self.average = average
        self.clip = clip
        self.holdout = holdout
        self.precision = precision
        self.skip = skip
        self.skip_decay = skip_decay
        self.ridge = ridge
        self.pieces = pieces
        self.ensemble = ensemble
        self.budget = budget
        self.metric = metric
        self.device = device
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.verbose = verbose

    def mixture_weights(self) -> AnyArray:
        """How much of each transform each feature uses, `[features, bases]`; rows add up to 1."""
        if not isinstance(getattr(self, "transform_", None), Mixture):
            raise BadInput("only a ranker fitted with transform='mixture' has mixture weights.")
        return np.asarray(self.transform_.weights())

    def contributions(self, X: Any) -> AnyArray:
        """What each feature adds to each score `[rows, features + 1]`, by integrated gradients; rows add up.

        The path leads from the row whose features are all missing (its score is the last column, the bias) to
        the row itself, straight in the space of *transformed* features, where a step of the CDF has a slope
        too. 64 points of it leave a small remainder, which is shared out by size. With `query_minmax` a
        list's rows are scaled together, so give a RankingData; rows of an array are one list.

        Sundararajan, Taly and Yan: Axiomatic attribution for deep networks, ICML 2017.
        """
        check_is_fitted(self)
        if self.network_.needs_lists:
            raise BadInput(
                f"a score of this network ({self.settings_.network}) depends on the other rows of its list, "
                "so it is not a sum over the row's own features. Use a feed-forward network, or "
                "rank_importance(ranker, 'permutation', data)."
            )
        if self.bag_:
            raise BadInput("contributions are one number for each column; rows this wide have too many.")
        owners = self.transform_.find_owners()
        columns = len(self.transform_.get_feature_names_out())
        if len(self.transform_.indicator_) or len(owners) != columns:
            raise BadInput("contributions need one column for each feature; this transform adds indicators.")
        from placings.training import attribute_rows

        offsets = X.offsets if isinstance(X, RankingData) else None
        if self.pieces_ is not None:
            owners = np.concatenate([owners, self.pieces_.owner_])
        several = owners if len(owners) != self.n_features_in_ else None
        return attribute_rows(self.network_, as_dense(self._as_features(X)), offsets, owners=several)

    # -- what Ranker asks for ----------------------------------------------------------------------

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        torch = need_torch()
        from placings.losses import find_loss
        from placings.metrics import metric
        from placings.rankers.assembly import check_context
        from placings.training import TrainingClock, TrainingPlan, show_steps
        from placings.training import train as run

        clock = TrainingClock(self._settle().budget)  # the transform takes its time too
        if isinstance(self.transform, Transform):
            check_transform(self.transform)
        find_loss(self._settle().loss)
        settings = self.settings_ = self._settle(train.n_queries)
        seed = as_seed(self.random_state) or 0
        held_out = valid is None and bool(settings.holdout) and train.n_queries >= FEWEST_TO_SPLIT
        if held_out:
            train, valid = train.split(1.0 - settings.holdout, settings.holdout, random_state=seed)
        self.bag_ = is_wide(train.X)
        if self.bag_:
            settings = self.settings_ = self._leave_dense(settings)
        if not self.bag_:
            train = train.replace(X=as_dense(train.X))
        self._fit_transforms(train, settings.pieces, seed)
        self.shares_: dict[str, float] = {NETWORK_SHARE: 1.0}
        self.ridge_C_: dict[str, float] = {}
        if self.bag_:
            train = self._pass_sparse(train)
            valid = None if valid is None else self._pass_sparse(valid)
        if self.context:
            check_context(train, self.context)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network_ = self._build(settings)
        if self.bag_:
            self.network_.transform.forget_unseen(train.X)
        device = next(self.network_.parameters()).device
        ridges = None
        if settings.ridge and valid is not None:
            ridges = self._prepare_ridges(train, valid, seed, refit=held_out)
            if clock.budget:
                clock.budget = max(clock.budget - ridges.expect_seconds(), clock.budget / 2.0)
        plan = TrainingPlan(
            steps=settings.steps, batch=settings.batch, list_size=settings.list_size,
            optimizer=settings.optimizer, lr=settings.lr, mixture_lr=settings.mixture_lr,
            weight_decay=settings.weight_decay, check_every=settings.check_every, patience=settings.patience,
            seed=seed, optimizer_momentum=settings.optimizer_momentum, schedule=settings.schedule,
            warmup=settings.warmup, average=settings.average, clip=settings.clip,
            precision=self.precision or ("bfloat16" if device.type == "cuda" else "float32"),
            skip_decay=settings.skip_decay, budget=settings.budget,
        )  # fmt: skip
        loss = find_loss(settings.loss, draws=settings.draws)
        with show_steps(settings.steps, self.verbose, clock) as advance:
            self.history_ = run(
                self.network_,
                loss,
                train,
                plan,
                valid=valid,
                metric=metric(self.metric),
                checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
                checkpoint_every=self.checkpoint_every,
                on_step=advance,
                clock=clock,
            )
        if isinstance(self.transform_, Mixture):
            self.transform_.take_weights(self.network_.transform)
        if ridges is not None and valid is not None:
            self._add_ridges(ridges, valid)

    def _fit_transforms(self, train: RankingData, pieces: int, seed: int) -> None:
        self.transform_ = simplify(self._make_transform(seed).fit(train))
        if isinstance(self.transform_, SklearnTransform):
            say_unsaved(self.transform_, stacklevel=5)
        elif type(self.transform_) not in TRANSFORMS.values() and not self.bag_:
            compare_forms(self.transform_, train)
        self.pieces_ = Piecewise(pieces).fit(train) if pieces else None

    def _weighs_labels(self) -> bool:
        from placings.losses import find_loss

        return find_loss(self._settle().loss).name == "mean_squared_error"

    def _score(self, X: Matrix) -> AnyArray:
        return self._score_lists(X, None)

    def _score_lists(self, X: Matrix, offsets: Ints | None) -> AnyArray:
        from placings.training import score_rows

        if self.bag_:
            from placings.rankers.networks import pass_sparse

            X = pass_sparse(self.transform_, X)
        scores = score_rows(self.network_, X, offsets)
        if np.isfinite(scores).all():
            return scores
        # a value near the end of float32 is too large for the network's sums; float64 has room for them
        wide = score_rows(copy.deepcopy(self.network_).cpu().double(), X, offsets)
        if self._looks_at_list():
            return wide
        return np.where(np.isfinite(scores), scores, wide)

    def _looks_at_list(self) -> bool:
        return bool(self.network_.needs_lists or self.transform_._per_query)

    def _missing_policy(self) -> str:
        return f"missing values are filled by the transform: {self.transform_.missing}"

    def _give_weights(self) -> dict[str, bytes]:
        from safetensors.numpy import save

        tensors = {name: tensor.cpu().numpy() for name, tensor in self.network_.state_dict().items()}
        facts, arrays = self.transform_.state()
        more: dict[str, Any] = {}
        if self.pieces_ is not None:
            more["pieces"], own = self.pieces_.state()
            arrays |= {PIECES + name: array for name, array in own.items()}
            more["curved"] = self.network_.curves is not None
        plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        return {
            NETWORK: save({name: np.ascontiguousarray(array) for name, array in tensors.items()}),
            TRANSFORM: save(plain),
            FACTS: json.dumps(
                {
                    "state": facts,
                    "given": not isinstance(self.transform, str),
                    "bag": self.bag_,
                    "settings": asdict(self.settings_),
                    "shares": self.shares_,
                    "ridge_C": self.ridge_C_,
                    **more,
                }
            ).encode(),
        }

    def _take_weights(self, files: Mapping[str, bytes]) -> None:
        torch = need_torch()
        from safetensors.numpy import load

        facts = parse_json(files[FACTS])
        arrays = load(files[TRANSFORM])
        own = {n.removeprefix(PIECES): values for n, values in arrays.items() if n.startswith(PIECES)}
        self.transform_ = Transform.from_state(facts["state"], arrays)
        self.pieces_ = Piecewise.from_state(facts["pieces"], own) if "pieces" in facts else None
        if self.pieces_ is not None and self.pieces_.feature_names_ != self.feature_names_:
            raise BadInput(f"the pieces in {TRANSFORM} are of other features than the ranker.")
        if self.transform_.feature_names_ != self.feature_names_:
            raise BadInput(f"{TRANSFORM} is of other features than the ranker.")
        if facts["given"]:
            self.transform = clone(self.transform_)
        self.bag_ = bool(facts.get("bag", False))
        self.settings_ = recall(self.preset, facts["settings"])
        shares, found = facts.get("shares", {NETWORK_SHARE: 1.0}), facts.get("ridge_C", {})
        self.shares_ = {str(name): float(share) for name, share in shares.items()}
        self.ridge_C_ = {str(name): float(C) for name, C in found.items()}
        curved = bool(facts.get("curved", False))
        if curved and self.pieces_ is None:
            raise BadInput(f"{FACTS} names curves, and no pieces that they are made of.")
        arrays = load(files[NETWORK])
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise BadInput(f"{NETWORK} must hold finite numbers.")
        self._check_shapes({name: array.shape for name, array in arrays.items()}, curved)
        self.network_ = self._build(self.settings_, curved)
        tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        self.network_.load_state_dict(tensors)
        self.network_.eval()

    def _check_shapes(self, shapes: Mapping[str, tuple[int, ...]], curved: bool) -> None:
        """Refuse settings of another network than the one whose weights are there, before it is made."""
        import torch

        if len(self.settings_.hidden) + self.settings_.blocks > max(16, len(shapes)):
            raise BadInput(f"{NETWORK} has {len(shapes)} arrays, fewer than the settings have layers.")
        with torch.device("meta"):  # shapes without memory
            wanted = self._assemble(self.settings_, curved).state_dict()
        for name in dict.fromkeys([*wanted, *shapes]):
            want = tuple(wanted[name].shape) or (1,) if name in wanted else None  # one number has a shape too
            if want != shapes.get(name):
                raise BadInput(f"{name!r} in {NETWORK} must have shape {want}. Got {shapes.get(name)}.")

    def _plain_params(self) -> dict[str, Any]:
        params = super()._plain_params()
        if not isinstance(self.transform, str):  # its state is among the weights; here its name will do
            params["transform"] = name_transform(self)
        return params

    # -- inside ------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        torch = need_torch()
        from placings.losses import find_loss
        from placings.metrics import metric
        from placings.rankers.networks import find_activation
        from placings.training import OPTIMIZERS, PRECISIONS, SCHEDULES

        as_seed(self.random_state)
        settings = self._settle()
        find_loss(settings.loss, draws=settings.draws)
        metric(self.metric)
        find_activation(settings.activation)
        make_transform(self.transform)
        for kind, name, known in (
            ("optimizer", settings.optimizer, OPTIMIZERS),
            ("schedule", settings.schedule, SCHEDULES),
            ("precision", self.precision, (None, *PRECISIONS)),
        ):
            if name not in known:
                raise UnknownName(kind, str(name), [each for each in known if each is not None])
        if self.device is not None:
            try:
                there = torch.device(self.device).type != "cuda" or torch.cuda.is_available()
            except RuntimeError:
                there = False
            if not there:
                raise BadInput(f"there is no device {self.device!r} here. Take cpu, or leave it out.")

    def _settle(self, queries: int = 0) -> NetworkSettings:
        params = self.get_params(deep=False)
        if callable(params["loss"]):
            from placings.losses import find_loss

            params["loss"] = str(find_loss(params["loss"]))
        return settle(self.preset, params, queries)

    def _leave_dense(self, settings: NetworkSettings) -> NetworkSettings:
        """Settings for a bag, without those that are for columns of numbers; who asked for one is told."""
        for name in ("skip", "ridge", "pieces"):
            if getattr(self, name) and getattr(settings, name):
                raise BadInput(
                    f"{setting(name, getattr(self, name))} is for dense features; sparse rows this wide "
                    "enter by a bag of vectors, which has none. Leave it out, or use fewer columns."
                )
        return replace(settings, skip=False, ridge=False, pieces=0)

    def _make_transform(self, seed: int) -> Transform:
        if not isinstance(self.transform, str):
            return make_transform(self.transform)
        if self.bag_ and self.transform == "mixture":
            return make_transform("log1p")  # a mixture's other bases make something of 0
        if self.transform != "mixture":
            return make_transform(self.transform)
        if self.preset == "zhuang2020":
            return Mixture(start="random", random_state=seed)
        return Mixture(basis=BASIS, start="uniform", normalise=True, random_state=seed)

    def _prepare_ridges(
        self, train: RankingData, held: RankingData, seed: int, *, refit: bool
    ) -> RidgeFitter:
        from placings.rankers.ridges import RidgeFitter
        from placings.transforms import Prepared

        pieces = self.pieces_ is None and isinstance(self.network_.transform, Prepared)
        return RidgeFitter(
            self.network_, train, held, seed=seed, refit=refit, labels_weighed=self._weighs_labels(),
            pieces=pieces,
        )  # fmt: skip

    def _add_ridges(self, ridges: RidgeFitter, held: RankingData) -> None:
        from placings.metrics import metric

        judge = metric(self.metric)
        sign = -1.0 if judge.lower_is_better else 1.0
        found = ridges.add(
            lambda scores: sign * judge(scores, held.y, held.offsets, propensity=held.propensity)
        )
        if found is not None:
            self.shares_, self.ridge_C_ = found.shares, found.C
            if self.network_.curves is not None:
                self.pieces_ = ridges.pieces

    def _build(self, settings: NetworkSettings, curved: bool = False) -> Any:
        torch = need_torch()
        network = self._assemble(settings, curved)
        return network.to(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))

    def _assemble(self, settings: NetworkSettings, curved: bool) -> Any:
        from placings.rankers.assembly import build_network

        return build_network(
            settings, self.transform_, self.context or (), pieces=self.pieces_, curved=curved, bag=self.bag_
        )

    def _pass_sparse(self, data: RankingData) -> RankingData:
        from placings.rankers.networks import pass_sparse

        names = tuple(map(str, self.transform_.get_feature_names_out()))
        return data.replace(X=pass_sparse(self.transform_, data.X), feature_names=names)


def check_transform(transform: Transform) -> None:
    """What is to be known of a transform of the user's own before anything is trained."""
    refuse_half(transform)
    say_unsaved(transform, stacklevel=6)


def compare_forms(transform: Transform, data: RankingData) -> None:
    """Refuse a fitted transform whose `transform` and `module` give other numbers for the first queries."""
    import torch

    some = data[:8]
    plain = np.asarray(transform.transform(some), dtype=np.float64)
    with torch.no_grad():
        given = transform.module()(torch.tensor(as_dense(some.X)), torch.tensor(some.offsets))
    told = given.double().numpy()
    if plain.shape != told.shape or not np.allclose(plain, told, rtol=1e-4, atol=1e-5):  # both of float32
        raise BadInput(
            f"{type(transform).__name__}.transform and .module must be one function, in numpy and in torch. "
            "They give other numbers for the first rows; a ranker runs the module."
        )


def is_wide(X: Matrix) -> bool:
    """Whether sparse rows are too many numbers, or too wide, to be made dense."""
    return not isinstance(X, np.ndarray) and (
        X.shape[1] > WIDEST_DENSE or X.shape[0] * X.shape[1] > MOST_DENSE
    )


def as_dense(X: Matrix) -> Floats32:
    """The same rows as an array."""
    return X if isinstance(X, np.ndarray) else np.asarray(X.toarray(), dtype=np.float32)


def need_torch() -> Any:
    """torch, or an error that names the extra."""
    return need_library("torch", "a neural ranker", "neural", "PyTorch")
