"""Conan's recipe: `conan create .` builds the library of this tree, with the sources of others in .deps/."""

from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class Saeta(ConanFile):
    name = "saeta"
    description = "GPU columnar data plane: Arrow columns on a device, exchanged without a copy and in order"
    license = "Apache-2.0"
    topics = ("arrow", "cuda", "gpu", "dlpack", "columnar", "zero-copy")
    package_type = "library"
    settings = ("os", "compiler", "build_type", "arch")
    options = {"shared": [True, False], "fPIC": [True, False], "cuda": [True, False]}
    default_options = {"shared": True, "fPIC": True, "cuda": False}
    exports_sources = (
        "CMakeLists.txt",
        "LICENSE",
        "NOTICE",
        "bench/CMakeLists.txt",
        "cmake/*",
        "python/CMakeLists.txt",
        "saeta/*",
        "scripts/fetch_sources.py",
        "tests/CMakeLists.txt",
        *(f".deps/{name}/*" for name in ("dlpack", "lz4", "nanoarrow", "zstd")),
    )

    def set_version(self):
        project = load(self, Path(self.recipe_folder) / "CMakeLists.txt")
        self.version = project.partition("project(saeta VERSION ")[2].split()[0]

    def configure(self):
        if self.options.shared:
            self.options.rm_safe("fPIC")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("Saeta runs on Linux")
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for feature in ("BRIDGE", "PYTHON", "RMM", "RAPIDSMPF", "TESTS", "BENCH", "EXAMPLES"):
            toolchain.cache_variables[f"SAETA_{feature}"] = "OFF"
        toolchain.cache_variables["SAETA_CUDA"] = "ON" if self.options.cuda else "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        for name in ("LICENSE", "NOTICE"):
            copy(self, name, self.source_folder, Path(self.package_folder) / "licenses")

    def package_info(self):
        # The package brings its own saetaConfig.cmake and saeta.pc.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/saeta"]
        self.cpp_info.libs = ["saeta"]
