package mem

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quern-llm/quern/go/platform"
)

// policyAt returns the memory policy of an address: its mode, and whether node 0 is in it.
func policyAt(t *testing.T, b []byte) (mode int32, first bool) {
	t.Helper()
	const byAddress = 2 // MPOL_F_ADDR
	var mask [platform.MaxNodes / 64]uint64
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), uintptr(unsafe.Pointer(&mask)), platform.MaxNodes,
		uintptr(unsafe.Pointer(&b[0])), byAddress, 0)
	if errno != 0 {
		t.Skipf("the kernel does not tell policies: %v", errno)
	}
	return mode, mask[0]&1 != 0
}

func TestPlace(t *testing.T) {
	r, err := Alloc(3*HugePage+100, "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	err = r.Place(HugePage, HugePage, 0)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("memory cannot be placed here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int32{0, int32(platform.Preferred), 0, 0} {
		if mode, first := policyAt(t, r.Bytes()[i*HugePage:]); mode != want || first != (want != 0) {
			t.Errorf("huge page %d has mode %d, node 0: %v; want mode %d", i, mode, first, want)
		}
	}
	// The last page is the region's, though its end is not a page's.
	if err := r.Place(3*HugePage, 100, 0); err != nil {
		t.Fatal(err)
	}
	if mode, _ := policyAt(t, r.Bytes()[3*HugePage:]); mode != int32(platform.Preferred) {
		t.Errorf("the last page has mode %d", mode)
	}
	// A node that there is not, and none at all.
	if err := r.Place(0, HugePage, platform.MaxNodes-1); err == nil {
		t.Error("node 1023 is there")
	}
	for _, node := range []int{platform.MaxNodes, 1 << 40} {
		if err := r.Place(0, HugePage, node); err == nil {
			t.Errorf("node %d is there", node)
		}
	}
	if err := r.Place(0, HugePage, -1); err != nil {
		t.Error(err)
	}
	if mode, _ := policyAt(t, r.Bytes()); mode != 0 {
		t.Errorf("the first page has mode %d", mode)
	}
	for _, bad := range [][2]int{{-1, 10}, {0, 4 * HugePage}, {4 * HugePage, 1}, {1, -1}} {
		if err := r.Place(bad[0], bad[1], 0); err == nil {
			t.Errorf("%v is within the region", bad)
		}
	}
	if err := r.Place(100, 200, 0); err != nil { // no whole page
		t.Error(err)
	}
	for i := range r.Bytes() {
		if i%4096 == 0 {
			r.Bytes()[i] = 1 // as usable as before
		}
	}
	if err := Static([]byte("x")).Place(0, 1, 0); err == nil {
		t.Error("static memory is placed")
	}
	r.Close()
	if err := r.Place(0, 0, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestMayPlace(t *testing.T) {
	for _, nodes := range [][]int{nil, {-1}, {-1, -1}} {
		if err := MayPlace(nodes); err != nil {
			t.Errorf("%v: %v", nodes, err)
		}
	}
	for _, node := range []int{platform.MaxNodes - 1, platform.MaxNodes} {
		if err := MayPlace([]int{-1, node}); err == nil || !strings.Contains(err.Error(), fmt.Sprint(node)) {
			t.Errorf("node %d: %v", node, err)
		}
	}
}

func TestInterleave(t *testing.T) {
	r, err := Alloc(HugePage, "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, nodes := range [][]int{nil, {0}, {-1, 0}, {-1, -1}} {
		if err := r.Interleave(nodes); err != nil {
			t.Errorf("%v: %v", nodes, err)
		}
	}
	if mode, _ := policyAt(t, r.Bytes()); mode != 0 {
		t.Errorf("over one node: mode %d", mode)
	}
	err = r.Interleave([]int{0, 0}) // as virtual nodes are
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("memory cannot be placed here: %v", err)
	}
	if mode, first := policyAt(t, r.Bytes()); err != nil || mode != int32(platform.Interleaved) || !first {
		t.Errorf("mode %d, node 0: %v; %v", mode, first, err)
	}
}
