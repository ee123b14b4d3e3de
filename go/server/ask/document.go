package ask

import (
	"cmp"
	"context"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/media/document"
	"github.com/quern-llm/quern/go/server/fetch"
	"github.com/quern-llm/quern/go/server/field"
)

// read returns the text of a document, as it stands in prompts. Special tokens in it are text, as in all that users say.
func (m *Model) read(ctx context.Context, one *chat.Medium, file *fetch.File) (chat.Part, error) {
	name := cmp.Or(one.Name, file.Name)
	limits := document.Limits{}
	if m.Memory != nil {
		limits.Reserve = func(n uint64) (func(), error) {
			r, err := m.Memory.Reserve("reading a document", n)
			if err != nil {
				return nil, err
			}
			return r.Release, nil
		}
	}
	d, err := document.Read(ctx, document.File{Data: file.Data, Name: name, Type: file.Type}, limits)
	if err != nil {
		return chat.Part{}, err
	}
	return chat.Part{Text: d.Prompt(name, one.About)}, nil
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
