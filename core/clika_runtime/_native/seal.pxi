# Types that only this module makes.

cdef extern from *:
    """
    static int clika_seal(PyObject* type) {
      if (PyDict_DelItemString(((PyTypeObject*)type)->tp_dict, "__new__") < 0) return -1;
      PyType_Modified((PyTypeObject*)type);
      return 0;
    }
    """
    int clika_seal(object type) except -1   # takes ``__new__`` away: it would give an object without its parts
