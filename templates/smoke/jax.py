#!/usr/bin/env python3
"""Smoke test of JAX: does this build run here, and on the GPU?

    python smoke.py [--level N] [--expect FILE|JSON] [--build-check]

Levels, each standing on the one before:
    0 the interpreter            1 the framework imports, and is the version that was locked
    2 the CUDA of its plugin     3 the driver, and the GPUs it shows
    4 a kernel, given to the driver as PTX text, runs without the framework      5 matrices are multiplied and compared

What is expected stands in expect.json beside this file, or in --expect. --build-check stops after level 2: while an image is built
there is no GPU. Only the standard library, JAX and its NumPy are used, on Python 3.8 or newer.

People read standard error. Standard output gets one line: `PROVISIONER-SMOKE {"format": 1, "checks": [...], "facts": {...}}`.
A check passes, fails, is skipped (it does not apply) or is unknown (it could not be made). What is not expected cannot be missed. Exit code 1 when one fails, else 0.
"""

import argparse
import ctypes
import faulthandler
import json
import os
import platform
import sys
import time

MARK = "PROVISIONER-SMOKE"
PASS, FAIL, SKIP, UNKNOWN = "pass", "fail", "skip", "unknown"

# CUresult codes that have a cause worth naming (cuda.h).
CAUSES = {
    3: "the driver is shutting down or was not initialised",
    34: "libcuda is a stub, which links and never runs: something puts a `stubs` folder on LD_LIBRARY_PATH",
    100: "the driver shows no GPU: the container or the job was started without one",
    101: "the GPU ordinal is invalid: look at CUDA_VISIBLE_DEVICES",
    222: "the PTX is newer than the driver can compile",
    209: "the kernel has no code for this GPU",
    802: "the system is not ready: Fabric Manager is not running, or not of the driver's version",
    803: "the user-mode driver and the kernel module are of different versions: load the new module, or reboot",
    804: "forward compatibility (cuda-compat) is not supported on this GPU: remove it",
    999: "unknown to the driver: often nvidia_uvm is not loaded, or its device node is missing",
}

# out[i] = a * in[i] + 1, for 4 byte floats. PTX 6.0 for compute_50 is compiled by every driver since 2017 for every GPU since Maxwell.
PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry scale(.param .u64 data, .param .f32 factor, .param .u32 count)
{
  .reg .pred %p;
  .reg .b32 %i, %n, %b, %w, %t;
  .reg .b64 %d, %o;
  .reg .f32 %v, %f;
  ld.param.u64 %d, [data];
  ld.param.f32 %f, [factor];
  ld.param.u32 %n, [count];
  mov.u32 %b, %ctaid.x;
  mov.u32 %w, %ntid.x;
  mov.u32 %t, %tid.x;
  mad.lo.u32 %i, %b, %w, %t;
  setp.ge.u32 %p, %i, %n;
  @%p bra done;
  cvta.to.global.u64 %d, %d;
  mul.wide.u32 %o, %i, 4;
  add.u64 %d, %d, %o;
  ld.global.f32 %v, [%d];
  fma.rn.f32 %v, %v, %f, 0f3F800000;
  st.global.f32 [%d], %v;
done:
  ret;
}
\0"""


class Smoke:
    """One run: what is expected, what was found, and the results so far."""

    def __init__(self, expected):
        self.expected = expected
        self.checks = []
        self.facts = {"python": platform.python_version(), "machine": platform.machine()}
        self.framework = None
        self.cuda = None
        self.devices = []

    def add(self, name, level, status, message, since):
        seconds = round(time.perf_counter() - since, 4)
        self.checks.append({"name": name, "level": level, "status": status, "message": message, "seconds": seconds})
        sys.stderr.write("%-7s L%d %-13s %s\n" % (status, level, name, message))
        sys.stderr.flush()

    def run(self, name, level, check):
        """Run one check; an exception that it did not foresee is a failure, and never a pass."""
        since = time.perf_counter()
        try:
            status, message = check(self)
        except Exception as error:  # noqa: BLE001 - whatever a broken installation raises
            status, message = FAIL, "%s: %s" % (type(error).__name__, " ".join(str(error).split())[:600])
        self.add(name, level, status, message, since)


def interpreter(smoke):
    """Level 0."""
    found = "%d.%d" % sys.version_info[:2]
    wanted = smoke.expected.get("python")
    if wanted is not None and found != wanted:
        return FAIL, "Python %s runs, and %s was locked: look at PATH" % (found, wanted)
    return PASS, "Python %s (%s)" % (platform.python_version(), platform.machine())


def imports(smoke):
    """Level 1."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or it takes three quarters of the GPU's memory
    import jax

    smoke.framework = jax
    smoke.facts["version"] = jax.__version__
    smoke.facts["from"] = os.path.dirname(jax.__file__)
    wanted = smoke.expected.get("version")
    if wanted is not None and jax.__version__ != wanted:
        return FAIL, "jax %s is installed, and %s was locked" % (jax.__version__, wanted)
    return PASS, "jax %s" % jax.__version__


