# distutils: language = c++
# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False, emit_code_comments=False
# cython: allow_none_for_extension_args=False
"""Pytrees: the registry of node types, the walk over containers, tree specs, key entries.

A structure is a tree of immutable `Node` objects that specs share; leaves are one object, and a node whose
children are all leaves lists none. Containers are read through copies of their items wherever code of the
caller may run meanwhile.
"""

cimport cython
from cpython.contextvars cimport get_value
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Keys, PyDict_SetItem, PyDict_Values
from cpython.list cimport PyList_Append, PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport Py_TYPE, PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.sequence cimport PySequence_Fast_GET_ITEM, PySequence_Fast_GET_SIZE
from cpython.tuple cimport PyTuple_Check, PyTuple_New, PyTuple_SET_ITEM
from cython.operator cimport dereference
from libcpp.unordered_map cimport unordered_map

from collections import OrderedDict, defaultdict, deque
from collections.abc import Mapping
from contextvars import ContextVar

from ..errors import InvalidArgumentError

cdef extern from "Python.h":
    PyTypeObject PyDict_Type
    PyTypeObject PyList_Type
    PyTypeObject PyTuple_Type
    Py_ssize_t PY_SSIZE_T_MAX

ctypedef PyTypeObject* TypePointer
ctypedef PyObject* Pointer

cdef PyTypeObject* ORDERED_TYPE = <PyTypeObject*>OrderedDict
cdef PyTypeObject* DEFAULT_TYPE = <PyTypeObject*>defaultdict
cdef PyTypeObject* DEQUE_TYPE = <PyTypeObject*>deque

# Containers may be nested this deep: the walk recurses on the C stack.
cdef enum:
    MAX_DEPTH = 1000

cdef enum Kind:
    LEAF
    NONE
    TUPLE
    LIST
    DICT
    ORDERED
    DEFAULT
    DEQUE
    NAMED
    CUSTOM

cdef tuple KIND_NAMES = (
    "leaf", "none", "tuple", "list", "dict", "OrderedDict", "defaultdict", "deque", "namedtuple", "custom",
)
cdef tuple KIND_TYPES = (None, type(None), tuple, list, dict, OrderedDict, defaultdict, deque)
cdef frozenset BUILT_IN = frozenset(map(id, KIND_TYPES[1:]))

cdef object _insertion_order = ContextVar("clika_runtime.pytree.dict_insertion_ordered", default=True)
cdef object _tuple_new = tuple.__new__


cdef str short(object value):
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."


cdef str name_of(object cls):
    return (<type>cls).__name__


cdef object too_deep():
    return InvalidArgumentError(
        f"pytree: containers are nested more than {<int>MAX_DEPTH} deep; a container that holds itself has no end"
    )

include "pytree/keys.pxi"
include "pytree/registry.pxi"
include "pytree/walk.pxi"
include "pytree/build.pxi"
include "pytree/match.pxi"
include "pytree/spec.pxi"
include "pytree/describe.pxi"
