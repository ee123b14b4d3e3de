package web

import (
	"context"
	"net/url"
	"strings"

	"github.com/quern-llm/quern/go/media/document"
	"github.com/quern-llm/quern/go/server/fetch"
)

// Pages reads pages of the web. What it may ask is the fetcher's to know.
type Pages struct {
	fetcher *fetch.Fetcher
	places  chan struct{} // of pages that are read at a time
}

// atOnce bounds the memory of pages: each has as much as a file that is fetched, and what is made of it.
const atOnce = 8

// ReadPages returns what reads the pages that a fetcher gets.
func ReadPages(f *fetch.Fetcher) *Pages { return &Pages{f, make(chan struct{}, atOnce)} }

// Limits of a page, beside those of the fetcher.
var pageLimits = document.Limits{Unpacked: 64 << 20, Text: 4 << 20, Pages: 500}

// Read returns the text of a page: of HTML, a text, a PDF or a DOCX. allowed is asked about all that the page redirects to,
// too. Errors are for who asked, and tell nothing of what else is there.
func (p *Pages) Read(ctx context.Context, address string, allowed func(*url.URL) error) (string, error) {
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	file, err := p.fetcher.Fetch(fetch.Within(ctx, allowed), address, true)
	if err != nil {
		return "", err
	}
	// Its name says nothing that its type does not.
	page, err := document.Read(ctx, document.File{Data: file.Data, Type: file.Type}, pageLimits)
	if err != nil {
		return "", err
	}
	return strings.Join(page.Pages, "\n\n"), nil
}
