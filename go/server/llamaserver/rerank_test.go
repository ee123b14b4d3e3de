package llamaserver_test

import (
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/server/llamaserver"
)

// A query and a document are text in the template that a file has for them.
func TestFill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		template, want string
		literal        [][2]int
	}{
		{"<s>{query}</s><s>{document}", "<s>q {document}</s><s>d </s>", [][2]int{{3, 15}, {22, 28}}},
		{"{document}{document}{other}", "d </s>d </s>{other}", [][2]int{{0, 6}, {6, 12}}},
		{"", "", nil},
	} {
		got, literal := llamaserver.Fill(c.template, map[string]string{"{query}": "q {document}", "{document}": "d </s>"})
		if got != c.want || !slices.Equal(literal, c.literal) {
			t.Errorf("%q: %q with %v literal, want %q with %v", c.template, got, literal, c.want, c.literal)
		}
	}
}