def cuda_of_build(smoke):
    """Level 2: the CUDA major of its plugin, which is a distribution of its own."""
    plugins = [number for number in range(11, 20) if installed("jax-cuda%d-plugin" % number)]
    found = "%d" % plugins[-1] if plugins else None
    smoke.facts["cuda"] = found
    smoke.facts["cudnn"] = installed("nvidia-cudnn-cu%s" % found) if found else None
    if "cuda" not in smoke.expected:
        return PASS, "with the plugin for CUDA %s" % found if found else "a CPU build"
    wanted = smoke.expected["cuda"]
    if wanted is None:
        if found is None:
            return PASS, "a CPU build, as locked"
        return FAIL, "the plugin for CUDA %s is installed, and a CPU build was locked" % found
    major = wanted.split(".")[0]
    if found is None:
        return FAIL, "no CUDA plugin is installed, and one for CUDA %s was locked" % major
    if [found] != [major] or plugins[1:]:
        return FAIL, "plugins for CUDA %s are installed, and one for CUDA %s was locked" % (
            " and ".join(map(str, plugins)),
            major,
        )
    return PASS, "plugin for CUDA %s, cuDNN %s" % (found, smoke.facts["cudnn"] or "of the system")


def installed(distribution):
    """The version of an installed distribution, or None."""
    import importlib.metadata

    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def targets_of_build(smoke):
    """Level 2: the plugin does not name its targets, so those of the lock stand for them.

    The highest of them is PTX as well, in every release.
    """
    wanted = smoke.expected.get("sass")
    if smoke.facts["cuda"] is None:
        return SKIP, "a CPU build has none"
    if smoke.expected.get("gpus") is False:
        return SKIP, "a CPU stack needs none"
    if wanted:
        smoke.facts["targets"] = list(wanted) + [wanted[-1].replace("sm_", "compute_")]
    return SKIP, "the plugin does not say for which GPUs it holds code; a matrix is multiplied on each"


def cause(code):
    return "CUDA error %d%s" % (code, ": " + CAUSES[code] if code in CAUSES else "")


class CudaError(Exception):
    """A call of libcuda that did not return 0."""

    def __init__(self, call, code):
        Exception.__init__(self, "%s: %s" % (call, cause(code)))
        self.code = code


