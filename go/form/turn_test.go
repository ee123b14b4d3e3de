package form

import (
	"fmt"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

// The tools of a prompt that are too much for the first attempt have the second, as all other forms.
func TestToolsHaveASecondAttempt(t *testing.T) {
	attempts := 0
	err := inTurn(t.Context(), func(work *grammar.Work) error {
		attempts++
		read := func() (err error) {
			defer grammar.Catch(&err)
			work.Do(someWork + 1)
			return nil
		}
		if err := read(); err != nil {
			return &CallsError{fmt.Errorf("tools[0]: %w", err)}
		}
		return nil
	})
	if attempts != 2 || err != nil {
		t.Errorf("%d attempts, %v", attempts, err)
	}
}
