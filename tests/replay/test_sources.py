"""numpy.random and Python's random under replay."""

# ruff: noqa: NPY002 - people use numpy.random

from __future__ import annotations

import itertools
import math
import os
import queue
import random
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from random import random as random_from_before
from random import uniform as uniform_from_before
from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import PCG64, Generator, bit_generator, default_rng, rand
from replayed import EXACT, chances, fresh, law, plain, refusal
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import _disable_current_modes

from spectr_verify.replay import Seen

Q = np.array([0.1, 0.6, 0.3])
P = np.array([0.5, 0.3, 0.2])
T = torch.tensor(Q)


def by_hand(draw: Callable[[], Any]) -> int:
    left = draw() * Q.sum()
    for i, probability in enumerate(Q):
        left -= probability
        if left < 0:
            return i
    return len(Q) - 1


TOKENS: dict[str, Callable[[], Any]] = {
    "choices": lambda: random.choices(range(3), weights=Q)[0],
    "choices by cumulative weights": lambda: random.choices(range(3), cum_weights=list(Q.cumsum()))[0],
    "choice": lambda: np.random.choice(3, p=Q),
    "choice of a law of torch": lambda: np.random.choice(3, p=T.numpy()),
    "choice of entries": lambda: np.random.choice([0, 1, 2], size=1, p=Q)[0],
    "multinomial": lambda: np.random.multinomial(1, Q).argmax(),
    "generator": lambda: np.random.default_rng().choice(3, p=Q),
    "generator's multinomial": lambda: np.random.default_rng().multinomial(1, Q).argmax(),
    "searchsorted": lambda: np.searchsorted(Q.cumsum(), np.random.rand()),
    "searchsorted of Python's": lambda: np.searchsorted(Q.cumsum(), random.random()),
    "torch's searchsorted": lambda: torch.searchsorted(T.cumsum(0), random.random()),
    "digitize": lambda: np.digitize(np.random.rand(), Q.cumsum()),
    "first above": lambda: (Q.cumsum() > np.random.rand()).argmax(),
    "counted": lambda: (np.random.rand() >= Q.cumsum()).sum(),
    "by hand": lambda: by_hand(random.random),
    "by hand with numpy": lambda: by_hand(np.random.rand),
    "gumbel": lambda: np.argmax(np.log(Q) + np.random.gumbel(size=3)),
    "gumbel by hand": lambda: np.argmax(np.log(Q) - np.log(-np.log(np.random.rand(3)))),
    "exponential": lambda: np.random.exponential(1 / Q).argmin(),
    "exponential race": lambda: (Q / np.random.standard_exponential(3)).argmax(),
    "powers": lambda: np.argmax(np.random.random(3) ** (1 / Q)),
    "into torch": lambda: (T.log() + torch.from_numpy(np.random.gumbel(size=3))).argmax(),
    "copied into torch": lambda: (T / torch.tensor(np.random.exponential(size=3))).argmax(),
}


@pytest.mark.parametrize("draw", TOKENS.values(), ids=TOKENS)
def test_a_token_is_drawn_from_its_law(draw: Callable[[], Any]) -> None:
    found = law(lambda: int(draw()))
    assert [found[i] for i in range(3)] == pytest.approx(Q, abs=EXACT)


