# Trees rebuilt from a structure and leaves.
cdef inline object build_child(Node node, Py_ssize_t i, list leaves, Py_ssize_t* at):
    cdef Node child
    if node.children is not None:
        child = <Node>node.children[i]
        if child.kind != LEAF:
            return build(child, leaves, at)
    at[0] += 1
    return <object>PyList_GET_ITEM(leaves, at[0] - 1)


cdef tuple build_tuple(Node node, list leaves, Py_ssize_t* at):
    cdef Py_ssize_t i
    cdef tuple flat
    if node.children is not None:
        return tuple([build_child(node, i, leaves, at) for i in range(node.arity)])
    flat = PyTuple_New(node.arity)
    for i in range(node.arity):
        item = <object>PyList_GET_ITEM(leaves, at[0] + i)
        Py_INCREF(item)
        PyTuple_SET_ITEM(flat, i, item)
    at[0] += node.arity
    return flat


cdef dict empty_dict(Node node):
    """A dict to rebuild a node in: its keys stand already from the second time on, which saves the growing."""
    if node.template is None:
        if node.order is None and not node.rebuilt:
            node.rebuilt = True
            return {}
        node.template = dict.fromkeys(node.keys if node.order is None else node.order)
    return node.template.copy()


cdef object build(Node node, list leaves, Py_ssize_t* at):
    """The container of a node over the leaves from ``at`` on; their count is checked before."""
    cdef Py_ssize_t i
    cdef dict plain
    if node.kind == TUPLE:
        return build_tuple(node, leaves, at)
    if node.kind == LIST:
        if node.children is None:
            at[0] += node.arity
            return leaves[at[0] - node.arity : at[0]]
        return [build_child(node, i, leaves, at) for i in range(node.arity)]
    if node.kind == DICT:
        plain = empty_dict(node)
        for i in range(node.arity):
            PyDict_SetItem(plain, <object>PyList_GET_ITEM(node.keys, i), build_child(node, i, leaves, at))
        return plain
    if node.kind == ORDERED or node.kind == DEFAULT:
        mapping = OrderedDict() if node.kind == ORDERED else defaultdict(node.data)
        if node.order is not None:
            mapping.update(dict.fromkeys(node.order))
        for i in range(node.arity):
            mapping[node.keys[i]] = build_child(node, i, leaves, at)
        return mapping
    if node.kind == DEQUE:
        return deque(build_tuple(node, leaves, at), node.data)
    if node.kind == NAMED:
        return _tuple_new(node.origin, build_tuple(node, leaves, at))
    if node.kind == CUSTOM:
        return (<Registration>node.origin).unflatten(build_tuple(node, leaves, at), node.data)
    if node.kind == NONE:
        return None
    at[0] += 1
    return <object>PyList_GET_ITEM(leaves, at[0] - 1)


cdef object rebuild(Node root, list leaves):
    cdef Py_ssize_t at = 0
    return build(root, leaves, &at)


def unflatten(TreeSpec spec not None, leaves):
    """The tree of a spec over these leaves."""
    cdef list values = list(leaves)
    if PyList_GET_SIZE(values) != spec.root.num_leaves:
        # A composed spec can be far larger in words than in memory.
        what = f" for {short(spec)}" if spec.root.num_nodes <= 100 else ""
        raise InvalidArgumentError(
            f"tree_unflatten: expected {spec.root.num_leaves} leaves{what}, got {len(values)}"
        )
    return rebuild(spec.root, values)


def map_leaves(str operation, function, tree, tuple rest, is_leaf, bint none_is_leaf, namespace, bint with_path):
    """The tree with ``function`` applied to each leaf and to what the other trees have in its place."""
    cdef Walk walk = new_walk(is_leaf, none_is_leaf, namespace)
    cdef Node root = descend(walk, tree)
    cdef list values = walk.leaves, columns, paths
    cdef Py_ssize_t i
    if not rest and not with_path:
        for i in range(PyList_GET_SIZE(values)):
            values[i] = function(values[i])
        return rebuild(root, values)
    columns = [values]
    if with_path:
        paths = []
        collect_paths(root, (), paths, True)
        columns.insert(0, paths)
    for other in rest:
        columns.append(match_tree(operation, root, other))
    return rebuild(root, [function(*row) for row in zip(*columns)])
