package main

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/machine"
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

// A processor with two kinds of cores is shown as such, with which of them threads are put on.
func TestPrintKinds(t *testing.T) {
	var info strings.Builder
	root := fstest.MapFS{"sys/devices/system/cpu/online": {Data: []byte("0-5\n")}}
	for id := range 6 {
		part, capacity := "0xd05", "397"
		if id >= 4 {
			part, capacity = "0xd0b", "1024"
		}
		fmt.Fprintf(&info, "processor\t: %d\nFeatures\t: fp asimd asimddp\nCPU implementer\t: 0x41\nCPU part\t: %s\n\n", id, part)
		root[fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpu_capacity", id)] = &fstest.MapFile{Data: []byte(capacity + "\n")}
	}
	root["proc/cpuinfo"] = &fstest.MapFile{Data: []byte(info.String())}
	m, err := machine.ReadFS(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.SVE = 256
	var out strings.Builder
	if err := diagnose(m, kernel.Scalar, 1<<30).print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2 x Arm Cortex-A76 + 4 x Arm Cortex-A55", "Arm Cortex-A76, CPUs 4-5, capacity 1024\n", "Arm Cortex-A55, CPUs 0-3, capacity 397, slow\n",
		"neon dotprod; vectors of SVE have 256 bits", "2 threads: one for each fast core; 4 are slower", "CPUs 4-5: one on each of the fast cores",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &out)
		}
	}
}
