//go:build ucx

package kernel

// #include <stdlib.h>
// #include "quern.h"
// #include "quern_ucx.h"
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	_ "github.com/quern-llm/quern/csrc/ucx"
)

// HasUCX says whether this program was built with UCX.
const HasUCX = true

// UCX is a process that others join by its address.
type UCX struct{ c *C.struct_qn_ucx }

// OpenUCX opens this process for others on these devices of the network; none: any.
func OpenUCX(devices []string) (*UCX, error) {
	var names *C.char
	if len(devices) > 0 {
		names = C.CString(strings.Join(devices, ","))
		defer C.free(unsafe.Pointer(names))
	}
	u := &UCX{}
	if C.qn_ucx_open(&u.c, names) != C.QN_OK {
		return nil, fmt.Errorf("UCX finds no way to other processes on the devices %q; UCX_NET_DEVICES and UCX_TLS choose among those of the machine", devices)
	}
	return u, nil
}

// Address returns the address by which others reach this process.
func (u *UCX) Address() []byte {
	var n C.size_t
	at := C.qn_ucx_address(u.c, &n)
	return C.GoBytes(unsafe.Pointer(at), C.int(n))
}

// Join makes this process a rank of those with these addresses, which join at the same time. near tells which are on this
// machine, and may be reached by shared memory: that those end is for the caller to notice. It takes ownership of u: after an
// error, the process has to end.
func (u *UCX) Join(rank int, addresses [][]byte, near []bool) (*Ranks, error) {
	if n := len(addresses); n < 2 || n > MaxRanks || rank < 0 || rank >= n || len(near) != n {
		return nil, fmt.Errorf("rank %d of %d", rank, n)
	}
	var all []byte
	sizes, here := make([]C.size_t, len(addresses)), make([]C.uint8_t, len(addresses))
	for i, a := range addresses {
		all, sizes[i] = append(all, a...), C.size_t(len(a))
		if near[i] {
			here[i] = 1
		}
	}
	var g *C.struct_qn_ranks
	var missing C.int32_t
	rc := C.qn_ucx_join(u.c, C.int32_t(rank), C.int32_t(len(sizes)), (*C.uint8_t)(unsafe.SliceData(all)), unsafe.SliceData(sizes), unsafe.SliceData(here), &g, &missing)
	if rc == C.QN_OK {
		return newRanks(g), nil
	}
	if err := ranksStatus(rc); errors.Is(err, ErrRanks) {
		return nil, fmt.Errorf("rank %d cannot be reached from rank %d by UCX; UCX_NET_DEVICES and UCX_TLS say by which ways (%w)", missing, rank, err)
	}
	return nil, status(rc, "ranks")
}

// Close closes it, if it has not joined others.
func (u *UCX) Close() { C.qn_ucx_close(u.c) }
