package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/media/document"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server/fetch"
)

// openPages reads the pages of a site, which says how much memory is taken while it is asked.
func openPages(t *testing.T, memory *mem.Budget) (p *Pages, at string, taken *uint64) {
	t.Helper()
	taken = new(uint64)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if memory != nil {
			*taken = memory.Used()
		}
		fmt.Fprint(w, "<!DOCTYPE html><p>hello")
	}))
	t.Cleanup(site.Close)
	f, err := fetch.New(strings.TrimPrefix(site.URL, "http://"), "")
	if err != nil {
		t.Fatal(err)
	}
	return ReadPages(f), site.URL, taken
}

func all(*url.URL) error { return nil }

// What a page takes is counted until it has been read, and a page for which there is no memory is not asked for.
func TestPagesAreCounted(t *testing.T) {
	t.Parallel()
	for _, limit := range []uint64{64 << 20, 1 << 20} {
		memory := mem.NewBudget(limit, "test")
		p, at, taken := openPages(t, memory)
		text, err := p.Read(t.Context(), Page{at, all, memory})
		if limit > fetch.MaxBytes && (err != nil || text != "hello" || *taken < fetch.MaxBytes || memory.Peak() < *taken) {
			t.Errorf("of %d bytes: %q, %v, %d were taken", limit, text, err, *taken)
		}
		if limit < fetch.MaxBytes && (!errors.Is(err, errMemory) || *taken != 0) {
			t.Errorf("of %d bytes: %q, %v, %d were taken", limit, text, err, *taken)
		}
		if n := memory.Used(); n != 0 {
			t.Errorf("%d bytes stay taken", n)
		}
	}
	// Memory that is there for fetching a page, and not for reading it.
	memory := mem.NewBudget(uint64(mem.Appended(fetch.MaxBytes)), "test")
	p, _, _ := openPages(t, nil)
	full, err := memory.Reserve("test", memory.Free())
	if err != nil {
		t.Fatal(err)
	}
	file := document.File{Data: []byte("<p>hello"), Type: "text/html"}
	if _, err := document.Read(t.Context(), file, p.limits(Page{Memory: memory})); !errors.Is(plain(err), errMemory) {
		t.Errorf("without memory: %v", err)
	}
	full.Release()
	if _, err := document.Read(t.Context(), file, p.limits(Page{Memory: memory})); err != nil || memory.Used() != 0 {
		t.Errorf("%v, %d bytes stay taken", err, memory.Used())
	}
}

// Pages are read while all places of documents are taken, and take none of these.
func TestPagesHaveTheirPlaces(t *testing.T) {
	t.Parallel()
	const places = 2 // of documents in a process
	holds, ended := make(chan struct{}), make(chan error, places)
	begun := make(chan struct{}, places)
	free := func(uint64) (func(), error) {
		begun <- struct{}{}
		<-holds
		return func() {}, nil
	}
	for range places {
		go func() {
			_, err := document.Read(context.Background(), document.File{Data: []byte("<p>hello"), Type: "text/html"}, document.Limits{Reserve: free})
			ended <- err
		}()
		<-begun
	}
	p, at, _ := openPages(t, nil)
	if text, err := p.Read(t.Context(), Page{URL: at, Allowed: all}); err != nil || text != "hello" {
		t.Errorf("%q, %v", text, err)
	}
	close(holds)
	for range places {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	// Whoever waits for a place goes with its client.
	ctx, cancel := context.WithCancel(t.Context())
	if err := p.fetched.Acquire(ctx, mostFetched); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := p.Read(ctx, Page{URL: at, Allowed: all}); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits: %v", err)
	}
}
