package fake

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/batch"
)

// FuzzPost feeds bodies to a path. Whatever they are, the answer is an answer, or an error that is the client's and
// says what is wrong.
func FuzzPost(f *testing.F, path string, seeds ...string) {
	h := Handler(f, server.Config{SlotPath: f.TempDir(), Batches: Batches(f)}, nil)
	for _, seed := range append(seeds, ``, `{}`, `[]`, `{"stream":true}`,
		`{"n":2,"stop":["a",""],"logit_bias":{"5":-1.5},"seed":-1}`, "{\"a\":\"\xff\"}") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		status, b := Ask(h, "POST", path, body)
		switch {
		case status == 200:
			if !strings.HasPrefix(string(b), "data: ") && !strings.HasPrefix(string(b), "event: ") {
				for line := range strings.Lines(string(b)) { // more than one of Ollama's streams
					if !json.Valid([]byte(line)) {
						t.Fatalf("%q: the answer is %q", body, b)
					}
				}
			}
		case strings.HasPrefix(path, "/api/") && (status == 400 || status == 404 || status == 501):
			e := Parse[struct {
				Error string `json:"error"`
			}](t, b)
			if e.Error == "" {
				t.Fatalf("%q: the error is %s", body, b)
			}
		// an item or a file that is not stored
		case status == 400 || status == 501 || status == 404 && (path == "/v1/responses" || path == "/v1/batches"):
			if e := ErrorOf(t, b); e.Message == "" || e.Code != nil && fmt.Sprint(e.Code) != fmt.Sprint(status) ||
				strings.ContainsAny(e.Message, "\n\r") && !strings.ContainsAny(body, "\n\r\\") {
				t.Fatalf("%q: the error is %s", body, b)
			}
		default:
			t.Fatalf("%q: status %d: %s", body, status, b)
		}
	})
}

// Batches returns a store of batches of a megabyte.
func Batches(t testing.TB) *batch.Store {
	t.Helper()
	store, err := batch.Open(t.TempDir(), 1<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}
