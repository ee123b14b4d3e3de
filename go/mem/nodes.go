package mem

import (
	"fmt"

	"github.com/quern-llm/quern/go/platform"
)

// Place asks that the whole pages within [off, off+n) of an allocated region be on a NUMA node when they are first
// touched, or on another one if it is full. A container may forbid it (EPERM, in Docker without CAP_SYS_NICE): pages
// are then on the node of the thread that first touches them. A node below 0 is none, and nothing is asked.
func (r *Region) Place(off, n, node int) error {
	if node < 0 {
		return nil
	}
	return r.policy(off, n, platform.Preferred, []int{node})
}

// Interleave asks that the pages of an allocated region be on these NUMA nodes in turns, huge pages too. Those below 0
// are none; with fewer than two nodes nothing is asked. It fails as Place does.
func (r *Region) Interleave(nodes []int) error {
	var known []int
	for _, n := range nodes {
		if n >= 0 {
			known = append(known, n)
		}
	}
	if len(known) < 2 {
		return nil
	}
	return r.policy(0, len(r.b), platform.Interleaved, known)
}

// MayPlace returns nil if this process may place memory on all of these NUMA nodes, of which those below 0 are none; else
// what a user is to be told.
func MayPlace(nodes []int) error {
	for _, node := range nodes {
		r, err := Alloc(uint64(platform.PageSize), "a test of memory policies")
		if err != nil {
			return err
		}
		err = r.Place(0, platform.PageSize, node)
		r.Close()
		if err != nil {
			return fmt.Errorf("this process may not place memory on NUMA node %d: %w; a container may need the capability SYS_NICE", node, err)
		}
	}
	return nil
}

func (r *Region) policy(off, n int, policy platform.Policy, nodes []int) error {
	if err := r.check(off, n); err != nil {
		return err
	}
	if r.closed.Load() {
		return ErrClosed
	}
	if r.file || r.static {
		return fmt.Errorf("mem: only allocated memory can be placed")
	}
	for _, node := range nodes {
		if node >= platform.MaxNodes {
			return fmt.Errorf("mem: there is no NUMA node %d", node)
		}
	}
	from, to := r.pages(off, n)
	if from >= to {
		return nil
	}
	return platform.Place(r.b[from:to], policy, nodes)
}
