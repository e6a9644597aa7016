"""Networks that score packed rows: each row by itself, a few rows together, or a list with attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from placings.core import BadInput, Floats, Ints, UnknownName, setting
from placings.data import Matrix
from placings.rankers.members import MemberLinear, SharedLinear, SideBySide
from placings.training import (
    GOLDEN,
    Moments,
    Packed,
    RowDropout,
    RowNorm,
    Skip,
    SparseRows,
    can_fuse,
    make_uniform,
    multiply_parts,
    number_units,
    relu_and_drop,
    scramble,
)
from placings.transforms import Beside, Piecewise, Transform

START = 0.05  # vectors start uniform within ± this, as Keras's embeddings do


class Bag(nn.Module):
    """`Σ_c x_c · E_c` over the columns of a row that are not 0: `[rows, width]`, cheap if few are.

    It stands where a transform's module stands. The values come transformed already (`pass_sparse`), without
    batch norm, which would fill the zeros. Only the vectors of columns that a batch holds get a gradient.
    """

    def __init__(self, columns: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.EmbeddingBag(columns, width, mode="sum", sparse=True)
        nn.init.uniform_(self.vectors.weight, -START, START)

    def prepare(self, x: SparseRows, offsets: Tensor | None = None) -> SparseRows:
        """Sparse rows as they are: there is nothing to do once."""
        return x

    def finish(self, prepared: SparseRows) -> Tensor:
        """The rows' sums `[rows, width]`; a row without columns is 0."""
        out: Tensor = self.vectors(prepared.columns, prepared.starts, prepared.values)
        return out

    def forget_unseen(self, X: Matrix) -> None:
        """Set the vectors of columns that these rows do not hold to 0: an unknown word then says nothing."""
        assert not isinstance(X, np.ndarray)
        unseen = np.ones(X.shape[1], dtype=bool)
        unseen[X.indices] = False
        with torch.no_grad():
            self.vectors.weight[torch.from_numpy(unseen).to(self.vectors.weight.device)] = 0.0


def pass_sparse(transform: Transform, X: Matrix) -> Any:
    """Rows through a fitted transform as CSR; one that makes something of 0 is refused.

    Missing values are filled by the transform's policy first, which for CSR is 0 unless a number is set.
    """
    from scipy.sparse import csr_array

    if transform._per_query or not transform._keeps_zero():
        raise BadInput(
            f"{transform} does not keep zeros at zero, so sparse rows of {X.shape[1]:,} columns cannot "
            "pass it; they are too wide to be made dense. Use "
            f"{setting('transform', 'log1p')} or 'raw', or fewer columns."
        )
    rows = csr_array(X) if isinstance(X, np.ndarray) else X
    return transform.transform(rows)


ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}
LINEAR = "linear"  # an output without a function behind it
NOISE_LAYER = 1000  # the name of the input's noise, apart from those of layers that drop units


class Network(nn.Module):
    """What the loop trains: rows are `prepare`d once, then scored in every step.

    `prepare` does what nothing learned enters (missing values, a fixed transform, the bases of a mixture);
    `forward` takes prepared rows and the lists they belong to, and gives one score a row.
    """

    transform: Any  # a transform's module, or a Bag: `prepare`, then `finish` gives `[rows, inputs]`
    needs_lists = False  # whether a row's score depends on the other rows of its list
    curves: AdditiveCurves | None  # of a feed-forward network that ridges with pieces became part of

    def __init__(self) -> None:
        super().__init__()
        self.curves = None

    def prepare(self, rows: Any, offsets: Tensor | None = None) -> Any:
        """Rows `[rows, features]` as `forward` wants them: `[rows, prepared]`, or sparse rows for a bag."""
        return self.transform.prepare(self.spread(rows), offsets)

    def spread(self, rows: Any) -> Any:
        """Sparse rows made dense, unless a bag takes them as they are."""
        if isinstance(rows, SparseRows) and not isinstance(self.transform, Bag):
            return rows.spread(self.transform.fill.shape[0])
        return rows

    def forward(self, prepared: Any, packed: Packed | None = None) -> Tensor:
        raise NotImplementedError


