"""Facts about the machine, read from what Linux on x86 and ARM, macOS and Windows say of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import machine
from dragoman.errors import ConfigError

INTEL = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8481C
stepping\t: 8
flags\t\t: fpu avx512f amx_bf16 aes

processor\t: 1
vendor_id\t: Other
"""

ARM = """processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd bf16
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x1
CPU part\t: 0xd0c
CPU revision\t: 1
"""

APPLE = """machdep.cpu.brand_string: Apple M2
hw.cpufamily: 3660830781
hw.cpusubfamily: 2
hw.l1dcachesize: 65536
hw.l2cachesize: 4194304
hw.optional.arm.FEAT_BF16: 1
hw.optional.arm.FEAT_SME: 0
"""


def test_an_intel_processor_is_read_from_its_first_core():
    found = machine._from_cpuinfo(INTEL, {"L2": "2048K"})
    assert (found["vendor"], found["family"], found["model"], found["stepping"]) == ("GenuineIntel", "6", "143", "8")
    assert found["flags"] == ["aes", "amx_bf16", "avx512f", "fpu"]
    assert found["caches"] == {"L2": "2048K"}


def test_an_arm_processor_is_read_by_its_other_names():
    found = machine._from_cpuinfo(ARM, {})
    assert (found["vendor"], found["family"], found["model"], found["stepping"]) == ("0x41", "8", "0xd0c", "0x1")
    assert "bf16" in found["flags"]


def test_an_apple_processor_is_read_from_sysctl():
    found = machine._from_sysctl(APPLE)
    assert (found["name"], found["vendor"], found["family"]) == ("Apple M2", "Apple", "3660830781")
    assert found["flags"] == ["arm.FEAT_BF16"]
    assert found["caches"] == {"L1d": "65536", "L2": "4194304"}


def test_a_processor_under_windows_is_read_from_one_line():
    found = machine._from_identifier("Intel64 Family 6 Model 158 Stepping 10, GenuineIntel")
    assert (found["vendor"], found["family"], found["model"], found["stepping"]) == ("GenuineIntel", "6", "158", "10")


@pytest.mark.parametrize("read", [lambda: machine._from_cpuinfo("", {}), lambda: machine._from_sysctl("")])
def test_a_silent_system_leaves_unknowns(read):
    found = read()
    assert found["vendor"] is None and found["family"] is None and found["flags"] == [] and found["caches"] == {}


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="reads Linux's /proc/cpuinfo")
def test_this_linux_machine_tells_its_processor_caches_and_memory():
    found = machine.processor()
    assert found["vendor"] and found["family"] and found["flags"]
    assert (machine.installed_memory_bytes() or 0) > 2**28
    assert 1 <= machine.cores() <= 4096


def test_machine_and_envelope_are_plain_json():
    facts = machine.machine()
    inside = machine.envelope(threads=2, precision="bf16")
    assert json.loads(json.dumps(facts)) == facts
    assert json.loads(json.dumps(inside)) == inside


def test_the_envelope_names_what_promise_one_names():
    inside = machine.envelope(threads=2, world_size=3, precision="bf16", compiled=True)
    assert set(inside["processor"]) == {"vendor", "family", "model", "stepping", "flags", "caches"}
    assert (inside["threads"], inside["world_size"], inside["precision"], inside["compiled"]) == (2, 3, "bf16", True)
    assert inside["compiler"] == machine.compiler()
    assert inside["torch"]["commit"] and inside["torch"]["capability"]


def test_the_envelope_tells_variables_that_choose_other_kernels(monkeypatch):
    before = machine.envelope(threads=1)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert machine.envelope(threads=1)["kernels"] == {**before["kernels"], "ONEDNN_MAX_CPU_ISA": "AVX2"}


def test_the_compiler_named_by_the_environment_comes_first(monkeypatch, tmp_path):
    script = tmp_path / "my-compiler"
    script.write_text("#!/bin/sh\necho my compiler 1.0\necho more\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    machine.compiler.cache_clear()
    assert machine.compiler() == "my compiler 1.0"
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    machine.compiler.cache_clear()
    assert machine.compiler() is None
    machine.compiler.cache_clear()


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_the_rate_of_matrix_products_is_a_positive_number(precision):
    assert machine.gemm_rate(precision, seconds=0.01, size=64) > 0


def test_device_and_precision_are_chosen_with_a_reason_or_taken_as_asked_for():
    device, why = machine.choose_device()
    assert device in {"cpu", "cuda", "mps"} and why
    assert machine.choose_device("cpu") == ("cpu", "as asked for")
    assert machine.choose_precision("float32") == ("float32", "as asked for")
    assert machine.choose_precision("auto", "cpu")[0] in {"float32", "bf16"}


def test_devices_and_precisions_that_are_not_there_are_refused():
    with pytest.raises(ConfigError, match="device must be auto, cuda, mps, cpu, but is tpu"):
        machine.choose_device("tpu")
    with pytest.raises(ConfigError, match="precision must be auto, float32 or bf16, but is fp8"):
        machine.choose_precision("fp8")


def test_the_machine_in_one_line_names_torch_and_threads():
    line = machine.describe()
    assert "threads" in line and "torch 2" in line and "\n" not in line


def test_importing_machine_loads_no_torch():
    code = (
        "import sys, dragoman.machine as m; m.processor(); m.versions(); m.compiler(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone has the switch")
def test_freed_memory_is_kept_for_the_next_tensor() -> None:
    code = """
import resource, sys, torch
from dragoman.machine import keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory()
before = 0
for number in range(3):
    torch.ones(2**26 - 2**12 * number)  # 256 MiB, freed at once; glibc wants a little more room than it takes
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    fresh, before = faults - before, faults
print(fresh)
"""
    fresh = {
        way: int(subprocess.run([sys.executable, "-c", code, way], check=True, capture_output=True, text=True).stdout)
        for way in ("kept", "given back")
    }
    assert fresh["kept"] < 100 < fresh["given back"]
