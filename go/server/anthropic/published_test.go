package anthropic_test

import (
	"flag"
	"testing"

	"github.com/quern-llm/quern/go/server/anthropic"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

var update = flag.Bool("update", false, "write testdata/requests.txt anew")

// What requests may have changes on purpose only.
func TestPublishedRequests(t *testing.T) {
	t.Parallel()
	fake.Published(t, *update, (&anthropic.API{}).Routes())
}