class Stack(nn.Module):
    """`[batch norm → linear → activation → dropout] × hidden → [batch norm →] linear`, over packed rows.

    With `norm_after`, as TF-Ranking's examples have it, `[batch norm →] [linear → batch norm → activation →
    dropout] × hidden → linear`. `norm_input` is about the first batch norm of either. `outputs` None leaves
    out the last linear layer and the norm in front of it.

    `momentum` is Keras's (the share of the old average that is kept), as the paper writes it. Weights start
    as Keras's do: Glorot uniform, biases 0. Statistics come from real rows only: nothing here is padded.
    Dropout draws by the layer's number, counted from `first_layer`.

    With several `members` it is as many networks side by side: each has its own weights, dropout and loss,
    and they meet only in what they see and in their mean. In training it gives `[rows, members]`, else
    the mean. With the `ensemble` "shared" they have one matrix in each hidden layer, which each scales by
    vectors of its own, and only the last layer is each one's.

    With `skip` each member's score has a linear function of the inputs added, behind the batch norm of the
    input if there is one. Both that function and the last layer then start at zeros: the network starts as
    a line, and its hidden layers learn what a line cannot say.
    """

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        outputs: int | None = 1,
        *,
        activation: str,
        dropout: float,
        batch_norm: bool,
        momentum: float,
        eps: float,
        norm_input: bool = True,
        norm_after: bool = False,
        output_activation: str = LINEAR,
        first_layer: int = 0,
        members: int = 1,
        skip: bool = False,
        ensemble: str = "separate",
    ) -> None:
        super().__init__()
        act = find_activation(activation)
        self.members = members
        self.skip = Skip(inputs, members) if skip else None

        def linear(width: int, out: int, first: bool, last: bool = False) -> nn.Module:
            if members == 1:
                return nn.Linear(width, out)
            if ensemble == "shared" and not last:
                return SharedLinear(members, width, out, first=first)
            return MemberLinear(members, width, out, shared=first)

        def norm(width: int, wanted: bool) -> list[nn.Module]:
            return [RowNorm(width, eps=eps, momentum=1.0 - momentum)] if batch_norm and wanted else []

        layers = norm(inputs, norm_input and (bool(hidden) or outputs is not None))
        self.entry = len(layers)  # where the layers behind the input's norm begin
        for number, (width, out) in enumerate(pairwise([inputs, *hidden])):
            layers += norm(members * width, bool(number) and not norm_after)
            layers += [linear(width, out, not number), *norm(members * out, norm_after), act()]
            layers.append(RowDropout(dropout, members * out, first_layer + number))
        self.width = hidden[-1] if hidden else inputs
        if outputs is not None:
            layers += norm(members * self.width, bool(hidden) and not norm_after)
            layers.append(linear(self.width, outputs, not hidden, last=True))
            if output_activation != LINEAR:
                layers.append(find_activation(output_activation, LINEAR)())
            self.width = outputs
        self.layers = nn.ModuleList(layers)
        plain = output_activation == LINEAR and not norm_after
        self.fusible = activation == "relu" and plain and bool(hidden)
        for layer in layers:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)
        if skip:
            last: Any = layers[-1]
            nn.init.zeros_(last.weight)

    def enter(self, x: Tensor) -> Tensor:
        """Inputs as the skip and the first layer of weights see them, behind the norm if there is one."""
        for layer in self.layers[: self.entry]:
            x = layer(x)
        return x

    def forward(self, x: Tensor, packed: Packed | None = None) -> Tensor:
        if packed is not None and self.training and self.fusible and can_fuse(x, packed):
            dtype = torch.bfloat16 if torch.is_autocast_enabled("cpu") else x.dtype
            with torch.autocast("cpu", enabled=False):
                return self._run_fused(x, packed, dtype)
        line: Tensor | None = None
        for place, layer in enumerate(self.layers):
            if place == self.entry and self.skip is not None:
                line = self.skip(x)
            x = layer(x, packed) if isinstance(layer, RowNorm | RowDropout) else layer(x)
        x = x if line is None else x + line
        if self.members == 1 or self.training:
            return x
        # the mean as a product: ONNX Runtime takes it of no rows too
        return x @ x.new_full((self.members, 1), 1.0 / self.members)

    def _run_fused(self, x: Tensor, packed: Packed, dtype: torch.dtype) -> Tensor:
        """The same, with fewer passes over the rows; products are of `dtype`, weights of their own."""
        norm: RowNorm | None = None
        moments: Moments | None = None
        bias: Tensor | None = None
        line: Tensor | None = None
        for place, layer in enumerate(self.layers):
            if place == self.entry:
                x = x if norm is None else norm.standardise(x)
                line = self._fold_skip(x, norm)
                x = x.to(dtype)
            if isinstance(layer, RowNorm):
                norm = layer
            elif isinstance(layer, nn.Linear | SideBySide):
                weight, bias = see_parts(layer), layer.bias
                if norm is not None:
                    weight, more = (
                        norm.fold_learned(weight)
                        if moments is None
                        else norm.fold(weight, moments, len(x), dtype)
                    )
                    bias = bias + more
                x = multiply_parts(x, weight.to(dtype))
                norm = moments = None
            elif isinstance(layer, RowDropout):  # with the activation in front of it
                assert bias is not None
                x, moments = relu_and_drop(x, bias, layer, packed, shared=layer is self.layers[-1])
                bias = None
        if bias is None:
            return x
        return x.float() + (bias if line is None else line + bias)

    def _fold_skip(self, x: Tensor, norm: RowNorm | None) -> Tensor | None:
        """What the skip adds to the scores of standardised rows, `[rows, members]`; None without one."""
        if self.skip is None:
            return None
        if norm is None:
            line: Tensor = self.skip(x)
            return line
        weight, bias = norm.fold_learned(self.skip.weight.t()[None])
        return x @ weight[0] + bias


