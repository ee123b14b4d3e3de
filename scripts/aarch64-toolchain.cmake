# Builds for 64-bit Arm on another machine:
#
#	cmake -S . -B build-arm64 -DCMAKE_TOOLCHAIN_FILE=scripts/aarch64-toolchain.cmake
#	cmake --build build-arm64
#	qemu-aarch64 -cpu max build-arm64/csrc/check
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static) # QEMU then needs no Arm libraries
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-cpu;max) # for ctest; max has dotprod and i8mm
