package stream

import (
	"testing"

	"github.com/quern-llm/quern/go/internal/testpage"
)

// Nothing assumes pages of 4 KiB.
func TestPageSizes(t *testing.T) {
	testpage.Again(t, "^Test(Begin|Passes|Experts|DroppedPages|Guess|Fresh|Storm|Layout|Feed.*|Readers)$")
}
