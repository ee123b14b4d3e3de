package reply

import (
	"strings"
	"testing"
)

// The log has a message in one line, without what it quotes: that may be a text of the client's.
func TestLogged(t *testing.T) {
	long := strings.Repeat("é", 151) // 302 bytes
	for _, tt := range []struct {
		e    Error
		want string
	}{
		{Error{Message: "n: 2, want 1"}, "n: 2, want 1"},
		{Error{Message: `stop: the string "my secret", want none`}, `stop: the string "…", want none`},
		{Error{Message: `a "b\"c" d "e`}, `a "…" d "…"`},
		{Error{Message: "a `b\\` c\nd"}, `a "…" c d`},
		{Error{Message: `"a"`}, `"…"`},
		{Error{Message: `a "" b "c"`}, `a "…" b "…"`},
		{Error{Message: `model "mine" is not here`, Param: "model"}, `model "mine" is not here`},
		{Error{Message: `model "my secret" is not here`, Param: "model"}, `model "…" is not here`},
		{Error{Message: `model "my\nsecret" is not here`, Param: "model"}, `model "…" is not here`},
		{Error{Message: `model "` + strings.Repeat("m", 100) + `"`, Param: "model"}, `model "` + strings.Repeat("m", 100) + `"`},
		{Error{Message: `model "` + strings.Repeat("m", 101) + `"`, Param: "model"}, `model "…"`},
		{Error{Message: `a "secret"`, InLog: "a, which stays"}, "a, which stays"},
		{Error{Message: strings.Repeat("a", 300)}, strings.Repeat("a", 300)},
		{Error{Message: strings.Repeat("a", 301)}, strings.Repeat("a", 297) + "…"},
		{Error{Message: long}, strings.Repeat("é", 148) + "…"},
	} {
		if got := tt.e.Logged(); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.e.Message, got, tt.want)
		}
	}
}
