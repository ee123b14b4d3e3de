package reading

import "testing"

// A model of which slots are left to those that generate reads a quarter of its slots at a time, an encoder all.
func TestWindow(t *testing.T) {
	for slots, want := range map[int][2]int{0: {1, 1}, 1: {1, 1}, 4: {1, 4}, 7: {1, 7}, 8: {2, 8}, 20: {5, 20}} {
		if got := Window(slots, false); got != want[0] {
			t.Errorf("of %d slots: %d", slots, got)
		}
		if got := Window(slots, true); got != want[1] {
			t.Errorf("an encoder of %d slots: %d", slots, got)
		}
	}
}
