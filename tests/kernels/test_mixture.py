"""The mixture ops of the reference executor against float64 formulas, transformers and bad scores."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.moe_program import FAMILIES, Shape, build, oracle, step, weights
from torch import Tensor
from transformers import GptOssConfig, Qwen3MoeConfig
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts, GptOssTopKRouter
from transformers.models.mimo_v2_flash.configuration_mimo_v2_flash import MiMoV2FlashConfig
from transformers.models.mimo_v2_flash.modeling_mimo_v2_flash import MiMoV2FlashTopkRouter
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeTopKRouter
from ultra_kernels import mixture
from ultra_kernels.checks import UnsoundProgram, check
from ultra_kernels.program import Attributes, Kind, Op, Program, Scoring
from ultra_kernels.reference import ReferenceExecutor
from ultra_kernels.step import Packed, Sizes

SIZES = Sizes(rows=40, blocks=8)
TOKENS = [3, 7, 7, 49, 0, 12, 31, 5, 18]


def run(program: Program, packed: dict[str, Packed], tokens: list[int], precision: str = "float32") -> Tensor:
    return ReferenceExecutor(program, packed, SIZES, precision).run(step(tokens))


@pytest.mark.parametrize("tiles", [1, 4])
@pytest.mark.parametrize("shape", [Shape(), Shape(5, 5, 8, 40), Shape(9, 1, 24, 7)])
@pytest.mark.parametrize("name", FAMILIES)
def test_equals_the_formulas(name: str, shape: Shape, tiles: int) -> None:
    program = build(FAMILIES[name], shape, tiles, layers=2)
    check(program)
    packed = weights(program, seed=3)
    want = torch.from_numpy(oracle(FAMILIES[name], shape, packed, TOKENS, layers=2))
    torch.testing.assert_close(run(program, packed, TOKENS).double(), want, rtol=1e-4, atol=1e-4)


def test_routers_stay_exact_in_bfloat16() -> None:
    family = FAMILIES["mimo"]
    program = build(family)
    packed = weights(program)
    assert torch.equal(
        ReferenceExecutor(program, packed, SIZES, "bfloat16")._memory[program.buffer("0.router").id],
        packed["0.router"].format.rows(packed["0.router"].data),
    )
    got, want = run(program, packed, TOKENS, "bfloat16"), run(program, packed, TOKENS)
    assert float((got - want).norm() / want.norm()) < 0.02


def _routes(
    at: Attributes, router: torch.nn.Module, logits: Tensor, correction: Tensor | None = None
) -> None:
    """`choose` and a transformers router on the same logits: the same experts weigh the same."""
    ids, gates = mixture.choose(logits, correction, at)
    want = torch.zeros_like(logits)
    with torch.no_grad():
        _, theirs, chosen = router(logits)
    want.scatter_(1, chosen, theirs)
    torch.testing.assert_close(torch.zeros_like(logits).scatter_(1, ids, gates), want, rtol=1e-5, atol=1e-7)


def _with_identity(router: torch.nn.Module) -> torch.nn.Module:
    """Its inputs are its logits."""
    for name, parameter in router.named_parameters():
        parameter.data = torch.eye(len(parameter)) if name == "weight" else torch.zeros_like(parameter)
    return router


def test_routes_like_transformers() -> None:
    logits = torch.randn(50, 12, generator=torch.Generator().manual_seed(1)) * 2
    qwen = Qwen3MoeConfig(num_experts=12, num_experts_per_tok=4, hidden_size=12, norm_topk_prob=True)
    _routes(
        Attributes(experts=12, top_k=4, normalise=True, scale=1.0),
        _with_identity(Qwen3MoeTopKRouter(qwen)),
        logits,
    )
    oss = GptOssConfig(num_local_experts=12, num_experts_per_tok=4, hidden_size=12)
    at = Attributes(experts=12, top_k=4, scoring=Scoring.CHOSEN, scale=1.0)
    _routes(at, _with_identity(GptOssTopKRouter(oss)), logits)
    mimo = MiMoV2FlashConfig(
        n_routed_experts=12, num_experts_per_tok=4, hidden_size=12, n_group=1, topk_group=1
    )
    mimo.routed_scaling_factor = 2.5
    router = _with_identity(MiMoV2FlashTopkRouter(mimo))
    router.e_score_correction_bias = torch.linspace(-0.5, 0.5, 12)
    at = Attributes(experts=12, top_k=4, scoring=Scoring.SIGMOID, normalise=True, scale=2.5)
    _routes(at, router, logits, router.e_score_correction_bias)


def test_acts_like_transformers() -> None:
    experts = GptOssExperts(GptOssConfig(num_local_experts=2, hidden_size=4, intermediate_size=300))
    both = torch.randn(5, 600, generator=torch.Generator().manual_seed(2)) * 6  # well past the limit of 7
    got = mixture.act(both[:, 0::2], both[:, 1::2], Attributes(limit=7.0, alpha=1.702))
    torch.testing.assert_close(got, experts._apply_gate(both))


@given(
    st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=6, max_size=6),
    st.integers(1, 6),
    st.sampled_from(list(Scoring)),
)
@settings(max_examples=60, deadline=None)
def test_ties_go_to_the_lower_id(logits: list[float], top_k: int, scoring: Scoring) -> None:
    at = Attributes(experts=6, top_k=top_k, scoring=scoring, scale=1.0)
    ids, gates = mixture.choose(torch.tensor([logits]), None, at)
    assert ids[0].tolist() == sorted(range(6), key=lambda e: (-logits[e], e))[:top_k]
    assert gates.isfinite().all() and (gates[0, :-1] >= gates[0, 1:]).all()


@pytest.mark.parametrize("scoring", Scoring)
def test_a_bad_score_gives_bad_gates_to_its_row_alone(scoring: Scoring) -> None:
    logits = torch.randn(3, 6)
    logits[1, 4] = torch.nan
    ids, gates = mixture.choose(logits, None, Attributes(experts=6, top_k=2, scoring=scoring, scale=1.0))
    assert gates[1].isnan().all() and gates[[0, 2]].isfinite().all()
    assert ((ids >= 0) & (ids < 6)).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_router_that_is_not_a_number_is_seen_in_the_logits(name: str) -> None:
    program = build(FAMILIES[name])
    packed = weights(program)
    packed["0.router"].data.view(torch.float32)[2, 0] = torch.nan
    assert run(program, packed, TOKENS).isnan().all()


def test_ids_that_nobody_made_give_nan() -> None:
    program = build(FAMILIES["mimo"], routed=False)
    assert run(program, weights(build(FAMILIES["mimo"])), TOKENS).isnan().all()


def _changed(program: Program, op: Op, **changes: object) -> Program:
    at = next(i for i, node in enumerate(program.nodes) if node.op is op)
    node = program.nodes[at]
    attributes = replace(node.attributes, **changes)  # type: ignore[arg-type]
    nodes = [*program.nodes]
    nodes[at] = replace(node, attributes=attributes)
    return replace(program, nodes=tuple(nodes))


@pytest.mark.parametrize(
    ("op", "changes", "fault"),
    [
        (Op.ROUTE, {"top_k": 9}, "takes 9 of 8"),
        (Op.EXPERT_GATE_UP, {"top_k": 0}, "takes 0 of 8"),
        (Op.EXPERT_GATE_UP, {"top_k": 2}, "ids are"),
        (Op.ROUTE, {"experts": 7}, "ROUTE.w is"),
        (Op.EXPERT_GATE_UP, {"experts": 9}, "EXPERT_GATE_UP.w_gate is"),
        (Op.EXPERT_DOWN_ADD, {"experts": 9}, "EXPERT_DOWN_ADD.w is"),
        (Op.ROUTE, {"scale": 0.0}, "every gate is zero"),
        (Op.ROUTE, {"scoring": Scoring.SOFTMAX}, "only sigmoids are corrected"),
    ],
)
def test_a_mixture_that_does_not_fit_is_unsound(op: Op, changes: dict[str, object], fault: str) -> None:
    program = build(FAMILIES["mimo"], tiles=2)
    check(program)
    with pytest.raises(UnsoundProgram, match=fault):
        check(_changed(program, op, **changes))


def test_ids_without_a_router_are_unsound() -> None:
    with pytest.raises(UnsoundProgram, match="no router has made its ids yet"):
        check(build(FAMILIES["mimo"], routed=False))


def test_ids_are_integers_of_their_own_kind() -> None:
    program = build(FAMILIES["mimo"])
    ids = program.buffer("ids")
    assert ids.kind is Kind.INDEX
    buffers = [replace(b, kind=Kind.ACTIVATION) if b is ids else b for b in program.buffers]
    with pytest.raises(UnsoundProgram, match="ids are"):
        check(replace(program, buffers=tuple(buffers)))


def test_rows_beyond_the_experts_of_others_are_untouched() -> None:
    """One row at a time gives what all rows together give."""
    program = build(FAMILIES["gpt_oss"])
    packed = weights(program)
    together = run(program, packed, TOKENS)
    alone = torch.cat([run(program, packed, [token]) for token in TOKENS])
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-5)
