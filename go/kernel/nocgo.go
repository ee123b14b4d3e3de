//go:build !cgo

package kernel

// Without cgo all other files of the package are left out, and this is the compiler's one line.
var _ = quern_needs_cgo_set_CGO_ENABLED_to_1_and_install_a_C_compiler_such_as_gcc
