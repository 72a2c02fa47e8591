"""Facts about the machine and its processor, and what is chosen by them."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import dragoman
from dragoman import system
from dragoman.errors import ConfigError
from dragoman.system import processor_quotas


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="reads Linux's /proc/cpuinfo")
def test_this_linux_machine_reveals_processor_caches_and_memory():
    found = system.processor()
    assert found["vendor"] and found["family"] and found["flags"]
    assert (system.installed_memory_bytes() or 0) > 2**28
    assert 1 <= system.cores() <= 4096


def test_machine_and_envelope_are_plain_json():
    facts = system.machine()
    inside = system.envelope(threads=2, precision="bf16")
    assert json.loads(json.dumps(facts)) == facts
    assert json.loads(json.dumps(inside)) == inside


def test_the_envelope_holds_everything_that_decides_the_bits():
    inside = system.envelope(threads=2, world_size=3, precision="bf16", compiled=True)
    assert set(inside["processor"]) == {"vendor", "family", "model", "stepping", "flags", "caches"}
    assert (inside["threads"], inside["world_size"], inside["precision"], inside["compiled"]) == (2, 3, "bf16", True)
    assert inside["compiler"] == system.compiler()
    assert inside["kernel sums"] == "by halves"
    assert inside["dragoman"] == dragoman.__version__
    assert inside["torch"]["commit"] and inside["torch"]["capability"]


def test_the_envelope_holds_variables_that_choose_kernels(monkeypatch):
    before = system.envelope(threads=1)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert system.envelope(threads=1)["kernels"] == {**before["kernels"], "ONEDNN_MAX_CPU_ISA": "AVX2"}


def test_the_compiler_named_by_the_environment_comes_first(monkeypatch, tmp_path):
    script = tmp_path / "my-compiler"
    script.write_text("#!/bin/sh\necho my compiler 1.0\necho more\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    system.compiler.cache_clear()
    assert system.compiler() == "my compiler 1.0"
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    system.compiler.cache_clear()
    assert system.compiler() is None
    system.compiler.cache_clear()


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_the_rate_of_matrix_products_is_a_positive_number(precision):
    assert system.gemm_rate(precision, seconds=0.01, size=64) > 0


def test_device_and_precision_are_chosen_with_a_reason_or_as_asked():
    device, why = system.choose_device()
    assert device in {"cpu", "cuda", "mps"} and why
    assert system.choose_device("cpu") == ("cpu", "as asked for")
    assert system.choose_precision("float32") == ("float32", "as asked for")
    assert system.choose_precision("auto", "cpu")[0] in {"float32", "bf16"}


def test_missing_devices_and_unknown_precisions_are_refused():
    with pytest.raises(ConfigError, match="device must be auto, cuda, mps, cpu, but is tpu"):
        system.choose_device("tpu")
    with pytest.raises(ConfigError, match="precision must be auto, float32 or bf16, but is fp8"):
        system.choose_precision("fp8")


def test_the_line_about_the_machine_names_torch_and_threads():
    line = system.describe()
    assert "threads" in line and "torch 2" in line and "\n" not in line


def test_versions_are_of_the_packages_named_in_this_call():
    wanted = {"numpy": "numpy"}
    assert system.versions(wanted.values()).keys() == {"numpy"}
    wanted["none"], wanted["torch"] = "no-such-package", "torch"
    assert system.versions(wanted.values()).keys() == system.versions(["torch", "numpy"]).keys() == {"numpy", "torch"}


def test_importing_machine_loads_no_torch():
    code = (
        "import sys, dragoman.system as m; m.processor(); m.versions(); m.compiler(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.thorough
@pytest.mark.parametrize("variables", [{}, {"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "3"}])
def test_threads_are_those_of_torch_before_it_is_loaded(variables: dict[str, str]) -> None:
    code = """if True:
        import dragoman.system as m
        before = m.threads()
        import torch
        print(before, m.threads())
        torch.set_num_threads(2)
        print(m.threads(), m.choose_threads(5), m.choose_threads(None))
    """
    usual = "import torch; print(torch.get_num_threads())"
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"} | variables

    def printed(code: str) -> str:
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return run.stdout

    assert printed(code).split() == [*[printed(usual).strip()] * 2, "2", "5", "2"]


def begun_later() -> int:
    """Torch's number of threads in a thread that begins now."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


def test_threads_are_those_of_one_thread_and_overlapping_uses_leave_none_behind() -> None:
    before, other = torch.get_num_threads(), system.use_threads(1)
    with ThreadPoolExecutor(1) as pool:
        with system.use_threads(before + 1):
            assert (torch.get_num_threads(), begun_later()) == (before + 1, before)
            pool.submit(other.__enter__).result()
            assert (torch.get_num_threads(), pool.submit(torch.get_num_threads).result()) == (before + 1, 1)
        pool.submit(other.__exit__, None, None, None).result()
        assert [torch.get_num_threads(), pool.submit(torch.get_num_threads).result(), begun_later()] == [before] * 3