COINS: list[tuple[str, Callable[[], Any], list[float]]] = [
    ("random", lambda: [random.random() < 0.3, random.uniform(-1, 3) < 0, uniform_from_before(0, 2) < 0.5],
     [0.3, 0.25, 0.25]),
    ("rand", lambda: [*(np.random.rand(2) < [0.3, 0.6]), np.random.random() <= Q[1]], [0.3, 0.6, 0.6]),
    ("names", lambda: [np.random.random_sample((1,))[0] < 0.3, np.random.ranf() < 0.3, np.random.sample() < 0.3],
     [0.3] * 3),
    ("uniform", lambda: [np.random.uniform(1, 3) < 1.5, *(np.random.uniform([0, 1], [2, 3]) < 1.5)],
     [0.25, 0.75, 0.25]),
    ("binomial", lambda: [np.random.binomial(1, 0.3), np.random.default_rng().binomial(2, 0.3) == 1], [0.3, 0.42]),
    ("exponential", lambda: [np.random.exponential(2) < 1, random.expovariate(2) < 0.5], [1 - math.exp(-0.5),
     1 - math.exp(-1)]),
    ("gumbel", lambda: [np.random.gumbel(1, 2) < 1], [math.exp(-1)]),
    ("pareto", lambda: [random.paretovariate(2) < 2], [0.75]),
    ("integers", lambda: [np.random.randint(1, 3) == 1, *(np.random.default_rng().integers(3, size=2) == 0)],
     [0.5, 1 / 3, 1 / 3]),
    ("both ends", lambda: [np.random.default_rng().integers(1, 2, endpoint=True) == 1, random.randint(0, 3) == 0],
     [0.5, 0.25]),
    ("Python's integers", lambda: [random.randrange(2, 5) == 2, random.getrandbits(2) == 3, random.choice("ab") == "a"],
     [1 / 3, 0.25, 0.5]),
    ("RandomState", lambda: [np.random.RandomState().rand() < 0.3, random.Random().random() < 0.3,
     random.SystemRandom().random() < 0.3], [0.3] * 3),
    ("a ratio of arrays", lambda: np.random.rand(3) < Q / P, [0.2, 1, 1]),
    ("a ratio of torch's", lambda: np.random.rand(3) < (T / torch.tensor(P)).numpy(), [0.2, 1, 1]),
    ("torch's numbers", lambda: [np.random.rand() < float(T[0]), np.random.rand() < T[1], T[2] > random.random()], Q),
    ("torch's tensor", lambda: random.random() * torch.tensor([0.5], dtype=T.dtype) < T[:1], [0.2]),
    ("numpy's numbers", lambda: [Q[0] > random.random(), np.float64(0.5) * random.random() < 0.1], [0.1, 0.2]),
    ("arithmetic", lambda: [1 - np.random.rand() < 0.4, -2 * random.random() + 1 < 0.5, 2 / np.random.rand() > 4,
     np.random.rand() ** 2 < 0.25, np.sqrt(np.random.rand()) < 0.5, np.log(random.random()) < -1],
     [0.4, 0.75, 0.5, 0.5, 0.25, math.exp(-1)]),
    ("bounds", lambda: [np.clip(np.random.rand(), 0.2, 0.8) <= 0.2, np.minimum(np.random.rand(), 0.5) < 0.25,
     min(1, 2 * random.random()) < 1, max(0.5, random.random()) > 0.5], [0.2, 0.25, 0.5, 0.5]),
    ("whole numbers of", lambda: [math.floor(random.random() * 3) == 1, int(np.random.rand() * 4) == 2,
     math.ceil(2 * random.random()) == 1, np.floor(np.random.rand() * 5) == 0], [1 / 3, 0.25, 0.5, 0.2]),
    ("indexing", lambda: [(u := np.random.rand(2, 3))[0, 1] < 0.3, u.T[2, 1] < 0.6, u.reshape(-1)[0] < 0.5,
     np.squeeze(u[1:, :1]) < 0.2], [0.3, 0.6, 0.5, 0.2]),
    ("joined", lambda: np.concatenate([np.random.rand(1), np.zeros(1), np.random.rand(2) * [0.5, 2]]) < 0.5,
     [0.5, 1, 1, 0.25]),
    ("where", lambda: np.where([True, False, True], np.random.rand(3), 0.7) < 0.5, [0.5, 0, 0.5]),
    ("lists", lambda: [x < 0.5 for x in (*np.random.rand(2).tolist(), np.random.rand(1).item(), *np.random.rand(1))],
     [0.5] * 4),
    ("to integers", lambda: (np.random.rand(2) * 2).astype(int), [0.5, 0.5]),
    ("from numbers", lambda: torch.tensor([random.random(), 0.2], dtype=T.dtype) < 0.5, [0.5, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "expected"), [case[1:] for case in COINS], ids=[case[0] for case in COINS])
def test_a_comparison_has_its_probability(answer: Callable[[], Any], expected: list[float]) -> None:
    assert chances(answer) == pytest.approx(expected, abs=EXACT)


def test_arrays_are_written_in_place_and_numbers_are_not() -> None:
    def call() -> list[bool]:
        array, number = np.random.rand(2), random.random()
        same, before = array, number
        array *= 0.5
        array[0] = 0.9
        number *= 0.5
        return [same[0] < 0.5, same[1] < 0.25, before < 0.5]

    assert chances(call) == pytest.approx([0, 0.5, 0.5], abs=EXACT)


def test_a_float_that_was_halved_is_still_the_same_number() -> None:
    def call() -> tuple[bool, bool]:
        number = random.random()
        half = number
        half *= 0.5
        return bool(half < 0.25), bool(number < 0.5)

    assert law(call) == pytest.approx({(True, True): 0.5, (False, False): 0.5}, abs=EXACT)


ORDERS: dict[str, Callable[[], Any]] = {
    "sample": lambda: random.sample(range(3), 2),
    "shuffle": lambda: shuffled(random.shuffle, [0, 1, 2])[:2],
    "permutation": lambda: np.random.permutation(3)[:2],
    "permutation of entries": lambda: np.random.default_rng().permutation([0, 1, 2])[:2],
    "numpy's shuffle": lambda: shuffled(np.random.shuffle, np.arange(3))[:2],
    "choice": lambda: np.random.choice(3, size=2, replace=False),
    "randperm": lambda: torch.randperm(3)[:2],
}


def shuffled(shuffle: Callable[[Any], None], entries: Any) -> Any:
    shuffle(entries)
    return entries


@pytest.mark.parametrize("draw", ORDERS.values(), ids=ORDERS)
def test_all_orders_are_equally_likely(draw: Callable[[], Any]) -> None:
    found = law(lambda: [int(i) for i in draw()])
    assert found == pytest.approx(dict.fromkeys(itertools.permutations(range(3), 2), 1 / 6), abs=EXACT)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: np.random.choice(3, size=2, replace=False, p=Q),
        lambda: np.argsort(np.random.exponential(size=3) / Q)[:2],
        lambda: (-np.log(Q) - np.random.gumbel(size=3)).argsort()[:2],
    ],
)
def test_tokens_are_drawn_without_replacement(draw: Callable[[], Any]) -> None:
    expected = {(i, j): Q[i] * Q[j] / (1 - Q[i]) for i, j in itertools.permutations(range(3), 2)}
    assert law(draw) == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: default_rng().random(),
        lambda: Generator(PCG64()).random(),
        lambda: np.random.Generator(np.random.Philox()).random(),
        lambda: rand(),
        lambda: random_from_before(),
    ],
)
def test_generators_are_answered_by_the_names_that_a_module_gives_them(draw: Callable[[], Any]) -> None:
    before = dict(globals())
    assert law(lambda: draw() < 0.3, seen=Seen()) == pytest.approx({True: 0.3, False: 0.7}, abs=EXACT)
    assert {name: value for name, value in globals().items() if before[name] is not value} == {}