class RowNoise(nn.Module):
    """Gaussian noise on a row's inputs in training, which follows from the row's key and the input's name.

    `x + std · √(−2 ln u) · cos(2πv)` with u and v hashed (Box and Muller). Without keys (a network used by
    itself) it is drawn from torch's stream.
    """

    units: Tensor

    def __init__(self, std: float, width: int) -> None:
        super().__init__()
        self.std = std
        self.register_buffer("units", number_units(NOISE_LAYER, width), persistent=False)

    def forward(self, x: Tensor, packed: Packed | None = None) -> Tensor:
        if not self.training or self.std == 0.0:
            return x
        if packed is None:
            return x + self.std * torch.randn_like(x)
        bits = scramble(packed.row_keys[:, None] ^ self.units)
        length = torch.sqrt(-2.0 * torch.log(make_uniform(bits)))
        turn = torch.cos(2.0 * math.pi * make_uniform(scramble(bits + GOLDEN)))
        return x + (self.std * length * turn).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.std}"


class AdditiveCurves(nn.Module):
    """`Σ_c w_c · piece_c` over the pieces of all features, `[rows, 1]`: a curve for each, added up."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(columns))

    def forward(self, pieces: Tensor) -> Tensor:
        return pieces @ self.weight[:, None]


class FeedForward(Network):
    """`transform → noise → Stack → score`, and to that a curve for each feature, if it has some.

    Then `transform` is a `Beside`: its last columns are the pieces that the curves are made of, those before
    are the Stack's inputs. Curves come when the training is over; see `ridges`.
    """

    def __init__(
        self, transform: nn.Module, noise: RowNoise, layers: Stack, curves: AdditiveCurves | None = None
    ) -> None:
        super().__init__()
        self.transform = transform
        self.noise = noise
        self.layers = layers
        self.curves = curves

    def forward(self, prepared: Any, packed: Packed | None = None) -> Tensor:
        return self.follow(self.transform.finish(prepared), packed)

    def follow(self, inputs: Tensor, packed: Packed | None = None) -> Tensor:
        """Scores of transformed rows `[rows, columns]`: `[rows]`, or `[rows, members]` in training."""
        seen = inputs if self.curves is None else inputs[:, : -len(self.curves.weight)]
        scores: Tensor = self.layers(self.noise(seen, packed), packed)
        if self.curves is not None:
            scores = scores + self.curves(inputs[:, seen.shape[1] :].to(scores.dtype))
        return scores.squeeze(-1) if scores.shape[-1] == 1 else scores

    def take_curves(self, pieces: Piecewise, weight: Floats) -> None:
        """Add curves to a trained network, over these pieces of the transform's features."""
        first = next(self.parameters())
        self.transform = make_entrance(self.transform, pieces).to(first.device)
        self.curves = AdditiveCurves(len(weight)).to(first.device)
        with torch.no_grad():
            self.curves.weight.copy_(torch.tensor(weight))


