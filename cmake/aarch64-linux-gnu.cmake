# Debian's cross compiler for 64-bit Arm. ctest runs the programs under qemu, with the libraries of the cross compiler.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# Without random addresses (setarch -R): ThreadSanitizer would start the program again, without qemu.
set(CMAKE_CROSSCOMPILING_EMULATOR setarch -R qemu-aarch64-static -L /usr/aarch64-linux-gnu)
# Libraries and headers for Arm alone; programs of this machine.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
