"""The C++ library inside an installed package is found, and its absence says what to do."""

from __future__ import annotations

import pytest

import saeta as sa


def test_a_build_tree_has_no_headers_and_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr("saeta._cpp.PACKAGE", tmp_path)
    for find, name in ((sa.get_include, "include"), (sa.cmake_dir, "cmake")):
        with pytest.raises(sa.MissingDependency, match=rf"has no folder {name}: .*pip install"):
            find()


def test_an_installed_package_tells_its_folders(monkeypatch, tmp_path):
    monkeypatch.setattr("saeta._cpp.PACKAGE", tmp_path)
    for find, name in ((sa.get_include, "include"), (sa.cmake_dir, "cmake")):
        (tmp_path / name).mkdir()
        assert find() == str(tmp_path / name)
