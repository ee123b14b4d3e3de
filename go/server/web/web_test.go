package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const secret = "a-key-of-the-operator"

// engines is a server that plays SearXNG and Brave, and engines that are broken.
func engines(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	says := func(path, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
	}
	mux.HandleFunc("/search", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "format=json&q=a+b%26c" || r.Header.Get("Authorization") != "" {
			http.Error(w, r.URL.RawQuery, http.StatusForbidden)
			return
		}
		fmt.Fprint(w, `{"query":"a","results":[{"url":"https://one.example/","title":"One","content":"The <b>first</b> &amp; best\u0007 one.","engine":"x"},
			{"url":"javascript:alert(1)","title":"bad"},{"url":"https://one.example/","title":"again"},{"url":"https://u:p@one.example/","title":"bad"},
			{"url":"http://two.example/x?y=z","title":"`+strings.Repeat("é", 500)+`","content":null},{"url":"https://three.example/"}],"suggestions":[]}`)
	})
	mux.HandleFunc("/below/search", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+secret {
			fmt.Fprint(w, `{"results":[]}`)
		}
	})
	mux.HandleFunc("/res/v1/web/search", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Subscription-Token") != secret {
			http.Error(w, "no key", http.StatusUnauthorized)
			return
		}
		if q := r.URL.Query(); q.Get("q") != "a b&c" || q.Get("count") != "2" {
			http.Error(w, r.URL.RawQuery, http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, `{"type":"search","web":{"type":"search","results":[{"title":"One","url":"https://one.example/","description":"The <strong>first</strong> &#39;one&#39;"}]}}`)
	})
	says("/empty/res", `{"type":"search","query":{}}`)
	says("/broken/search", `{"results":[{"url":`)
	says("/page/search", `<!doctype html><p>Hello`)
	says("/other/search", `{"hits":[]}`)
	says("/deep/search", strings.Repeat("[", 1<<20))
	says("/types/search", `{"results":[{"url":5}]}`)
	says("/other/res", `{"results":[]}`)
	mux.Handle("/moved/search", http.RedirectHandler("/search", http.StatusFound))
	mux.HandleFunc("/busy/search", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, secret, http.StatusTooManyRequests) })
	mux.HandleFunc("/endless/search", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"results":[`)
		for part := []byte(strings.Repeat("0,", 1<<19)); ; {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/slow/search", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"results":[`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func open(t *testing.T, at, by, key string) *Engine {
	t.Helper()
	e, err := Open(at, by, key)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestSearch(t *testing.T) {
	t.Parallel()
	s := engines(t)
	for _, at := range []string{s.URL, s.URL + "/", s.URL + "/search"} {
		found, err := open(t, at, "", "").Search(t.Context(), " a b&c\n", 2)
		if err != nil || len(found) != 2 || found[0] != (Result{"One", "https://one.example/", "The first & best one."}) ||
			found[1].URL != "http://two.example/x?y=z" || found[1].Text != "" || len(found[1].Title) > maxTitle+4 || !utf8.ValidString(found[1].Title) {
			t.Errorf("%s: %q, %v", at, found, err)
		}
	}
	if found, err := open(t, s.URL+"/below", "", secret).Search(t.Context(), "x", 2); err != nil || found == nil || len(found) > 0 {
		t.Errorf("with a key: %v, %v", found, err)
	}
	found, err := open(t, s.URL, "brave", secret).Search(t.Context(), "a b&c", 2)
	if err != nil || len(found) != 1 || found[0] != (Result{"One", "https://one.example/", "The first 'one'"}) {
		t.Errorf("brave: %q, %v", found, err)
	}
	if found, err := open(t, s.URL+"/empty/res", "brave", secret).Search(t.Context(), "a", 2); err != nil || len(found) > 0 {
		t.Errorf("brave finds nothing: %q, %v", found, err)
	}
	if e := open(t, "https://"+braveHost, "", secret); e.at.String() != "https://"+braveHost+"/res/v1/web/search" {
		t.Errorf("brave is at %s", e.at)
	}
}

// What an engine that is broken or hostile says is an error of the operator's, without the key, and within limits.
func TestSearchFails(t *testing.T) {
	t.Parallel()
	s := engines(t)
	fails := func(e *Engine, query, want string, engine bool) {
		t.Helper()
		found, err := e.Search(t.Context(), query, 3)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, ErrEngine) != engine || strings.Contains(err.Error(), secret) ||
			strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
			t.Errorf("%v: %q, %v, want %q", e.at, found, err, want)
		}
	}
	for path, want := range map[string]string{
		"/broken": "SearXNG's JSON", "/page": "SearXNG's JSON", "/other": "without results", "/deep": "SearXNG's JSON", "/types": "SearXNG's JSON",
		"/moved": "status 302", "/busy": "status 429", "/endless": "more than 4 MiB", "/none": "status 404",
	} {
		fails(open(t, s.URL+path, "", ""), "x", want, true)
	}
	fails(open(t, s.URL+"/other/res", "brave", secret), "x", "no search of Brave's", true)
	fails(open(t, s.URL, "brave", "another"), "x", "status 401", true)
	slow := open(t, s.URL+"/slow", "", secret)
	slow.client.Timeout = 50 * time.Millisecond
	fails(slow, "x", "Client.Timeout", true)
	away := open(t, s.URL, "", "")
	away.client.Transport = &http.Transport{}
	away.at.Host = "127.0.0.1:1"
	fails(away, "words of a user", "", true)
	if _, err := away.Search(t.Context(), "words of a user", 1); strings.Contains(err.Error(), "words") {
		t.Errorf("%v", err)
	}
	fails(away, "  ", "nothing to search for", false)
	fails(away, strings.Repeat("x", MaxQuery+1), "want at most 1000", false)
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ at, by, key, want string }{
		{"localhost:8888", "", "", "http://"}, {"ftp://x", "", "", "http://"}, {"http://", "", "", "http://"}, {"http://[::1", "", "", "http://"},
		{"http://me:" + secret + "@x", "", "", "a user or a password"}, {"http://x/?key=" + secret, "", "", "? or #"}, {"http://x/#a", "", "", "? or #"},
		{"http://x", "google", "", "want one of searxng, brave"}, {"https://api.search.brave.com", "", "", "needs a key"}, {"http://x", "brave", "", "needs a key"},
		{"http://x", "", "a\nb", "control characters"},
	} {
		if _, err := Open(c.at, c.by, c.key); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, want %q", c.at, err, c.want)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"results":[{"url":"https://one.example/","title":"<b>One","content":"&amp;"}]}`))
	f.Add([]byte(`{"type":"search","web":{"results":[{"title":"One","url":"https://one.example/","description":"<strong>"}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for by, api := range apis {
			found, err := api.read(body)
			all := clean(found, 3)
			if err != nil && found != nil || len(all) > 3 {
				t.Errorf("%s: %d results, %v", by, len(all), err)
			}
			for _, r := range all {
				for text, most := range map[string]int{r.Title: maxTitle, r.Text: maxText} {
					if len(text) > most+4 || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\x00\x1b") {
						t.Errorf("%s: %q", by, text)
					}
				}
			}
		}
	})
}
