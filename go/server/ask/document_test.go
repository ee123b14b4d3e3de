package ask

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server/reply"
)

// The memory of texts of documents is held until they are tokens, and they have a limit together.
func TestTextsAreHeld(t *testing.T) {
	t.Parallel()
	m := &Model{Memory: mem.NewBudget(64<<20, "a test")}
	of := func(sizes ...int) (all []chat.Message) {
		for _, n := range sizes {
			one := &chat.Medium{Document: true, Data: bytes.Repeat([]byte("a "), n/2)}
			all = append(all, chat.Message{Role: "user", Content: chat.Content{Parts: []chat.Part{{Medium: one}}}})
		}
		return all
	}
	used := func() uint64 { return m.Memory.ByPurpose()["texts of documents"] }
	ctx, free := holdTexts(t.Context())
	if _, err := m.bring(ctx, of(1000, 1000)); err != nil || used() != 2000*textBytes {
		t.Errorf("%v, %d bytes are held", err, used())
	}
	if free(); used() != 0 {
		t.Errorf("%d bytes are held behind it", used())
	}
	if _, err := m.bring(t.Context(), of(1000)); err != nil || used() != 0 {
		t.Errorf("%v, %d bytes are held by none", err, used())
	}
	short := (*reply.Error)(nil)
	if _, err := m.bring(t.Context(), of(4<<20, 4<<20, 4<<20)); !errors.As(err, &short) || short.Status != 429 || used() != 0 {
		t.Errorf("without memory: %v, %d bytes are held", err, used())
	}
	m.Memory = nil
	if _, err := m.bring(t.Context(), of(maxTexts/2, maxTexts/2)); err != nil {
		t.Error(err)
	}
	if _, err := m.bring(t.Context(), of(maxTexts/2, maxTexts/2, 2)); err == nil || !strings.Contains(err.Error(), "more than 16 MiB of text in all documents") {
		t.Errorf("long texts: %v", err)
	}
}