@pytest.mark.parametrize(
    "draw",
    [
        lambda make=np.random.default_rng: make().random(),
        lambda make=np.random.PCG64: Generator(make()).random(),
        lambda make=np.random.RandomState: make().rand(),
        lambda: np.random.SeedSequence().generate_state(1)[0] / 2**32,
        lambda: os.urandom(1)[0] / 256,
        lambda: secrets.token_bytes(1)[0] / 256,
        lambda: random.SystemRandom().randbytes(1)[0] / 256,
    ],
)
def test_random_bits_of_the_system_are_refused(draw: Callable[[], Any]) -> None:
    message = refusal(lambda: draw() < 0.3)
    assert "it draws from a generator that cannot be answered: it takes random bits from the system" in message
    assert "test_sources.py:" in message
    assert default_rng().random() < 1
    assert "refuse" not in repr(vars(bit_generator)["randbits"])


def test_secrets_are_answered_where_they_are_whole_numbers() -> None:
    assert chances(lambda: [secrets.randbelow(4) == 0, secrets.randbits(1) == 0, secrets.choice("abc") == "a"]) == (
        pytest.approx([1 / 4, 1 / 2, 1 / 3], abs=EXACT)
    )


@pytest.mark.parametrize(
    "turn",
    [
        lambda a: a.T,
        lambda a: a.transpose(),
        lambda a: a.transpose(2, 0, 1),
        lambda a: a.transpose((1, 0, 2)),
        lambda a: np.transpose(a),
        lambda a: np.transpose(a, (2, 0, 1)),
        lambda a: a[0, 0].T,
        lambda a: a[:, 0].T,
    ],
)
def test_transposing_does_as_numpy_does(turn: Callable[[Any], Any]) -> None:
    fixed = np.arange(6.0).reshape(2, 1, 3)
    expected = turn(fixed) < 3.5

    def call() -> Any:
        array = turn(np.random.rand(2, 1, 3) + fixed)
        return array.shape, array < 3.0

    assert law(call) == {(expected.shape, plain(turn(fixed) < 2.5)): pytest.approx(1, abs=EXACT)}


