"""Errors: classes, codes, statuses, and what survives a pickle."""

import doctest
import pickle

import pytest

from clika_runtime import errors

CLASSES = [
    (errors.InvalidArgumentError, ValueError, "InvalidArgument", 1, "INVALID_ARGUMENT"),
    (errors.NotFoundError, FileNotFoundError, "NotFound", 2, "NO_SUCHFILE"),
    (errors.UnsupportedError, RuntimeError, "Unsupported", 3, "NOT_IMPLEMENTED"),
    (errors.InternalError, RuntimeError, "Internal", 4, "INTERNAL"),
    (errors.UnavailableError, RuntimeError, "Unavailable", 5, "UNAVAILABLE"),
    (errors.OutOfMemoryError, MemoryError, "Internal", 4, "OUT_OF_MEMORY"),
]


@pytest.mark.parametrize(("cls", "also", "status", "number", "code"), CLASSES)
def test_class(cls, also, status, number, code):
    error = cls("op: broken, got 3")
    assert isinstance(error, also)
    assert isinstance(error, errors.ClikaRTError)
    assert isinstance(error, RuntimeError)
    assert str(error) == "op: broken, got 3"
    assert str(error.status) == status
    assert error.status == number
    assert error.code_name == code


@pytest.mark.parametrize("row", CLASSES, ids=lambda row: row[0].__name__)
def test_pickle_keeps_message_and_code(row):
    error = row[0]("message", "MY_CODE")
    error.detail = [1, 2]
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is row[0]
    assert (str(back), back.code_name, back.detail) == ("message", "MY_CODE", [1, 2])


def test_base_class_has_no_code():
    assert errors.ClikaRTError("foreign").code_name == ""


@pytest.mark.parametrize("row", CLASSES, ids=lambda row: row[0].__name__)
def test_from_native_builds_the_class(row):
    cls, _, _, number, code = row
    assert type(errors.from_native(int(number), code, "text")) is cls
    assert errors.from_native(int(number), code, "text").code_name == code


def test_from_native_defaults():
    assert errors.from_native(1, "", "text").code_name == "INVALID_ARGUMENT"
    assert errors.from_native(3, "NOT_IMPLEMENTED_FOR_DTYPE", "x").code_name.endswith("DTYPE")
    assert type(errors.from_native(77, "ODD", "text")) is errors.InternalError


def test_status_of_agrees_with_the_classes():
    for cls, _, _, number, code in CLASSES:
        assert errors.status_of(code) == number == cls.status
    assert errors.status_of("") is errors.Status.Internal
    assert errors.status_of("no_suchfile") is errors.Status.Internal


def test_capability_declines():
    assert errors.is_capability_decline("NOT_IMPLEMENTED")
    assert errors.is_capability_decline("NOT_IMPLEMENTED_FOR_SCHEME")
    for name in (
        "",
        "not_implemented",
        "NOT_IMPLEMENTED_FOR_TEA",
        "BACKEND_UNAVAILABLE",
        "BACKEND_NOT_LOADED",
        "BACKEND_DRIVER_ABSENT",
        "INVALID_ARGUMENT",
    ):
        assert not errors.is_capability_decline(name)


def test_examples():
    assert doctest.testmod(errors).failed == 0