def make_entrance(inner: Any, pieces: Piecewise | None) -> Any:
    """The module that rows enter by: a transform's module, and pieces beside it, if there are any."""
    return inner if pieces is None else Beside(inner, pieces.module().function)  # type: ignore[arg-type]


def see_parts(layer: nn.Linear | SideBySide) -> Tensor:
    """A layer's weights as `multiply_parts` takes them: `[parts, inputs, outputs]`."""
    return layer.weight.t()[None] if isinstance(layer, nn.Linear) else layer.join()


def find_activation(name: str, *also: str) -> type[nn.Module]:
    """The activation of this name; the error for an unknown one lists the known."""
    if name not in ACTIVATIONS:
        raise UnknownName("activation", str(name), [*ACTIVATIONS, *also])
    return ACTIVATIONS[name]


ORDERS = 4  # shuffled orders whose scores are averaged when nothing is being learned
_BYTES = 4  # a row's name travels as four numbers of 8 bits, which any float type holds exactly
_WORD = 0xFFFFFFFF


class Groupwise(Network):
    """`f(x_1 … x_m, context) → s_1 … s_m` over windows of a shuffled list; an item's scores are averaged.

    A list of n items in some order, taken as a ring, has n windows of m neighbours, one from each item on:
    each item is in m of them, once at each place, and its score is the mean of the m it gets. In a list
    shorter than m the ring goes round more than once. Context inputs come once a window, from the item it
    starts at; they are the same for all items of a list.

    The order follows from a hash of each row's own numbers and, in training, of the list's key: so neither
    the order in which rows come, nor their packing, changes a score, and each step shuffles anew. Scoring
    averages `ORDERS` fixed orders. Rows that are equal in every number are ordered as they come.

    Ai, Wang, Bruch, Golbandi, Bendersky and Najork: Learning groupwise multivariate scoring functions using
    deep neural networks, ICTIR 2019.
    """

    needs_lists = True
    item: Tensor
    shared: Tensor

    def __init__(
        self, transform: nn.Module, noise: RowNoise, layers: Stack, size: int, item: Ints, context: Ints
    ) -> None:
        super().__init__()
        self.transform, self.noise, self.layers, self.size = transform, noise, layers, size
        self.register_buffer("item", torch.as_tensor(item).clone(), persistent=False)
        self.register_buffer("shared", torch.as_tensor(context).clone(), persistent=False)

    def prepare(self, rows: Any, offsets: Tensor | None = None) -> Any:
        """Prepared rows with their names behind: `[rows, prepared + 4]`; sparse rows as they are."""
        rows = self.spread(rows)
        prepared = self.transform.prepare(rows, offsets)
        if isinstance(prepared, SparseRows):
            return prepared
        names = hash_dense(rows)
        parts = torch.stack([(names >> 8 * place) & 0xFF for place in range(_BYTES)], dim=1)
        return torch.cat([prepared, parts.to(prepared.dtype)], dim=1)

    def forward(self, prepared: Any, packed: Packed | None = None) -> Tensor:
        assert packed is not None
        names, prepared = self._split(prepared)
        inputs = self.noise(self.transform.finish(prepared), packed)  # [rows, inputs]
        if self.training:
            return self._score(inputs, names, packed.keys, packed)
        fixed = torch.arange(1, ORDERS + 1, device=names.device, dtype=torch.int32) * GOLDEN
        scores = [self._score(inputs, names, key.expand(len(packed.sizes)), packed) for key in fixed]
        return torch.stack(scores).mean(dim=0)

    def _split(self, prepared: Any) -> tuple[Tensor, Any]:
        """The rows' names, int32 `[rows]`, and what the transform prepared."""
        if isinstance(prepared, SparseRows):
            return hash_sparse(prepared), prepared
        parts = prepared[:, -_BYTES:].to(torch.int32)
        names = parts[:, 0]
        for place in range(1, _BYTES):
            names = names | (parts[:, place] << 8 * place)
        return names, prepared[:, :-_BYTES]

    def _score(self, inputs: Tensor, names: Tensor, keys: Tensor, packed: Packed) -> Tensor:
        """Scores `[rows]` with the lists shuffled by `keys`, int32 `[lists]`."""
        if not len(inputs):
            return inputs.new_zeros(0)
        row = shuffle_lists(names, keys, packed)  # [slots]: the row at each place of the shuffled lists
        slots = torch.arange(len(row), device=row.device)
        # rows that only fill a shape stand behind all others and count as more of the first list
        start, count = packed.starts[packed.owner], packed.sizes[packed.owner].clamp(min=1)
        place = slots - start
        steps = torch.arange(self.size, device=row.device)
        ahead = start[:, None] + (place[:, None] + steps) % count[:, None]  # [slots, m]: a window's slots
        items = inputs.index_select(1, self.item)[row[ahead]].flatten(1)  # [slots, m · item inputs]
        window = torch.cat([items, inputs.index_select(1, self.shared)[row]], dim=1)
        given = self.layers(window, packed)  # [slots, m]
        behind = start[:, None] + (place[:, None] - steps) % count[:, None]  # the windows an item is in
        scores: Tensor = given[behind, steps].float().mean(dim=1)  # [slots]
        slot = torch.empty_like(row).scatter_(0, row, slots)  # [rows]: where each row stands
        return scores.index_select(0, slot)


