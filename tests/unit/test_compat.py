"""The seams of SGLang: checked when the backend is chosen, named when missing."""

from __future__ import annotations

import pytest

from sglang_marconi import compat

pytest.importorskip("sglang", reason="the seams are SGLang's")


def test_installed_sglang_has_every_seam() -> None:
    compat.check_seams()


def test_missing_name_is_reported_with_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(compat.NAMES, "Gone", "sglang.srt.mem_cache.registry:Gone")
    with pytest.raises(compat.IncompatibleSGLang) as error:
        compat.check_seams()
    assert "sglang.srt.mem_cache.registry.Gone" in str(error.value)
    assert f"SGLang {compat.sglang_version()}" in str(error.value)


def test_missing_method_and_parameter_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(compat.MEMBERS, "MambaComponent.vanished", ())
    monkeypatch.setitem(compat.MEMBERS, "MambaComponent._evict_device_start", ("how_many",))
    with pytest.raises(compat.IncompatibleSGLang) as error:
        compat.check_seams()
    assert "MambaComponent.vanished" in str(error.value)
    assert "_evict_device_start(... how_many ...)" in str(error.value)


def test_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = compat.Nonsense
