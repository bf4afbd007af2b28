"""Entry point of the group ``clika_runtime.backends``: data only, the kernels load when first needed."""

from clika_runtime.hooks import hookimpl

__all__ = ["clika_register_backends"]


@hookimpl
def clika_register_backends(register):
    """Declare the backend ``cpu``."""
    register(
        name="cpu",
        contract=1,
        kinds=("cpu",),
        load="clika_runtime_cpu._kernels:backend",
        probe="clika_runtime_cpu._kernels:probe",
    )
