// Package document reads the text of documents: plain text of any kind, HTML, DOCX and PDF. What a file is, its bytes say;
// the type that it was declared with has to agree. All that a hostile file could make large is bounded: what is unpacked,
// the text, pages and time.
package document

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sync/semaphore"

	"github.com/quern-llm/quern/go/internal/panics"
)

// A File is a document as it was sent.
type File struct {
	Data []byte
	Name string // such as report.pdf; empty: it has none
	Type string // the media type that it was declared with, with parameters or without; empty: none was
}

// Limits bound what a document may take. Zeros are the defaults below.
type Limits struct {
	Unpacked int64                                   // bytes of all that is decompressed
	Text     int                                     // bytes of the text
	Pages    int                                     // of a PDF
	Time     time.Duration                           // from when its turn comes
	Reserve  func(n uint64) (free func(), err error) // asks for memory while it is read; nil: none is counted
	Places   *semaphore.Weighted                     // of documents read at a time; nil: those of the process
}

// Defaults of Limits.
const (
	MaxUnpacked = 256 << 20
	MaxText     = 16 << 20
	MaxPages    = 2000
	MaxTime     = 20 * time.Second
)

// atOnce is how many documents are read at a time in a process: each takes a core, and memory.
const atOnce = 2

var places = semaphore.NewWeighted(atOnce)

// Formats are those that are read.
const Formats = "PDF, DOCX, HTML and text"

// ErrFormat is the kind of error for a file that is no document which can be read: damaged, encrypted, empty or of another
// format.
var ErrFormat = errors.New("not a document that can be read")

// ErrSize is the kind of error for a document that is too large, or takes too long.
var ErrSize = errors.New("document too large")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

func tooLarge(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSize, fmt.Sprintf(format, args...))
}

// A Document is the text of a file.
type Document struct {
	Format string   // such as PDF
	Pages  []string // of a PDF; of other formats one
	paged  bool
}

// Read reads a document. Errors are an ErrFormat, an ErrSize, one of Reserve, or that of ctx.
func Read(ctx context.Context, f File, l Limits) (*Document, error) {
	format, err := formatOf(&f)
	if err != nil {
		return nil, err
	}
	turns := cmp.Or(l.Places, places)
	if err := turns.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer turns.Release(1)
	w := newWork(ctx, l)
	defer w.release()
	var pages []string
	err = panics.Catch(func() (err error) { // inflating, and cutting up HTML and XML, is others' work
		pages, err = format.read(w, &f)
		return err
	})
	if p := (*panics.Panic)(nil); errors.As(err, &p) {
		err = damaged("a damaged file, %s", p.Error())
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%s: %w", format.name, err)
	case !slices.ContainsFunc(pages, func(page string) bool { return strings.TrimSpace(page) != "" }):
		return nil, fmt.Errorf("%s: %w: %s", format.name, ErrFormat, format.empty)
	}
	return &Document{Format: format.name, Pages: pages, paged: format.paged}, nil
}

// maxName bounds the names in prompts.
const maxName = 256

// Prompt is the document as it stands in a prompt: its text within <document>, with the name, and each page within <page>. The
// context, which may be empty, is what the sender says of it. The same document is the same text, so that caches find it.
func (d *Document) Prompt(name, context string) string {
	head, tail := Around(name, context)
	var b strings.Builder
	b.WriteString(head)
	for i, page := range d.Pages {
		if !d.paged {
			b.WriteString(ended(page))
			continue
		}
		fmt.Fprintf(&b, "<page number=\"%d\">\n%s</page>\n", i+1, ended(page))
	}
	b.WriteString(tail)
	return b.String()
}

// Around is what stands before and behind the text of a document in a prompt.
func Around(name, context string) (head, tail string) {
	head = "<document>\n"
	if name = nameIn(name); name != "" {
		head = fmt.Sprintf("<document name=\"%s\">\n", name)
	}
	if context != "" {
		head += "<context>\n" + ended(context) + "</context>\n"
	}
	return head, "</document>\n"
}

// ended is a text that ends with a line break, unless it is empty.
func ended(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// nameIn is a name that fits between quotes.
func nameIn(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r == '"':
			return '\''
		case unicode.IsControl(r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, ""))
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "")
	}
	return strings.TrimSpace(name)
}

// Plain is a document of text that is there already.
func Plain(text string) *Document { return &Document{Format: "text", Pages: []string{text}} }
