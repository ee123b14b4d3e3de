package measure

import (
	"testing"

	"github.com/quern-llm/quern/go/machine"
)

// Memory that may not be placed is not measured as if it were.
func TestReadAcrossRefused(t *testing.T) {
	places := []machine.Place{{Node: -1, Threads: 1}, {Node: 1023, Threads: 1}}
	if all, err := ReadAcross(places); err == nil {
		t.Errorf("of a node that there is not: %v", all)
	}
}

// What is read does not fit into the caches of those that read it.
func TestAcrossBytes(t *testing.T) {
	for _, tt := range []struct {
		all    uint64
		places int
		want   uint64
	}{{readBuffer, 2, readBuffer / 2}, {readBuffer, 8, readBuffer / 8}, {readBuffer, 64, leastBuffer}, {leastBuffer, 2, leastBuffer}} {
		if got := acrossBytes(tt.all, tt.places); got != tt.want {
			t.Errorf("%d bytes of %d for each of %d places, want %d", got, tt.all, tt.places, tt.want)
		}
	}
}
