package measure

import (
	"testing"
	"time"
)

// A slow machine is measured in as much time, with less memory and fewer runs.
func TestRooflineIsBounded(t *testing.T) {
	for _, tt := range []struct {
		took time.Duration // for the least buffer
		want uint64
	}{
		{0, readBuffer}, {10 * time.Millisecond, readBuffer}, {250 * time.Millisecond, 4 * leastBuffer}, {time.Second, leastBuffer}, {time.Minute, leastBuffer},
	} {
		if got := bufferBytes(readBuffer, tt.took); got != tt.want {
			t.Errorf("after %v the buffer has %d bytes, want %d", tt.took, got, tt.want)
		}
	}
	if got := bufferBytes(2*leastBuffer, 0); got != 2*leastBuffer {
		t.Errorf("the buffer has %d bytes, more than the machine has for it", got)
	}
	for _, tt := range []struct {
		until time.Duration
		want  int
	}{{time.Hour, 5}, {-time.Second, 1}} {
		n := 0
		if runs(5, time.Now().Add(tt.until), func() { n++ }); n != tt.want {
			t.Errorf("%d runs with %v left, want %d", n, tt.until, tt.want)
		}
	}
}
