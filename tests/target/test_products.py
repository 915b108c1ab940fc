from itertools import pairwise

import pytest
import torch
from torch.nn import functional as F

from restviz.target.products import exact_products, pack, packed, quantised

FULL = torch.backends.mkldnn.is_available()  # oneDNN's packed products


def layers(*sizes, bias=True):
    torch.manual_seed(0)
    linears = [torch.nn.Linear(a, b, bias=bias) for a, b in pairwise(sizes)]
    return torch.nn.Sequential(*linears).requires_grad_(False)


def test_products_in_parts_are_the_same_products():
    linear = torch.nn.Linear(16, 8)
    x = torch.randn(1, 21, 16)
    whole = linear(x)
    exact_products(torch.nn.Sequential(linear), 8)
    torch.testing.assert_close(linear(x), whole)
    assert torch.equal(linear(x[:, :8]), linear(x)[:, :8])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_packed_products_are_the_same_products(bias, dtype):
    model = layers(33, 65, 7, bias=bias).to(dtype)
    x = torch.randn(2, 5, 33).to(dtype)
    plain = model(x)
    pack(model)
    torch.testing.assert_close(model(x), plain, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(packed(torch.eye(33, dtype=dtype))(x), x)


def test_a_slice_of_a_batch_can_be_multiplied():
    weight, x = torch.randn(8, 16), torch.randn(16, 6).t()
    torch.testing.assert_close(packed(weight)(x[1:4]), F.linear(x[1:4], weight), rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not FULL, reason="this build of PyTorch has no oneDNN")
def test_packed_float32_products_do_not_depend_on_the_number_of_rows():
    product = packed(torch.randn(192, 576, generator=torch.Generator().manual_seed(0)))
    x = torch.randn(256, 576, generator=torch.Generator().manual_seed(1))
    alone = torch.cat([product(row[None]) for row in x])
    for n in (2, 3, 7, 16, 17, 33, 64, 256):
        assert torch.equal(product(x[:n]), alone[:n]), n


@pytest.mark.skipif(not FULL, reason="this build of PyTorch has no oneDNN")
def test_a_packed_model_gives_its_weights_away_but_not_those_that_others_read(tiny_folder):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32).eval().requires_grad_(False)
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    before, parameters = model(ids).logits, model.num_parameters()
    pack(model)
    torch.testing.assert_close(model(ids).logits, before, rtol=1e-4, atol=1e-4)
    assert model.get_output_embeddings().weight.layout == torch.strided
    assert model.model.layers[0].mlp.up_proj.weight.layout != torch.strided, "the memory is not taken twice"
    assert model.num_parameters() == parameters


def test_where_the_operator_fails_products_are_plain(monkeypatch):
    def broken(*_):
        raise RuntimeError("not here")

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", broken, raising=False)
    weight, x = torch.randn(4, 6), torch.randn(3, 6)
    assert torch.equal(packed(weight)(x), F.linear(x, weight))


@pytest.mark.parametrize("bias", [None, torch.arange(40.0)])
def test_quantised_products_are_near(bias):
    torch.manual_seed(0)
    weight, x = torch.randn(40, 64), torch.randn(7, 64)
    product = quantised(weight, bias)
    assert product is not None or "fbgemm" not in torch.backends.quantized.supported_engines
    if product:
        exact = F.linear(x, weight, bias)
        assert float((product(x) - exact).norm()) < 0.03 * float(exact.norm())
        assert product(x.bfloat16()).dtype == torch.bfloat16
    assert quantised(torch.zeros(8, 16, device="meta")) is None
