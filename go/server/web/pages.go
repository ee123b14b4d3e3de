package web

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"golang.org/x/sync/semaphore"

	"github.com/quern-llm/quern/go/media/document"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server/fetch"
)

// Pages reads pages of the web. What it may ask is the fetcher's to know.
type Pages struct {
	fetcher *fetch.Fetcher
	fetched *semaphore.Weighted // places of pages that are fetched or read
	read    *semaphore.Weighted // of those that are read; documents of requests have others, which no page takes from them
}

// Pages at a time. Fetching one is mostly waiting; reading one takes a core.
const (
	mostFetched = 8
	mostRead    = 2
)

// ReadPages returns what reads the pages that a fetcher gets.
func ReadPages(f *fetch.Fetcher) *Pages {
	return &Pages{f, semaphore.NewWeighted(mostFetched), semaphore.NewWeighted(mostRead)}
}

// A Page is one that is to be read.
type Page struct {
	URL     string
	Allowed func(*url.URL) error // is asked about all that it redirects to
	Memory  *mem.Budget          // counts what it takes meanwhile; nil: nothing does
}

// errMemory is for who asked, whom the server's numbers do not concern.
var errMemory = errors.New("the server has no memory for the page now")

// Read returns the text of a page: of HTML, a text, a PDF or a DOCX. Errors are for who asked, and tell nothing of what else
// is there.
func (p *Pages) Read(ctx context.Context, page Page) (string, error) {
	if err := p.fetched.Acquire(ctx, 1); err != nil {
		return "", err
	}
	defer p.fetched.Release(1)
	file, free, err := p.fetch(ctx, page)
	if err != nil {
		return "", err
	}
	defer free()
	// Its name says nothing that its type does not.
	d, err := document.Read(ctx, document.File{Data: file.Data, Type: file.Type}, p.limits(page))
	if err != nil {
		return "", plain(err)
	}
	return strings.Join(d.Pages, "\n\n"), nil
}

// fetch gets the file of a page, whose memory is counted until free is called.
func (p *Pages) fetch(ctx context.Context, page Page) (file *fetch.File, free func(), err error) {
	counts, free := func(int) {}, func() {}
	if page.Memory != nil {
		taken, err := page.Memory.Reserve(purpose, uint64(mem.Appended(fetch.MaxBytes)))
		if err != nil {
			return nil, nil, errMemory
		}
		counts, free = func(n int) { taken.Set(uint64(n)) }, taken.Release
	}
	if file, err = p.fetcher.Fetch(fetch.Within(ctx, page.Allowed), page.URL, true); err != nil {
		free()
		return nil, nil, err
	}
	counts(cap(file.Data))
	return file, free, nil
}

const purpose = "reading a page"

// limits of a page, beside those of the fetcher.
func (p *Pages) limits(page Page) document.Limits {
	return document.Limits{Unpacked: 64 << 20, Text: 4 << 20, Pages: 500, Places: p.read, Reserve: page.Memory.Lender(purpose)}
}

// plain is an error without the numbers of the server's memory.
func plain(err error) error {
	if errors.As(err, new(*mem.LimitError)) {
		return errMemory
	}
	return err
}