VERSION_1 = "4:memory:/\n2:cpu,cpuacct:/outer/inner\n0::/\n"


@pytest.mark.parametrize(
    ("listed", "files", "quotas"),
    [
        ("0::/", {"cpu.max": "150000 100000"}, [2]),
        ("0::/outer/inner", {"outer/cpu.max": "max 100000", "outer/inner/cpu.max": "5000 100000"}, [1]),
        (VERSION_1, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, []),
        (VERSION_1, {"cpu/outer/cpu.cfs_quota_us": "400000", "cpu/outer/cpu.cfs_period_us": "100000"}, [4]),
        ("", {}, []),
    ],
)
def test_the_quota_of_a_container_bounds_cores_and_threads(
    listed: str, files: dict[str, str], quotas: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cgroup").write_text(listed)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert list(processor_quotas(tmp_path, tmp_path / "cgroup")) == quotas
    monkeypatch.setattr(system, "processor_quotas", lambda: quotas)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    most = min([3, *quotas])
    assert (system.threads(), system.choose_threads(None), system.choose_threads(3)) == (most,) * 3
    assert 1 <= system.cores() <= min([4096, *quotas])


def test_libraries_get_our_variables_unless_the_user_set_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"LRU_CACHE_CAPACITY": "512"})
    system.prepare_environment()
    assert os.environ == system.WAITING | system.PREPARED | {"LRU_CACHE_CAPACITY": "512"}


def test_torch_waits_as_well_in_python_as_on_the_command_line() -> None:
    ask = "import dragoman, os; print(os.environ['OMP_WAIT_POLICY'], os.environ['GOMP_SPINCOUNT'])"
    bare = {name: value for name, value in os.environ.items() if name not in system.WAITING}
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True, env=bare)
    assert done.stdout.split() == [*system.WAITING.values()]


@pytest.mark.parametrize(("loaded", "chosen"), [(True, {}), (True, {"GOMP_SPINCOUNT": "1"}), (False, {})])
def test_training_says_so_if_torch_was_imported_first(
    loaded: bool, chosen: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "environ", dict(chosen))
    monkeypatch.setattr(sys, "modules", {"torch": torch} if loaded else {})
    monkeypatch.setattr(system, "_too_late", None)
    system.prepare_environment()
    system.warn_of_spinning()
    assert ("import dragoman first" in caplog.text) == (loaded and not chosen)


def test_doctor_finds_every_extra_that_is_installed() -> None:
    from dragoman.runs.installation import EXTRAS

    installed = system.versions(EXTRAS.values())
    found = {fact.name: fact.value for fact in dragoman.doctor() if fact.name.startswith("extra ")}
    assert found == {f"extra {extra}": installed.get(package, "missing") for extra, package in EXTRAS.items()}
    assert installed.keys() >= {"scikit-learn", "sentencepiece"}, "as the tests have them"


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
    found = system._from_cpuinfo(INTEL, {"L2": "2048K"})
    assert (found["vendor"], found["family"], found["model"], found["stepping"]) == ("GenuineIntel", "6", "143", "8")
    assert found["flags"] == ["aes", "amx_bf16", "avx512f", "fpu"]
    assert found["caches"] == {"L2": "2048K"}


def test_an_arm_processor_is_read_by_its_other_names():
    found = system._from_cpuinfo(ARM, {})
    assert (found["vendor"], found["family"], found["model"], found["stepping"]) == ("0x41", "8", "0xd0c", "0x1")
    assert "bf16" in found["flags"]


def test_an_apple_processor_is_read_from_sysctl():
    found = system._from_sysctl(APPLE)
    assert (found["name"], found["vendor"], found["family"]) == ("Apple M2", "Apple", "3660830781")
    assert found["flags"] == ["arm.FEAT_BF16"]
    assert found["caches"] == {"L1d": "65536", "L2": "4194304"}


def test_a_processor_under_windows_is_read_from_one_line():
    found = system._from_identifier("Intel64 Family 6 Model 158 Stepping 10, GenuineIntel")
    assert (found["vendor"], found["family"], found["model"], found["stepping"]) == ("GenuineIntel", "6", "158", "10")


@pytest.mark.parametrize("read", [lambda: system._from_cpuinfo("", {}), lambda: system._from_sysctl("")])
def test_a_silent_system_leaves_unknowns(read):
    found = read()
    assert found["vendor"] is None and found["family"] is None and found["flags"] == [] and found["caches"] == {}