@pytest.mark.parametrize(
    ("to_torch", "is_shared"),
    [
        (torch.as_tensor, True),
        (lambda a: torch.from_numpy(a), True),
        (torch.asarray, True),
        (torch.tensor, False),
        (lambda a: torch.asarray(a, copy=True), False),
        (lambda a: torch.as_tensor(a, dtype=torch.float32), False),
    ],
)
def test_arrays_share_their_memory_with_torch_as_far_as_numpy_s_do(to_torch: Any, is_shared: bool) -> None:
    def call() -> list[bool]:
        array = np.random.rand(3)
        array[2] = 0.0
        to_torch(array)[::2] = 0.9
        return [array[0] < 0.3, array[1] < 0.3, array[2] < 0.3]

    assert chances(call) == pytest.approx([0, 0.3, 0] if is_shared else [0.3, 0.3, 1], abs=EXACT)


def test_a_number_shares_no_memory_with_torch() -> None:
    def call() -> list[bool]:
        number = random.random()
        torch.as_tensor(number).mul_(0.1)
        return [number < 0.3]

    assert chances(call) == pytest.approx([0.3], abs=EXACT)


def test_a_decided_part_of_an_array_may_be_read_but_not_drawn_into_again() -> None:
    def read(*, by_number: bool) -> Any:
        array = np.random.rand(2)
        array[0] = 0.1
        part = array[0] if by_number else array[:1]
        array[0] = np.random.rand()
        return part < 0.3

    assert law(lambda: read(by_number=True)) == {True: 1.0}
    assert "memory shared with numpy" in refusal(lambda: read(by_number=False))