class Driver:
    """libcuda, by ctypes: the framework takes no part in it."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code:
            raise CudaError(name, code)


def driver(smoke):
    """Level 3: the driver answers."""
    wanted = smoke.expected.get("gpus")
    if wanted is False:
        return SKIP, "a CPU stack uses no GPU"
    try:
        cuda = Driver()
    except OSError as error:
        message = (
            "no NVIDIA driver library here (%s): start the container with --gpus all, or --nv, on a host with a driver" % error
        )
        return (FAIL if wanted else UNKNOWN), message
    version, count = ctypes.c_int(), ctypes.c_int()
    try:
        cuda.call("cuInit", 0)
        cuda.call("cuDriverGetVersion", ctypes.byref(version))
        cuda.call("cuDeviceGetCount", ctypes.byref(count))
    except CudaError as error:
        return FAIL, str(error)
    supports = "%d.%d" % (version.value // 1000, version.value % 1000 // 10)
    smoke.facts["driver_cuda"] = supports
    if not count.value:
        return FAIL, "the driver shows no GPU: look at CUDA_VISIBLE_DEVICES, and at how the container was started"
    smoke.cuda = cuda
    for ordinal in range(count.value):
        smoke.devices.append(device(cuda, ordinal))
    smoke.facts["devices"] = smoke.devices
    names = ", ".join("%s (%s)" % (found["name"], found["capability"]) for found in smoke.devices)
    return PASS, "supports CUDA up to %s; %s" % (supports, names)


def device(cuda, ordinal):
    handle, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    name = ctypes.create_string_buffer(256)
    cuda.call("cuDeviceGet", ctypes.byref(handle), ordinal)
    cuda.call("cuDeviceGetName", name, len(name), handle)
    cuda.call("cuDeviceGetAttribute", ctypes.byref(major), 75, handle)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    cuda.call("cuDeviceGetAttribute", ctypes.byref(minor), 76, handle)  # …_MINOR
    capability = "%d.%d" % (major.value, minor.value)
    return {"index": ordinal, "name": name.value.decode("utf-8", "replace"), "capability": capability}


def code_for_devices(smoke):
    """Level 3: the build holds machine code that runs on every GPU here."""
    if smoke.expected.get("gpus") is False:
        return SKIP, "a CPU stack uses no GPU"
    targets = smoke.facts.get("targets")
    if not smoke.devices or not targets:
        return UNKNOWN, "not to be said without %s" % ("a GPU" if targets else "the targets of the build")
    without = [found for found in smoke.devices if not any(runs(target, found["capability"]) for target in targets)]
    if without:
        names = ", ".join("%s (%s)" % (found["name"], found["capability"]) for found in without)
        return FAIL, "no code for %s in this build, which has %s: choose a build variant that has" % (names, " ".join(targets))
    return PASS, "every GPU here has code in the build"


def runs(target, capability):
    """Machine code (sm_90) runs on the same major with an equal or higher minor, an `a` target on exactly its own; PTX on any newer."""
    kind, _, digits = target.partition("_")
    suffix = digits[-1] if digits[-1:] in ("a", "f") else ""
    digits = digits[: len(digits) - len(suffix)]
    if not digits.isdigit() or len(digits) < 2:
        return False
    built = (int(digits[:-1]), int(digits[-1]))
    major, _, minor = capability.partition(".")
    found = (int(major), int(minor))
    if kind == "compute":
        return not suffix and built <= found
    if suffix == "a":
        return built == found
    return built[0] == found[0] and built[1] <= found[1]


def kernel(smoke):
    """Level 4: every GPU runs a kernel that the driver compiled from text."""
    if smoke.expected.get("gpus") is False:
        return SKIP, "a CPU stack uses no GPU"
    if smoke.cuda is None:
        return UNKNOWN, "not to be tried without a driver that answers"
    for found in smoke.devices:
        wrong = kernel_on(smoke.cuda, found["index"])
        if wrong:
            return FAIL, "%s: %s" % (found["name"], wrong)
    return PASS, "a PTX kernel ran on %s" % ("the GPU" if len(smoke.devices) == 1 else "each of %d GPUs" % len(smoke.devices))


def kernel_on(cuda, ordinal):
    """What is wrong with the kernel's answer on one GPU; an empty text when nothing is."""
    count = 1000
    numbers = (ctypes.c_float * count)(*[float(number) for number in range(count)])
    size = ctypes.c_size_t(ctypes.sizeof(numbers))
    handle, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    function, memory = ctypes.c_void_p(), ctypes.c_uint64()
    cuda.call("cuDeviceGet", ctypes.byref(handle), ordinal)
    cuda.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
    try:
        cuda.call("cuCtxSetCurrent", context)
        cuda.call("cuModuleLoadData", ctypes.byref(module), PTX)
        cuda.call("cuModuleGetFunction", ctypes.byref(function), module, b"scale")
        cuda.call("cuMemAlloc_v2", ctypes.byref(memory), size)
        cuda.call("cuMemcpyHtoD_v2", memory, numbers, size)
        factor, length = ctypes.c_float(2.0), ctypes.c_uint(count)
        arguments = (ctypes.c_void_p * 3)(*[ctypes.addressof(item) for item in (memory, factor, length)])
        cuda.call("cuLaunchKernel", function, 4, 1, 1, 256, 1, 1, 0, None, arguments, None)
        cuda.call("cuCtxSynchronize")
        answer = (ctypes.c_float * count)()
        cuda.call("cuMemcpyDtoH_v2", answer, memory, size)
        cuda.call("cuMemFree_v2", memory)
        cuda.call("cuModuleUnload", module)
    finally:
        cuda.library.cuCtxSetCurrent(None)
        cuda.library.cuDevicePrimaryCtxRelease_v2(handle)
    wrong = [number for number in range(count) if answer[number] != 2.0 * number + 1.0]
    return "%d of %d numbers are wrong" % (len(wrong), count) if wrong else ""


