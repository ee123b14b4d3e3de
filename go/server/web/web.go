// Package web searches the web for models, through a search engine that the operator of the server names, and reads pages
// where that is allowed.
//
// What comes back is written by others: texts are cleaned of markup and control characters, and bounded, and whoever shows
// them to a model says what they are. Errors that begin with ErrEngine are the operator's; all others may be told to anybody.
package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/html"
)

// Limits of a search.
const (
	MaxQuery   = 1000 // bytes of what is searched for
	MaxResults = 20

	maxAnswer = 4 << 20          // bytes of an engine's answer, decompressed
	maxTime   = 15 * time.Second // of a search
	maxTitle  = 300              // bytes
	maxText   = 2000             // bytes of what a result says
	maxURL    = 2 << 10          // bytes
)

// ErrEngine is the kind of error of an engine that cannot be reached, or does not answer as it should.
var ErrEngine = errors.New("the search engine")

// A Result is what a search has found.
type Result struct{ Title, URL, Text string }

// An Engine is a search engine. It is safe for concurrent use.
type Engine struct {
	api    api
	at     *url.URL
	key    string
	client *http.Client
}

// An api is how an engine is asked.
type api struct {
	path   string // of its URL, where that has none
	ask    func(q url.Values, query string, n int)
	header func(h http.Header, key string)
	read   func(body []byte) ([]Result, error)
}

// APIs are the names of those that are known.
var APIs = []string{"searxng", "brave"}

var apis = map[string]api{
	"searxng": {"/search", func(q url.Values, query string, _ int) {
		q.Set("q", query)
		q.Set("format", "json")
	}, func(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }, readSearXNG},
	"brave": {"/res/v1/web/search", func(q url.Values, query string, n int) {
		q.Set("q", query)
		q.Set("count", fmt.Sprint(n))
		q.Set("result_filter", "web")
		q.Set("text_decorations", "false")
	}, func(h http.Header, key string) { h.Set("X-Subscription-Token", key) }, readBrave},
}

// braveHost is where Brave's API is.
const braveHost = "api.search.brave.com"

// Open returns the engine at a URL, asked by one of APIs; empty: by the URL. The key is empty where it needs none. It does not
// ask the engine.
func Open(at, by, key string) (*Engine, error) {
	u, err := url.Parse(at)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, errors.New("want a URL that begins with http:// or https://")
	case u.User != nil:
		return nil, errors.New("a URL with a user or a password, which others can read; want the key in a file")
	case u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("a URL with ? or #, want it without")
	}
	if by == "" {
		by = "searxng"
		if u.Hostname() == braveHost {
			by = "brave"
		}
	}
	api, known := apis[by]
	switch {
	case !known:
		return nil, fmt.Errorf("the API %q is not known, want one of %s", by, strings.Join(APIs, ", "))
	case by == "brave" && key == "":
		return nil, errors.New("the API of Brave needs a key")
	case strings.ContainsFunc(key, unicode.IsControl):
		return nil, errors.New("the key has control characters, want one line")
	}
	if path := strings.TrimRight(u.Path, "/"); path == "" || by == "searxng" && !strings.HasSuffix(path, api.path) {
		u.Path = path + api.path
	}
	return &Engine{api, u, key, &http.Client{Timeout: maxTime, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // another server must not get the key
	}}}, nil
}

// Search returns what there is about a query, n results at most, the best first.
func (e *Engine) Search(ctx context.Context, query string, n int) ([]Result, error) {
	query = strings.TrimSpace(query)
	switch {
	case query == "":
		return nil, errors.New("nothing to search for")
	case len(query) > MaxQuery:
		return nil, fmt.Errorf("the query has %d bytes, want at most %d", len(query), MaxQuery)
	}
	n = min(n, MaxResults)
	body, err := e.get(ctx, query, n)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEngine, err)
	}
	found, err := e.api.read(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEngine, err)
	}
	return clean(found, n), nil
}

// get returns the engine's answer.
func (e *Engine) get(ctx context.Context, query string, n int) ([]byte, error) {
	at, q := *e.at, url.Values{}
	e.api.ask(q, query, n)
	at.RawQuery = q.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "quern")
	if e.key != "" {
		e.api.header(r.Header, e.key)
	}
	answer, err := e.client.Do(r)
	if err != nil {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err // without the URL, which has the query
		}
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers with status %d", answer.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("it answers with more than %d MiB", maxAnswer>>20)
	}
	return body, err
}

// decode reads JSON into a value of which it names the type.
func decode(body []byte, v any, what string) error {
	if json.Unmarshal(body, v) != nil {
		return fmt.Errorf("it sends something else than %s's JSON", what)
	}
	return nil
}

func readSearXNG(body []byte) (found []Result, err error) {
	var in struct {
		Results *[]struct{ Title, URL, Content string }
	}
	if err := decode(body, &in, "SearXNG"); err != nil {
		return nil, err
	}
	if in.Results == nil {
		return nil, errors.New("it sends JSON without results")
	}
	for _, r := range *in.Results {
		found = append(found, Result{r.Title, r.URL, r.Content})
	}
	return found, nil
}

func readBrave(body []byte) (found []Result, err error) {
	var in struct {
		Type string
		Web  struct {
			Results []struct{ Title, URL, Description string }
		}
	}
	if err := decode(body, &in, "Brave"); err != nil {
		return nil, err
	}
	if in.Type != "search" { // of nothing there is no web either
		return nil, errors.New("it sends JSON that is no search of Brave's")
	}
	for _, r := range in.Web.Results {
		found = append(found, Result{r.Title, r.URL, r.Description})
	}
	return found, nil
}

// clean returns the first n results that have a URL, each once, as plain texts.
func clean(found []Result, n int) []Result {
	all, seen := []Result{}, map[string]bool{}
	for _, r := range found {
		u, err := url.Parse(r.URL)
		switch {
		case len(all) == n:
			return all
		case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.User != nil, len(r.URL) > maxURL, seen[r.URL]:
			continue
		}
		seen[r.URL] = true
		all = append(all, Result{Line(r.Title, maxTitle), u.String(), Line(r.Text, maxText)})
	}
	return all
}

// Line returns a text that may have markup as one line of plain text, of at most n bytes.
func Line(text string, n int) string {
	var words []string
	z, size := html.NewTokenizer(strings.NewReader(text[:min(len(text), 8*n)])), 0
	for size <= n {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		if kind == html.TextToken {
			words = append(words, z.Token().Data)
			size += len(words[len(words)-1])
		}
	}
	line := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(strings.Join(words, ""), "\ufffd"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(line) <= n {
		return line
	}
	return strings.ToValidUTF8(line[:n], "") + " ..."
}
