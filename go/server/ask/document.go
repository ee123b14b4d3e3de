package ask

import (
	"cmp"
	"context"
	"fmt"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/media/document"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server/fetch"
	"github.com/quern-llm/quern/go/server/field"
)

// Texts of documents are long beside what is sent: a DOCX of 16 MiB of text may have 20 KB. What is made of them until they are
// tokens takes textBytes for each of their bytes, as of all prompts, and few as much: down to leastTextBytes is asked for.
const (
	maxTexts       = document.MaxText // bytes of all that a prompt has
	textBytes      = 64
	leastTextBytes = 8
	textsPart      = 8 // 1/textsPart of the memory is asked for without need
)

// Texts are those of the documents of a prompt, whose memory is held until it is tokens.
type texts struct {
	n    int
	held []*mem.Reservation
}

type textsKey struct{}

// holdTexts holds the memory of texts that are read with the context until free.
func holdTexts(ctx context.Context) (held context.Context, free func()) {
	if _, ok := ctx.Value(textsKey{}).(*texts); ok { // whoever began to frees them
		return ctx, func() {}
	}
	t := &texts{}
	return context.WithValue(ctx, textsKey{}, t), func() {
		for _, r := range t.held {
			r.Release()
		}
		t.held = nil
	}
}

// add counts a text.
func (t *texts) add(b *mem.Budget, n int) error {
	if t.n += n; t.n > maxTexts {
		return fmt.Errorf("more than %d MiB of text in all documents", maxTexts>>20)
	}
	if b == nil {
		return nil
	}
	limit, _ := b.Limit()
	r, err := b.Reserve("texts of documents", min(uint64(n)*textBytes, max(limit/textsPart, uint64(n)*leastTextBytes)))
	if err == nil {
		t.held = append(t.held, r)
	}
	return err
}

// A readText is the text of a document, as it stands in prompts, and how many bytes it counts for.
type readText struct {
	part chat.Part
	n    int
}

// KeepTexts has the texts of a request's documents be kept, for prompts that are made again with each pass of the model.
func KeepTexts(ctx context.Context) {
	if s := mediaOf(ctx); s != nil && s.texts == nil {
		s.texts = map[*chat.Medium]readText{}
	}
}

// KeptTexts returns how many bytes of them are kept.
func KeptTexts(ctx context.Context) (n int) {
	for _, text := range keptTexts(ctx) {
		n += len(text.part.Text)
	}
	return n
}

func keptTexts(ctx context.Context) map[*chat.Medium]readText {
	if s := mediaOf(ctx); s != nil {
		return s.texts
	}
	return nil
}

// countText counts a text among those of the prompt that is made.
func (m *Model) countText(ctx context.Context, n int) error {
	if t, ok := ctx.Value(textsKey{}).(*texts); ok {
		return t.add(m.Memory, n)
	}
	return nil
}

// read returns the text of a document. Special tokens in it are text, as in all that users say.
func (m *Model) read(ctx context.Context, one *chat.Medium, file *fetch.File) (readText, error) {
	name := cmp.Or(one.Name, file.Name)
	d, err := document.Read(ctx, document.File{Data: file.Data, Name: name, Type: file.Type},
		document.Limits{Reserve: m.Memory.Lender("reading a document")})
	if err != nil {
		return readText{}, err
	}
	n := len(name) + len(one.About)
	for _, page := range d.Pages {
		n += len(page)
	}
	if err := m.countText(ctx, n); err != nil {
		return readText{}, err
	}
	return readText{chat.Part{Text: d.Prompt(name, one.About)}, n}, nil
}

// called is what errors call a medium.
func called(m *chat.Medium) string {
	switch {
	case m == nil || !m.Document:
		return "medium"
	case m.Name == "":
		return "document"
	}
	return "document " + field.Quote(m.Name)
}
