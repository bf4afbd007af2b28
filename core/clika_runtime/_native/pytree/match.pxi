# Matching a tree against a structure.
class _Mismatch(Exception):
    """A subtree that has not the structure wanted; `path` grows while the error rises."""

    def __init__(self, wanted, got):
        self.wanted, self.got, self.path = wanted, got, []


cdef str describe_node(Node node):
    """A container in a few words."""
    if node.kind == NONE:
        return "None"
    if node.kind == DICT or node.kind == ORDERED or node.kind == DEFAULT:
        return f"{KIND_NAMES[<int>node.kind]} with keys {short(node.keys)}"
    if node.kind == CUSTOM and node.data is not None:
        return f"{name_of(type_of(node))} of {node.arity} with context {short(node.data)}"
    return f"{name_of(type_of(node))} of {node.arity}"


cdef str describe_value(object value):
    if type(value) in (list, tuple, deque) or PyTuple_Check(value):
        return f"{name_of(type(value))} of {len(value)}"
    if type(value) in (dict, OrderedDict, defaultdict):
        return f"{name_of(type(value))} with keys {short(list(value))}"
    return "None" if value is None else name_of(type(value))


cdef object matching_items(Node node, object value):
    """The children of ``value`` in the order of the node, if it is such a container."""
    cdef PyTypeObject* cls = Py_TYPE(value)
    cdef PyObject* item
    cdef list items
    if node.kind == DICT or node.kind == ORDERED or node.kind == DEFAULT:
        # Any of the three dict types, keys in any order: children pair by key.
        if (cls == &PyDict_Type or cls == ORDERED_TYPE or cls == DEFAULT_TYPE) and len(value) == node.arity:
            items = []
            for key in node.keys:
                item = PyDict_GetItemWithError(value, key)
                if item == NULL:
                    break
                items.append(<object>item)
            else:
                return items
    elif node.kind == NONE:
        if value is None:
            return ()
    elif <object>cls is type_of(node):
        if node.kind != CUSTOM:
            items = list(value)
            if len(items) == node.arity:
                return items
        else:
            children, context, _ = custom_level(node.origin, value)
            if len(<tuple>children) == node.arity and (context is node.data or context == node.data):
                return children
            got = f"{name_of(type_of(node))} of {len(<tuple>children)}"
            raise _Mismatch(describe_node(node), got if context is None else f"{got} with context {short(context)}")
    raise _Mismatch(describe_node(node), describe_value(value))


cdef int match_node(Node node, object value, list out) except -1:
    cdef Py_ssize_t i
    if node.kind == LEAF:
        out.append(value)
        return 0
    items = matching_items(node, value)
    if node.children is None:
        out.extend(items)
        return 0
    for i in range(node.arity):
        try:
            match_node(<Node>node.children[i], items[i], out)
        except _Mismatch as error:
            error.path.append(key_objects(node)[i])
            raise
    return 0


cdef list match_tree(str operation, Node root, object tree):
    """The subtrees of ``tree`` where the structure has its leaves."""
    cdef list out = []
    try:
        match_node(root, tree, out)
    except _Mismatch as error:
        where = "".join([str(key) for key in reversed(error.path)]) or "the root"
        raise InvalidArgumentError(
            f"{operation}: expected {error.wanted} at {where}, got {error.got}"
        ) from None
    return out


def match(str operation not None, TreeSpec spec not None, tree):
    """`TreeSpec.flatten_up_to` in the name of an operation."""
    return match_tree(operation, spec.root, tree)


def rows(str operation, tree, tuple rest, is_leaf, bint none_is_leaf, namespace):
    """The leaves of a tree, each beside what the other trees have in its place."""
    cdef Walk walk = new_walk(is_leaf, none_is_leaf, namespace)
    cdef Node root = descend(walk, tree)
    return zip(walk.leaves, *[match_tree(operation, root, other) for other in rest])


def broadcast(str operation, prefix, full, is_leaf, bint none_is_leaf, namespace):
    """(leaves of ``prefix``, each as often as ``full`` has leaves in its place; the spec of ``full``)."""
    cdef Walk walk = new_walk(is_leaf, none_is_leaf, namespace), below
    cdef Node root = descend(walk, prefix), node
    cdef list out = [], children = []
    for leaf, subtree in zip(walk.leaves, match_tree(operation, root, full)):
        below = new_walk(is_leaf, none_is_leaf, namespace)
        node = descend(below, subtree)
        children.append(node)
        out.extend([leaf] * node.num_leaves)
    return out, make_spec(replace_leaves(root, iter(children)), none_is_leaf)


cdef Node copy_node(Node node):
    cdef Node copy = Node.__new__(Node)
    copy.kind, copy.origin, copy.data = node.kind, node.origin, node.data
    copy.keys, copy.order = node.keys, node.order
    return copy


cdef Node replace_leaves(Node node, object nodes):
    """The structure with each leaf replaced by the next of ``nodes``."""
    cdef Py_ssize_t i
    if node.kind == LEAF:
        return next(nodes)
    return finish(
        copy_node(node), node.arity,
        [replace_leaves(child_of(node, i), nodes) for i in range(node.arity)],
    )
