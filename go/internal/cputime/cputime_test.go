package cputime

import (
	"testing"
	"time"

	"github.com/quern-llm/quern/go/platform"
)

// Waiting costs nothing, work does.
func TestOf(t *testing.T) {
	if d := Of(func() { time.Sleep(200 * time.Millisecond) }); d < 0 || d > 100*time.Millisecond {
		t.Errorf("waiting costs %v", d)
	}
	x := uint64(1)
	if d := Of(func() {
		for start := platform.ThreadTime(); platform.ThreadTime()-start < 20*time.Millisecond; {
			x = x*6364136223846793005 + 1
		}
	}); d < 20*time.Millisecond {
		t.Errorf("work costs %v", d)
	}
}
