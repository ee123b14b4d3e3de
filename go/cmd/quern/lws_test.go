package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
)

// Pods of a LeaderWorkerSet find each other by their variables.
func TestLeaderWorkerSet(t *testing.T) {
	t.Setenv("LWS_LEADER_ADDRESS", "large-0.large.default")
	for size, want := range map[string]int{"4": 3, "2": 1, "1": 0, "": 0, "x": 0, "65": 0} {
		t.Setenv("LWS_GROUP_SIZE", size)
		f := rankFlags{where: lws, by: "rows"}
		err := f.check()
		if errors.Is(err, kernel.ErrNoUCX) { // which this program may lack
			err = nil
		}
		if want > 0 && (err != nil || f.count != want || f.gather != ":9100") {
			t.Errorf("%q pods: %d at %q, %v", size, f.count, f.gather, err)
		}
		if want == 0 && (err == nil || !strings.Contains(err.Error(), "LWS_GROUP_SIZE")) {
			t.Errorf("%q pods: %v", size, err)
		}
	}
	f := followFlags{model: "demo", join: lws}
	if err := f.check(); err != nil && !errors.Is(err, kernel.ErrNoUCX) || f.join != "large-0.large.default:9100" {
		t.Errorf("joins %q, %v", f.join, err)
	}
	t.Setenv("LWS_LEADER_ADDRESS", "")
	f.join = lws
	if err := f.check(); err == nil || !strings.Contains(err.Error(), "LWS_LEADER_ADDRESS") {
		t.Errorf("without a leader: %v", err)
	}
}