def matrices(smoke):
    """Level 5: two matrices are multiplied, on every GPU or on the CPU, and the product is compared."""
    import numpy

    jax, size = smoke.framework, 512
    try:
        devices = [] if smoke.expected.get("gpus") is False else jax.devices("gpu")
    except RuntimeError as error:
        if smoke.expected.get("gpus"):
            return FAIL, "JAX finds no usable GPU and would compute on the CPU: %s" % " ".join(str(error).split())[:300]
        devices = []
    numbers = numpy.random.RandomState(20)
    left, right = numbers.randn(size, size).astype("float32"), numbers.randn(size, size).astype("float32")
    exact = left.astype("float64") @ right.astype("float64")
    rows, columns = left.tolist(), right.transpose().tolist()
    # The reference is checked in its turn, entry by entry in plain Python, so that a broken BLAS cannot confirm itself.
    for row, column in ((0, 0), (size - 1, 3), (size // 2, size - 1)):
        entry = sum(a * b for a, b in zip(rows[row], columns[column]))
        if abs(entry - float(exact[row, column])) > 1e-9 * size:
            return FAIL, "the CPU multiplies wrongly: %r instead of %r" % (float(exact[row, column]), entry)
    if smoke.expected.get("gpus") is False:
        cpu = jax.devices("cpu")[0]
        return compared("the CPU (a CPU stack: no GPU was used)", *product(jax, left, right, cpu), exact=exact)
    if not devices:
        status, message = compared("the CPU", *product(jax, left, right, jax.devices("cpu")[0]), exact=exact)
        return (UNKNOWN if status == PASS else status), message + "; whether a GPU is expected was not said"
    status, messages = PASS, []
    for found in devices:
        result, message = compared(found.device_kind, *product(jax, left, right, found), exact=exact)
        messages.append(message)
        status = result if result == FAIL else status
    return status, "; ".join(messages)


def product(jax, left, right, where):
    """The product on a device, and the seconds that the second of two takes: the first one compiles."""
    import numpy

    multiply = jax.jit(lambda a, b: jax.numpy.matmul(a, b, precision=jax.lax.Precision.HIGHEST))  # by default it may be TF32
    seconds, result = 0.0, None
    for _ in range(2):
        a, b = jax.device_put(left, where), jax.device_put(right, where)
        a.block_until_ready()
        b.block_until_ready()
        since = time.perf_counter()
        result = multiply(a, b)
        result.block_until_ready()
        seconds = time.perf_counter() - since
    return numpy.asarray(result), seconds


def compared(where, result, seconds, exact):
    """Float32 sums of 512 products are right to some 1e-4; TF32 is not used above."""
    error = float(abs(result.astype("float64") - exact).max())
    message = "512x512 matrices multiplied on %s in %.2f ms, largest error %.1e" % (where, seconds * 1000, error)
    if error <= 1e-3:  # also false for NaN
        return PASS, message
    return FAIL, message + ", which is too much"


CHECKS = (
    ("interpreter", 0, interpreter),
    ("import", 1, imports),
    ("cuda", 2, cuda_of_build),
    ("targets", 2, targets_of_build),
    ("driver", 3, driver),
    ("architecture", 3, code_for_devices),
    ("kernel", 4, kernel),
    ("matmul", 5, matrices),
)
NEED_FRAMEWORK = (cuda_of_build, targets_of_build, matrices)


def expectation(text):
    """What is expected: a JSON text, a file, or by default expect.json beside this script where it is there."""
    if text is None:
        beside = os.path.join(os.path.dirname(os.path.abspath(globals().get("__file__", "-"))), "expect.json")
        if not os.path.exists(beside):
            return {}
        text = beside
    if not text.lstrip().startswith("{"):
        with open(text, encoding="utf-8") as stream:
            text = stream.read()
    expected = json.loads(text)
    if not isinstance(expected, dict):
        raise ValueError("what is expected must be a JSON object")
    return expected


def main():
    parser = argparse.ArgumentParser(description="Smoke test of JAX")
    parser.add_argument("--level", type=int, default=5, choices=range(6), help="the last level to run (default 5)")
    parser.add_argument("--expect", metavar="FILE|JSON", help="what must be found (default: expect.json beside this script)")
    parser.add_argument("--build-check", action="store_true", help="only what can be known while an image is built: level 2")
    options = parser.parse_args()
    try:
        smoke = Smoke(expectation(options.expect))
    except (OSError, ValueError) as error:
        parser.error("--expect cannot be read: %s" % error)
    # Python looks first where the script lies: a file called jax.py there, such as this one, is not the framework.
    if not sys.flags.isolated and not getattr(sys.flags, "safe_path", False):
        del sys.path[0]
    # Whatever a library prints goes to standard error: standard output is for the one line.
    sys.stdout.flush()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.enable()
    last = 2 if options.build_check else options.level
    for name, level, check in CHECKS:
        if level > last:
            break
        if check in NEED_FRAMEWORK and smoke.framework is None:
            smoke.add(name, level, UNKNOWN, "not to be tried without the framework", time.perf_counter())
        else:
            smoke.run(name, level, check)
    out.write("%s %s\n" % (MARK, json.dumps({"format": 1, "checks": smoke.checks, "facts": smoke.facts}, sort_keys=True)))
    out.close()
    return 1 if any(check["status"] == FAIL for check in smoke.checks) else 0


if __name__ == "__main__":
    sys.exit(main())
