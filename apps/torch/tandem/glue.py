"""Compiles and loads the part of the back-end that depends on PyTorch's version: the folder
backend/, once for each version."""

import contextlib
import ctypes
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
MIN_TORCH = (2, 6)


class Unusable(RuntimeError):
    """The back-end cannot be used here; the text says why and what to do."""


def library():
    """libtandem_c.so: of TANDEM_LIBRARY, else of this package."""
    named = os.environ.get("TANDEM_LIBRARY")
    path = Path(named) if named else HERE / "lib" / "libtandem_c.so.1"
    if not path.exists():
        raise Unusable(f"tandem: {path} does not exist: {advice()}")
    return path


def opened(mode=ctypes.DEFAULT_MODE):
    """The library. Raises Unusable."""
    path = library()
    try:
        return ctypes.CDLL(str(path), mode=mode)
    except OSError as failed:  # its text begins with the path, or with that of another library that is missing
        raise Unusable(f"tandem: {path} cannot be loaded ({failed}): " + advice()) from failed


def advice():
    if os.environ.get("TANDEM_LIBRARY"):
        return "TANDEM_LIBRARY names it"
    return "install the package again, or set TANDEM_LIBRARY"


def header():
    """The folder of tandem.h, of the same version."""
    for folder in (HERE / "include", HERE.parent.parent / "c" / "include"):
        if (folder / "tandem.h").exists():
            return folder
    raise Unusable(f"tandem: tandem.h is not in {HERE / 'include'}: install the package again")


def torch_version(torch):
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def cache_folder():
    base = os.environ.get("TANDEM_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tandem")
    return Path(base) / "torch"


def command(torch, compiler, to):
    # cxx11 strings: builds of PyTorch before 2.7 have the older ones.
    abi = int(torch.compiled_with_cxx11_abi())
    root = Path(torch.__file__).parent / "include"
    # Modules share PyTorch's classes where these are the same; later versions of pybind11 find them themselves.
    pybind = {name: getattr(torch._C, f"_PYBIND11_{name}", None) for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI")}
    folders = [root, root / "torch/csrc/api/include", sysconfig.get_paths()["include"]]
    return [compiler, "-O2", "-std=c++20", "-shared", "-fPIC",
            "-fvisibility=hidden", "-DTORCH_EXTENSION_NAME=_tandem_backend", f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
            *(f'-DPYBIND11_{name}="{value}"' for name, value in pybind.items() if value),
            *(["-DTANDEM_TORCH_HIP", "-D__HIP_PLATFORM_AMD__"] if torch.version.hip else []), f"-I{header()}",
            *(part for folder in folders for part in ("-isystem", str(folder))),
            str(HERE / "backend" / "module.cpp"), "-o", str(to), f"-L{root.parent / 'lib'}", f"-Wl,-rpath,{root.parent / 'lib'}",
            "-lc10", "-ltorch_cpu", "-ltorch_python"]


def key(torch):
    """What the compiled file depends on."""
    digest = hashlib.sha256()
    sources = [file.read_bytes() for file in [*sorted((HERE / "backend").iterdir()), header() / "tandem.h"] if file.is_file()]
    for text in (torch.__version__, str(torch.version.git_version), sys.version, sysconfig.get_platform(), *sources):
        digest.update(text if isinstance(text, bytes) else text.encode())
    return f"{torch.__version__}-{digest.hexdigest()[:16]}"


def find_compiler():
    for name in (os.environ.get("CXX"), "g++", "c++", "clang++"):
        if name and shutil.which(name):
            return name
    raise Unusable("tandem: no C++ compiler, which the back-end needs once for each version of PyTorch: "
                   "install g++, or set CXX")


@contextlib.contextmanager
def locked(folder):
    """The ranks of a host compile once."""
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sum_of(made):
    """Version, length and checksum of a compiled file: the text of the file beside it."""
    data = made.read_bytes()
    return f"tandem backend 1: {len(data)} bytes, crc32 {zlib.crc32(data):08x}\n"


def is_complete(made):
    """One that was cut or changed is compiled again: loading it could crash."""
    try:
        return made.with_suffix(".sum").read_text() == sum_of(made)
    except OSError:
        return False


def keep(made, to):
    """The compiler's file `made` becomes `to`, with its sum."""
    sums = made.with_suffix(".sum")
    sums.write_text(sum_of(made))
    for file in (made, sums):
        with open(file, "rb") as written:
            os.fsync(written.fileno())
    made.rename(to)
    sums.rename(to.with_suffix(".sum"))


def compiled(torch):
    if torch_version(torch) < MIN_TORCH:
        raise Unusable(f"tandem: PyTorch {torch.__version__} is too old: install {'.'.join(map(str, MIN_TORCH))} or later")
    folder = cache_folder() / key(torch)
    made = folder / "_tandem_backend.so"
    if is_complete(made):
        return made
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as failed:
        raise Unusable(f"tandem: {folder} cannot be made ({failed.strerror}): set TANDEM_CACHE to a folder of yours") from failed
    with locked(folder):
        if is_complete(made):
            return made
        compiler = find_compiler()
        with tempfile.TemporaryDirectory(dir=folder) as work:
            to = Path(work) / made.name
            done = subprocess.run(command(torch, compiler, to), capture_output=True, text=True)
            if done.returncode != 0:
                log = folder / "compiler.log"
                log.write_text(done.stderr)
                first = next((line for line in done.stderr.splitlines() if "error" in line), "see there")
                raise Unusable(f"tandem: {compiler} could not compile the back-end for PyTorch {torch.__version__}: {first} "
                               f"(all of it: {log})")
            keep(to, made)
    return made


def load():
    """The compiled module. Raises Unusable."""
    import torch

    path = compiled(torch)
    opened(ctypes.RTLD_GLOBAL)  # its symbols, tandem_*, are those that the module leaves open
    try:
        loader = importlib.machinery.ExtensionFileLoader("_tandem_backend", str(path))
        spec = importlib.util.spec_from_loader("_tandem_backend", loader)
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except (OSError, ImportError) as failed:
        raise Unusable(f"tandem: {path} cannot be loaded: {failed}") from failed
    if module.abi_version != module.library_abi_version:
        raise Unusable(f"tandem: {library()} has the interface {module.library_abi_version}, this package needs "
                       f"{module.abi_version}: install both from one version of Tandem")
    return module
