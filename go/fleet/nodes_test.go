package fleet

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/machine"
)

// Where memory cannot be placed on the nodes of the threads, the log says so; where there are none to place it on, nothing.
func TestWarnOfNodes(t *testing.T) {
	for node, warns := range map[int]bool{-1: false, 1023: true} {
		d, err := engine.NewDevice(engine.DeviceConfig{Threads: 2, Place: machine.Placement{
			Places: []machine.Place{{Node: -1, Threads: 1, CPUs: []int{0}}, {Node: node, Threads: 1, CPUs: []int{0}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		var log strings.Builder
		f := &Fleet{device: d, log: zerolog.New(&log)}
		f.warnOfNodes()
		if got := strings.Contains(log.String(), `"level":"warn"`) && strings.Contains(log.String(), "NUMA node 1023"); got != warns {
			t.Errorf("node %d: %q", node, &log)
		}
	}
}