def test_the_last_probability_of_numpy_s_multinomial_is_what_is_left() -> None:
    """It is not looked at, by numpy either."""
    assert law(lambda: np.random.multinomial(1, [0.25, 0.5, 0.0])) == pytest.approx(
        {(1, 0, 0): 0.25, (0, 1, 0): 0.5, (0, 0, 1): 0.25}, abs=EXACT
    )


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda: np.random.rand(2).sum(), "numpy's sum is done to random numbers that are still undecided"),
        (lambda: np.random.rand(2).cumsum(), "numpy's cumsum is done to"),
        (lambda: np.mean(np.random.rand(2)), "numpy's mean is done to"),
        (lambda: np.random.rand(2) @ [1, 2], "numpy's matmul is done to"),
        (lambda: np.add.reduce(np.random.rand(2)), "numpy's add.reduce is done to"),
        (lambda: np.isclose(np.random.rand(), 0.5), "numpy's isclose is done to"),
        (lambda: np.sin(np.random.rand()), "numpy's sin is done to"),
        (lambda: np.random.rand() * np.random.rand(), "torch's mul is done to"),
        (lambda: random.random() + torch.rand(1), "torch's add is done to"),
        (lambda: np.argsort(np.random.rand(2), kind="stable"), "numpy's argsort with these arguments is done to"),
        (lambda: np.random.rand(3)[::-1], "numpy's indexing is done to random numbers that are still undecided; that "
         "raised ValueError: step must be greater than zero"),
        (lambda: np.random.rand(3)[5], "numpy's indexing is done to random numbers that are still undecided; that"),
        (lambda: np.random.rand(3) + np.ones(4), "numpy's add is done to random numbers"),
        (lambda: PCG64().random_raw(), "the random_raw of a bit generator"),
        (lambda: np.asarray(np.random.rand(2)), "a numpy copy of random numbers"),
        (lambda: np.zeros(2).__setitem__(0, random.random()), r"the value (float(), or a function of Python's math)"),
        (lambda: math.log(random.random()), "the value (float(), or a function of Python's math)"),
        (lambda: random.gauss(0, 1), "the value (float(), or a function of Python's math)"),
        (lambda: bool(random.random()), "the truth of random numbers"),
        (lambda: round(random.random()), "the rounded value of random numbers"),
        (lambda: np.random.randn(), "numpy.random's randn draws random numbers of a kind that is not followed"),
        (lambda: np.random.default_rng().normal(), "numpy.random's normal draws random numbers of a kind"),
        (lambda: np.random.randint(2**40), "a whole number below 1,099,511,627,776"),
        (lambda: np.random.randint([1, 2]), "between arrays of bounds"),
        (lambda: np.random.choice(np.eye(2), axis=1), "choice() got an unexpected keyword"),
        (lambda: np.random.default_rng().choice(3, 2, shuffle=False), "choice is asked for an axis, or not to shuffle"),
        (lambda: np.random.choice(3, p=[0.5, 0.4, 0.2]), "raised ValueError: probabilities do not sum to 1"),
        (lambda: random.choices([1], weights=[0.0]), "raised ValueError: Total of weights must be greater than zero"),
    ],
)  # fmt: skip
def test_what_is_not_followed_is_refused_with_its_line(use: Callable[[], Any], says: str) -> None:
    message = refusal(lambda: use())
    assert says.lower() in message.lower()
    assert "test_sources.py:" in message


def test_numbers_of_a_numpy_seed_are_noted() -> None:
    for make in (
        lambda: np.random.default_rng(0).random(),
        lambda: np.random.RandomState(0).rand(),
        lambda: random.Random(0).random(),
    ):
        seen = fresh()
        assert law(lambda make=make: make() < 0.25, seen=seen)[True] == pytest.approx(0.25, abs=EXACT)
        (note,) = seen.notes
        assert "in real use every call with that seed draws the same numbers" in note


def test_numbers_of_numpy_s_float32_are_noticed() -> None:
    single, p = Q.astype(np.float32), np.array([0.25, 0.75])
    for call, is_single in [
        (lambda: np.random.choice(2, p=p), False),
        (lambda: np.random.choice(2, p=p.astype(np.float32)), True),
        (lambda: np.random.choice(2, p=list(p.astype(np.float32))), True),
        (lambda: np.random.default_rng().multinomial(1, p.astype(np.float32)), True),
        (lambda: np.random.binomial(1, single[0]), True),
        (lambda: random.random() < Q[0], False),
        (lambda: random.random() < single[0], True),
        (lambda: single[0] > np.random.rand(), True),
        (lambda: np.random.rand(3) < single, True),
        (lambda: random.random() * np.float16(0.5) < 0.25, True),
        (lambda: np.random.rand() < np.int32(1), False),
        (lambda: np.searchsorted(single.cumsum(), np.random.rand()), True),
    ]:
        seen = fresh()
        law(call, seen=seen)
        assert seen.single == is_single


def test_a_generator_that_is_kept_goes_on() -> None:
    kept: list[Any] = []

    def call() -> bool:
        kept.extend([np.random.default_rng()] if not kept else [])
        return kept[0].random() < 0.25

    assert law(call)[True] == pytest.approx(0.25, abs=EXACT)


def test_modules_may_draw_while_they_are_imported(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "drawing_at_import.py").write_text("import random\nNAME = random.randint(1, 10**9)\n")
    monkeypatch.syspath_prepend(tmp_path)

    def call() -> bool:
        import drawing_at_import  # noqa: F401

        return random.random() < 0.25

    state = random.getstate()
    assert "could not be answered" in refusal(call) or law(call)[True] == pytest.approx(0.25, abs=EXACT)
    assert random.getstate() == state


