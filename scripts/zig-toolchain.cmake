# Builds for Windows, macOS or Linux on RISC-V on another machine, by Zig's C compiler (Clang), which has the headers and
# libraries of all:
#
#	cmake -S . -B build-windows-amd64 -DCMAKE_TOOLCHAIN_FILE=scripts/zig-toolchain.cmake -DQN_TARGET=x86_64-windows-gnu
#	cmake --build build-windows-amd64
#	wine64 build-windows-amd64/csrc/check.exe
#
# as scripts/cross.sh does. The other targets are aarch64-windows-gnu, riscv64-linux-musl, and aarch64-macos.12.0 and
# x86_64-macos.12.0, which have the oldest macOS. QN_ZIG is Zig's program.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QN_TARGET QN_ZIG)
if(NOT QN_ZIG)
  set(QN_ZIG zig)
endif()
if(NOT QN_TARGET MATCHES "^(x86_64|aarch64|riscv64)-(windows|macos|linux)")
  message(FATAL_ERROR "QN_TARGET is '${QN_TARGET}': want x86_64-windows-gnu, aarch64-windows-gnu, aarch64-macos, x86_64-macos or riscv64-linux-musl")
endif()
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_MATCH_1})
if(CMAKE_MATCH_2 STREQUAL "windows")
  set(CMAKE_SYSTEM_NAME Windows)
  set(CMAKE_CROSSCOMPILING_EMULATOR wine64) # for ctest
elseif(CMAKE_MATCH_2 STREQUAL "linux")
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_EXE_LINKER_FLAGS_INIT -static) # QEMU then needs no libraries of RISC-V
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-riscv64) # for ctest
else()
  set(CMAKE_SYSTEM_NAME Darwin)
endif()
set(CMAKE_C_FLAGS_INIT -Wno-pass-failed) # the scalar set asks for vectors where there are some, and RISC-V's baseline has none
set(CMAKE_C_COMPILER ${QN_ZIG} cc -target ${QN_TARGET})
set(CMAKE_C_ARCHIVE_CREATE "${QN_ZIG} ar qc <TARGET> <OBJECTS>")
set(CMAKE_C_ARCHIVE_APPEND "${QN_ZIG} ar q <TARGET> <OBJECTS>")
set(CMAKE_C_ARCHIVE_FINISH "${QN_ZIG} ranlib <TARGET>")