def shuffle_lists(names: Tensor, keys: Tensor, packed: Packed) -> Tensor:
    """Packed rows in a new order within each list, int64 `[rows]`: sorted by a hash of name and key."""
    bits = scramble(names ^ scramble(keys)[packed.owner]).long() & _WORD
    owner = packed.owner
    if packed.live is not None:
        owner = torch.where(packed.live, owner, len(packed.sizes))  # fillers stay last
    return torch.argsort((owner << 32) | bits, stable=True)


def hash_dense(rows: Tensor) -> Tensor:
    """A name for each row from its numbers, int32 `[rows]`; −0 is 0, and one NaN is like another."""
    plain = torch.where(rows.isnan(), torch.nan, rows.float() + 0.0)
    columns = torch.arange(rows.shape[1], device=rows.device, dtype=torch.int32) * GOLDEN
    bits = scramble(plain.contiguous().view(torch.int32) ^ scramble(columns))
    return _fold(bits.long().sum(dim=1))


def hash_sparse(rows: SparseRows) -> Tensor:
    """The same for sparse rows, from the columns and values that are stored and not 0."""
    columns = scramble(rows.columns.int() * GOLDEN)
    bits = scramble((rows.values + 0.0).contiguous().view(torch.int32) ^ columns).long()
    bits = torch.where(rows.values != 0.0, bits, 0)
    sums = torch.zeros(len(rows), dtype=torch.int64, device=bits.device)
    return _fold(sums.index_add_(0, rows.find_owners(), bits))


def _fold(bits: Tensor) -> Tensor:
    """int64 as int32, its lower half; arithmetic, since a cast of what does not fit is not defined."""
    low = bits & _WORD
    return torch.where(low >= 1 << 31, low - (1 << 32), low).int()


CELLS = 1 << 22  # pairs of items laid out at once when scoring
LARGEST = 1e15  # beyond it a square, and with it attention, would overflow
SLACK = 8  # how much shorter than the longest a short list may be and still be laid out with it


class ListLayout(NamedTuple):
    """Lists laid out in parts `[lists, width]`: which packed row stands where, which places are real."""

    rows: list[Tensor]  # [lists, width] int64 each
    masks: list[Tensor]  # [lists, width] bool each
    places: Tensor  # [rows] int64: where each packed row stands among all parts, flat


class Attention(Network):
    """`score = head(h ⊙ (1 + W a))`: h from the item's own layers, a from attention over its list.

    Both start from the transformed features (with Gaussian noise in training, and batch norm over real
    rows). a passes `blocks` of multi-head self-attention; W starts at 0, so the network starts as the plain
    one and learns how much the list matters. Rows are laid out by list inside attention alone, with a mask;
    the order of rows changes nothing but rounding.

    Qin, Yan, Zhuang, Tay, Pasumarthi, Wang, Bendersky and Najork: Are neural rankers still outperformed by
    gradient boosted decision trees?, ICLR 2021 (DASALC).
    """

    needs_lists = True

    def __init__(
        self,
        transform: nn.Module,
        noise: RowNoise,
        norm: RowNorm | None,
        item: Stack,
        blocks: list[AttentionBlock],
        dropout: RowDropout,
        head: Stack,
        *,
        inputs: int,
        width: int,
    ) -> None:
        super().__init__()
        self.transform, self.noise, self.norm, self.item, self.head = transform, noise, norm, item, head
        self.embed = nn.Linear(inputs, width)
        self.even = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(blocks)
        self.dropout = dropout
        self.cross = nn.Linear(width, item.width)
        nn.init.xavier_uniform_(self.embed.weight)
        for zero in (self.embed.bias, self.cross.weight, self.cross.bias):
            nn.init.zeros_(zero)

    def forward(self, prepared: Any, packed: Packed | None = None) -> Tensor:
        assert packed is not None
        x = self.noise(self.transform.finish(prepared), packed)  # [rows, inputs]
        if self.norm is not None:
            x = self.norm(x, packed)
        layout = follow_groups(packed) if self.training else sort_lists(packed)
        a = self.even(self.embed(x).clamp(-LARGEST, LARGEST))  # [rows, width]
        for block in self.blocks:
            a = block(a, layout, packed)
        h = self.item(x, packed) * (1.0 + self.cross(self.dropout(a, packed)))  # [rows, item width]
        scores: Tensor = self.head(h, packed)
        return scores.squeeze(-1)


