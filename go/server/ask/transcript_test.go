package ask

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/internal/cputime"
)

// Messages of one role become one, in time that is linear in their number.
func TestTranscriptOfManyMessages(t *testing.T) {
	const n = 100_000
	var c Transcript
	took := cputime.Of(func() {
		for range n {
			c.Add("user", chat.Part{Text: "a"})
		}
		for range n {
			c.Think("so ")
			c.Say(chat.Part{Text: "b"})
		}
	})
	if took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if len(c.Messages) != 2 || len(c.Messages[0].Content.Parts) != n || len(c.Messages[1].Content.Parts) != n || c.Messages[1].ReasoningContent != strings.Repeat("so ", n) {
		t.Errorf("%d messages", len(c.Messages))
	}
}

// What is added changes nothing that another has.
func TestTranscriptSharesNothing(t *testing.T) {
	parts := append(make([]chat.Part, 0, 8), chat.Texts("a", "b")...)
	kept := []chat.Message{{Role: "user", Content: chat.Content{Parts: parts}}}
	x, y := Transcript{Messages: slices.Clone(kept)}, Transcript{Messages: slices.Clone(kept)}
	x.Add("user", chat.Part{Text: "x"})
	y.Add("user", chat.Part{Text: "y"})
	x.Add("user", chat.Part{Text: "z"})
	if got := x.Messages[0].Content.Parts; !slices.Equal(got, chat.Texts("a", "b", "x", "z")) {
		t.Errorf("%v", got)
	}
	if got := y.Messages[0].Content.Parts; !slices.Equal(got, chat.Texts("a", "b", "y")) {
		t.Errorf("%v", got)
	}
}
