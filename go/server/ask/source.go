package ask

import (
	"github.com/quern-llm/quern/go/chat"
)

// A Source is the input of a generation.
type Source struct {
	Prompts [][]int32
	Echo    []string       // nil: none
	Chat    *chat.Prompt   // nil: not a chat
	calls   *chat.CallRule // that answers may have; nil: none
	Budget  budget         // of their reasoning
}
