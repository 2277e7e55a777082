"""ModelConfig -> Program. Buffer names are the model's canonical tensor names."""

from __future__ import annotations

from ultra_kernels.builder import Builder
from ultra_kernels.program import BLOCK, SHARES, SPLITS, Attributes, Kind, Op, Program

from .config import Attention, Dense, Mixture, ModelConfig, Rope


def lower(config: ModelConfig, tiles: int = 1) -> Program:
    """The program of one step; ``tiles`` is how many ways each op is cut."""
    return _Lowering(config).program(tiles)


class _Lowering:
    def __init__(self, config: ModelConfig) -> None:
        self.config, self.b = config, Builder()
        self.weights = {weight.name: weight.shape for weight in config.weights()}
        self.x = self.b.activation("x", "rows", config.hidden)
        self.ropes: dict[bytes, int] = {}

    def program(self, tiles: int) -> Program:
        b, c = self.b, self.config
        table = self.weight("embed.weight")
        tokens = b.input("tokens", "rows")
        b.node(Op.EMBED, c.hidden, {"table": table, "tokens": tokens, "x": self.x}, Attributes())
        for index, layer in enumerate(c.layers):
            self.attention(index, layer.attention)
            if isinstance(layer.mlp, Dense):
                self.dense(index, layer.mlp)
            else:
                self.mixture(index, layer.mlp)
        head = {
            "x": self.x,
            "norm": self.weight("norm.weight"),
            "w": table if c.tied else self.weight("head.weight"),
            "out_rows": b.input("out_rows", "outputs"),
            "logits": b.buffer("logits", Kind.OUTPUT, "outputs", c.vocab),
        }
        b.node(Op.NORM_HEAD, c.vocab, head, Attributes(eps=c.eps))
        b.sample(head["logits"])
        return b.build(tiles)

    def weight(self, name: str) -> int:
        return self.b.weight(name, *self.weights[name])

    def given(self, prefix: str, **slots: str) -> dict[str, int]:
        """Operands for those of the named weights that the model has."""
        names = {slot: prefix + name for slot, name in slots.items()}
        return {slot: self.weight(name) for slot, name in names.items() if name in self.weights}

    def activation(self, name: str, *sizes: int) -> int:
        """One for all layers of a kind; layers of other sizes have their own."""
        return self.b.activation(f"{name}[{'x'.join(map(str, sizes))}]", "rows", *sizes)

    def inv_freq(self, rope: Rope) -> int:
        number = self.ropes.setdefault(rope.inv_freq.tobytes(), len(self.ropes))
        return self.b.constant(f"inv_freq.{number}" if number else "inv_freq", rope.inv_freq)

    def attention(self, layer: int, a: Attention) -> None:
        b, prefix = self.b, f"layers.{layer}."
        place = {
            "positions": b.input("positions", "rows"),
            "sequences": b.input("sequences", "rows"),
            "block_table": b.input("block_table", "sequences", "table"),
        }
        caches = {
            f"{name}_cache": b.buffer(f"{prefix}{name}_cache", Kind.STATE, "blocks", BLOCK, a.kv_heads, dim)
            for name, dim in (("k", a.head_dim), ("v", a.value_dim))
        }
        q, mixed = self.activation("q", a.heads, a.head_dim), self.activation("a", a.heads * a.value_dim)
        project = {"x": self.x, "q": q, "inv_freq": self.inv_freq(a.rope)}
        project |= self.given(prefix, norm="attn_norm.weight", q_norm="q_norm.weight", k_norm="k_norm.weight")
        for name in "qkv":
            project |= self.given(prefix, **{f"w{name}": f"{name}.weight", f"b{name}": f"{name}.bias"})
        attributes = Attributes(
            heads=a.heads,
            kv_heads=a.kv_heads,
            head_dim=a.head_dim,
            rope_dims=a.rope.dims,
            interleaved=a.rope.interleaved,
            window=a.window,
            eps=self.config.eps,
            scale=a.scale,
            value_dim=a.value_dim,
            value_scale=a.value_scale,
        )
        mix = {"a": mixed, "parts": self.activation("parts", SPLITS, a.heads, a.value_dim + 2)}
        mix |= self.given(prefix, sinks="sinks.weight")
        b.node(Op.NORM_QKV, a.heads + 2 * a.kv_heads, project | place | caches, attributes, layer)
        b.node(Op.ATTENTION, a.kv_heads * SPLITS, {"q": q} | mix | place | caches, attributes, layer)
        b.node(Op.ATTENTION_MERGE, a.heads, mix | {"positions": place["positions"]}, attributes, layer)
        out = {"a": mixed, "x": self.x} | self.given(prefix, w="o.weight", b="o.bias")
        b.node(Op.LINEAR_ADD, self.config.hidden, out, Attributes(), layer)

    def dense(self, layer: int, mlp: Dense) -> None:
        prefix, u = f"layers.{layer}.", self.activation("u", mlp.wide)
        up = {"x": self.x, "u": u}
        up |= self.given(prefix, norm="mlp_norm.weight", w_gate="gate.weight", w_up="up.weight")
        self.b.node(Op.NORM_GATE_UP, mlp.wide, up, Attributes(eps=self.config.eps), layer)
        down = {"a": u, "x": self.x} | self.given(prefix, w="down.weight")
        self.b.node(Op.LINEAR_ADD, self.config.hidden, down, Attributes(), layer)

    def mixture(self, layer: int, m: Mixture) -> None:
        b, prefix, eps = self.b, f"layers.{layer}.", self.config.eps
        chosen = {
            "experts": b.buffer(f"experts[{m.top_k}]", Kind.INDEX, "rows", m.top_k),
            "gates": self.activation("gates", m.top_k),
        }
        u = self.activation("u", m.top_k, m.wide)
        how = Attributes(
            eps=eps,
            scale=m.factor,
            experts=m.experts,
            top_k=m.top_k,
            scoring=m.scoring,
            normalise=m.normalise,
        )
        route = {"x": self.x} | chosen | self.given(prefix, norm="mlp_norm.weight", w="router.weight")
        route |= self.given(prefix, b="router.bias", correction="router.correction")
        b.node(Op.ROUTE, SHARES, route, how, layer)
        up = {"x": self.x, "experts": chosen["experts"], "u": u} | self.given(prefix, norm="mlp_norm.weight")
        for name in ("gate", "up"):
            words = {f"w_{name}": f"experts.{name}.weight", f"b_{name}": f"experts.{name}.bias"}
            up |= self.given(prefix, **words)
        at = Attributes(experts=m.experts, top_k=m.top_k, eps=eps, limit=m.limit, alpha=m.alpha)
        b.node(Op.EXPERT_GATE_UP, m.wide, up, at, layer)
        down = {"u": u, "x": self.x} | chosen
        down |= self.given(prefix, w="experts.down.weight", b="experts.down.bias")
        b.node(
            Op.EXPERT_DOWN_ADD, self.config.hidden, down, Attributes(experts=m.experts, top_k=m.top_k), layer
        )
