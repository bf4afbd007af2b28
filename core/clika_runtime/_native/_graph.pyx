# distutils: language = c++
# cython: language_level=3, boundscheck=False, freethreading_compatible=False, emit_code_comments=False
# cython: allow_none_for_extension_args=False
"""The node store of a `ModelGraph` and the views of it: nodes, values, edges; queries.

It knows nothing of tensors. `clika_runtime.graph` makes it a graph that traces, is edited and runs.
"""
from cython.operator cimport dereference
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.utility cimport move
from libcpp.vector cimport vector

import operator

from .. import errors as _errors

cdef extern from "graph_store/store.hpp" namespace "clika::graph" nogil:
    cdef struct Use:
        int32_t node
        int32_t port
    cdef cppclass StoreValue "clika::graph::Value":
        int32_t node
        int32_t port
        int32_t dtype
        int32_t scheme
        int32_t device
        int32_t rank
        int64_t shape[8]
        int32_t alias
        cbool write
        cbool alive
        string name
        vector[Use] uses
    cdef cppclass StoreNode "clika::graph::Node":
        string op
        string name
        vector[int32_t] inputs
        vector[int32_t] outputs
        cbool alive
        cbool is_input()
    cdef cppclass StoreOutput "clika::graph::Output":
        string name
        int32_t value
    cdef cppclass Store:
        const vector[StoreValue]& values()
        const vector[StoreNode]& nodes()
        const vector[int32_t]& inputs()
        const vector[StoreOutput]& outputs()
        uint64_t version()
        int32_t node_by_name(const string&)
        int32_t value_by_name(const string&)
        vector[int32_t] nodes_of(const string&)
        int32_t output_count(int32_t)
        size_t alive_nodes()
        int32_t add_value(StoreValue)
        int32_t add_node(StoreNode)
        void set_input(int32_t, int32_t, int32_t)
        void remove_node(int32_t)
        void remove_value(int32_t)
        void rename_node(int32_t, const string&)
        void rename_value(int32_t, const string&)
        void set_inputs(vector[int32_t])
        void set_outputs(vector[StoreOutput])
        void set_shape(int32_t, int32_t, const int64_t*)
        void set_device(int32_t, int32_t)
        string free_name(const string&)
        size_t mark()
        void rollback(size_t)
        void commit()
        vector[int32_t] take_dirty()

cdef extern from "graph_store/structure.hpp" namespace "clika::graph" nogil:
    cdef struct StoreEdge "clika::graph::Edge":
        int32_t src
        int32_t src_port
        int32_t dst
        int32_t dst_port
        int32_t value
    cdef cppclass Structure:
        Structure(const Store&) except +
        int32_t size()
        vector[int32_t] predecessors(int32_t)
        vector[int32_t] successors(int32_t)
        uint64_t version
        vector[int32_t] nodes
        vector[int32_t] position
        cbool acyclic
        vector[StoreEdge] edges
        vector[int32_t] in_start
        vector[int32_t] out_start
        vector[int32_t] out_edges
        vector[uint8_t] is_input
        vector[uint8_t] returns

include "seal.pxi"
include "graph_store/views.pxi"
include "graph_store/queries.pxi"
