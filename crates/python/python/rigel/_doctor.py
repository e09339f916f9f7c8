"""Reports which parts of CUDA are available, and how to install the rest."""

from __future__ import annotations

from ._rigel import _doctor

_TITLES = {
    "driver": "CUDA driver",
    "cuda": "CUDA version",
    "devices": "CUDA devices",
    "nvrtc": "NVRTC",
    "nvrtc_version": "NVRTC version",
    "cublas": "cuBLAS",
    "host_compiler": "C++ compiler",
}


class Doctor(dict):
    """The report of `rigel.doctor`: a dictionary with a readable `str`. Each entry says whether the component was
    found (`ok`) and where, or why not and what to do (`detail`)."""

    def __str__(self) -> str:
        lines = [f"Rigel {self['version']}"]
        for name, title in _TITLES.items():
            entry = self[name]
            mark = "" if entry["ok"] else "missing: "
            lines.append(f"  {title:<14} {mark}{entry['detail']}")
        cache = self["cache"]
        folder = cache["folder"] or "off: kernels are compiled again in each process"
        lines.append(f"  {'Kernel cache':<14} {folder}, {cache['modules']} modules, {cache['bytes']} bytes")
        return "\n".join(lines)

    __repr__ = __str__


def doctor() -> Doctor:
    """Looks for the driver, NVRTC, cuBLAS, and the C++ compiler of the emulated device.

    >>> import rigel
    >>> sorted(rigel.doctor())
    ['cache', 'cublas', 'cuda', 'devices', 'driver', 'host_compiler', 'nvrtc', 'nvrtc_version', 'version']
    """
    return Doctor(_doctor())
