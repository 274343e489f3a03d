"""The working folder, which belongs to the process: a handler's change of it is undone after its job (its neighbours
may have seen it meanwhile).

The C library is asked without letting go of the interpreter's lock: `os.getcwd` lets go of it, and getting it back
costs a small job more than all the rest that is done around it.
"""

import ctypes
import os

_home = os.getcwd()
_home_bytes = os.fsencode(_home)
_SIZE = 4_096
_buffer = ctypes.create_string_buffer(_SIZE)
_getcwd = ctypes.PyDLL(None).getcwd
_getcwd.restype = ctypes.c_char_p
_getcwd.argtypes = (ctypes.c_char_p, ctypes.c_size_t)


def restore() -> None:
    """Go back to the folder that the process began in, where a handler has left it."""
    if _getcwd(_buffer, _SIZE) != _home_bytes:
        try:
            os.chdir(_home)
        except OSError:
            pass  # it is gone
