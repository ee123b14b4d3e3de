package openai_test

import (
	"flag"
	"testing"

	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/openai"
)

var update = flag.Bool("update", false, "write testdata/requests.txt anew")

// What requests may have changes on purpose only.
func TestPublishedRequests(t *testing.T) {
	t.Parallel()
	fake.Published(t, *update, (&openai.API{}).Routes())
}
