# Builds for 64-bit RISC-V on another machine:
#
#	cmake -S . -B build-riscv64 -DCMAKE_TOOLCHAIN_FILE=scripts/riscv64-toolchain.cmake
#	cmake --build build-riscv64
#	qemu-riscv64 build-riscv64/csrc/check
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR riscv64)
set(CMAKE_C_COMPILER riscv64-linux-gnu-gcc)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static) # QEMU then needs no libraries of RISC-V
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-riscv64) # for ctest
