package stream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A disk that gives little, or nothing, is measured in bounded time.
func TestMeasureIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, 40<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if rate, how, err := Measure(file); err != nil || rate <= 0 || how == "" {
		t.Errorf("%v, %q, %v", rate, how, err)
	}
	s, _, err := open(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, few := range map[string]int{"little": 8, "nothing": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hangs, reads := make(chan struct{}), make(chan struct{}, few)
			for range few {
				reads <- struct{}{}
			}
			r := NewReader(func(_ int, p []byte, _ int64) (int, error) {
				select {
				case <-reads:
				case <-hangs:
				}
				return len(p), nil
			})
			r.files = []source{s}
			begun := time.Now()
			rate, left, err := r.measure(make([]byte, 32<<20))
			if took := time.Since(begun); took > measureMost+3*time.Second || left == nil {
				t.Fatalf("it took %v, %v", took, err)
			}
			if few == 0 && (err == nil || !strings.Contains(err.Error(), "nothing")) || few > 0 && (err != nil || rate <= 0) {
				t.Errorf("%v bytes per second, %v", rate, err)
			}
			select {
			case <-left:
				t.Error("reads have ended that hang")
			default:
			}
			close(hangs)
			<-left
			r.queue.close()
		})
	}
}
