# Key entries: the steps of a key path.
cdef class _Key:
    """One step of a key path."""
    cdef object value

    def __eq__(self, other):
        return type(self) is type(other) and self.value == (<_Key>other).value

    def __hash__(self):
        return hash((type(self), self.value))

    def __reduce__(self):
        return type(self), (self.value,)

    def get(self, parent):
        """The child of ``parent`` that this key names."""
        return parent[self.value]


cdef class SequenceKey(_Key):
    """The index of an item of a list, tuple or deque: ``[0]``."""
    def __init__(self, idx):
        self.value = idx

    @property
    def idx(self):
        return self.value

    def __str__(self):
        return f"[{self.value!r}]"

    def __repr__(self):
        return f"SequenceKey(idx={self.value!r})"


cdef class MappingKey(_Key):
    """The key of an item of a mapping: ``['a']``."""
    def __init__(self, key):
        self.value = key

    @property
    def key(self):
        return self.value

    def __str__(self):
        return f"[{self.value!r}]"

    def __repr__(self):
        return f"MappingKey(key={self.value!r})"


cdef class GetAttrKey(_Key):
    """The name of an attribute: ``.x``."""
    def __init__(self, name):
        if not isinstance(name, str):
            raise TypeError(f"{type(self).__name__}: expected the name of an attribute, got {short(name)}")
        self.value = name

    @property
    def name(self):
        return self.value

    def __str__(self):
        return f".{self.value}"

    def __repr__(self):
        return f"{type(self).__name__}(name={self.value!r})"

    def get(self, parent):
        return getattr(parent, self.value)


cdef class DataclassKey(GetAttrKey):
    """The name of a field of a dataclass: ``.weight``."""