@pytest.mark.parametrize("before", [None, "cpu"])
def test_torch_s_defaults_are_as_before_after_a_run(before: str | None) -> None:
    def call() -> bool:
        torch.set_default_dtype(torch.float16)
        torch.set_default_device("meta")
        return random.random() < 0.25

    torch.set_default_device(before)
    try:
        assert law(call)[True] == pytest.approx(0.25, abs=EXACT)
        assert torch.get_default_dtype() == torch.float32
        assert torch.empty(1).device == torch.device("cpu")
        with TorchFunctionMode():
            assert len(_get_current_function_mode_stack()) == 1  # no context of a device is left
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)


def test_everything_is_as_before_after_a_run() -> None:
    names = ("rand", "choice", "default_rng", "Generator")
    before = [getattr(np.random, name) for name in names], random.random, random.Random.random, torch.from_numpy
    law(lambda: np.random.rand() < 0.5)
    refusal(lambda: np.random.rand(2).sum())
    after = [getattr(np.random, name) for name in names], random.random, random.Random.random, torch.from_numpy
    assert after == before


# Where torch does not call the replay ---------------------------------------------------------------------------------


@torch.library.custom_op("spectr_verify_tests::coin", mutates_args=())
def coin_of_python(chance: torch.Tensor) -> torch.Tensor:
    return torch.tensor([random.random() < c for c in chance.tolist()])


@torch.library.custom_op("spectr_verify_tests::fill", mutates_args=("u",))
def fill_from_numpy(u: torch.Tensor) -> None:
    u.copy_(torch.from_numpy(np.random.rand(*u.shape)))


def filled() -> torch.Tensor:
    u = torch.empty(1, dtype=T.dtype)
    torch.ops.spectr_verify_tests.fill(u)
    return u < 0.3


def without_modes() -> bool:
    u = random.random()
    with _disable_current_modes():
        return bool(u < 0.3)


class Worker:
    """A thread that waits for work, however it gets it."""

    def __init__(self) -> None:
        self.tasks: queue.Queue[Any] = queue.Queue()
        self.results: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                self.results.put(self.tasks.get()())
            except Exception as error:  # whatever it is, the caller waits for it
                self.results.put(error)

    def do(self, task: Callable[[], Any]) -> Any:
        self.tasks.put(task)
        return self.results.get()


EXECUTOR, POOL, WORKER = ThreadPoolExecutor(1), ThreadPool(1), Worker()
EXECUTOR.submit(len, []).result()


def asked_elsewhere() -> bool:
    u = np.random.rand()
    return bool(WORKER.do(lambda: u < 0.3))


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (lambda: torch.ops.spectr_verify_tests.coin(T), "the body of an operator of torch.library"),
        (filled, "the body of an operator of torch.library"),
        (without_modes, "where torch's modes are switched off"),
        (lambda: EXECUTOR.submit(lambda: bool(random.random() < 0.3)).result(), "it hands work to a pool"),
        (lambda: list(EXECUTOR.map(lambda c: bool(torch.rand(1) < c), T)), "it hands work to a pool"),
        (lambda: POOL.apply(lambda: bool(random.random() < 0.3)), "it hands work to a pool"),
        (lambda: POOL.map(lambda c: bool(random.random() < c), Q), "it hands work to a pool"),
        (lambda: list(POOL.imap(lambda c: bool(random.random() < c), Q)), "it hands work to a pool"),
        (lambda: WORKER.do(lambda: bool(random.random() < 0.3)), "drawn or used in another thread"),
        (lambda: WORKER.do(lambda: np.random.rand(2) < Q[:2]), "drawn or used in another thread"),
        (asked_elsewhere, "drawn or used in another thread"),
    ],
)
def test_numbers_are_not_drawn_or_used_where_they_cannot_be_followed(draw: Callable[[], Any], says: str) -> None:
    assert says in refusal(draw)
