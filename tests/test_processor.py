"""A processor is read from what Linux on x86 and ARM, macOS and Windows say of it."""

import pytest

from dragoman import processor

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
    found = processor._from_cpuinfo(INTEL, {"L2": "2048K"})
    assert (found["vendor"], found["family"], found["model"], found["stepping"]) == ("GenuineIntel", "6", "143", "8")
    assert found["flags"] == ["aes", "amx_bf16", "avx512f", "fpu"]
    assert found["caches"] == {"L2": "2048K"}


def test_an_arm_processor_is_read_by_its_other_names():
    found = processor._from_cpuinfo(ARM, {})
    assert (found["vendor"], found["family"], found["model"], found["stepping"]) == ("0x41", "8", "0xd0c", "0x1")
    assert "bf16" in found["flags"]


def test_an_apple_processor_is_read_from_sysctl():
    found = processor._from_sysctl(APPLE)
    assert (found["name"], found["vendor"], found["family"]) == ("Apple M2", "Apple", "3660830781")
    assert found["flags"] == ["arm.FEAT_BF16"]
    assert found["caches"] == {"L1d": "65536", "L2": "4194304"}


def test_a_processor_under_windows_is_read_from_one_line():
    found = processor._from_identifier("Intel64 Family 6 Model 158 Stepping 10, GenuineIntel")
    assert (found["vendor"], found["family"], found["model"], found["stepping"]) == ("GenuineIntel", "6", "158", "10")


@pytest.mark.parametrize("read", [lambda: processor._from_cpuinfo("", {}), lambda: processor._from_sysctl("")])
def test_a_silent_system_leaves_unknowns(read):
    found = read()
    assert found["vendor"] is None and found["family"] is None and found["flags"] == [] and found["caches"] == {}
