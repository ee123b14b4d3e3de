package engine

import (
	"testing"
	"time"
)

// A loop that does not go on is noticed while it has requests, without waiting for it.
func TestStalled(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 2}, LoopConfig{})
	r := greedyRequest([]int32{1, 2, 3}, 5)
	begun, gate := make(chan struct{}), make(chan struct{})
	r.Sink.(*catcher).on = func(n int) {
		if n == 2 {
			close(begun)
			<-gate
		}
	}
	if d := l.e.device.Stalled(); d != 0 {
		t.Errorf("without requests: %v", d)
	}
	_, c := submit(t, l, r)
	<-begun
	l.mu.Lock() // as a loop that hangs within its lock
	time.Sleep(30 * time.Millisecond)
	d := l.e.device.Stalled()
	l.mu.Unlock()
	if d < 30*time.Millisecond || d > time.Minute {
		t.Errorf("a loop that waits for 30 ms: %v", d)
	}
	close(gate)
	c.wait(t)
	for end := time.Now().Add(time.Minute); l.e.device.Stalled() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it counts as stalled without requests")
		}
	}
}
