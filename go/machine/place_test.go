package machine

import (
	"testing"
)

func TestRanges(t *testing.T) {
	for want, ids := range map[string][]int{"": nil, "4": {4}, "0-3,8,10-11": {0, 1, 2, 3, 8, 10, 11}} {
		if got := Ranges(ids); got != want {
			t.Errorf("%v: got %q, want %q", ids, got, want)
		}
	}
}
