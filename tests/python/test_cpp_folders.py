"""The paths of the C++ library in an installed package, and the error if the package has none."""

from __future__ import annotations

import pytest

import saeta as sa


def test_the_error_in_a_build_tree_says_there_are_no_headers(monkeypatch, tmp_path):
    monkeypatch.setattr("saeta._cpp.PACKAGE", tmp_path)
    for find, name in ((sa.get_include, "include"), (sa.cmake_dir, "cmake")):
        with pytest.raises(sa.MissingDependency, match=rf"has no folder {name}: .*pip install"):
            find()


def test_an_installed_package_returns_its_folders(monkeypatch, tmp_path):
    monkeypatch.setattr("saeta._cpp.PACKAGE", tmp_path)
    for find, name in ((sa.get_include, "include"), (sa.cmake_dir, "cmake")):
        (tmp_path / name).mkdir()
        assert find() == str(tmp_path / name)