class AttentionBlock(nn.Module):
    """`layer norm(a + dropout(attention(a)))`, over packed rows."""

    def __init__(self, width: int, heads: int, dropout: float, layer: int) -> None:
        super().__init__()
        self.heads = heads
        self.mixing = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = RowDropout(dropout, width, layer)
        self.norm = nn.LayerNorm(width)
        for linear in (self.mixing, self.out):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, a: Tensor, layout: ListLayout, packed: Packed | None = None) -> Tensor:
        mixed = self.mixing(a)  # [rows, 3 · width]
        parts = [
            self._attend(mixed[rows], mask).flatten(0, 1)
            for rows, mask in zip(layout.rows, layout.masks, strict=True)
        ]
        if not parts:
            return a
        seen = torch.cat(parts).index_select(0, layout.places)  # [rows, width]
        out: Tensor = self.norm(a + self.dropout(self.out(seen), packed))
        return out

    def _attend(self, laid: Tensor, mask: Tensor) -> Tensor:
        """`[lists, places, 3 · width]` → `[lists, places, width]`; only real places are looked at."""
        query, key, value = laid.reshape(*laid.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        seen = functional.scaled_dot_product_attention(query, key, value, mask[:, None, None, :])
        return seen.transpose(1, 2).flatten(2)


def follow_groups(packed: Packed) -> ListLayout:
    """The groups of the batch as they are: shapes that depend on no value."""
    device, last = packed.owner.device, len(packed.owner) - 1
    rows, masks, firsts, total = [], [], [], 0
    for group in packed.groups:
        lists = group.stop - group.start
        columns = torch.arange(group.width, device=device)
        rows.append((packed.starts[group.start : group.stop, None] + columns).clamp(max=last))
        masks.append(packed.mask(group))
        firsts.append(total + group.width * torch.arange(lists, device=device))
        total += lists * group.width
    ranks = torch.arange(last + 1, device=device) - packed.starts[packed.owner]
    places = (torch.cat(firsts)[packed.owner] + ranks).clamp(max=total - 1)  # fillers: any place will do
    return ListLayout(rows, masks, places)


def sort_lists(packed: Packed) -> ListLayout:
    """Lists of like length together, few at once where they are long, whatever order they came in."""
    device, last = packed.owner.device, len(packed.owner) - 1
    sizes = packed.sizes.cpu().numpy()
    order = np.argsort(-sizes, kind="stable")
    order = order[sizes[order] > 0]
    falling = -sizes[order]
    firsts = torch.zeros(len(sizes), dtype=torch.int64, device=device)
    rows, masks, total, start = [], [], 0, 0
    while start < len(order):
        width = int(sizes[order[start]])
        stop = int(np.searchsorted(falling, -min(0.75 * width, width - SLACK), side="right"))
        stop = min(stop, start + max(1, CELLS // width**2))
        lists = torch.from_numpy(order[start:stop]).to(device)
        columns = torch.arange(width, device=device)
        rows.append((packed.starts[lists, None] + columns).clamp(max=last))
        masks.append(columns < packed.sizes[lists, None])
        firsts[lists] = total + width * torch.arange(len(lists), device=device)
        total, start = total + len(lists) * width, stop
    ranks = torch.arange(last + 1, device=device) - packed.starts[packed.owner]
    return ListLayout(rows, masks, firsts[packed.owner] + ranks)
