"""Dense weights in their backend's own layout: tensors whose elements every operator can read."""

import copy
import pickle

import numpy as np
import pytest

import clika_runtime as crt

DTYPES = [crt.float32, crt.bfloat16, crt.float16]


def draw(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.fixture(params=DTYPES, ids=str)
def pair(request):
    """A weight as published, and packed."""
    weight = crt.tensor(draw(40, 24)).to(request.param)
    packed = crt.pack_weight(weight, "both")
    assert (packed.layout != 0, packed.scheme, packed.shape) == (True, 0, (40, 24))
    assert (packed.dtype, packed.is_contiguous()) == (weight.dtype, True)
    return weight, packed


def test_the_elements_are_read_as_published(pair):
    weight, packed = pair
    assert crt.unpack_weight(packed).layout == 0
    assert crt.unpack_weight(packed).bytes() == weight.bytes() == packed.bytes()
    assert packed.tolist() == weight.tolist()
    assert packed[3:5, 7].tolist() == weight[3:5, 7].tolist()
    assert packed.as_strided((3, 2), (24, 5), 7).tolist() == (
        weight.as_strided((3, 2), (24, 5), 7).tolist()
    )
    if weight.dtype is not crt.bfloat16:
        assert (packed.numpy() == weight.numpy()).all()
        assert not packed.numpy().flags.writeable  # it is a copy
        assert (np.from_dlpack(packed) == weight.numpy()).all()
    assert repr(packed) == repr(weight)
    again = pickle.loads(pickle.dumps(packed))
    assert (again.layout, again.dtype, again.bytes()) == (0, weight.dtype, weight.bytes())
    copied = copy.deepcopy(packed)
    assert (copied.layout, copied.bytes()) == (packed.layout, weight.bytes())


def test_operators_read_the_elements(pair):
    weight, packed = pair
    x = crt.tensor(draw(3, 24)).to(weight.dtype)
    for name, call in {
        "matmul": lambda w: crt.matmul(x, w.T),
        "view": lambda w: w.reshape(20, 2, 24).transpose(0, 1),
        "cast": lambda w: w.to(crt.float64),
        "cat": lambda w: crt.cat([w, weight], 0),
        "sum": lambda w: crt.sum(w, 0),
        "mul": lambda w: w * 2,
        "clone": lambda w: w.clone(),
        "float64": lambda w: crt.linear(x.to(crt.float64), w),
        "linears": lambda w: crt.cat(crt.linears(x, [w, weight, w]), 1),
        "gated_linear": lambda w: crt.gated_linear(x, w, weight, activation="geglu"),
        "embedding": lambda w: crt.embedding(w, crt.tensor([39, 0, 8])),
        "dequantize": lambda w: crt.dequantize(w),
        "linear": lambda w: crt.linear(x, w),
    }.items():
        assert call(packed).contiguous().bytes() == call(weight).contiguous().bytes(), name
    assert packed.to("meta").layout == 0


def test_it_is_not_written_to(pair):
    _, packed = pair
    with pytest.raises(crt.InvalidArgumentError, match=r"copy_: .* not written to"):
        crt.ops.copy_(packed, 1.0)
    with pytest.raises(crt.InvalidArgumentError, match="not written to"):
        packed.mul_(2)
    with pytest.raises(crt.InvalidArgumentError, match=r"indexing: .* not written to"):
        packed[0] = 1.0


def test_in_graphs(pair):
    """A recording reads it as an operator does, in the layout or as published."""
    weight, packed = pair
    x = crt.tensor(draw(3, 24)).to(weight.dtype)

    def function(w):
        return lambda x: (crt.linear(x, w), crt.matmul(x, w.T) + w[0, 0])

    wanted = [y.bytes() for y in function(weight)(x)]
    compiled = crt.compile(function(packed))
    for _ in range(2):
        assert [y.bytes() for y in compiled(x)] == wanted
    assert compiled.state == compiled.State.Compiled
    spec = crt.TensorSpec("x", weight.dtype, [3, 24])
    graph = crt.trace(lambda x: list(function(packed)(x[0])), [spec]).graph
    graph.finalize()
    assert [y.bytes() for y in graph.run([x])] == wanted


def test_as_an_input_of_a_graph(pair):
    weight, packed = pair
    double = crt.compile(lambda w: w + w)
    assert double(weight).bytes() == double(packed).bytes()
    strict = crt.compile(lambda w: w + w, fullgraph=True)
    with pytest.raises(crt.InvalidArgumentError, match="as published"):
        strict(packed)
    spec = crt.TensorSpec("w", weight.dtype, [40, 24])
    graph = crt.trace(lambda x: [x[0] + x[0]], [spec]).graph
    graph.finalize()
    with pytest.raises(crt.InvalidArgumentError, match="own layout"):
        graph.run([packed])


def test_a_module_with_it(pair):
    weight, packed = pair
    layer = crt.nn.Linear(24, 40, bias=False, dtype=weight.dtype)
    layer.weight = crt.nn.Parameter(packed)
    x = crt.tensor(draw(2, 24)).to(weight.dtype)
    assert layer(x).bytes() == crt.linear(x, weight).bytes()
    other = crt.nn.Linear(24, 40, bias=False, dtype=weight.dtype)
    other.load_state_dict(layer.state_dict())
    assert (other.weight.layout, other.weight.bytes()) == (0, weight.bytes())
    layer.to(crt.float32)
    assert layer.weight.bytes() == weight.to(crt.float32).bytes()
