package eval

import (
	"errors"
	"testing"

	"github.com/quern-llm/quern/go/internal/panics"
)

// A panic in one of the goroutines that compare logits is an error.
func TestPanics(t *testing.T) {
	err := parallel(4, func(i int) error {
		if i > 1 {
			panic(i)
		}
		return nil
	})
	if p := (*panics.Panic)(nil); !errors.As(err, &p) || p.Value != 2 {
		t.Errorf("%v, want the panic of 2", err)
	}
}
