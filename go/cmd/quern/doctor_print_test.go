package main

import (
	"strings"
	"testing"
)

// A process that may not place memory is told so, with why.
func TestPrintRefused(t *testing.T) {
	for _, refused := range []string{"", "this process may not place memory on NUMA node 1: operation not permitted"} {
		var out strings.Builder
		d := diagnosis{WillDo: consequences{Threads: 2, Nodes: []int{0, 1}, Refused: refused}}
		if err := d.print(&out); err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(out.String(), "place memory"); told != (refused != "") || !strings.Contains(out.String(), refused) {
			t.Errorf("%q: %s", refused, &out)
		}
	}
}
