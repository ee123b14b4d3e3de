package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/engine"
)

// Each request says whose text it is, so that nobody has drafts from what others were told, though all find prefixes in one cache.
func TestRequestsHaveAnOwner(t *testing.T) {
	owners := make(chan [2]string, 1)
	s := newRealSite(t, Config{Owner: func(c *gin.Context) string { return c.GetHeader("X-Who") }}, engine.LoopConfig{}, func(r *engine.Request) {
		owners <- [2]string{r.Owner, r.Namespace}
	})
	for _, path := range []string{"/completion", "/v1/completions"} {
		for _, who := range []string{"ann", "bob", ""} {
			req, err := http.NewRequest("POST", s.url+path, strings.NewReader(`{"prompt":"a","max_tokens":1,"n_predict":1}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Who", who)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := <-owners; resp.StatusCode != 200 || got != [2]string{who, ""} {
				t.Errorf("%s of %q: status %d, owner and namespace %q", path, who, resp.StatusCode, got)
			}
		}
	}
}
