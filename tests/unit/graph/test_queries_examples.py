"""The examples of the documentation, on the graph that it describes."""

import doctest
import inspect

import clika_runtime as crt
from clika_runtime.graph import queries


def model(inputs):
    a, b = crt.relu(inputs[0]), crt.sigmoid(inputs[0])
    c = a + b
    return [c * c - crt.tanh(a), b]


def test_every_query_has_an_example_that_holds():
    graph = crt.trace(model, [crt.TensorSpec("x", crt.float32, [2, 3])]).graph
    nodes = graph.nodes()
    names = dict(zip(["x", "relu", "sigmoid", "add", "mul", "tanh", "sub"], nodes, strict=True))
    result = doctest.testmod(queries, extraglobs={"graph": graph, **names})
    assert result.failed == 0
    found = vars(queries.Queries).items()
    public = [item for name, item in found if inspect.isfunction(item)]
    assert len(public) > 30
    assert all(">>> " in item.__doc__ for item in public)
